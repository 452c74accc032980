"""Losses that are a mean over rows: the usual ones, and the surrogate of F-beta."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from evalign._errors import expected
from evalign.losses._row_loss import RowLoss
from evalign.metrics import Batch


class PointwiseLoss(RowLoss):
    """A weighted mean over rows; accepts the same shapes as `MetricLoss`."""

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; 0 if no row has weight."""
        rows = self._as_rows(logits, targets, sample_weight)
        return (self._terms(rows) * rows.shares()[0]).sum()

    @abstractmethod
    def _terms(self, rows: Batch) -> Tensor:
        """The loss of each row, or of each cell for multilabel targets."""


class MAELoss(PointwiseLoss):
    """The distance between the target and the probabilities: |e_y - p|_1 = 2 - 2 p_y.

    >>> MAELoss()(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0]))
    tensor(0.6192)

    References:
        Lee et al. (2021), A surrogate loss function for optimization of F-beta score, eq. 14.
    """

    def _terms(self, rows: Batch) -> Tensor:
        log_p, share = _log_probabilities(rows)
        return (-2 * torch.expm1(log_p) * share).sum(-1)


class FocalLoss(PointwiseLoss):
    """Cross-entropy that down-weights easy rows: -(1 - p_y)^gamma log p_y.

    `gamma=0` is cross-entropy.

    >>> FocalLoss(gamma=2)(torch.tensor([0.0, 2.0]), torch.tensor([1, 1]))
    tensor(0.0875)

    References:
        Lin et al. (2017), Focal loss for dense object detection.
    """

    def __init__(
        self,
        gamma: float = 2.0,
        *,
        task: str = "auto",
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
    ) -> None:
        super().__init__(task=task, class_weight=class_weight, ignore_index=ignore_index)
        if not 0 <= gamma < float("inf"):
            raise expected("gamma", "to be a number >= 0", gamma)
        self.gamma = gamma

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        return f"gamma={self.gamma}"

    def _terms(self, rows: Batch) -> Tensor:
        log_p, share = _log_probabilities(rows)
        if self.gamma == 0:
            return (-log_p * share).sum(-1)
        # At p = 1 the gradient is 0 for any power; without the floor it would be 0 * inf.
        rest = (-torch.expm1(log_p)).clamp_min(torch.finfo(log_p.dtype).tiny)
        return (rest**self.gamma * -log_p * share).sum(-1)


class SurrogateFBetaLoss(PointwiseLoss):
    """A row-wise loss for two classes whose gradient vanishes where that of F-beta does.

    With f the probability of class 1, P the share of positives and k = beta^2 P / (1 - P):
    -y log f + (1 - y) log(k + f). With 0 < q <= 1 it is y (1 - f^q) / q + (1 - y) ((k + f)^q - 1) / q,
    which is more robust to wrong labels. `class_balanced` weights rows by 1 / P and 1 / (1 - P), as the
    derivation requires.

    >>> loss = SurrogateFBetaLoss(beta=1, positive_rate=0.1)
    >>> loss(torch.tensor([2.0, -2.0]), torch.tensor([1, 0]))
    tensor(-0.1811)

    References:
        Lee et al. (2021), A surrogate loss function for optimization of F-beta score, eq. 20 and 25.
    """

    def __init__(
        self,
        beta: float,
        positive_rate: float,
        q: float = 0.0,
        class_balanced: bool = True,
        *,
        ignore_index: int | None = -100,
    ) -> None:
        super().__init__(task="binary", ignore_index=ignore_index)
        if not 0 < beta < float("inf"):
            raise expected("beta", "to be a positive number", beta)
        if not 0 < positive_rate < 1:
            raise expected("positive_rate", "in (0, 1)", positive_rate)
        if not 0 <= q <= 1:
            raise expected("q", "in [0, 1]", q)
        self.beta, self.positive_rate, self.q = beta, positive_rate, q
        self.class_balanced = class_balanced

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        return f"beta={self.beta}, positive_rate={self.positive_rate}, q={self.q}"

    def _terms(self, rows: Batch) -> Tensor:
        odds = self.beta**2 * self.positive_rate / (1 - self.positive_rate)
        log_f = F.logsigmoid(rows.logits)
        log_sum = torch.log(odds + rows.logits.sigmoid())
        if self.q:
            log_f, log_sum = (torch.expm1(self.q * value) / self.q for value in (log_f, log_sum))
        positive, negative = rows.targets, 1 - rows.targets
        if self.class_balanced:
            positive, negative = positive / self.positive_rate, negative / (1 - self.positive_rate)
        return negative * log_sum - positive * log_f


def class_balanced_weights(targets: Tensor, num_classes: int) -> Tensor:
    """Weights n / n_y that give every class the same total weight; 0 for a class without rows.

    >>> class_balanced_weights(torch.tensor([0, 0, 0, 1]), 2)
    tensor([1.3333, 4.0000])
    """
    if targets.is_floating_point() or targets.numel() == 0:
        raise expected("targets", "to be class indices", f"{targets.numel()} of {targets.dtype}")
    if targets.min() < 0 or targets.max() >= num_classes:
        raise expected("targets", f"in 0..{num_classes - 1}", f"{targets.min()}..{targets.max()}")
    counts = torch.bincount(targets.flatten().long(), minlength=num_classes).to(torch.get_default_dtype())
    return (targets.numel() / counts).masked_fill(counts == 0, 0.0)


def _log_probabilities(rows: Batch) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the possible labels, and the share of the target that each has."""
    if rows.task == "multiclass":
        log_p = rows.logits.log_softmax(-1)
        if rows.targets.ndim == 2:
            return log_p, rows.targets
        log_p = log_p.gather(-1, rows.targets.unsqueeze(-1))
        return log_p, torch.ones_like(log_p)
    both = torch.stack([rows.logits, -rows.logits], -1)
    return F.logsigmoid(both), torch.stack([rows.targets, 1 - rows.targets], -1)
