"""evalign trains, boosts and tunes classifiers on the metric they are judged by."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalign import (
        boosting,
        datasets,
        decisions,
        estimators,
        losses,
        metrics,
        selection,
        softsets,
        training,
    )
    from evalign.estimators import MetricBooster, MetricClassifier, MetricDecision, MetricLinear
    from evalign.losses import MetricLoss
    from evalign.selection import AutoClassifier, compare
    from evalign.softsets import batch_size_advice
    from evalign.training import Anneal, ExactStep, StratifiedBatchSampler

__version__ = "0.1.0"

__all__ = [
    "Anneal", "AutoClassifier", "ExactStep", "MetricBooster", "MetricClassifier", "MetricDecision",
    "MetricLinear", "MetricLoss", "StratifiedBatchSampler", "batch_size_advice", "boosting", "compare",
    "datasets", "decisions", "estimators", "losses", "metrics", "selection", "softsets", "training",
]  # fmt: skip

_HOMES = {
    "estimators": ("MetricBooster", "MetricClassifier", "MetricDecision", "MetricLinear"),
    "losses": ("MetricLoss",),
    "selection": ("AutoClassifier", "compare"),
    "softsets": ("batch_size_advice",),
    "training": ("Anneal", "ExactStep", "StratifiedBatchSampler"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import on first use: the command `evalign --help` must not wait for PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module 'evalign' has no attribute {name!r}")
    if name in _HOME:
        return getattr(import_module(f"evalign.{_HOME[name]}"), name)
    return import_module(f"evalign.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
