"""evalign trains, boosts and tunes classifiers on the metric they are judged by."""

from evalign import datasets, decisions, estimators, losses, metrics, networks, softsets, training
from evalign.estimators import MetricClassifier
from evalign.losses import MetricLoss
from evalign.softsets import batch_size_advice
from evalign.training import Anneal, ExactStep, StratifiedBatchSampler

__version__ = "0.1.0"

__all__ = [
    "Anneal", "ExactStep", "MetricClassifier", "MetricLoss", "StratifiedBatchSampler", "batch_size_advice",
    "datasets", "decisions", "estimators", "losses", "metrics", "networks", "softsets", "training",
]  # fmt: skip
