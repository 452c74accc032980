"""Losses and metrics of the tables by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evalign import metrics
from evalign._errors import expected, show, suggest
from evalign.losses import (
    AdversarialLoss,
    DiceLoss,
    FocalLoss,
    MAELoss,
    MetricLoss,
    SoftFBetaLoss,
    SurrogateFBetaLoss,
    WMWLoss,
    class_balanced_weights,
)
from evalign.metrics import Metric
from evalign.papers.data import Parts, class_index
from evalign.papers.tables import PaperRow
from evalign.softsets import LinearStep, SigmoidStep, Step

#: The adversarial loss solves a problem whose cost grows with the cube of the batch size.
ADVERSARIAL_BATCH = 20


def build_loss(row: PaperRow, parts: Parts) -> nn.Module:
    """Build the loss of a row."""
    settings = dict(row.settings)
    if row.method == "metric":
        return MetricLoss(
            build_metric(row, parts, "f1"),
            task=settings.get("task", "auto"),
            step=_build_step(settings.get("step"), len(parts.class_names)),
            thresholds=settings.get("thresholds"),
            memory=settings.get("memory", 0.0),
            anchor=settings.get("anchor", 0.0),
        )
    if row.method == "ce":
        return nn.CrossEntropyLoss()
    if row.method == "dice":
        return DiceLoss(task="binary" if len(parts.class_names) == 2 else "multiclass")
    if row.method == "wmw":
        return WMWLoss()
    if row.method == "adversarial":
        return BlockwiseLoss(AdversarialLoss(settings["metric"]), ADVERSARIAL_BATCH)
    if row.method == "surrogate":
        rate = float(parts.train.y.double().mean())
        return SurrogateFBetaLoss(settings["beta"], rate, settings.get("q", 0.0))
    if row.method in ("soft fbeta", "balanced soft fbeta"):
        weights = class_balanced_weights(parts.train.y, 2) if row.method.startswith("balanced") else None
        return SoftFBetaLoss(settings["beta"], class_weight=weights)
    if row.method in ("balanced mae", "balanced ce"):
        return ClassBalancedLoss(MAELoss() if row.method == "balanced mae" else FocalLoss(0), parts.train.y)
    known = (
        "metric", "ce", "dice", "wmw", "adversarial",
        "surrogate", "soft fbeta", "balanced soft fbeta", "balanced mae", "balanced ce",
    )  # fmt: skip
    raise expected("method", "to be a known loss", show(row.method), suggest(row.method, known))


def _build_step(name: str | None, classes: int) -> Step | None:
    """The step of a row; without one, the loss has a temperature and is annealed."""
    steps: dict[str | None, Step | None] = {
        None: None,
        "linear": LinearStep(0.2),
        "sigmoid": SigmoidStep(10),
        "at 1/d": FixedThreshold(1 / classes),
    }
    return steps[name]


class FixedThreshold:
    """The linear step at the same threshold for every row, instead of the dynamic one."""

    def __init__(self, threshold: float) -> None:
        self.threshold, self.step = threshold, LinearStep(0.2)

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        """Return the memberships; the dynamic threshold is ignored."""
        return self.step(probabilities, self.threshold)


def build_metric(row: PaperRow, parts: Parts, default: str = "") -> Metric:
    """Build the metric of a row; its setting `betas` maps classes to a beta other than 1 for their F-beta."""
    betas: Mapping[str, float] = row.settings.get("betas", {})
    if not betas:
        return metrics.as_metric(str(row.settings.get("metric", default)))
    values = [1.0] * len(parts.class_names)
    for class_name, beta in betas.items():
        values[class_index(parts.class_names, class_name)] = beta
    return metrics.fbeta(values)


class BlockwiseLoss(nn.Module):
    """A loss that is too expensive for many rows, as the mean over blocks of rows."""

    def __init__(self, loss: nn.Module, rows: int) -> None:
        super().__init__()
        self.loss, self.rows = loss, rows

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of all rows."""
        blocks = zip(torch.split(logits, self.rows), torch.split(targets, self.rows), strict=True)
        values = [self.loss(*block) * len(block[1]) for block in blocks]
        return torch.stack(values).sum() / len(targets)


class ClassBalancedLoss(nn.Module):
    """A loss of rows with the weight n / n_y for class y: 1/n sum_i n / n_(y_i) loss_i.

    n and n_y are those of the training part, whatever the batch contains.

    References:
        Lee et al. (2021), A surrogate loss function for optimization of F-beta score, eq. 15 and 18.
    """

    def __init__(self, loss: nn.Module, targets: Tensor) -> None:
        super().__init__()
        self.loss, self.weights = loss, class_balanced_weights(targets, 2)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of all rows."""
        weights = self.weights[targets]
        # The loss divides by the sum of the weights.
        value: Tensor = self.loss(logits, targets, weights) * weights.mean()
        return value


class OneLogitCrossEntropy(nn.Module):
    """Cross-entropy of one logit per row, the output of stacked networks."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of (n, 1) logits."""
        return F.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.to(logits.dtype))
