"""Strategies: the phases of training by which a network is brought to a metric."""

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
class Problem:
    """What a strategy is made for."""

    metric: Metric
    targets: Tensor
    num_classes: int
    class_weight: Tensor | None
    learning_rate: float
    max_epochs: int
    patience: int
    constraints: tuple[Constraint, ...] = ()

    def phase(self, name: str, loss: nn.Module, by_metric: bool = False) -> Phase:
        """A phase with this problem's settings."""
        return Phase(name, loss, self.learning_rate, self.max_epochs, self.patience, by_metric)


def phases(strategy: str, problem: Problem) -> list[Phase]:
    """The phases of a strategy, by name; with constraints the last one keeps its best feasible weights."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise expected("strategy", "to be a known one", show(strategy), suggest(str(strategy), STRATEGIES))
    *first, last = STRATEGIES[strategy](problem)
    return [*first, replace(last, by_metric=True) if problem.constraints else last]


def _cross_entropy(p: Problem) -> list[Phase]:
    # Focal loss with gamma = 0 is cross-entropy, and takes weights of rows.
    return [p.phase("cross-entropy", FocalLoss(0.0, class_weight=p.class_weight))]


def _weighted_cross_entropy(p: Problem) -> list[Phase]:
    balanced = class_balanced_weights(p.targets.cpu(), p.num_classes)
    balanced = balanced if p.class_weight is None else balanced * p.class_weight
    return [p.phase("weighted cross-entropy", FocalLoss(0.0, class_weight=balanced))]


def _focal(p: Problem) -> list[Phase]:
    return [p.phase("focal", FocalLoss(2.0, class_weight=p.class_weight))]


def _softset(p: Problem) -> list[Phase]:
    """The binary soft sets of Tsoi et al. (2022): the mean of the metric over nine thresholds."""
    _two_classes("softset", p)
    loss = MetricLoss(
        p.metric, task="binary", step=LinearStep(0.2), thresholds="btg", class_weight=p.class_weight,
        constraints=p.constraints,
    )  # fmt: skip
    return [p.phase("soft sets", loss)]


def _east(p: Problem) -> list[Phase]:
    """EAST (Li et al. 2025): the metric from random weights, annealed."""
    return [p.phase("metric", MetricLoss(p.metric, class_weight=p.class_weight, constraints=p.constraints))]


def _surrogate_fbeta(p: Problem) -> list[Phase]:
    """The surrogate of F-beta of Lee et al. (2021), with the metric's beta, or 1."""
    _two_classes("surrogate_fbeta", p)
    if p.class_weight is not None:
        raise expected("class_weight", "to be None for strategy 'surrogate_fbeta'", p.class_weight.tolist())
    beta = p.metric.params.get("beta", 1.0)
    if not isinstance(beta, int | float) or beta <= 0 or getattr(p.metric, "positive", 1) != 1:
        wanted = "with one beta > 0 and positive=1 for strategy 'surrogate_fbeta'"
        raise expected("metric", wanted, p.metric.name)
    rate = float((p.targets == 1).double().mean())
    return [p.phase("surrogate F-beta", SurrogateFBetaLoss(beta, rate))]


def _aligned(p: Problem) -> list[Phase]:
    """Cross-entropy first; then the metric, anchored by cross-entropy, the best by the hard metric."""
    loss = MetricLoss(
        p.metric, anchor=0.3, memory=0.9, class_weight=p.class_weight, constraints=p.constraints
    )
    return [*_cross_entropy(p), p.phase("metric, anchored", loss, by_metric=True)]


STRATEGIES: dict[str, Callable[[Problem], list[Phase]]] = {
    "aligned": _aligned,
    "cross_entropy": _cross_entropy,
    "weighted_cross_entropy": _weighted_cross_entropy,
    "focal": _focal,
    "softset": _softset,
    "east": _east,
    "surrogate_fbeta": _surrogate_fbeta,
}


def _two_classes(strategy: str, p: Problem) -> None:
    if p.num_classes != 2:
        raise expected("y", f"with two classes for strategy {strategy!r}", f"{p.num_classes}")
