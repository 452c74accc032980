"""Methods by name, their trials on splits of the data, `compare` and `AutoClassifier`."""

from evalign.selection.auto import AutoClassifier
from evalign.selection.comparison import Comparison, Row, compare
from evalign.selection.methods import METHODS, makers
from evalign.selection.trials import Problem

__all__ = ["METHODS", "AutoClassifier", "Comparison", "Problem", "Row", "compare", "makers"]
