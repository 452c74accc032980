"""Training the networks of a table: one by one, or all trials of a small network at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from evalign import metrics
from evalign.estimators import PhaseSettings, build_phases
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
    """A trained network, the loss by which settings are selected, and the epochs and seconds it took."""

    network: nn.Module
    valid_loss: float
    epochs: int
    seconds: float

    def probabilities(self, x: Any) -> Tensor:
        """Return the probability of each class for each row, (n, d), or for each pair of a graph."""
        logits = predict_logits(self.network, x).double()
        return logits.movedim(1, -1).flatten(0, -2).softmax(-1)


def train_networks(
    row: PaperRow,
    network: str,
    parts: Parts,
    setting: Mapping[str, Any],
    metric: Metric,
    seeds: Sequence[int],
) -> list[TrainedNetwork]:
    """Train one network per seed.

    Rows that differ only in their rule share the networks trained with cross-entropy, which are cached.
    """
    if row.method == "ce" and set(row.settings) <= {"metric", "betas"}:
        return _train_cross_entropy(network, parts, tuple(sorted(setting.items())), tuple(seeds))
    return _train(row, network, parts, setting, metric, seeds)


@lru_cache(maxsize=4)
def _train_cross_entropy(
    network: str, parts: Parts, setting: tuple[tuple[str, Any], ...], seeds: tuple[int, ...]
) -> list[TrainedNetwork]:
    return _train(PaperRow("CE", "ce"), network, parts, dict(setting), metrics.accuracy(), seeds)


def _train(
    row: PaperRow,
    network: str,
    parts: Parts,
    setting: Mapping[str, Any],
    metric: Metric,
    seeds: Sequence[int],
) -> list[TrainedNetwork]:
    if is_stackable(row, network) and len(seeds) > 1:
        return _train_stack(row, parts, setting, seeds)
    return [_train_one(row, network, parts, setting, metric, seed) for seed in seeds]


def is_stackable(row: PaperRow, network: str) -> bool:
    """Whether the trials of a row can be trained at once: a small network, and a loss without annealing.

    The setting `alone` rules it out, for tables that measure the time of one trial.
    """
    if network != "btg_net" or row.settings.get("alone"):
        return False
    return row.method == "ce" or (row.method == "metric" and "step" in row.settings)


def _train_one(
    row: PaperRow, network: str, parts: Parts, setting: Mapping[str, Any], metric: Metric, seed: int
) -> TrainedNetwork:
    torch.manual_seed(seed)
    model = build_network(network, parts, setting)
    plan = _phases(row, parts, setting, metric)
    score = metrics.f1() if metric.over_thresholds else metric  # `Fit` scores decisions
    fit = Fit(model, parts.train, parts.valid, score, batch_size=setting["batch_size"], seed=seed)
    start = perf_counter()
    fit.run(plan)
    seconds = perf_counter() - start
    last = [epoch for epoch in fit.history if epoch["phase"] == plan[-1].name]
    if plan[-1].by_metric:
        best = 1 - max(epoch["valid_metric"] for epoch in last)
    else:
        best = min(epoch["valid_loss"] for epoch in last)
    return TrainedNetwork(model, best, len(fit.history), seconds)


def _phases(row: PaperRow, parts: Parts, setting: Mapping[str, Any], metric: Metric) -> list[Phase]:
    rate, epochs, patience = (setting[name] for name in ("learning_rate", "max_epochs", "patience"))
    if row.method == "aligned":
        settings = PhaseSettings(metric, parts.train.y, len(parts.class_names), None, rate, epochs, patience)
        return build_phases("aligned", settings)
    decay = setting.get("decay", 0.8)
    return [Phase(row.name, build_loss(row, parts), rate, epochs, patience, decay=decay)]


def _train_stack(
    row: PaperRow, parts: Parts, setting: Mapping[str, Any], seeds: Sequence[int]
) -> list[TrainedNetwork]:
    """Train all trials as one stack, each with the random numbers it would draw alone."""
    x, y = parts.train.x, parts.train.y
    loss = OneLogitCrossEntropy() if row.method == "ce" else build_loss(row, parts)
    stack = networks.stack_networks(lambda: networks.btg_net(x.shape[-1]), seeds)
    optimizer = torch.optim.AdamW(stack.parameters(), lr=setting["learning_rate"], weight_decay=1e-2)
    best = BestTrials(stack, setting["patience"])
    start, epochs = perf_counter(), 0
    while epochs < setting["max_epochs"] and not best.done:
        stack.train()
        for index in torch.split(stack.draw_orders(len(y)), setting["batch_size"], dim=1):
            optimizer.zero_grad(set_to_none=True)
            networks.trial_losses(loss, stack(x[index]), y[index]).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        stack.eval()
        with torch.no_grad():
            best.step(networks.trial_losses(loss, stack(parts.valid.x), parts.valid.y))
        epochs += 1
    best.restore()
    seconds = (perf_counter() - start) / len(seeds)
    pairs = zip(stack.unstack(), best.losses.tolist(), strict=True)
    return [TrainedNetwork(TwoLogits(network), value, epochs, seconds) for network, value in pairs]
