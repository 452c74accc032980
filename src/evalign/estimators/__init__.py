"""The scikit-learn front: classifiers trained, boosted or decided by a metric."""

from evalign.estimators._mlp import mlp
from evalign.estimators._strategies import PhaseSettings, build_phases
from evalign.estimators.booster import MetricBooster
from evalign.estimators.decision import MetricDecision
from evalign.estimators.network import MetricClassifier

__all__ = ["MetricBooster", "MetricClassifier", "MetricDecision", "PhaseSettings", "build_phases", "mlp"]
