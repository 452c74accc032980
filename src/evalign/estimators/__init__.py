"""The scikit-learn front."""

from evalign.estimators._aligned import AlignedClassifier
from evalign.estimators._booster import MetricBooster
from evalign.estimators._classifier import MetricClassifier
from evalign.estimators._comparison import Comparison, compare
from evalign.estimators._decision import MetricDecision
from evalign.estimators._methods import METHODS

__all__ = [
    "METHODS", "AlignedClassifier", "Comparison", "MetricBooster", "MetricClassifier", "MetricDecision",
    "compare",
]  # fmt: skip
