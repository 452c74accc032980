"""evalign trains, boosts and tunes classifiers on the metric they are judged by."""

from evalign import boosting, datasets, decisions, estimators, losses, metrics, networks, softsets, training
from evalign.estimators import AlignedClassifier, MetricBooster, MetricClassifier, MetricDecision, compare
from evalign.losses import MetricLoss
from evalign.softsets import batch_size_advice
from evalign.training import Anneal, ExactStep, StratifiedBatchSampler

__version__ = "0.1.0"

__all__ = [
    "AlignedClassifier", "Anneal", "ExactStep", "MetricBooster", "MetricClassifier", "MetricDecision",
    "MetricLoss", "StratifiedBatchSampler", "batch_size_advice", "boosting", "compare", "datasets",
    "decisions", "estimators", "losses", "metrics", "networks", "softsets", "training",
]  # fmt: skip
