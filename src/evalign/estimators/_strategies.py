"""Strategies: the phases of training that align a network with a metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from evalign._errors import expected, show, suggest
from evalign.losses import FocalLoss, MetricLoss, SurrogateFBetaLoss, class_balanced_weights
from evalign.metrics import Constraint, Metric
from evalign.softsets import LinearStep
from evalign.training import Phase


@dataclass(frozen=True)
class PhaseSettings:
    """What the phases of a strategy are built from: the metric, the targets and the pace of training."""

    metric: Metric
    targets: Tensor
    num_classes: int
    class_weight: Tensor | None
    learning_rate: float
    max_epochs: int
    patience: int
    constraints: tuple[Constraint, ...] = ()
    multilabel: bool = False

    @property
    def task(self) -> str:
        """The task of the losses: one class per row, or several labels."""
        return "multilabel" if self.multilabel else "multiclass"

    def phase(self, name: str, loss: nn.Module, by_metric: bool = False) -> Phase:
        """Build one phase at this pace."""
        return Phase(name, loss, self.learning_rate, self.max_epochs, self.patience, by_metric)


def build_phases(strategy: str, settings: PhaseSettings) -> list[Phase]:
    """Build the phases of a strategy; with constraints, the last one keeps its best feasible weights."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise expected(
            "strategy", "to be a known strategy", show(strategy), suggest(str(strategy), STRATEGIES)
        )
    *first, last = STRATEGIES[strategy](settings)
    return [*first, replace(last, by_metric=True) if settings.constraints else last]


def _cross_entropy(s: PhaseSettings) -> list[Phase]:
    # Focal loss with gamma = 0 is cross-entropy, and accepts weights of rows.
    return [s.phase("cross-entropy", FocalLoss(0.0, class_weight=s.class_weight, task=s.task))]


def _weighted_cross_entropy(s: PhaseSettings) -> list[Phase]:
    balanced = class_balanced_weights(s.targets.cpu(), 2 if s.multilabel else s.num_classes)
    balanced = balanced if s.class_weight is None else balanced * s.class_weight
    return [s.phase("weighted cross-entropy", FocalLoss(0.0, class_weight=balanced, task=s.task))]


def _focal(s: PhaseSettings) -> list[Phase]:
    return [s.phase("focal", FocalLoss(2.0, class_weight=s.class_weight, task=s.task))]


def _softset(s: PhaseSettings) -> list[Phase]:
    """The binary soft sets of Tsoi et al. (2022): the mean of the metric over nine thresholds."""
    if s.task == "multiclass":
        _check_two_classes("softset", s)
    loss = MetricLoss(
        s.metric, task="multilabel" if s.task == "multilabel" else "binary", step=LinearStep(0.2),
        thresholds="btg", class_weight=s.class_weight, constraints=s.constraints,
    )  # fmt: skip
    return [s.phase("soft sets", loss)]


def _east(s: PhaseSettings) -> list[Phase]:
    """EAST (Li et al. 2025): the metric from random weights, annealed."""
    loss = MetricLoss(s.metric, task=s.task, class_weight=s.class_weight, constraints=s.constraints)
    return [s.phase("metric", loss)]


def _surrogate_fbeta(s: PhaseSettings) -> list[Phase]:
    """The surrogate F-beta loss of Lee et al. (2021), with the beta of the metric, or 1."""
    _check_two_classes("surrogate_fbeta", s)
    if s.class_weight is not None:
        raise expected("class_weight", "to be None for strategy 'surrogate_fbeta'", s.class_weight.tolist())
    beta = s.metric.params.get("beta", 1.0)
    if not isinstance(beta, int | float) or beta <= 0 or getattr(s.metric, "positive", 1) != 1:
        wanted = "with one beta > 0 and positive=1 for strategy 'surrogate_fbeta'"
        raise expected("metric", wanted, s.metric.name)
    rate = float((s.targets == 1).double().mean())
    return [s.phase("surrogate F-beta", SurrogateFBetaLoss(beta, rate))]


def _aligned(s: PhaseSettings) -> list[Phase]:
    """Cross-entropy first; then the metric anchored by cross-entropy, keeping the best hard metric."""
    loss = MetricLoss(
        s.metric, task=s.task, anchor=0.3, memory=0.9, class_weight=s.class_weight, constraints=s.constraints
    )
    return [*_cross_entropy(s), s.phase("metric, anchored", loss, by_metric=True)]


STRATEGIES: dict[str, Callable[[PhaseSettings], list[Phase]]] = {
    "aligned": _aligned,
    "cross_entropy": _cross_entropy,
    "weighted_cross_entropy": _weighted_cross_entropy,
    "focal": _focal,
    "softset": _softset,
    "east": _east,
    "surrogate_fbeta": _surrogate_fbeta,
}


def _check_two_classes(strategy: str, s: PhaseSettings) -> None:
    if s.multilabel:
        raise expected("y", f"with two classes for strategy {strategy!r}", f"{s.num_classes} labels per row")
    if s.num_classes != 2:
        raise expected("y", f"with two classes for strategy {strategy!r}", f"{s.num_classes}")
