"""`MetricLoss`: any function of the confusion matrix as a PyTorch criterion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._torch import Constant, is_autocast, poison, world_size
from evalign._typing import ConstraintsLike, MetricLike
from evalign.losses._accumulator import LossAccumulator
from evalign.losses._measure import Measure, remember
from evalign.losses._row_loss import RowLoss
from evalign.metrics import Batch, Metric, count_batch
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

    A drop-in replacement for `nn.CrossEntropyLoss` or `nn.BCEWithLogitsLoss`: logits in, one number out.
    If lower values of the metric are better, the loss is the metric itself.

    Args:
        metric: A name (`"f1"`), a call (`"fbeta(beta=2)"`), a formula (`"tp / (tp + fn)"`), a
            function of a `Confusion`, or a `Metric`. It must be scale-free: a loss sees shares of the
            rows, not counts. Metrics over thresholds, such as `auroc`, see each class against the rest.
        task: `"multiclass"` for logits (N, d, ...) with class indices (N, ...) or soft targets (N, d,
            ...), `"binary"` for one logit per row, (N,) or (N, 1, ...), `"multilabel"` for (N, L, ...)
            with targets of that shape. `"auto"` infers the task from the shapes.
        temperature: The softness of the memberships, in (0, 0.4]. It may be set at any time; lower it in
            the course of training, as `Anneal` does.
        step: A step of `evalign.softsets` instead of the linear step with temperature.
        thresholds: For binary and multilabel tasks, one or several thresholds over which the metric is
            averaged; `"btg"` is 0.1, 0.2, ..., 0.9. Default: 0.5.
        memory: The weight, in [0, 1), of earlier batches in a running average of the confusion matrix, for
            batches too small to contain every class. Only the newest batch carries gradient. The memory is
            part of `state_dict` and does not change in `eval()` mode or under `torch.no_grad()`.
        anchor: The multiple of cross-entropy that is added to the loss.
        class_weight: One weight per class (for labels: for 0 and for 1) that multiplies the row weights.
        ignore_index: Rows (for labels: cells) with this target have no effect.
        sync: Under an initialised `torch.distributed` group, treat the batches of all processes as one
            while training. Validation losses stay local to each process.
        constraints: Constraints such as `"precision >= 0.9"` to satisfy while training; see below.
        multiplier_learning_rate: The learning rate of the constraints' multipliers.

    With constraints, the loss is the Lagrangian 1 - M(C) - sum_k multiplier_k slack_k(C), and each training
    batch moves multiplier_k to max(0, multiplier_k - learning rate * slack_k(C_hard)). C_hard counts
    predicted classes and, like C, has a memory: soft counts only give the direction in which the weights
    move, while predicted classes decide whether a constraint is satisfied. Training circles around the
    optimum, so keep the best weights that satisfy the constraints. In `eval()` mode the multipliers are left
    out and each violation is added once, so that validation losses of different epochs are comparable.

    A class without true rows, in the batch or in the memory, leaves averages over classes and constraints. A
    metric of that class alone, such as `recall[2]`, is then 0 and constant: such a batch has the loss 1 and
    gradient 0. What is defined without true rows, such as `specificity[2]`, still counts.

    If no row has weight, the loss is that of an empty matrix, with gradient 0.

    >>> loss = MetricLoss("f1")
    >>> logits = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]], requires_grad=True)
    >>> value = loss(logits, torch.tensor([0, 1, 1]))
    >>> value.backward()
    >>> value, loss.last_confusion
    (tensor(0.4134, grad_fn=...), tensor([[0.9046, 0.0954],
            [1.1303, 0.8697]]))
    >>> loss = MetricLoss("recall", constraints=["precision >= 0.9"], multiplier_learning_rate=0.5)
    >>> loss(torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1, 0, 0])).item() < 0.5
    True
    >>> loss.multipliers  # 0.5 * (0.9 - 1/2): one of two positive predictions is right
    tensor([0.2000])

    References:
        Tsoi et al. (2022), Bridging the gap: unifying the training and evaluation of neural network
        binary classifiers; Li et al. (2025), Aligning multiclass neural network classifier
        criterion with task performance metrics. Constraints: Cotter et al. (2019), Optimization with
        non-differentiable constraints with applications to fairness, recall, churn, and other goals:
        one player updates the weights by a differentiable proxy of the constraints, the other updates
        the multipliers by the constraints themselves.
    """

    running_confusion: Tensor | None
    running_hard: Tensor | None
    multipliers: Tensor | None

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
        multiplier_learning_rate: float = 0.1,
    ) -> None:
        super().__init__(task=task, class_weight=class_weight, ignore_index=ignore_index)
        self.metric = metrics.as_metric(metric)
        if not (self.metric.is_scalar or self.metric.over_thresholds):
            raise expected("metric", "with an average that gives one number", self.metric.name)
        if isinstance(step, HardStep):
            raise expected("step", "with a gradient, such as LinearStep()", step)
        if not is_number(memory) or not 0 <= memory < 1:
            raise expected("memory", "in [0, 1)", show(memory))
        if not is_number(anchor) or anchor < 0:
            raise expected("anchor", "to be a number >= 0", show(anchor))
        if not is_number(multiplier_learning_rate) or multiplier_learning_rate <= 0:
            raise expected(
                "multiplier_learning_rate", "to be a positive number", show(multiplier_learning_rate)
            )
        self.step = step
        self.memory = memory
        self.anchor = anchor
        self.sync = sync
        self.constraints = metrics.as_constraints(constraints)
        metrics.check_for_loss(self.metric, self.constraints)
        self.multiplier_learning_rate = multiplier_learning_rate
        self._temperature = check_temperature(temperature)
        self._last: Measure | None = None
        self._levels = _levels(thresholds, self.metric)
        self.register_buffer("running_confusion", None)
        self.register_buffer("running_hard", None)
        count = len(self.constraints)
        self.register_buffer("multipliers", torch.zeros(count) if count else None)

    @property
    def temperature(self) -> float:
        """The softness of the memberships, in (0, 0.4]; lowering it brings the loss closer to the metric."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        if self.step is not None:
            raise ValueError(f"Expected no `temperature` to be set, since `step` is fixed to {self.step}.")
        self._temperature = check_temperature(value)

    @property
    def last_confusion(self) -> Tensor | None:
        """The soft confusion matrix of the last batch, without gradient; None before the first.

        (d, d), or (2, 2) for one logit per row, or (L, 2, 2) for L labels; with several thresholds, one of
        these per threshold.
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
            confusion = average + (confusion - confusion.detach())  # only the newest batch carries gradient
        loss = self.objective(confusion, measure.task)
        if learns and self.constraints:
            self.update_multipliers(measure)
        return loss if measure.entropy is None else loss + self.anchor * measure.entropy

    def measure(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Measure:
        """The soft confusion matrix of a batch, with sum 1, and what the anchor and the constraints need."""
        if is_autocast(logits.device):
            with torch.autocast(logits.device.type, enabled=False):
                return self.measure(logits, targets, sample_weight)
        rows = self._as_rows(logits, targets, sample_weight)
        entropy = _cross_entropy(rows, rows.shares()[0]) if self.anchor else None
        if self.metric.over_thresholds:
            rows = rows.one_against_rest()
        hard = count_batch(rows, rows.shares()[0], self._thresholds(rows)) if self.constraints else None
        confusion, total = self._confusion(rows)
        return Measure(rows.task, confusion, entropy, total, hard)

    def accumulator(self) -> LossAccumulator:
        """Add up the validation loss of many batches; see `LossAccumulator`."""
        return LossAccumulator(self)

    def evaluate(self, measure: Measure) -> Tensor:
        """The loss in `eval()` mode of what `measure` returned."""
        mode = self.training
        try:
            loss = self.eval().objective(measure.confusion, measure.task)
        finally:
            self.train(mode)
        return loss if measure.entropy is None else loss + self.anchor * measure.entropy

    def objective(self, confusion: Tensor, task: str) -> Tensor:
        """The loss of a confusion matrix as returned by `measure`, without the anchor."""
        if is_autocast(confusion.device):
            with torch.autocast(confusion.device.type, enabled=False):
                return self.objective(confusion, task)
        if task == "multiclass":
            value = self.metric(confusion, skip_absent=True)
        elif len(confusion) == 1 and not self.metric.over_thresholds:
            value = self.metric.over_labels(confusion[0], skip_absent=True)
        else:
            value = self.metric.over_labels(confusion, skip_absent=True).mean()
        loss = 1 - value if self.metric.higher_is_better else value
        if self.multipliers is None:
            return loss
        slacks = self.slacks(confusion, task)
        if self.training:
            return loss - (self.multipliers.to(slacks) * slacks).sum()
        return loss + (-slacks).clamp_min(0).sum()

    def slacks(self, confusion: Tensor, task: str) -> Tensor:
        """The slack of each constraint for a confusion matrix as returned by `measure`."""
        if task == "multiclass":
            return torch.stack([one.slack(confusion, skip_absent=True) for one in self.constraints])
        return torch.stack(
            [one.slack_over_labels(confusion, skip_absent=True).mean() for one in self.constraints]
        )

    @torch.no_grad()
    def update_multipliers(self, measure: Measure) -> None:
        """Raise the multipliers of violated constraints and lower the others, by the predicted classes."""
        if measure.hard is None or self.multipliers is None or not self.training:
            return
        hard = measure.hard
        if self.memory:
            hard, self.running_hard = remember(hard, self.running_hard, self.memory)
        slacks = self.slacks(hard, measure.task).to(self.multipliers)
        updated = (self.multipliers - self.multiplier_learning_rate * slacks).clamp_min(0)
        # No update if no row had weight or a number is not finite.
        valid = updated.isfinite() & (measure.hard.sum() > 0)
        self.multipliers = torch.where(valid, updated, self.multipliers)

    def _confusion(self, rows: Batch) -> tuple[Tensor, Tensor | float]:
        """The soft confusion matrix (d, d) or (thresholds, labels, 2, 2), with sum 1, and the weight."""
        if rows.task == "multiclass":
            if self._levels is not None:
                raise expected("thresholds", "only for binary or multilabel logits", "multiclass logits")
            return logit_confusion(
                rows.values, rows.targets, rows.weight, temperature=self.temperature, step=self.step
            )
        if rows.logits.shape[1] == 1 and self._levels is None and self.step is None:
            weight = None if rows.weight is None else rows.weight.squeeze(1)
            columns = rows.values.squeeze(1), rows.targets.squeeze(1), weight
            matrix, total = binary_logit_confusion(*columns, temperature=self.temperature)
            return matrix[None, None], total
        step = self.step or LinearStep(temperature=self.temperature)
        levels = self._thresholds(rows)
        share, total = rows.shares()
        matrix = binary_soft_confusion(rows.logits.sigmoid(), rows.targets, levels, step, share)
        return matrix + poison(rows.logits), total

    def _thresholds(self, rows: Batch) -> Tensor | float:
        """The thresholds for labels, in the type of the logits."""
        return 0.5 if self._levels is None else self._levels.like(rows.logits)

    def get_extra_state(self) -> Tensor:
        """The temperature as a tensor, which every format of checkpoints can hold."""
        return torch.tensor(self._temperature, dtype=torch.float64)

    def set_extra_state(self, state: Any) -> None:
        """Restore the temperature."""
        # Older versions stored a dictionary.
        self._temperature = check_temperature(
            float(state["temperature"] if isinstance(state, dict) else state)
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list[str],
        *args: Any,
    ) -> None:
        # The memory gets its shape from the first batch, so here it may not have one yet.
        for name in ("running_confusion", "running_hard"):
            stored = state_dict.get(prefix + name)
            setattr(self, name, None if stored is None else torch.empty_like(stored))
        known = len(missing)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *args)
        # A model that was trained with another loss has no state for this one: it starts afresh.
        del missing[known:]

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        settings = [repr(self.metric.name), f"task={self.task!r}"]
        settings.append(f"step={self.step}" if self.step else f"temperature={self.temperature:g}")
        settings += [f"memory={self.memory}", f"anchor={self.anchor}"]
        if self.constraints:
            names = ", ".join(repr(constraint.name) for constraint in self.constraints)
            settings.append(f"constraints=({names})")
            settings.append(f"multiplier_learning_rate={self.multiplier_learning_rate:g}")
        return ", ".join(settings)


def _levels(thresholds: Sequence[float] | Tensor | float | str | None, metric: Metric) -> Constant | None:
    if thresholds is None:
        if metric.over_thresholds:
            thresholds = BTG_THRESHOLDS
        else:
            return None
    if isinstance(thresholds, str):
        if thresholds != "btg":
            raise expected("thresholds", "to be numbers or 'btg'", repr(thresholds))
        thresholds = BTG_THRESHOLDS
    numbers = thresholds.tolist() if isinstance(thresholds, Tensor) else thresholds
    levels = np.array(numbers, dtype=np.float64).reshape(-1)
    if levels.size == 0 or not ((levels > 0) & (levels < 1)).all():
        raise expected("thresholds", "in (0, 1)", levels.tolist())
    return Constant(levels)


def _cross_entropy(rows: Batch, share: Tensor) -> Tensor:
    if rows.task == "multiclass":
        terms = F.cross_entropy(rows.logits, rows.targets, reduction="none")
    else:
        terms = F.binary_cross_entropy_with_logits(rows.logits, rows.targets, reduction="none")
    return (terms * share).sum()
