"""`LossAccumulator`: the validation loss of all rows, counted batch by batch and process by process."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evalign._torch import sum_over_processes, world_size
from evalign.losses._measure import Measure
from evalign.metrics import TASKS

if TYPE_CHECKING:
    from typing_extensions import Self

    from evalign.losses._metric_loss import MetricLoss


class LossAccumulator:
    """The loss of all rows since the last `reset`, as `MetricLoss` in `eval()` mode gives it for one batch.

    A metric is not a mean over batches, so the mean of the losses of batches is not the loss of all rows.
    This adds up the soft confusion matrices instead, with the temperature, thresholds and weights of the
    loss, and the hard ones if it has constraints. Under an initialised `torch.distributed` group, `compute`
    adds up those of all processes, so all of them must call it. Reset it when the loss was cooled.

    Args:
        loss: The loss, which stays as it is.

    >>> from evalign import MetricLoss
    >>> loss = MetricLoss("f1").eval()
    >>> logits, targets = torch.randn(100, 2, generator=torch.manual_seed(0)), torch.arange(100) % 4 // 3
    >>> accumulator = loss.accumulator()
    >>> for rows in torch.arange(100).split(8):
    ...     accumulator.update(logits[rows], targets[rows])
    >>> torch.testing.assert_close(accumulator.compute().float(), loss(logits, targets))
    """

    def __init__(self, loss: MetricLoss) -> None:
        self.loss = loss
        self._whole: Measure | None = None

    @torch.no_grad()
    def update(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch, in the shapes that the loss accepts."""
        one = self.loss.measure(logits, targets, sample_weight).double()
        self._whole = one if self._whole is None else Measure.join([self._whole, one])

    @torch.no_grad()
    def compute(self) -> Tensor:
        """The loss of all rows of all processes."""
        return self.loss.evaluate(self.sync().measure)

    @torch.no_grad()
    def slacks(self) -> dict[str, Tensor]:
        """The slack of each constraint for the predicted classes, by its name; negative where violated."""
        whole = self.sync().measure
        if whole.hard is None:
            return {}
        slacks = self.loss.slacks(whole.hard, whole.task)
        return {one.name: slack for one, slack in zip(self.loss.constraints, slacks, strict=True)}

    def reset(self) -> None:
        """Forget all rows."""
        self._whole = None

    def sync(self) -> Self:
        """Return an accumulator with the rows of all processes; itself if there is only one process."""
        if world_size() == 1:
            return self
        joint = copy.copy(self)
        whole = self._whole
        own = None if whole is None else (TASKS.index(whole.task), *whole.confusion.shape)
        kind, sums = sum_over_processes(own, None if whole is None else whole.pack())
        if kind is not None and sums is not None:
            joint._whole = Measure.unpack(TASKS[kind[0]], kind[1:], sums)
        return joint

    @property
    def measure(self) -> Measure:
        """What was counted, as `MetricLoss.measure` gives it for one batch."""
        if self._whole is None:
            raise ValueError("Expected at least one `update` before `compute`, but there was none.")
        return self._whole
