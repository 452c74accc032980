"""The loss of all rows, for frameworks that report the mean over batches."""

from __future__ import annotations

from torch import Tensor

from evalign.losses import MetricLoss


class RunningLoss:
    """Turn the loss of all rows into one value per batch, whose mean over batches is that loss.

    A metric is not a mean over batches: the F1 of all rows is not the mean F1 of the batches. With L_t the
    loss of all rows of batches 1 to t, and n_t the weight of batch t in the mean, the value of batch t is

        (N_t L_t - N_(t-1) L_(t-1)) / n_t,    N_t = n_1 + ... + n_t.

    The sum telescopes: after any number of batches, the weighted mean of the values is L_t.

    >>> import torch
    >>> logits, targets = torch.tensor([[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> loss = MetricLoss("f1").eval()
    >>> running = RunningLoss(loss)
    >>> first = running.update(logits[:2], targets[:2], rows=2)
    >>> second = running.update(logits[2:], targets[2:], rows=1)
    >>> round(((2 * first + second) / 3).item(), 6) == round(loss(logits, targets).item(), 6)
    True
    """

    def __init__(self, loss: MetricLoss) -> None:
        self.loss = loss
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._accumulator = self.loss.accumulator()
        self._rows = 0.0
        self._total: Tensor | float = 0.0

    def update(
        self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None, *, rows: float
    ) -> Tensor:
        """The value of the next batch, which has the weight `rows` in the mean; the same in all processes."""
        self._accumulator.update(logits, targets, sample_weight)
        self._rows += rows
        total: Tensor = self._rows * self._accumulator.compute()
        value = (total - self._total) / rows
        self._total = total
        return value
