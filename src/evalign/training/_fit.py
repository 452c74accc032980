"""The training loop: phases of epochs on data in memory, with early stopping and the best weights."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evalign.losses import MetricLoss
from evalign.metrics import Constraint, Metric, hard_confusion, paired_error
from evalign.training._anneal import Anneal
from evalign.training._checkpoint import (
    Checkpoint,
    load_optimizer,
    module_tensors,
    optimizer_tensors,
    take_prefix,
)
from evalign.training._progress import Best, Progress


@dataclass(frozen=True)
class TrainingData:
    """Rows in memory: features (a tensor or a SciPy CSR matrix), targets, weights or None.

    Targets are class indices, or 0 and 1 of shape (n, L) for multilabel problems.
    """

    x: Any
    y: Tensor
    weight: Tensor | None = None
    multilabel: bool = False

    def __len__(self) -> int:
        return len(self.y)

    def decide(self, logits: Tensor) -> Tensor:
        """The class with the largest logit, or for labels 1 where the logit is not negative."""
        return (logits >= 0).long() if self.multilabel else logits.argmax(1)

    def confusion(self, predicted: Tensor, num_classes: int) -> Tensor:
        """The confusion matrix (d, d) of predicted class indices, or (L, 2, 2) for labels, as doubles.

        >>> TrainingData(None, torch.tensor([0, 0])).confusion(torch.tensor([0, 1]), 2)
        tensor([[1., 1.],
                [0., 0.]], dtype=torch.float64)
        """
        if not self.multilabel:
            return hard_confusion(predicted, self.y, num_classes, self.weight)
        pairs = zip(predicted.mT, self.y.mT, strict=True)
        return torch.stack([hard_confusion(guess, truth, 2, self.weight) for guess, truth in pairs])

    def rows(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The features, targets and weights at an index."""
        weight = None if self.weight is None else self.weight[index]
        return take_rows(self.x, index), self.y[index], weight


def take_rows(x: Any, index: Tensor) -> Tensor:
    """Select rows of a tensor, or of a sparse matrix as a dense tensor, one batch at a time.

    >>> take_rows(torch.eye(3), torch.tensor([2, 0]))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if isinstance(x, Tensor):
        return x.index_select(0, index)
    return torch.from_numpy(x[index.cpu().numpy()].toarray()).to(index.device)


@dataclass(frozen=True)
class Phase:
    """Epochs with one loss; `by_metric` selects weights by the hard metric, not by the loss.

    It ends after `patience` epochs without a lower loss or, with `by_metric`, a better metric.
    A `MetricLoss` without a fixed step is cooled as in `Anneal.east`, by `decay` down to `floor`.
    """

    name: str
    loss: nn.Module
    learning_rate: float
    max_epochs: int
    patience: int
    by_metric: bool = False
    decay: float = 0.8
    floor: float = 0.02


class Fit:
    """Train a model phase by phase; `history` has one row per epoch.

    Each phase starts from the best weights of the previous one. With `by_metric`, those weights are only
    replaced by weights whose hard validation metric is better by more than one standard error of the paired
    difference: with few rows of a class, chance alone makes some epoch of a hundred look best. With
    constraints, weights that satisfy them come first, and if there are none, those that violate them least.
    With a `checkpoint`, the state is stored after every epoch, and a killed run resumes from it.

    >>> from evalign import losses, metrics
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(300, 2); data = TrainingData(x, (x.sum(1) > 1).long())
    >>> fit = Fit(nn.Linear(2, 2), data, data, metrics.f1(), batch_size=100, seed=0)
    >>> fit.run([Phase("loss", nn.CrossEntropyLoss(), learning_rate=0.1, max_epochs=20, patience=5)])
    >>> fit.history[-1]["valid_metric"] > 0.9
    True
    """

    def __init__(
        self,
        model: nn.Module,
        train: TrainingData,
        valid: TrainingData,
        metric: Metric,
        *,
        batch_size: int,
        seed: int,
        weight_decay: float = 1e-2,
        constraints: Sequence[Constraint] = (),
        report: Callable[[dict[str, Any]], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model, self.train, self.valid, self.metric = model, train, valid, metric
        self.batch_size, self.weight_decay, self.constraints = batch_size, weight_decay, constraints
        self.generator = torch.Generator().manual_seed(seed)
        self.report, self.checkpoint = report, checkpoint
        self.history: list[dict[str, Any]] = []

    def run(self, plan: Sequence[Phase]) -> None:
        """Train all phases and leave the best weights of the last one in the model."""
        stored = None if self.checkpoint is None else self.checkpoint.load()
        start = 0 if stored is None else int(stored[0]["progress"]["phase"])
        for number in range(start, len(plan)):
            self._run_phase(plan[number], Progress(phase=number), stored)
            stored = None

    def _run_phase(self, phase: Phase, at: Progress, stored: Any) -> None:
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=phase.learning_rate, weight_decay=self.weight_decay,
            fused=all(weight.device.type in ("cpu", "cuda") for weight in self.model.parameters()),
        )  # fmt: skip
        anneal = _make_anneal(phase)
        if stored is not None:
            at = self._resume(phase, optimizer, anneal, *stored)
        else:
            at.best.weights = copy.deepcopy(self.model.state_dict())
            if phase.by_metric:
                at.best.score = self._score(self._evaluate(phase), phase)
                at.first = Best(at.best.score, {"predicted": self.predicted})
        while not at.finished:
            self._step(phase, optimizer, anneal, at)
            if self.checkpoint is not None:
                self.checkpoint.save(*self._state(phase, optimizer, anneal, at))
        self.model.load_state_dict(at.best.weights)

    def _step(
        self, phase: Phase, optimizer: torch.optim.Optimizer, anneal: Anneal | None, at: Progress
    ) -> None:
        """One epoch: train, evaluate, keep the best weights, cool or stop."""
        train_loss = self._epoch(phase, optimizer)
        row: dict[str, Any] = {"phase": phase.name, "epoch": at.epoch, "train_loss": train_loss}
        row |= {**self._evaluate(phase), "temperature": getattr(phase.loss, "temperature", None)}
        self.history.append(row)
        if self.report is not None:
            self.report(row)
        if not (math.isfinite(train_loss) and math.isfinite(row["valid_loss"])):
            self._warn_not_finite(phase, at)
            at.finished = True
            return
        score = self._score(row, phase)
        significant = not phase.by_metric or self._significantly_above(score, at.first)
        better = significant and at.best.offer(score, self.model)
        at.stalled = 0 if better or row["valid_loss"] < at.lowest else at.stalled + 1
        at.lowest = min(at.lowest, row["valid_loss"])
        at.epoch += 1
        if anneal is not None:
            anneal.step(row["valid_loss"])
        stop = at.stalled >= phase.patience if anneal is None else anneal.done
        # Multipliers need time: training does not stop before the constraints have been satisfied once.
        infeasible = at.best.score[0] < 0 and bool(getattr(phase.loss, "constraints", ()))
        at.finished = (stop and not infeasible) or at.epoch >= phase.max_epochs

    def _state(
        self, phase: Phase, optimizer: torch.optim.Optimizer, anneal: Anneal | None, at: Progress
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything the next epoch depends on."""
        progress = {key: getattr(at, key) for key in ("phase", "epoch", "stalled", "lowest", "finished")}
        facts = {
            "progress": {**progress, "best": list(at.best.score), "first": list(at.first.score)},
            "history": self.history,
            "anneal": None if anneal is None else anneal.state_dict(),
        }
        tensors = {
            **module_tensors(self.model, "model"),
            **module_tensors(phase.loss, "loss"),
            **{f"best.{name}": value for name, value in at.best.weights.items()},
            **{f"first.{name}": value for name, value in at.first.weights.items()},
            **optimizer_tensors(optimizer),
            "random.order": self.generator.get_state(),
            "random.torch": torch.get_rng_state(),
        }
        return facts, tensors

    def _resume(
        self,
        phase: Phase,
        optimizer: torch.optim.Optimizer,
        anneal: Anneal | None,
        facts: dict[str, Any],
        tensors: dict[str, Tensor],
    ) -> Progress:
        self.model.load_state_dict(take_prefix(tensors, "model"))
        phase.loss.load_state_dict(take_prefix(tensors, "loss"), strict=False)  # Anneal holds the temperature
        load_optimizer(optimizer, tensors)
        self.generator.set_state(tensors["random.order"])
        torch.set_rng_state(tensors["random.torch"])
        self.history = facts["history"]
        if anneal is not None:
            anneal.load_state_dict(facts["anneal"])
        progress = dict(facts["progress"])
        best, first = (Best(tuple(progress.pop(key)), take_prefix(tensors, key)) for key in ("best", "first"))
        return Progress(**progress, best=best, first=first)

    def _score(self, row: dict[str, Any], phase: Phase) -> tuple[float, float]:
        """What the best weights maximise."""
        if not phase.by_metric:
            return 0.0, -float(row["valid_loss"])
        value = self.metric.sign * float(row["valid_metric"])
        return -row.get("valid_violation", 0.0), value

    def _significantly_above(self, score: tuple[float, float], first: Best) -> bool:
        """Whether the last weights evaluated are better than the first by more than chance."""
        if score[0] > first.score[0]:  # closer to satisfying the constraints
            return True
        old, new = first.weights["predicted"], self.predicted
        both = [self.valid.confusion(side, self.num_classes) for side in (old, new)]
        error = paired_error(self.metric, (both[0] + both[1]) / 2, self.valid.y, new, old, self.valid.weight)
        return score[1] - first.score[1] > error * (1 + 1e-9)

    def _epoch(self, phase: Phase, optimizer: torch.optim.Optimizer) -> float:
        self.model.train()
        phase.loss.train()
        total = torch.zeros((), device=self.train.y.device)
        count = 0
        for index in self._batches():
            x, y, weight = self.train.rows(index)
            optimizer.zero_grad(set_to_none=True)
            value = _loss(phase.loss, self.model(x), y, weight)
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += value.detach() * len(y)
            count += len(y)
        return float(total) / count

    def _batches(self) -> Iterator[Tensor]:
        order = torch.randperm(len(self.train), generator=self.generator).to(self.train.y.device)
        batches = list(torch.split(order, self.batch_size))
        if len(batches) > 1 and len(batches[-1]) == 1:  # batch normalisation cannot train on a single row
            batches[-2:] = [torch.cat(batches[-2:])]
        yield from batches

    @torch.no_grad()
    def _evaluate(self, phase: Phase) -> dict[str, float]:
        """The loss and the hard metric on the validation data."""
        self.model.eval()
        phase.loss.eval()
        logits = predict_logits(self.model, self.valid.x)
        loss = _loss(phase.loss, logits, self.valid.y, self.valid.weight)
        self.predicted, self.num_classes = self.valid.decide(logits), logits.shape[1]
        matrix = self.valid.confusion(self.predicted, self.num_classes)
        row = {"valid_loss": float(loss), "valid_metric": evaluate(self.metric, matrix)}
        if self.constraints:
            slacks = [one.sign * (evaluate(one.metric, matrix) - one.bound) for one in self.constraints]
            row["valid_violation"] = max(0.0, -min(slacks))
        return row

    def _warn_not_finite(self, phase: Phase, at: Progress) -> None:
        warnings.warn(
            f"The loss was not finite in epoch {at.epoch} of phase {phase.name!r}; "
            "the best weights so far were restored. "
            "Try a lower `learning_rate`, a larger `batch_size`, or scaled features.",
            stacklevel=2,
        )


def evaluate(metric: Metric, matrix: Tensor) -> float:
    """The metric of a confusion matrix (d, d), or over labels of (L, 2, 2).

    >>> from evalign import metrics
    >>> evaluate(metrics.recall(), torch.tensor([[[4.0, 0.0], [1.0, 3.0]], [[5.0, 1.0], [0.0, 2.0]]]))
    0.875
    """
    return float(metric.over_labels(matrix) if matrix.ndim == 3 else metric(matrix))


def _make_anneal(phase: Phase) -> Anneal | None:
    loss = phase.loss
    if not isinstance(loss, MetricLoss) or loss.step is not None:
        return None
    return Anneal.east(loss, phase.decay, phase.patience, phase.floor)


def _loss(loss: nn.Module, logits: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    value: Tensor = loss(logits, y) if weight is None else loss(logits, y, weight)
    return value


@torch.no_grad()
def predict_logits(model: nn.Module, x: Any, rows: int = 16384) -> Tensor:
    """The logits of all rows, block by block, in evaluation mode and in the model's precision."""
    model.eval()
    weights = next(model.parameters())
    blocks = torch.split(torch.arange(x.shape[0], device=weights.device), rows)
    return torch.cat([model(take_rows(x, block).to(weights.dtype)) for block in blocks])
