"""Losses and networks of the tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evalign import metrics
from evalign._errors import expected, show, suggest
from evalign.estimators import mlp
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
from evalign.papers import networks
from evalign.papers._data import Parts, class_index
from evalign.papers._table import Row
from evalign.softsets import LinearStep, SigmoidStep

#: The adversarial loss solves a problem that grows with the cube of the batch.
ADVERSARIAL_BATCH = 20

#: Images judged at a time: the first layers of a network are far larger than its input.
IMAGES = 256


def loss_of(row: Row, parts: Parts) -> nn.Module:
    """The loss of a row."""
    settings = dict(row.settings)
    if row.method == "metric":
        step = {"linear": LinearStep(0.2), "sigmoid": SigmoidStep(10), None: None}[settings.get("step")]
        task, levels = settings.get("task", "auto"), settings.get("thresholds")
        return MetricLoss(metric_of(row, parts), task=task, step=step, thresholds=levels)
    if row.method == "ce":
        return nn.CrossEntropyLoss()
    if row.method == "dice":
        return DiceLoss(task="binary" if len(parts.class_names) == 2 else "multiclass")
    if row.method == "wmw":
        return WMWLoss()
    if row.method == "adversarial":
        return InBlocks(AdversarialLoss(settings["metric"]), ADVERSARIAL_BATCH)
    if row.method == "surrogate":
        return SurrogateFBetaLoss(settings["beta"], float(parts.train.y.double().mean()))
    if row.method in ("soft fbeta", "balanced soft fbeta"):
        weights = class_balanced_weights(parts.train.y, 2) if row.method.startswith("balanced") else None
        return SoftFBetaLoss(settings["beta"], class_weight=weights)
    if row.method in ("balanced mae", "balanced ce"):
        return Balanced(MAELoss() if row.method == "balanced mae" else FocalLoss(0), parts.train.y)
    known = (
        "metric", "ce", "dice", "wmw", "adversarial",
        "surrogate", "soft fbeta", "balanced soft fbeta", "balanced mae", "balanced ce",
    )  # fmt: skip
    raise expected("method", "to be a known loss", show(row.method), suggest(row.method, known))


def metric_of(row: Row, parts: Parts, default: str = "") -> Metric:
    """The metric of a row; `betas` gives the classes whose F-beta has another beta than 1."""
    betas: Mapping[str, float] = row.settings.get("betas", {})
    if not betas:
        return metrics.as_metric(str(row.settings.get("metric", default)))
    values = [1.0] * len(parts.class_names)
    for word, beta in betas.items():
        values[class_index(parts.class_names, word)] = beta
    return metrics.fbeta(values)


def network_of(name: str, parts: Parts, setting: Mapping[str, Any]) -> nn.Module:
    """A new network by name, with logits (rows, classes, ...)."""
    x, classes = parts.train.x, len(parts.class_names)
    dropout = setting.get("dropout", 0.0)
    if name == "btg_net":
        return TwoLogits(networks.btg_net(x.shape[-1]))
    if name == "mlp":
        return mlp(x.shape[-1], classes, dropout=dropout)
    if name in ("graph_network", "graph_network_normed"):
        return Pairs(networks.graph_network(x.shape[-1]), normed=name.endswith("normed"))
    made = {
        "darknet19": networks.darknet19, "darknet_tiny": networks.darknet_tiny,
        "resnet18": networks.resnet18, "resnet34": networks.resnet34,
    }  # fmt: skip
    if name not in made:
        known = ("btg_net", "graph_network", "graph_network_normed", "mlp", *made)
        raise expected("network", "to be a known one", show(name), suggest(name, known))
    return FewAtATime(made[name](classes, channels=x.shape[1]))


class TwoLogits(nn.Module):
    """A network of one logit as one of two classes: 0 and that logit, whose softmax is its sigmoid."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> Tensor:
        """Logits (n, 2)."""
        logit = self.network(rows)
        return torch.cat([torch.zeros_like(logit), logit], -1)


class Pairs(nn.Module):
    """Affinities of people as two logits for each pair once: (frames, 2, pairs).

    `normed` gives them the same mean and deviation in every batch, both learnt: what all pairs have in
    common can then not run away before the pairs are told apart.
    """

    def __init__(self, network: nn.Module, normed: bool = False) -> None:
        super().__init__()
        self.network = network
        self.norm = nn.BatchNorm1d(1) if normed else nn.Identity()

    def forward(self, people: Tensor) -> Tensor:
        """Logits (frames, 2, pairs)."""
        affinities = self.network(people)
        first, second = torch.triu_indices(people.shape[1], people.shape[1], 1)
        logit = affinities[:, first, second]
        logit = self.norm(logit.reshape(-1, 1)).reshape(logit.shape)
        return torch.stack([torch.zeros_like(logit), logit], 1)


class FewAtATime(nn.Module):
    """A network that judges many images a block at a time, to spare memory.

    Channels come last in memory: training takes two thirds of the time on a processor.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, d)."""
        blocks = (images,) if self.training else torch.split(images, IMAGES)
        seen = [self.network(block.contiguous(memory_format=torch.channels_last)) for block in blocks]
        return torch.cat(seen) if len(seen) > 1 else seen[0]


class InBlocks(nn.Module):
    """A loss that is too dear for many rows: judged as the mean over blocks of rows."""

    def __init__(self, loss: nn.Module, rows: int) -> None:
        super().__init__()
        self.loss, self.rows = loss, rows

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of all rows."""
        blocks = zip(torch.split(logits, self.rows), torch.split(targets, self.rows), strict=True)
        values = [self.loss(*block) * len(block[1]) for block in blocks]
        return torch.stack(values).sum() / len(targets)


class Balanced(nn.Module):
    """A loss of rows with the weight n / n_y for class y: 1/n sum_i n / n_(y_i) loss_i.

    n and n_y are those of the training part, whatever the batch holds.

    References:
        Lee et al. (2021), A surrogate loss function for optimization of F-beta score, eq. 15 and 18.
    """

    def __init__(self, loss: nn.Module, targets: Tensor) -> None:
        super().__init__()
        self.loss, self.weights = loss, class_balanced_weights(targets, 2)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of all rows."""
        weights = self.weights[targets]
        value: Tensor = self.loss(logits, targets, weights) * weights.mean()  # it divides by their sum
        return value


class OneLogitEntropy(nn.Module):
    """Cross-entropy of one logit a row, as stacked networks give it."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of (n, 1) logits."""
        return F.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.to(logits.dtype))
