"""More than two classes: the weights W whose rule argmax_j sum_i p_i W_ij is best.

Three steps. Starts: argmax, classes weighted by rarity, one threshold per class. Fixed point: the best
rule is argmax of p W with W = dM/dC at its own confusion matrix, so W is recomputed there repeatedly,
also with averaging as in Frank-Wolfe. Coordinates: one entry of W at a time is set to its best value.

References:
    Narasimhan et al. (2015), Consistent multiclass algorithms for complex performance measures.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from evalign import metrics
from evalign._typing import Floats
from evalign.decisions._coordinates import MANY, Candidate, RuleData, ascend
from evalign.decisions._goal import Goal
from evalign.decisions._two_classes import best_threshold


def best_weights(data: RuleData, goal: Goal, seed: int) -> Candidate:
    """Search the best weights; on these rows never worse than argmax or one threshold per class."""
    starts = [Candidate.of(weights, data, goal) for weights in _starts(data, goal)]
    candidates = starts + [other for start in starts for other in _fixed_point(start, data, goal)]
    shortlist = _distinct(candidates)[: 1 if data.d > MANY else 3] + _random_starts(data, goal, seed)
    best = shortlist[0]
    for start in shortlist:
        other = ascend(start, data, goal)
        best = other if other.standing.above(best.standing) else best
    return best


def _starts(data: RuleData, goal: Goal) -> Iterator[Floats]:
    """Argmax, rarity, and one threshold per class, as a quotient and as a difference."""
    eye = np.eye(data.d)
    share = np.bincount(data.y, data.weight, data.d) / data.weight.sum()
    yield eye
    yield np.diag(1 / share.clip(1e-6))
    thresholds = np.array([_one_vs_rest_threshold(data, goal, j) for j in range(data.d)])
    yield np.diag(1 / thresholds.clip(1e-6))
    yield eye - thresholds


def _one_vs_rest_threshold(data: RuleData, goal: Goal, j: int) -> float:
    side = data.p[:, j], data.y == j, data.weight
    try:
        return best_threshold(*side, Goal(goal.metric))[0]
    except (ValueError, RuntimeError, IndexError):  # the metric needs exactly d classes
        return best_threshold(*side, Goal(metrics.f1()))[0]


def _fixed_point(start: Candidate, data: RuleData, goal: Goal, steps: int = 8) -> Iterator[Candidate]:
    """Iterate W = dM/dC at the matrix of W's own rule, with and without averaging matrices."""
    for pressure in (0.0, 1.0, 10.0) if goal.constraints else (0.0,):
        for averaged in (False, True):
            matrix = start.matrix
            for step in range(steps):
                weights = _gradient(goal, matrix, pressure)
                if not np.isfinite(weights).all() or not weights.any():
                    break
                newest = Candidate.of(weights, data, goal)
                yield newest
                if np.array_equal(newest.matrix, matrix):
                    break
                share = 2.0 / (step + 3) if averaged else 1.0
                matrix = (1 - share) * matrix + share * newest.matrix


def _gradient(goal: Goal, matrix: Floats, pressure: float) -> Floats:
    """The cost matrix of the metric, plus `pressure` times that of each constraint."""
    point = torch.from_numpy(matrix)
    weights = goal.metric.sign * goal.metric.gradient(point)
    for constraint in goal.constraints if pressure else ():
        weights = weights + pressure * constraint.sign * constraint.metric.gradient(point)
    return weights.numpy()


def _random_starts(data: RuleData, goal: Goal, seed: int, most: int = 4) -> list[Candidate]:
    """The best of many random weights; only for few rows, where they are cheap and a search gets stuck."""
    count = int(min(4096, 2e7 // (len(data.y) * data.d**2)))
    if count < 256 or goal.confidence is not None:  # weights that fit by chance do not generalise
        return []
    size = data.d**2
    weights = np.random.default_rng(seed).random((count, data.d, data.d)) ** 2
    cells = data.y * data.d + (data.p @ weights).argmax(-1) + size * np.arange(count)[:, None]
    tables = np.bincount(cells.reshape(-1), np.tile(data.weight, count), count * size)
    slack, value = goal.evaluate(torch.from_numpy(tables.reshape(count, data.d, data.d)))
    order = np.lexsort((-value.numpy(), -slack.clamp_max(0).numpy()))
    return [Candidate.of(weights[at], data, goal) for at in order[:most]]


def _distinct(candidates: list[Candidate]) -> list[Candidate]:
    """One candidate per standing, best first."""
    ranked = {(min(c.standing.slack, 0.0), c.standing.value): c for c in reversed(candidates)}
    return [ranked[key] for key in sorted(ranked, reverse=True)]
