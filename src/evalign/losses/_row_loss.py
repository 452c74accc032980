"""`RowLoss`: what all losses of logits and targets share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from evalign._errors import expected
from evalign.metrics import TASKS, Batch, as_batch, check_class_weights


class RowLoss(nn.Module):
    """The base of all losses of logits and targets: their settings, and batches as rows."""

    def __init__(
        self,
        *,
        task: str = "auto",
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
    ) -> None:
        super().__init__()
        if task not in TASKS:
            raise expected("task", f"to be one of {TASKS}", repr(task))
        self.task = task
        self.ignore_index = ignore_index
        # No buffer: of a model that is built on `meta`, nothing would restore it.
        self.class_weight = check_class_weights(class_weight)

    def _as_rows(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None) -> Batch:
        """The batch as rows, with the settings of this loss."""
        return as_batch(
            logits, targets, sample_weight,
            task=self.task, class_weight=self.class_weight, ignore_index=self.ignore_index,
        )  # fmt: skip
