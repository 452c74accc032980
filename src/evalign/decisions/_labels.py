"""Many labels a row: one threshold a label."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign.decisions._goal import BLOCK, Goal
from evalign.decisions._two_classes import Floats, Sweep, sweep


def best_thresholds(scores: Floats, y: NDArray[np.bool_], weight: Floats, goal: Goal) -> Floats:
    """One threshold for each column of scores (n, L), never worse on these rows than 0.5 for all.

    Two starts, 0.5 for all and the best common threshold; from each, label after label takes its best
    threshold given the others, until none helps. For a mean over labels one round is the optimum.

    >>> from evalign import metrics
    >>> scores, y = np.array([[0.1, 0.9], [0.3, 0.7], [0.4, 0.6]]), np.array([[0, 1], [0, 1], [1, 0]]) == 1
    >>> best_thresholds(scores, y, np.ones(3), Goal(metrics.f1(), labels=True)).round(2).tolist()
    [0.35, 0.65]
    """
    sweeps = [sweep(scores[:, j], y[:, j], weight) for j in range(scores.shape[1])]
    levels = np.unique(np.quantile(scores, np.linspace(0, 1, 257)))
    common = torch.stack([_at(sweeps, [level] * len(sweeps)) for level in levels])
    level = float(levels[goal.best(common, torch.from_numpy(np.abs(levels - 0.5)))])
    found = [_ascend([start] * len(sweeps), sweeps, goal) for start in (0.5, level)]
    first, second = (goal.standing(_at(sweeps, thresholds)) for thresholds in found)
    return np.array(found[1] if second.above(first) else found[0])


def _ascend(thresholds: list[float], sweeps: list[Sweep], goal: Goal, rounds: int = 20) -> list[float]:
    """Coordinate ascent, one label at a time."""
    matrices = _at(sweeps, thresholds)
    standing = goal.standing(matrices)
    for _ in range(rounds):
        before = list(thresholds)
        for j, one in enumerate(sweeps):
            at = _best_of_label(j, one, matrices, thresholds[j], goal)
            trial = matrices.clone()
            trial[j] = one.matrices[at]
            better = goal.standing(trial)
            if better.above(standing):
                thresholds[j], matrices, standing = float(one.thresholds[at]), trial, better
        if thresholds == before:
            break
    return thresholds


def _best_of_label(j: int, one: Sweep, matrices: Tensor, now: float, goal: Goal) -> int:
    """The index of the best threshold of a label, those of the others given."""
    prefer = torch.from_numpy(np.abs(one.thresholds - now))
    block = max(1, BLOCK // matrices.numel())
    winners: list[int] = []
    for start in range(0, len(one.thresholds), block):
        part = one.matrices[start : start + block]
        trial = matrices.expand(len(part), *matrices.shape).clone()
        trial[:, j] = part
        winners.append(start + goal.best(trial, prefer[start : start + block]))
    trial = matrices.expand(len(winners), *matrices.shape).clone()
    trial[:, j] = one.matrices[winners]
    return winners[goal.best(trial, prefer[winners])]


def _at(sweeps: list[Sweep], thresholds: list[float]) -> Tensor:
    """The confusion matrices (L, 2, 2) at one threshold a label."""
    return torch.stack([one.at(threshold) for one, threshold in zip(sweeps, thresholds, strict=True)])
