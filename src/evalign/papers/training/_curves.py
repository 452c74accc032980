"""Training on photos with scores in every epoch, to see how a loss and a score move together."""

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
from evalign.papers.data import Parts
from evalign.papers.tables import PaperColumn, PaperRow
from evalign.papers.training._losses import build_loss
from evalign.papers.training._networks import build_network
from evalign.training import Fit, Phase, predict_logits

#: Lee et al., section 5.1.
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4
SIDE, MARGIN = 32, 4


@dataclass(frozen=True)
class TrainingCurves:
    """A training run: one value of every column per epoch, and what the run cost."""

    curves: dict[str, list[float]]
    valid_loss: float
    epochs: int
    seconds: float


def record_curves(
    row: PaperRow,
    network: str,
    parts: Parts,
    setting: Mapping[str, Any],
    columns: Sequence[PaperColumn],
    seed: int,
) -> TrainingCurves:
    """Train a network for all its epochs, and score its outputs during and after each of them."""
    torch.manual_seed(seed)
    model = PhotoNetwork(build_network(network, parts, setting), setting.get("shrink", 1))
    loss = build_loss(row, parts)
    batches: list[tuple[Tensor, Tensor]] = []

    def record_batch(_: nn.Module, arguments: tuple[Tensor, Tensor]) -> None:
        if loss.training:
            batches.append((arguments[0].detach(), arguments[1]))

    loss.register_forward_pre_hook(record_batch)
    curves: dict[str, list[float]] = {column.name: [] for column in columns}
    after = {"train epochs": parts.train, "valid epochs": parts.valid, "test epochs": parts.test}

    def score_epoch(_: dict[str, Any]) -> None:
        outputs = {source: (predict_logits(model, part.x), part.y) for source, part in after.items()}
        logits, targets = zip(*batches, strict=True)
        outputs["running epochs"] = torch.cat(logits), torch.cat(targets)
        batches.clear()
        for column in columns:
            curves[column.name].append(_score(column, loss, *outputs[column.source]))

    fit = MomentumFit(
        model,
        parts.train,
        parts.valid,
        metrics.f1(),
        batch_size=setting["batch_size"],
        seed=seed,
        report=score_epoch,
    )
    rate, epochs = setting["learning_rate"], setting["max_epochs"]
    start = perf_counter()
    fit.run([Phase(row.name, loss, rate, epochs, patience=epochs)])
    lowest = min(epoch["valid_loss"] for epoch in fit.history)
    return TrainingCurves(curves, lowest, len(fit.history), perf_counter() - start)


@torch.no_grad()
def _score(column: PaperColumn, loss: nn.Module, logits: Tensor, y: Tensor) -> float:
    if column.metric == "loss":
        return float(loss(logits, y))
    matrix = hard_confusion(logits.argmax(1), y, logits.shape[1]).double()
    return float(metrics.as_metric(column.metric)(matrix))


class MomentumFit(Fit):
    """Training by stochastic gradient descent with momentum instead of AdamW."""

    optimizer: torch.optim.Optimizer | None = None

    def _epoch(self, phase: Phase, optimizer: torch.optim.Optimizer) -> float:
        if self.optimizer is None:
            self.optimizer = torch.optim.SGD(
                self.model.parameters(), lr=phase.learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
            )
        return super()._epoch(phase, self.optimizer)


class PhotoNetwork(nn.Module):
    """A network for 32 x 32 photos, which are shifted and mirrored at random during training.

    Photos are padded by 4 pixels; a random window of 32 x 32 pixels is cut out and mirrored with
    probability 0.5. In evaluation the central window is used. `shrink` averages squares of this many
    pixels per side to save time.
    """

    def __init__(self, network: nn.Module, shrink: int = 1) -> None:
        super().__init__()
        self.network, self.shrink = network, shrink

    def forward(self, photos: Tensor) -> Tensor:
        """Return logits (n, d)."""
        windows = _cut_random(photos) if self.training else _cut_center(photos)
        windows = F.avg_pool2d(windows, self.shrink) if self.shrink > 1 else windows
        logits: Tensor = self.network(windows)
        return logits


def _cut_random(photos: Tensor) -> Tensor:
    wide = F.pad(photos, (MARGIN,) * 4)
    rows = torch.arange(len(photos))
    top, left = (torch.randint(size - SIDE + 1, (len(photos),)) for size in wide.shape[-2:])
    windows = wide.unfold(2, SIDE, 1).unfold(3, SIDE, 1)[rows, :, top, left]
    return torch.where((torch.rand(len(photos)) < 0.5).view(-1, 1, 1, 1), windows.flip(-1), windows)


def _cut_center(photos: Tensor) -> Tensor:
    height, width = ((SIDE - size) // 2 for size in photos.shape[-2:])
    return F.pad(photos, (width, width, height, height))
