"""Whether a rule is better than no rule on rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions._evidence import Fitted
from evalign.decisions._goal import Goal
from evalign.decisions._rule import Gain

#: Fewer rows than this say nothing about a rule.
FEWEST_ROWS = 10

#: A rule must be better by this many standard errors.
MARGIN = 0.1

#: The number of folds, and that for more numbers than this among the probabilities.
FOLDS, FEWER_FOLDS, LARGE = 5, 2, 2_000_000


@dataclass(frozen=True)
class Verdict:
    """How much better the rule is on rows that it was not fitted on, and whether it is better at all."""

    gain: Gain
    better: bool


def cross_fit(
    fit: Callable[[Floats], Iterable[Fitted]], p: Floats, y: Indices, weight: Floats, goal: Goal, seed: int
) -> Verdict | None:
    """Compare a rule with no rule, each row under a rule fitted on the other folds; None for too few rows.

    The gain is counted by labels. Of few rows they decide too much by chance, so whether the rule is better
    is counted half by labels and half by calibrated probabilities, those of the other folds, too.
    """
    if len(y) < FEWEST_ROWS:
        return None
    k = FOLDS if p.size <= LARGE else FEWER_FOLDS
    fold = _deal(y, k, seed)
    weights = np.where(fold == np.arange(k)[:, None], 0.0, weight)
    if not weights.any(1).all():
        return None
    decided, q = np.empty_like(y), np.empty_like(p)
    for number, one in enumerate(fit(weights)):
        rows = fold == number
        decided[rows], q[rows] = one.rule.predict(p[rows]), one.q[rows]
    plain = (p >= 0.5).astype(np.int64) if goal.labels else p.argmax(1)
    truth = _as_mass(y.astype(np.float64) if goal.labels else np.eye(p.shape[1])[y], goal)
    mixed = (truth + _as_mass(q, goal)) / 2
    (old, old_worth), (new, new_worth) = (_value(goal, truth, weight, side) for side in (plain, decided))
    error = np.sqrt(len(y)) * (new_worth - old_worth).std()
    gap = _value(goal, mixed, weight, decided)[0] - _value(goal, mixed, weight, plain)[0]
    return Verdict(Gain(float(new - old), float(error)), bool(gap > MARGIN * error))


def _deal(y: Indices, k: int, seed: int) -> Indices:
    """The fold of each row; each class is divided evenly."""
    chance = np.random.default_rng(seed).random(len(y))
    order = np.lexsort((chance, y) if y.ndim == 1 else (chance, y.sum(1)))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % k
    return fold


def _as_mass(share: Floats, goal: Goal) -> Floats:
    """What each row adds to the true classes: (n, 1, d), or (n, L, 2) for labels."""
    return np.stack([1 - share, share], axis=2) if goal.labels else share[:, None]


def _value(goal: Goal, mass: Floats, weight: Floats, predicted: Indices) -> tuple[float, Floats]:
    """The metric (higher is better) of predictions, and what each row contributes to it at the margin."""
    mass = mass * weight[:, None, None]
    decided = np.eye(mass.shape[2])[predicted.reshape(len(mass), -1)]
    matrix = torch.from_numpy(np.einsum("ngi,ngj->gij", mass, decided, optimize=True))
    with torch.inference_mode(False), torch.enable_grad():
        point = matrix.clone().requires_grad_()
        value = goal.metric.over_labels(point) if goal.labels else goal.metric(point[0])
        gradient = torch.zeros_like(point)
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value, point, materialize_grads=True)
    worth = np.einsum("ngi,gij,ngj->n", mass, gradient.numpy(), decided, optimize=True)
    return goal.metric.sign * value.item(), goal.metric.sign * np.asarray(worth)
