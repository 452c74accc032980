"""`MetricAccumulator`: metrics of all rows, counted batch by batch and process by process."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evalign._errors import check_integer, expected
from evalign._torch import check_indices, sum_over_processes, world_size
from evalign._typing import ConstraintsLike, MetricLike
from evalign.metrics._batch import TASKS, Batch, as_batch, count_batch
from evalign.metrics._metric import Metric
from evalign.metrics._reading import as_constraints, as_metric

if TYPE_CHECKING:
    from typing_extensions import Self

#: The thresholds of a curve, as of `auroc`.
CURVE = tuple(level / 200 for level in range(1, 200))


class MetricAccumulator(nn.Module):
    """Metrics of all rows seen since the last `reset`: many small batches give the value of one big batch.

    The state is one confusion matrix in double precision, however many metrics are computed from it. It moves
    with `to(device)` and is not part of `state_dict`. Under an initialised `torch.distributed` group,
    `compute` adds up the counts of all processes, so all of them must call it.

    Args:
        metrics: A metric (anything `as_metric` accepts), or several: a list, or a dictionary by name.
        constraints: Constraints whose slacks `slacks` returns.
        task: `"multiclass"`, `"binary"` or `"multilabel"`, as in `MetricLoss`; `"auto"` infers it from the
            shapes.
        num_classes: The number of classes; required if predictions are class indices.
        thresholds: For binary and multilabel logits, the probability from which a row is positive, or several
            over which metrics are averaged. Default: 0.5, and 199 thresholds for metrics of a curve.
        ignore_index: Rows (for labels: cells) with this target are not counted.

    >>> accumulator = MetricAccumulator({"f1": "f1", "mcc": "mcc"})
    >>> for logits, targets in (([[2.0, 0.0], [0.0, 1.0]], [0, 1]), ([[0.0, 3.0], [1.0, 0.0]], [0, 0])):
    ...     accumulator.update(torch.tensor(logits), torch.tensor(targets))
    >>> {name: round(value.item(), 4) for name, value in accumulator.compute().items()}
    {'f1': 0.6667, 'mcc': 0.5774}
    >>> accumulator.confusion
    tensor([[2., 1.],
            [0., 1.]], dtype=torch.float64)
    """

    counts: Tensor | None

    def __init__(
        self,
        metrics: MetricLike | Sequence[MetricLike] | Mapping[str, MetricLike],
        constraints: ConstraintsLike = (),
        *,
        task: str = "auto",
        num_classes: int | None = None,
        thresholds: float | Sequence[float] | None = None,
        ignore_index: int | None = -100,
    ) -> None:
        super().__init__()
        if task not in TASKS:
            raise expected("task", f"to be one of {TASKS}", repr(task))
        if num_classes is not None:
            check_integer(2, num_classes=num_classes)
        self.metrics = _name_metrics(metrics)
        self.constraints = as_constraints(constraints)
        self.task, self.num_classes, self.ignore_index = task, num_classes, ignore_index
        self.levels = self._choose_levels(thresholds)
        self._is_single = not isinstance(metrics, Mapping | list | tuple)
        self._task: str | None = None
        self.register_buffer("counts", None, persistent=False)

    def _choose_levels(self, thresholds: float | Sequence[float] | None) -> tuple[float, ...]:
        curves = [metric.over_thresholds for metric in self.metrics.values()]
        if any(curves) and not all(curves):
            raise expected("metrics", "all of a curve or all of one matrix", ", ".join(self.metrics))
        if thresholds is None:
            return CURVE if any(curves) else (0.5,)
        levels = (thresholds,) if isinstance(thresholds, int | float) else tuple(thresholds)
        if not levels or not all(0 < level < 1 for level in levels):
            raise expected("thresholds", "in (0, 1)", thresholds)
        return levels

    @torch.no_grad()
    def update(self, predictions: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> None:
        """Count a batch.

        Args:
            predictions: Logits of any shape `MetricLoss` accepts; or class indices of the targets' shape; or
                labels, 0 and 1, of that shape with `task="multilabel"`.
            targets: The true classes or labels.
            sample_weight: One weight per row, or per cell.
        """
        self._add(self._count(predictions, targets, sample_weight))

    @torch.no_grad()
    def forward(self, predictions: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Count a batch, and return the metrics of this batch alone."""
        counts = self._count(predictions, targets, sample_weight)
        self._add(counts)
        return self._evaluate(counts)

    def compute(self) -> Any:
        """The metric of all rows of all processes; with several metrics, a dictionary by name."""
        joint = self.sync()
        return joint._evaluate(joint._get_counts())

    def slacks(self) -> dict[str, Tensor]:
        """The slack of each constraint by its name: negative where it is violated."""
        joint = self.sync()
        counts = joint._get_counts()
        return {
            one.name: one.sign * (joint._evaluate_one(one.metric, counts) - one.bound)
            for one in self.constraints
        }

    def reset(self) -> None:
        """Forget all rows."""
        self.counts = self._task = None

    def sync(self) -> Self:
        """Return an accumulator with the counts of all processes; itself if there is only one process."""
        if world_size() == 1:
            return self
        counts, joint = self.counts, copy.deepcopy(self)
        own = None if counts is None or self._task is None else (TASKS.index(self._task), *counts.shape)
        kind, total = sum_over_processes(own, None if counts is None else counts.flatten())
        if kind is not None and total is not None:
            joint._task, joint.counts = TASKS[kind[0]], total.view(kind[1:])
        return joint

    @property
    def confusion(self) -> Tensor:
        """The counts of this process, (d, d), (2, 2) or (labels, 2, 2), for each of several thresholds."""
        counts = self._get_counts()
        counts = counts.squeeze(-3) if self._task == "binary" else counts
        return counts.squeeze(0) if self._task != "multiclass" and len(self.levels) == 1 else counts

    def _get_counts(self) -> Tensor:
        if self.counts is None:
            raise ValueError("Expected at least one `update` before `compute`, but there was none.")
        return self.counts

    def _add(self, counts: Tensor) -> None:
        if self.counts is not None and self.counts.shape != counts.shape:
            wanted = f"to give counts of shape {tuple(self.counts.shape)}, as before"
            raise expected("predictions", wanted, f"shape {tuple(counts.shape)}")
        self.counts = counts if self.counts is None else self.counts.to(counts.device) + counts

    def _count(self, predictions: Tensor, targets: Tensor, sample_weight: Tensor | None) -> Tensor:
        if not isinstance(predictions, Tensor):
            raise expected("predictions", "to be a tensor", f"a {type(predictions).__name__}")
        if not predictions.is_floating_point():
            predictions = self._as_logits(predictions, targets)
        rows = as_batch(predictions, targets, sample_weight, task=self.task, ignore_index=self.ignore_index)
        d = rows.logits.shape[1]
        if next(iter(self.metrics.values())).over_thresholds:
            rows = rows.one_against_rest()
        if rows.task == "multiclass" and self.num_classes not in (None, d):
            raise expected("predictions", f"of {self.num_classes} classes", f"{d} classes")
        self._check_task(rows)
        # Double precision counts any number of rows exactly; Apple's devices do not have it.
        dtype = torch.float32 if rows.logits.device.type == "mps" else torch.float64
        shape = rows.targets.shape[:1] if rows.task == "multiclass" else rows.targets.shape
        weight = rows.logits.new_ones(shape, dtype=dtype) if rows.weight is None else rows.weight.to(dtype)
        return count_batch(rows, weight, torch.tensor(self.levels))

    def _check_task(self, rows: Batch) -> None:
        if self._task not in (None, rows.task):
            raise expected("predictions", f"of a {self._task} task, as before", f"a {rows.task} task")
        self._task = rows.task

    def _as_logits(self, labels: Tensor, targets: Tensor) -> Tensor:
        """Turn predicted labels into logits that predict them."""
        if labels.shape != targets.shape:
            raise expected("predictions", f"of shape {tuple(targets.shape)}", f"shape {tuple(labels.shape)}")
        if self.task in ("binary", "multilabel"):
            check_indices("predictions", labels.long(), 2)
            return labels.float() - 0.5
        if self.num_classes is None:
            raise expected("num_classes", "to be set if predictions are class indices", None)
        check_indices("predictions", labels, self.num_classes)
        return F.one_hot(labels.long(), self.num_classes).movedim(-1, 1).float()

    def _evaluate(self, counts: Tensor) -> Any:
        values = {name: self._evaluate_one(metric, counts) for name, metric in self.metrics.items()}
        return next(iter(values.values())) if self._is_single else values

    def _evaluate_one(self, metric: Metric, counts: Tensor) -> Tensor:
        if self._task == "multiclass":
            return metric(counts)
        value = metric.over_labels(counts) if self._task == "multilabel" else metric(counts.squeeze(-3))
        return value if metric.over_thresholds else value.mean(0)

    def extra_repr(self) -> str:
        """What `print(accumulator)` shows."""
        return f"{', '.join(self.metrics)}, task={self.task!r}"


def _name_metrics(metrics: Any) -> dict[str, Metric]:
    if isinstance(metrics, Mapping):
        named = {str(name): as_metric(metric) for name, metric in metrics.items()}
    else:
        several = metrics if isinstance(metrics, list | tuple) else [metrics]
        named = {metric.name: metric for metric in map(as_metric, several)}
    if not named:
        raise expected("metrics", "with at least one metric", "none")
    return named
