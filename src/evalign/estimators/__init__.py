"""The scikit-learn front."""

from evalign.estimators._aligned import AlignedClassifier
from evalign.estimators._classifier import MetricClassifier
from evalign.estimators._comparison import Comparison, compare
from evalign.estimators._methods import METHODS

__all__ = [
    "METHODS", "AlignedClassifier", "Comparison", "MetricClassifier",
    "compare",
]  # fmt: skip
