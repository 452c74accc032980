"""Multilabel problems: one threshold per label."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign._typing import Floats, Indices
from evalign.decisions._evidence import Evidence, Fitted, collect_evidence, label_share
from evalign.decisions._goal import BLOCK, Goal
from evalign.decisions._rule import DecisionRule
from evalign.metrics import Sweep, sweep_thresholds, thresholds_between

#: The most common thresholds tried.
MAX_LEVELS = 4096


def fit_label_thresholds(
    p: Floats,
    y: Indices,
    weights: Floats,
    goal: Goal,
    kind: Evidence,
    seed: int,
    start: Any = None,
) -> Iterator[Fitted]:
    """Fit a rule for each row of weights (F, n)."""
    for weight in weights:
        q, belief, scalings = p, y.astype(np.float64), start
        if kind != "labels":
            columns = [
                collect_evidence(
                    np.stack([1 - own, own], axis=1), truth, weight[None], "probabilities", start and start[k]
                )[0]
                for k, (own, truth) in enumerate(zip(p.T, y.T, strict=True))
            ]
            q, scalings = np.stack([one.q[:, 1] for one in columns], axis=1), [one.scaling for one in columns]
            sides = list(zip(q.T, y.T == 1, strict=True))
            share = label_share(sides, weight) if kind == "mixed" else 0.0
            belief = share * belief + (1 - share) * q
        thresholds, _ = best_thresholds(p, belief, weight, goal)
        yield Fitted(DecisionRule(None, None, thresholds, goal.metric.name, math.nan), q, scalings)


def best_thresholds(scores: Floats, y: NDArray[Any], weight: Floats, goal: Goal) -> tuple[Floats, Tensor]:
    """One threshold per column of scores (n, L), on these rows never worse than one for all.

    Starts: 0.5 for all, the best common threshold, and the fixed point in which each label has the
    threshold that the cost matrix of all labels favours; for quotients of counts such as micro F1 that is
    the optimum. From each start, one label after the other takes its best threshold given the others,
    until none helps. For a mean over labels, one round reaches the optimum.

    >>> from evalign import metrics
    >>> scores, y = np.array([[0.1, 0.9], [0.3, 0.7], [0.4, 0.6]]), np.array([[0, 1], [0, 1], [1, 0]]) == 1
    >>> best_thresholds(scores, y, np.ones(3), Goal(metrics.f1(), labels=True))[0].round(2).tolist()
    [0.35, 0.65]
    """
    sweeps = [sweep_thresholds(scores[:, j], y[:, j], weight) for j in range(scores.shape[1])]
    if goal.metric.is_mean_over_labels and not goal.constraints:
        own = [_ascend((0.5,), [one], goal) for one in sweeps]
        return np.concatenate([thresholds for thresholds, _ in own]), torch.cat([matrix for _, matrix in own])
    half, common = (0.5,) * len(sweeps), _common(scores, sweeps, goal)
    starts = half, common, _fixed_point(half, sweeps, goal), _fixed_point(common, sweeps, goal)
    candidates = [_ascend(start, sweeps, goal) for start in dict.fromkeys(starts)]
    best = candidates[0]
    for other in candidates[1:]:
        best = other if goal.standing(other[1]).above(goal.standing(best[1])) else best
    return np.array(best[0]), best[1]


def _common(scores: Floats, sweeps: list[Sweep], goal: Goal) -> tuple[float, ...]:
    """The best common threshold, among all distinct ones or a fine grid if there are too many."""
    levels = np.unique(scores)
    if len(levels) > MAX_LEVELS:
        levels = np.unique(
            np.append(np.quantile(levels, np.linspace(0, 1, MAX_LEVELS)), np.linspace(0, 1, 101))
        )
    levels = thresholds_between(levels[::-1])
    winners: list[int] = []
    for part in np.array_split(np.arange(len(levels)), 1 + 4 * len(levels) * len(sweeps) // BLOCK):
        prefer = torch.from_numpy(np.abs(levels[part] - 0.5))
        winners.append(int(part[goal.best(_at(sweeps, levels[part][:, None]), prefer)]))
    at = goal.best(_at(sweeps, levels[winners][:, None]), torch.from_numpy(np.abs(levels[winners] - 0.5)))
    return (float(levels[winners[at]]),) * len(sweeps)


def _fixed_point(
    thresholds: tuple[float, ...], sweeps: list[Sweep], goal: Goal, steps: int = 10
) -> tuple[float, ...]:
    """Give each label the threshold with the largest <W, C>, where W = dM/dC at the last matrices."""
    best, standing = thresholds, goal.standing(_at(sweeps, thresholds))
    for _ in range(steps):
        with torch.enable_grad():
            point = _at(sweeps, thresholds).requires_grad_()
            value = goal.metric.sign * goal.metric.over_labels(point)
            if not value.requires_grad:
                break
            (worth,) = torch.autograd.grad(value, point, materialize_grads=True)
        tops = [
            int((one.matrices * w).sum((-2, -1)).nan_to_num(nan=-torch.inf).argmax())
            for one, w in zip(sweeps, worth, strict=True)
        ]
        thresholds = tuple(float(one.thresholds[at]) for one, at in zip(sweeps, tops, strict=True))
        newest = goal.standing(_at(sweeps, thresholds))
        if not newest.above(standing):
            break
        best, standing = thresholds, newest
    return best


def _ascend(
    start: tuple[float, ...], sweeps: list[Sweep], goal: Goal, rounds: int = 20
) -> tuple[list[float], Tensor]:
    """Coordinate ascent, one label at a time; returns the thresholds and their matrices."""
    thresholds = list(start)
    matrices = _at(sweeps, thresholds)
    standing = goal.standing(matrices)
    unchanged = 0
    for j in list(range(len(sweeps))) * rounds:
        at = _best_of_label(j, sweeps[j], matrices, thresholds[j], goal)
        trial = matrices.clone()
        trial[j] = sweeps[j].matrices[at]
        better = goal.standing(trial)
        unchanged += 1
        if better.above(standing):
            thresholds[j], matrices, standing = float(sweeps[j].thresholds[at]), trial, better
            unchanged = 1  # the best one of this label
        if unchanged == len(sweeps):
            break
    return thresholds, matrices


def _best_of_label(j: int, one: Sweep, matrices: Tensor, now: float, goal: Goal) -> int:
    """The index of the best threshold of a label, given those of the others."""
    prefer = torch.from_numpy(np.abs(one.thresholds - now))
    block = max(1, BLOCK // matrices.numel())
    winners: list[int] = []
    for start in range(0, len(one.thresholds), block):
        part = one.matrices[start : start + block]
        trial = matrices.expand(len(part), *matrices.shape).clone()
        trial[:, j] = part
        winners.append(start + goal.best(trial, prefer[start : start + block]))
    if len(winners) == 1:
        return winners[0]
    trial = matrices.expand(len(winners), *matrices.shape).clone()
    trial[:, j] = one.matrices[winners]
    return winners[goal.best(trial, prefer[winners])]


def _at(sweeps: list[Sweep], thresholds: Any) -> Tensor:
    """The confusion matrices (..., L, 2, 2) at thresholds (..., L), or (..., 1) for all labels."""
    table = np.asarray(thresholds, dtype=np.float64)
    table = np.broadcast_to(table, (*table.shape[:-1], len(sweeps)))
    return torch.stack([one.at(table[..., j]) for j, one in enumerate(sweeps)], -3)
