"""One point of a study: a network or an estimator is built by name, trained and scored; see `run_point`."""

from evalign.papers.training._networks import multiplies_bfloat16
from evalign.papers.training._points import Outcome, Point, run_point
from evalign.papers.training._train import is_stackable

__all__ = ["Outcome", "Point", "is_stackable", "multiplies_bfloat16", "run_point"]
