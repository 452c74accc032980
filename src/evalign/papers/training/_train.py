"""Training the networks of a table: one by one, or all trials of a small network at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from evalign import metrics
from evalign.estimators import PhaseSettings, build_phases
from evalign.losses import MetricLoss
from evalign.metrics import Metric
from evalign.papers import networks
from evalign.papers.data import Parts
from evalign.papers.tables import PaperRow
from evalign.papers.training._early_stopping import BestTrials
from evalign.papers.training._losses import OneLogitCrossEntropy, build_loss
from evalign.papers.training._networks import TwoLogits, build_network
from evalign.training import Fit, Phase, predict_logits


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network, the loss by which settings are selected, and the epochs and seconds it took.

    `capped` says whether `max_epochs` cut its training off, and `temperature` is the last one, if annealed.
    """

    network: nn.Module
    valid_loss: float
    epochs: int
    seconds: float
    capped: bool
    temperature: float | None = None

    def logits(self, x: Any) -> Tensor:
        """Return the logits of each row, (n, d), or of each pair of a graph."""
        return predict_logits(self.network, x).double().movedim(1, -1).flatten(0, -2)


@dataclass(frozen=True)
class TrainingTask:
    """What is trained: the loss of a row, a network by name, and the metric that "aligned" trains on."""

    row: PaperRow
    network: str
    metric: Metric
    weight_decay: float = 0.01


def train_networks(
    task: TrainingTask, parts: Sequence[Parts], setting: Mapping[str, Any], seeds: Sequence[int]
) -> list[TrainedNetwork]:
    """Train one network per seed, each on its own parts."""
    if is_stackable(task.row, task.network) and len(seeds) > 1:
        return _train_stack(task, parts, setting, seeds)
    return [_train_one(task, *pair, setting) for pair in zip(parts, seeds, strict=True)]


def is_stackable(row: PaperRow, network: str) -> bool:
    """Whether the trials of a row can be trained at once: a small network, and a loss without annealing.

    The setting `alone` rules it out, for tables that measure the time of one trial.
    """
    if network != "btg_net" or row.settings.get("alone"):
        return False
    return row.method == "ce" or (row.method == "metric" and "step" in row.settings)


def _train_one(task: TrainingTask, parts: Parts, seed: int, setting: Mapping[str, Any]) -> TrainedNetwork:
    torch.manual_seed(seed)
    model = build_network(task.network, parts, setting)
    plan = _phases(task, parts, setting)
    score = metrics.f1() if task.metric.over_thresholds else task.metric  # `Fit` scores decisions
    fit = Fit(
        model, parts.train, parts.valid, score,
        batch_size=setting["batch_size"], seed=seed, weight_decay=task.weight_decay,
    )  # fmt: skip
    start = perf_counter()
    fit.run(plan)
    seconds = perf_counter() - start
    phases = [[epoch for epoch in fit.history if epoch["phase"] == phase.name] for phase in plan]
    last = phases[-1]
    if plan[-1].by_metric:
        best = 1 - max(epoch["valid_metric"] for epoch in last)
    else:
        best = min(epoch["valid_loss"] for epoch in last)
    capped = any(len(done) >= phase.max_epochs for done, phase in zip(phases, plan, strict=True))
    loss = plan[-1].loss
    annealed = isinstance(loss, MetricLoss) and loss.step is None
    temperature = last[-1]["temperature"] if annealed else None
    return TrainedNetwork(model, best, len(fit.history), seconds, capped, temperature)


def _phases(task: TrainingTask, parts: Parts, setting: Mapping[str, Any]) -> list[Phase]:
    rate, epochs, patience = (setting[name] for name in ("learning_rate", "max_epochs", "patience"))
    classes = len(parts.class_names)
    if task.row.method == "aligned":
        settings = PhaseSettings(task.metric, parts.train.y, classes, None, rate, epochs, patience)
        return build_phases("aligned", settings)
    decay, floor = setting.get("decay", 0.8), setting.get("floor", 0.02)
    loss = build_loss(task.row, parts)
    by_metric = task.row.settings.get("stop") == "metric"
    phase = Phase(task.row.name, loss, rate, epochs, patience, by_metric, decay, floor)
    first = Phase("cross-entropy", nn.CrossEntropyLoss(), rate, epochs, patience)
    return [first, phase] if task.row.settings.get("warm") else [phase]


def _train_stack(
    task: TrainingTask, parts: Sequence[Parts], setting: Mapping[str, Any], seeds: Sequence[int]
) -> list[TrainedNetwork]:
    """Train all trials as one stack, each on its parts and with the random numbers it would draw alone."""
    x, y = (torch.stack([getattr(one.train, name) for one in parts]) for name in "xy")
    valid_x, valid_y = (torch.stack([getattr(one.valid, name) for one in parts]) for name in "xy")
    loss = OneLogitCrossEntropy() if task.row.method == "ce" else build_loss(task.row, parts[0])
    stack = networks.stack_networks(lambda: networks.btg_net(x.shape[-1]), seeds)
    optimizer = torch.optim.AdamW(
        stack.parameters(), lr=setting["learning_rate"], weight_decay=task.weight_decay
    )
    best = BestTrials(stack, setting["patience"])
    # `index_select` of flat rows takes a fifth of the time of x[trials, index].
    rows, labels = x.flatten(0, 1), y.flatten()
    start, epochs = perf_counter(), 0
    while epochs < setting["max_epochs"] and not best.done:
        stack.train()
        for index in torch.split(stack.draw_orders(y.shape[1]), setting["batch_size"], dim=1):
            optimizer.zero_grad(set_to_none=True)
            chosen = (best.trials.unsqueeze(1) * y.shape[1] + index).flatten()
            batch = rows.index_select(0, chosen).view(*index.shape, -1)
            truth = labels.index_select(0, chosen).view(index.shape)
            losses = networks.trial_losses(loss, stack(batch), truth)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        stack.eval()
        with torch.no_grad():
            best.step(networks.trial_losses(loss, stack(valid_x), valid_y))
        kept = best.drop_finished(optimizer)
        if kept is not None:
            valid_x, valid_y = valid_x[kept], valid_y[kept]
        epochs += 1
    best.restore()
    seconds = (perf_counter() - start) / len(seeds)
    ends = torch.where(best.running, epochs, best.epochs + 1 + best.patience).tolist()
    trained = zip(stack.unstack(), best.losses.tolist(), ends, best.running.tolist(), strict=True)
    return [
        TrainedNetwork(TwoLogits(network), value, end, seconds, capped)
        for network, value, end, capped in trained
    ]
