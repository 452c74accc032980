"""Losses of a whole batch beyond soft-set confusion matrices, and soft F-beta."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from evalign._errors import expected
from evalign._torch import divide, weighted_mean
from evalign.losses._metric_loss import MetricLoss
from evalign.losses._row_loss import RowLoss
from evalign.metrics import Average, as_batch, fbeta


class _NoStep:
    """The probability itself as membership."""

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        return probabilities

    def __repr__(self) -> str:
        return "none"


class SoftFBetaLoss(MetricLoss):
    """1 - F-beta with plain probabilities as counts, without any step.

    >>> SoftFBetaLoss()(torch.tensor([2.0, -2.0]), torch.tensor([1, 0]))
    tensor(0.1192)

    References:
        Pastor-Pellicer et al. (2013), F-measure as the error function to train neural networks;
        Lee et al. (2021), A surrogate loss function for optimization of F-beta score, eq. 23 and 24.
    """

    def __init__(
        self,
        beta: float | Sequence[float] = 1.0,
        *,
        average: Average = "auto",
        task: str = "auto",
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
    ) -> None:
        super().__init__(
            fbeta(beta, average=average),
            task=task, step=_NoStep(), class_weight=class_weight, ignore_index=ignore_index,
        )  # fmt: skip


class DiceLoss(RowLoss):
    """1 - 2 sum(p y) / (sum(p^2) + sum(y^2)): of class 1 for two classes, else the mean over classes.

    >>> DiceLoss()(torch.tensor([2.0, -2.0]), torch.tensor([1, 0]))
    tensor(0.0159)

    References:
        Milletari et al. (2016), V-Net: fully convolutional neural networks for volumetric medical
        image segmentation.
    """

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch."""
        rows = self._as_rows(logits, targets, sample_weight)
        share = rows.shares()[0]
        if rows.task == "multiclass":
            share = share.unsqueeze(-1)
            p = rows.logits.softmax(-1)
            y = rows.targets
            if y.ndim == 1:
                y = torch.zeros_like(p).scatter(-1, y.unsqueeze(-1), 1.0)
            if p.shape[1] == 2:
                p, y = p[:, 1:], y[:, 1:]
        else:
            p, y = rows.logits.sigmoid(), rows.targets
        size = ((p * p + y * y) * share).sum(0)
        return 1 - weighted_mean(divide(2 * (p * y * share).sum(0), size), size != 0)


class WMWLoss(nn.Module):
    """Ranks positives above negatives: the mean of max(gamma - (p_pos - p_neg), 0)^power over pairs.

    For two classes; 0 if the batch lacks one of them. Memory grows with positives times negatives.

    >>> WMWLoss()(torch.tensor([2.0, -2.0, 0.0]), torch.tensor([1, 0, 1]))
    tensor(0.)
    >>> WMWLoss()(torch.tensor([-1.0, 1.0]), torch.tensor([1, 0]))
    tensor(0.2903)

    References:
        Yan et al. (2003), Optimizing classifier performance via an approximation to the
        Wilcoxon-Mann-Whitney statistic.
    """

    def __init__(self, gamma: float = 0.2, power: float = 3.0, *, ignore_index: int | None = -100) -> None:
        super().__init__()
        if not 0 < gamma <= 1:
            raise expected("gamma", "in (0, 1]", gamma)
        if not power > 1:
            raise expected("power", "above 1", power)
        self.gamma, self.power, self.ignore_index = gamma, power, ignore_index

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        return f"gamma={self.gamma}, power={self.power}"

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch."""
        rows = as_batch(logits, targets, sample_weight, task="binary", ignore_index=self.ignore_index)
        scores, labels, share = (
            x.squeeze(1) for x in (rows.logits.sigmoid(), rows.targets, rows.shares()[0])
        )
        positive, negative = (labels > 0.5) & (share > 0), (labels <= 0.5) & (share > 0)
        gap = (self.gamma - scores[positive].unsqueeze(1) + scores[negative]).clamp_min(0) ** self.power
        weight = share[positive].unsqueeze(1) * share[negative]
        return divide((gap * weight).sum(), weight.sum()) + 0 * scores.sum()
