"""Methods by name, their trials on splits of the data, `compare` and `AutoClassifier`."""

from evalign.selection.auto import AutoClassifier
from evalign.selection.comparison import Comparison, Row, compare, compare_problem
from evalign.selection.methods import METHODS, build_methods
from evalign.selection.problem import Problem

__all__ = [
    "METHODS", "AutoClassifier", "Comparison", "Problem", "Row", "build_methods", "compare",
    "compare_problem",
]  # fmt: skip
