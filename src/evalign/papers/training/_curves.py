"""Networks on photos that are judged in and after every epoch: how a loss and a score move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evalign import metrics
from evalign.metrics import hard_confusion
from evalign.papers._data import Parts
from evalign.papers._models import loss_of, network_of
from evalign.papers._table import Column, Row
from evalign.training import Fit, Phase, predict_logits

#: Lee et al., section 5.1.
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4
SIDE, MARGIN = 32, 4


@dataclass(frozen=True)
class Followed:
    """A training run: a value of every column for every epoch, and what it cost."""

    curves: dict[str, list[float]]
    valid_loss: float
    epochs: int
    seconds: float


def follow(
    row: Row, network: str, parts: Parts, setting: Mapping[str, Any], columns: Sequence[Column], seed: int
) -> Followed:
    """Train a network for all its epochs, and judge what it says in each one and after it."""
    torch.manual_seed(seed)
    model = Photos(network_of(network, parts, setting), setting.get("shrink", 1))
    loss = loss_of(row, parts)
    batches: list[tuple[Tensor, Tensor]] = []
    loss.register_forward_pre_hook(lambda _, given: _keep(batches, *given) if loss.training else None)
    curves: dict[str, list[float]] = {column.name: [] for column in columns}

    def judge(_: dict[str, Any]) -> None:
        said = {of: (predict_logits(model, part.x), part.y) for of, part in _epochs_of(parts).items()}
        logits, targets = zip(*batches, strict=True)
        said["running epochs"] = torch.cat(logits), torch.cat(targets)
        batches.clear()
        for column in columns:
            curves[column.name].append(_value(column, loss, *said[column.of]))

    fit = MomentumFit(
        model,
        parts.train,
        parts.valid,
        metrics.f1(),
        batch_size=setting["batch_size"],
        seed=seed,
        report=judge,
    )
    start = perf_counter()
    fit.run([Phase(row.name, loss, setting["lr"], setting["max_epochs"], patience=setting["max_epochs"])])
    lowest = min(one["valid_loss"] for one in fit.history)
    return Followed(curves, lowest, len(fit.history), perf_counter() - start)


def _epochs_of(parts: Parts) -> dict[str, Any]:
    return {"train epochs": parts.train, "valid epochs": parts.valid, "test epochs": parts.test}


def _keep(batches: list[tuple[Tensor, Tensor]], logits: Tensor, targets: Tensor) -> None:
    batches.append((logits.detach(), targets))


@torch.no_grad()
def _value(column: Column, loss: nn.Module, logits: Tensor, y: Tensor) -> float:
    if column.metric == "loss":
        return float(loss(logits, y))
    return float(
        metrics.as_metric(column.metric)(hard_confusion(logits.argmax(1), y, logits.shape[1]).double())
    )


class MomentumFit(Fit):
    """Training by stochastic gradient descent with momentum in place of AdamW."""

    optimizer: torch.optim.Optimizer | None = None

    def _epoch(self, phase: Phase, optimizer: torch.optim.Optimizer) -> float:
        if self.optimizer is None:
            self.optimizer = torch.optim.SGD(
                self.model.parameters(), lr=phase.learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
            )
        return super()._epoch(phase, self.optimizer)


class Photos(nn.Module):
    """A network for 32 x 32 photos that sees them shifted and mirrored at random while it is trained.

    A margin of 4 pixels is added and 32 x 32 pixels are cut out anywhere, half of them mirrored; in
    evaluation the middle is cut out. `shrink` averages squares of so many pixels, to save time.
    """

    def __init__(self, network: nn.Module, shrink: int = 1) -> None:
        super().__init__()
        self.network, self.shrink = network, shrink

    def forward(self, photos: Tensor) -> Tensor:
        """Logits (n, d)."""
        seen = _shifted(photos) if self.training else _middle(photos)
        seen = F.avg_pool2d(seen, self.shrink) if self.shrink > 1 else seen
        logits: Tensor = self.network(seen)
        return logits


def _shifted(photos: Tensor) -> Tensor:
    wide = F.pad(photos, (MARGIN,) * 4)
    rows = torch.arange(len(photos))
    top, left = (torch.randint(size - SIDE + 1, (len(photos),)) for size in wide.shape[-2:])
    cut = wide.unfold(2, SIDE, 1).unfold(3, SIDE, 1)[rows, :, top, left]
    return torch.where((torch.rand(len(photos)) < 0.5).view(-1, 1, 1, 1), cut.flip(-1), cut)


def _middle(photos: Tensor) -> Tensor:
    height, width = ((SIDE - size) // 2 for size in photos.shape[-2:])
    return F.pad(photos, (width, width, height, height))
