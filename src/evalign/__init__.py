"""evalign trains, boosts and tunes classifiers on the metric they are judged by."""

from evalign import datasets, losses, metrics, softsets
from evalign.losses import MetricLoss
from evalign.softsets import batch_size_advice

__version__ = "0.1.0"

__all__ = ["MetricLoss", "batch_size_advice", "datasets", "losses", "metrics", "softsets"]
