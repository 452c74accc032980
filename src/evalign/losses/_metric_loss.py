"""`MetricLoss`: any function of the confusion matrix as a criterion for PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._torch import poison, world_size
from evalign._typing import ConstraintsLike, MetricLike
from evalign.losses._inputs import Batch, RowLoss
from evalign.losses._measure import Measure, hard_counts, remember
from evalign.metrics import Metric
from evalign.softsets import (
    HardStep,
    LinearStep,
    Step,
    binary_logit_confusion,
    binary_soft_confusion,
    check_temperature,
    logit_confusion,
)

#: The thresholds over which Tsoi et al. (2022) train and evaluate.
BTG_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class MetricLoss(RowLoss):
    """Train on the metric: 1 - M(C), with C the soft confusion matrix of the batch.

    Use it wherever `nn.CrossEntropyLoss` or `nn.BCEWithLogitsLoss` stands: logits in, one number out.
    A metric for which lower is better is minimised as it is.

    Args:
        metric: A name (`"f1"`), a call (`"fbeta(beta=2)"`), a formula (`"tp / (tp + fn)"`), a
            function of a `Confusion`, or a `Metric`.
        task: `"multiclass"` for logits (N, d, ...) with class indices (N, ...) or soft targets (N, d,
            ...), `"binary"` for one logit a row, (N,) or (N, 1, ...), `"multilabel"` for (N, L, ...)
            with targets of that shape. `"auto"` tells by the shapes.
        temperature: How soft the memberships are, in (0, 0.4]. May be set at any time; cool it as
            training goes on.
        step: A step of `evalign.softsets` in place of the linear step with temperature.
        thresholds: For binary and multilabel tasks, one threshold or many, over which the metric is
            averaged; `"btg"` is 0.1, 0.2, ..., 0.9. Default: 0.5.
        memory: In [0, 1). How much of the confusion matrix is remembered from earlier batches, for
            batches too small to hold every class. Only the newest batch carries gradient. The memory
            is kept in `state_dict`, and rests in `eval()` mode and under `torch.no_grad()`.
        anchor: That multiple of cross-entropy is added.
        class_weight: One weight a class (for labels: for 0 and 1) that multiplies the rows' weights.
        ignore_index: Batch (for labels: cells) with this target count nothing.
        sync: Under an initialised `torch.distributed` group, judge the batches of all processes as
            one (while training; validation losses stay with their process).
        constraints: Bounds such as `"precision >= 0.9"` to be kept while the metric is raised; see below.
        multiplier_lr: How fast the multipliers of the constraints move.

    With constraints the loss is the Lagrangian 1 - M(C) - sum_k multiplier_k slack_k(C), and each training
    batch moves multiplier_k to max(0, multiplier_k - multiplier_lr slack_k(C_hard)). C_hard counts predicted
    classes and, like C, has a memory: only the direction of the weights is left to soft counts, while
    whether a bound is kept is judged by what will be predicted. Training goes around the best point, so
    keep the best weights that satisfy the constraints. In `eval()` mode the multipliers stay out and every
    miss counts once, so that the validation losses of different epochs compare.

    If no row counts, the loss is that of an empty matrix, with gradient 0.

    >>> loss = MetricLoss("f1")
    >>> logits = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]], requires_grad=True)
    >>> value = loss(logits, torch.tensor([0, 1, 1]))
    >>> value.backward()
    >>> value, loss.last_confusion
    (tensor(0.4134, grad_fn=...), tensor([[0.9046, 0.0954],
            [1.1303, 0.8697]]))
    >>> loss = MetricLoss("recall", constraints=["precision >= 0.9"], multiplier_lr=0.5)
    >>> loss(torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1, 0, 0])).item() < 0.5
    True
    >>> loss.multipliers  # 0.5 * (0.9 - 1/2): one of the two rows predicted positive is
    tensor([0.2000])

    References:
        Tsoi et al. (2022), Bridging the gap: unifying the training and evaluation of neural network
        binary classifiers; Li et al. (2025), Aligning multiclass neural network classifier
        criterion with task performance metrics. Constraints: Cotter et al. (2019), Optimization with
        non-differentiable constraints with applications to fairness, recall, churn, and other goals:
        one player moves the weights by a differentiable stand-in of the constraints, the other the
        multipliers by the constraints themselves.
    """

    running_confusion: Tensor | None
    running_hard: Tensor | None
    multipliers: Tensor | None
    _levels: Tensor | None

    def __init__(
        self,
        metric: MetricLike,
        *,
        task: str = "auto",
        temperature: float = 0.2,
        step: Step | None = None,
        thresholds: Sequence[float] | Tensor | float | str | None = None,
        memory: float = 0.0,
        anchor: float = 0.0,
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
        sync: bool = True,
        constraints: ConstraintsLike = (),
        multiplier_lr: float = 0.1,
    ) -> None:
        super().__init__(task=task, class_weight=class_weight, ignore_index=ignore_index)
        self.metric = metrics.as_metric(metric)
        if not (self.metric.is_scalar or self.metric.over_thresholds):
            raise expected("metric", "with an average that gives one number", self.metric.name)
        if isinstance(step, HardStep):
            raise expected("step", "with a gradient, such as LinearStep()", step)
        if not 0 <= memory < 1:
            raise expected("memory", "in [0, 1)", memory)
        if not 0 <= anchor < float("inf"):
            raise expected("anchor", "to be a number >= 0", anchor)
        if not is_number(multiplier_lr) or multiplier_lr <= 0:
            raise expected("multiplier_lr", "to be a positive number", show(multiplier_lr))
        self.step = step
        self.memory = memory
        self.anchor = anchor
        self.sync = sync
        self.constraints = metrics.as_constraints(constraints)
        self.multiplier_lr = multiplier_lr
        self._temperature = check_temperature(temperature)
        self._last: Measure | None = None
        self.register_buffer("_levels", _levels(thresholds, self.metric), persistent=False)
        self.register_buffer("running_confusion", None)
        self.register_buffer("running_hard", None)
        count = len(self.constraints)
        self.register_buffer("multipliers", torch.zeros(count) if count else None)

    @property
    def temperature(self) -> float:
        """How soft the memberships are, in (0, 0.4]; cooling it brings the loss closer to the metric."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        if self.step is not None:
            raise ValueError(f"Expected no `temperature` to be set, since `step` is fixed to {self.step}.")
        self._temperature = check_temperature(value)

    @property
    def last_confusion(self) -> Tensor | None:
        """The soft confusion matrix of the last batch, without gradient; None before the first.

        (d, d), or (2, 2) for one logit a row, or (L, 2, 2) for L labels; with many thresholds one of
        these for each.
        """
        if self._last is None:
            return None
        matrix = self._last.confusion
        if self._last.task == "binary":
            matrix = matrix.squeeze(-3)
        if self._last.task != "multiclass" and self._levels is None:
            matrix = matrix.squeeze(0)
        return matrix * self._last.total

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch. `sample_weight` has shape (N,), or that of class-index targets."""
        measure = self.measure(logits, targets, sample_weight)
        self._last = Measure(measure.task, measure.confusion.detach(), None, measure.total)
        learns = self.training and torch.is_grad_enabled()
        if learns and self.sync and world_size() > 1:
            measure = measure.across_processes()
        confusion = measure.confusion
        if learns and self.memory:
            average, self.running_confusion = remember(
                confusion.detach(), self.running_confusion, self.memory
            )
            confusion = average + (confusion - confusion.detach())  # the newest alone carries gradient
        loss = self.objective(confusion, measure.task)
        if learns and self.constraints:
            self.move_multipliers(measure)
        return loss if measure.entropy is None else loss + self.anchor * measure.entropy

    def measure(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Measure:
        """The soft confusion matrix of a batch, with sum 1, and what anchor and constraints need beside."""
        if torch.is_autocast_enabled(logits.device.type):
            with torch.autocast(logits.device.type, enabled=False):
                return self.measure(logits, targets, sample_weight)
        rows = self._rows(logits, targets, sample_weight)
        share, total = rows.shares()
        entropy = _cross_entropy(rows, share) if self.anchor else None
        hard = hard_counts(rows, share, self._thresholds(rows)) if self.constraints else None
        return Measure(rows.task, self._confusion(rows, share), entropy, total, hard)

    def objective(self, confusion: Tensor, task: str) -> Tensor:
        """The loss of a confusion matrix as `measure` gives it, without the anchor."""
        if torch.is_autocast_enabled(confusion.device.type):
            with torch.autocast(confusion.device.type, enabled=False):
                return self.objective(confusion, task)
        if task == "multiclass":
            value = self.metric(confusion)
        else:
            value = self.metric.over_labels(confusion, keep_absent=False).mean()
        loss = 1 - value if self.metric.higher_is_better else value
        if self.multipliers is None:
            return loss
        slacks = self.slacks(confusion, task)
        if self.training:
            return loss - (self.multipliers.to(slacks) * slacks).sum()
        return loss + (-slacks).clamp_min(0).sum()

    def slacks(self, confusion: Tensor, task: str) -> Tensor:
        """By how much each constraint is met by a confusion matrix as `measure` gives it."""
        if task == "multiclass":
            return torch.stack([bound.slack(confusion) for bound in self.constraints])
        slacks = [bound.slack_over_labels(confusion, keep_absent=False) for bound in self.constraints]
        return torch.stack([slack.mean() for slack in slacks])

    @torch.no_grad()
    def move_multipliers(self, measure: Measure) -> None:
        """Raise the multipliers of the constraints that the predicted classes miss, and lower the others."""
        if measure.hard is None or self.multipliers is None or not self.training:
            return
        hard = measure.hard
        if self.memory:
            hard, self.running_hard = remember(hard, self.running_hard, self.memory)
        slacks = self.slacks(hard, measure.task).to(self.multipliers)
        moved = (self.multipliers - self.multiplier_lr * slacks).clamp_min(0)
        # They rest where nothing was counted, or a number is not finite.
        known = moved.isfinite() & (measure.hard.sum() > 0)
        self.multipliers = torch.where(known, moved, self.multipliers)

    def _confusion(self, rows: Batch, share: Tensor) -> Tensor:
        """The soft confusion matrix of a batch, with sum 1: (d, d), or (thresholds, labels, 2, 2)."""
        if rows.task == "multiclass":
            if self._levels is not None:
                raise expected("thresholds", "for binary or multilabel logits only", "classes")
            return logit_confusion(
                rows.logits, rows.targets, share, temperature=self.temperature, step=self.step
            )
        if rows.logits.shape[1] == 1 and self._levels is None and self.step is None:
            columns = (side.squeeze(1) for side in (rows.logits, rows.targets, share))
            return binary_logit_confusion(*columns, temperature=self.temperature)[None, None]
        step = self.step or LinearStep(temperature=self.temperature)
        levels = self._thresholds(rows)
        matrix = binary_soft_confusion(rows.logits.sigmoid(), rows.targets, levels, step, share)
        return matrix + poison(rows.logits)

    def _thresholds(self, rows: Batch) -> Tensor | float:
        """The thresholds of labels, in the type of the logits."""
        return 0.5 if self._levels is None else self._levels.to(rows.logits.dtype)

    def get_extra_state(self) -> dict[str, float]:
        """The temperature, so that it is saved with the memory."""
        return {"temperature": self._temperature}

    def set_extra_state(self, state: dict[str, float]) -> None:
        """Restore the temperature."""
        self._temperature = check_temperature(state["temperature"])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # The memory takes its shape from the first batch, so the stored one may be the first to have any.
        for name in ("running_confusion", "running_hard"):
            stored = state_dict.get(prefix + name)
            setattr(self, name, None if stored is None else torch.empty_like(stored))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        kind = f"step={self.step}" if self.step else f"temperature={self.temperature:g}"
        bounds = "".join(f", {bound.name!r}" for bound in self.constraints)
        bounds = f", constraints=({bounds[2:]}), multiplier_lr={self.multiplier_lr:g}" if bounds else ""
        settings = f"task={self.task!r}, {kind}, memory={self.memory}, anchor={self.anchor}{bounds}"
        return f"{self.metric.name!r}, {settings}"


def _levels(thresholds: Sequence[float] | Tensor | float | str | None, metric: Metric) -> Tensor | None:
    if thresholds is None:
        if metric.over_thresholds:
            thresholds = BTG_THRESHOLDS
        else:
            return None
    if isinstance(thresholds, str):
        if thresholds != "btg":
            raise expected("thresholds", "to be numbers or 'btg'", repr(thresholds))
        thresholds = BTG_THRESHOLDS
    levels = torch.as_tensor(thresholds, dtype=torch.float64).reshape(-1)
    if levels.numel() == 0 or not ((levels > 0) & (levels < 1)).all():
        raise expected("thresholds", "in (0, 1)", levels.tolist())
    return levels


def _cross_entropy(rows: Batch, share: Tensor) -> Tensor:
    if rows.task == "multiclass":
        terms = F.cross_entropy(rows.logits, rows.targets, reduction="none")
    else:
        terms = F.binary_cross_entropy_with_logits(rows.logits, rows.targets, reduction="none")
    return (terms * share).sum()
