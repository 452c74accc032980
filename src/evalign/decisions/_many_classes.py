"""More than two classes: the weights W whose rule argmax_j sum_i p_i W_ij is best.

Three steps. Starts: argmax, classes weighed by rarity, one threshold a class. Fixed point: the best
rule is argmax of p W with W = dM/dC at its own confusion matrix, so W is taken there again and again,
also averaged as Frank and Wolfe do. Coordinates: one entry of W at a time is set to its best value.

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
    """The best weights found; never worse on these rows than argmax or one threshold a class."""
    starts = [Candidate.of(weights, data, goal) for weights in _starts(data, goal)]
    found = starts + [other for start in starts for other in _fixed_point(start, data, goal)]
    kept = _distinct(found)[: 1 if data.d > MANY else 3] + _drawn(data, goal, seed)
    best = kept[0]
    for start in kept:
        other = ascend(start, data, goal)
        best = other if other.standing.above(best.standing) else best
    return best


def _starts(data: RuleData, goal: Goal) -> Iterator[Floats]:
    """Argmax, rarity, and one threshold a class, as a quotient and as a difference."""
    eye = np.eye(data.d)
    share = np.bincount(data.y, data.weight, data.d) / data.weight.sum()
    yield eye
    yield np.diag(1 / share.clip(1e-6))
    thresholds = np.array([_one_against_the_rest(data, goal, j) for j in range(data.d)])
    yield np.diag(1 / thresholds.clip(1e-6))
    yield eye - thresholds


def _one_against_the_rest(data: RuleData, goal: Goal, j: int) -> float:
    side = data.p[:, j], data.y == j, data.weight
    try:
        return best_threshold(*side, Goal(goal.metric))[0]
    except (ValueError, RuntimeError, IndexError):  # the metric is one of d classes only
        return best_threshold(*side, Goal(metrics.f1()))[0]


def _fixed_point(start: Candidate, data: RuleData, goal: Goal, steps: int = 8) -> Iterator[Candidate]:
    """W = dM/dC at the matrix of the rule of W, plainly and with averaged matrices."""
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


def _drawn(data: RuleData, goal: Goal, seed: int, kept: int = 4) -> list[Candidate]:
    """The best of random weights: many where they cost little, on few rows, where a search gets stuck."""
    count = int(min(4096, 2e7 // (len(data.y) * data.d**2)))
    if count < 256 or goal.confidence is not None:  # random weights that fit by chance keep no promise
        return []
    size = data.d**2
    weights = np.random.default_rng(seed).random((count, data.d, data.d)) ** 2
    cells = data.y * data.d + (data.p @ weights).argmax(-1) + size * np.arange(count)[:, None]
    tables = np.bincount(cells.reshape(-1), np.tile(data.weight, count), count * size)
    slack, value = goal.judge(torch.from_numpy(tables.reshape(count, data.d, data.d)))
    order = np.lexsort((-value.numpy(), -slack.clamp_max(0).numpy()))
    return [Candidate.of(weights[at], data, goal) for at in order[:kept]]


def _distinct(candidates: list[Candidate]) -> list[Candidate]:
    """The best of each standing, from the best down."""
    ranked = {(min(c.standing.slack, 0.0), c.standing.value): c for c in reversed(candidates)}
    return [ranked[key] for key in sorted(ranked, reverse=True)]
