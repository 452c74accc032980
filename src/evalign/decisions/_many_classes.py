"""More than two classes: the weights W whose rule argmax_j sum_i p_i W_ij is best.

By labels, every row counts, and the best rule is searched in three steps. Starts: argmax, classes weighted
by rarity, one threshold per class. Fixed points of the cost matrix. Coordinates: one entry of W at a time is
set to its best value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from evalign import metrics
from evalign._typing import Floats, Indices
from evalign.decisions._coordinates import MANY, Candidate, RuleData, ascend
from evalign.decisions._evidence import Evidence, Fitted, collect_evidence
from evalign.decisions._fixed_point import best_fixed_points, iterate_costs
from evalign.decisions._goal import Goal, Standing
from evalign.decisions._rule import DecisionRule
from evalign.decisions._scaling import Scaling
from evalign.decisions._two_classes import best_threshold

#: The most numbers of probabilities for which all sets of rows are fitted at once.
AT_ONCE = 1_000_000


def fit_weights(
    p: Floats,
    y: Indices,
    weights: Floats,
    goal: Goal,
    kind: Evidence,
    seed: int,
    start: Scaling | None = None,
) -> Iterator[Fitted]:
    """Fit a rule for each row of weights (F, n)."""
    classes, name = np.arange(p.shape[1]), goal.metric.name
    if kind == "labels":
        for weight in weights:
            best = best_weights(RuleData(p, y, weight), goal, seed)
            yield Fitted(DecisionRule(classes, best.weights, None, name, math.nan), p)
        return
    truth = np.eye(len(classes))[y]
    for some in [weights] if p.size * len(weights) <= AT_ONCE else weights[:, None]:
        known = collect_evidence(p, y, some, kind, start)
        q = np.stack([one.q for one in known])
        mass = np.stack([one.mix(truth) for one in known]) * some[:, :, None]
        for best, one in zip(best_fixed_points(q, mass, goal), known, strict=True):
            rule = DecisionRule(classes, best, None, name, math.nan, scaling=one.scaling)
            yield Fitted(rule, one.q, one.scaling)


def best_weights(data: RuleData, goal: Goal, seed: int) -> Candidate:
    """Search the best weights; on these rows never worse than argmax or one threshold per class."""
    starts = [Candidate.of(weights, data, goal) for weights in _starts(data, goal)]
    candidates = starts + list(_fixed_points(starts, data, goal))
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
        return best_threshold(*side, Goal(goal.metric))
    except (ValueError, RuntimeError, IndexError):  # the metric needs exactly d classes
        return best_threshold(*side, Goal(metrics.f1()))


def _fixed_points(starts: list[Candidate], data: RuleData, goal: Goal) -> Iterator[Candidate]:
    """Iterate W = dM/dC from each start, with and without averaging, and more or less forced to comply."""
    truth = np.eye(data.d)[data.y] * data.weight[:, None]
    forces = (0.0, 1.0, 10.0) if goal.constraints else (0.0,)
    settings = [(start.weights, averaged, force)
                for start in starts for force in forces for averaged in (False, True)]  # fmt: skip
    first, averaged, force = (np.array(column) for column in zip(*settings, strict=True))
    for weights, matrices in iterate_costs(
        data.p[None], truth[None], first[None], goal, averaged, pressure=force if goal.constraints else None
    ):
        standings = map(Standing, *(side.tolist() for side in goal.evaluate(torch.from_numpy(matrices[0]))))
        yield from map(Candidate, weights[0], matrices[0], standings)


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
