"""Networks of a table trained and asked: one by one, or many trials of a small network at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from evalign import metrics
from evalign.estimators import Problem, phases
from evalign.metrics import Metric
from evalign.papers import networks
from evalign.papers._data import Parts
from evalign.papers._models import OneLogitEntropy, TwoLogits, loss_of, network_of
from evalign.papers._table import Row
from evalign.training import Fit, Phase, predict_logits


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network: the loss that its settings are chosen by, the epochs and seconds it took."""

    network: nn.Module
    valid_loss: float
    epochs: int
    seconds: float

    def probabilities(self, x: Any) -> Tensor:
        """The probability of each class for each row, (n, d); for graphs, for each pair."""
        logits = predict_logits(self.network, x).double()
        return logits.movedim(1, -1).flatten(0, -2).softmax(-1)


def train(
    row: Row, network: str, parts: Parts, setting: Mapping[str, Any], metric: Metric, seeds: Sequence[int]
) -> list[Trained]:
    """Train a network for every seed.

    Rows that differ in their rule alone share the networks on cross-entropy, if trained in a row.
    """
    if row.method == "ce" and set(row.settings) <= {"metric", "betas"}:
        return _entropies(network, parts, tuple(sorted(setting.items())), tuple(seeds))
    return _all(row, network, parts, setting, metric, seeds)


@lru_cache(maxsize=4)
def _entropies(
    network: str, parts: Parts, setting: tuple[tuple[str, Any], ...], seeds: tuple[int, ...]
) -> list[Trained]:
    return _all(Row("CE", "ce"), network, parts, dict(setting), metrics.accuracy(), seeds)


def _all(
    row: Row, network: str, parts: Parts, setting: Mapping[str, Any], metric: Metric, seeds: Sequence[int]
) -> list[Trained]:
    if stackable(row, network) and len(seeds) > 1:
        return _together(row, parts, setting, seeds)
    return [_alone(row, network, parts, setting, metric, seed) for seed in seeds]


def stackable(row: Row, network: str) -> bool:
    """Whether the trials of a row can be trained at once: a small network, and a loss that does not cool.

    `alone` keeps them apart, where the time that one takes is what counts.
    """
    if network != "btg_net" or row.settings.get("alone"):
        return False
    return row.method == "ce" or (row.method == "metric" and "step" in row.settings)


def _alone(
    row: Row, network: str, parts: Parts, setting: Mapping[str, Any], metric: Metric, seed: int
) -> Trained:
    torch.manual_seed(seed)
    model = network_of(network, parts, setting)
    plan = _plan(row, parts, setting, metric)
    judge = metrics.f1() if metric.over_thresholds else metric  # it judges decisions
    fit = Fit(model, parts.train, parts.valid, judge, batch_size=setting["batch_size"], seed=seed)
    start = perf_counter()
    fit.run(plan)
    seconds = perf_counter() - start
    last = [one for one in fit.history if one["phase"] == plan[-1].name]
    if plan[-1].by_metric:
        best = 1 - max(one["valid_metric"] for one in last)
    else:
        best = min(one["valid_loss"] for one in last)
    return Trained(model, best, len(fit.history), seconds)


def _plan(row: Row, parts: Parts, setting: Mapping[str, Any], metric: Metric) -> list[Phase]:
    lr, epochs, patience = (setting[name] for name in ("lr", "max_epochs", "patience"))
    if row.method == "aligned":
        problem = Problem(metric, parts.train.y, len(parts.class_names), None, lr, epochs, patience)
        return phases("aligned", problem)
    decay = setting.get("decay", 0.8)
    return [Phase(row.name, loss_of(row, parts), lr, epochs, patience, decay=decay)]


def _together(row: Row, parts: Parts, setting: Mapping[str, Any], seeds: Sequence[int]) -> list[Trained]:
    """All trials as one stacked network, each with the random numbers it would have alone."""
    x, y = parts.train.x, parts.train.y
    loss = OneLogitEntropy() if row.method == "ce" else loss_of(row, parts)
    stack = networks.stacked(lambda: networks.btg_net(x.shape[-1]), seeds)
    optimizer = torch.optim.AdamW(stack.parameters(), lr=setting["lr"], weight_decay=1e-2)
    best = networks.BestTrials(stack, setting["patience"])
    start, epochs = perf_counter(), 0
    while epochs < setting["max_epochs"] and not best.done:
        stack.train()
        for index in torch.split(stack.orders(len(y)), setting["batch_size"], dim=1):
            optimizer.zero_grad(set_to_none=True)
            networks.trial_losses(loss, stack(x[index]), y[index]).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        stack.eval()
        with torch.no_grad():
            best.step(networks.trial_losses(loss, stack(parts.valid.x), parts.valid.y))
        epochs += 1
    best.restore()
    seconds = (perf_counter() - start) / len(seeds)
    found = zip(stack.unstack(), best.losses.tolist(), strict=True)
    return [Trained(TwoLogits(one), value, epochs, seconds) for one, value in found]
