"""More than two classes: the rule that the cost matrix of its own confusion matrix leads to.

The best rule is argmax_j sum_i q_i W_ij with W = dM/dC at its own confusion matrix C, so W is recomputed
there repeatedly, also at the mean of the matrices so far, as Frank and Wolfe do. For a metric that is
linear in C, such as a cost, W is the same everywhere, and the first step is the Bayes rule.

References:
    Narasimhan et al. (2015), Consistent multiclass algorithms for complex performance measures.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from evalign._typing import Floats
from evalign.decisions._goal import Goal

#: The most numbers of scores computed at once, to bound memory.
BLOCK = 1 << 21


def best_fixed_points(q: Floats, mass: Floats, goal: Goal, steps: int = 8) -> Floats:
    """The best weights (F, d, d) for each of F sets of rows; q and mass are (F, n, d).

    `q` are probabilities, `mass` is what each row adds to the counts of each true class.

    >>> from evalign import metrics
    >>> q = np.array([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.1, 0.8, 0.1]]])
    >>> cost = metrics.cost([[0, 1, 1], [1, 0, 1], [5, 5, 0]])
    >>> (q @ best_fixed_points(q, q, Goal(cost))).argmax(-1).tolist()
    [[0, 2, 1]]
    """
    sets, _, d = q.shape
    share = mass.sum(1) / mass.sum((1, 2))[:, None]
    argmax, rarity = np.broadcast_to(np.eye(d), (sets, d, d)), np.eye(d) / share.clip(1e-6)[:, None]
    starts = np.stack([argmax, rarity, argmax, rarity], axis=1)
    averaged = np.array([False, False, True, True])
    visited = iterate_costs(q, mass, starts, goal, averaged, steps)
    weights, matrices = (np.concatenate(side, axis=1) for side in zip(*visited, strict=True))
    _, values = goal.evaluate(torch.from_numpy(matrices.reshape(-1, d, d)))
    # Of equally good rules, the one that came first is the simplest.
    leader = values.numpy().reshape(sets, -1).round(12).argmax(1)
    return np.asarray(weights[np.arange(sets), leader])


def iterate_costs(
    q: Floats,
    mass: Floats,
    starts: Floats,
    goal: Goal,
    averaged: Floats,
    steps: int = 8,
    pressure: Floats | None = None,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield weights (F, S, d, d) and the matrices of their rules: the starts, then step by step.

    Where `averaged`, W is that of the mean of the matrices so far. `pressure` is how much the gradients of
    the constraints count.
    """
    weights = normalise(starts)
    matrices = mean = _count(q, mass, weights)
    yield weights, matrices
    for step in range(steps):
        costs = _gradient(goal, mean, pressure)
        usable = np.asarray(np.isfinite(costs).all((-2, -1)) & costs.any((-2, -1)))
        newest = np.where(usable[..., None, None], normalise(np.nan_to_num(costs)), weights)
        if np.array_equal(newest, weights):
            return
        weights, matrices = newest, _count(q, mass, newest)
        yield weights, matrices
        pace = np.where(averaged, 2.0 / (step + 3), 1.0)[:, None, None]
        mean = (1 - pace) * mean + pace * matrices


def normalise(weights: Floats) -> Floats:
    """Scale weights to [0, 1] with a 0 in each row, which gives the same rule."""
    shifted = weights - weights.min(-1, keepdims=True)
    return np.asarray(shifted / np.maximum(shifted.max((-2, -1), keepdims=True), 1e-300))


def _count(q: Floats, mass: Floats, weights: Floats) -> Floats:
    """The confusion matrices (F, S, d, d) of the rules of weights."""
    matrices = np.zeros(weights.shape)
    block = max(1, BLOCK // matrices[..., 0].size)
    for low in range(0, q.shape[1], block):
        part = slice(low, low + block)
        chosen = (q[:, None, part] @ weights).argmax(-1)
        decided = np.zeros((*chosen.shape, weights.shape[-1]))
        np.put_along_axis(decided, chosen[..., None], 1.0, -1)
        matrices += mass[:, None, part].swapaxes(-2, -1) @ decided
    return matrices


def _gradient(goal: Goal, matrices: Floats, pressure: Floats | None) -> Floats:
    """The cost matrices of the metric, plus `pressure` times those of each constraint."""
    point = torch.from_numpy(matrices)
    weights = goal.metric.sign * goal.metric.gradient(point)
    for constraint in () if pressure is None else goal.constraints:
        force = torch.from_numpy(pressure)[:, None, None] * constraint.sign
        weights = weights + force * constraint.metric.gradient(point)
    return weights.numpy()
