"""Methods by name, their trials on splits of the data, `compare` and `AutoClassifier`."""

from evalign.selection.auto import AutoClassifier, OutOfFold
from evalign.selection.comparison import Comparison, Row, compare, compare_problem
from evalign.selection.ensemble import Ensemble, FittedMember
from evalign.selection.folds import Clock, as_seconds
from evalign.selection.members import KNOWN, MEMBERS, list_members
from evalign.selection.methods import METHODS, build_methods
from evalign.selection.problem import Problem

__all__ = [
    "KNOWN", "MEMBERS", "METHODS", "AutoClassifier", "Clock", "Comparison", "Ensemble", "FittedMember",
    "OutOfFold", "Problem", "Row", "as_seconds", "build_methods", "compare", "compare_problem",
    "list_members",
]  # fmt: skip
