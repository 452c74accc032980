"""How far to trust a rule: is it better than no rule on rows that it was not fitted on?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions._evidence import Fitted
from evalign.decisions._goal import Goal
from evalign.decisions._rule import DecisionRule, Gain
from evalign.decisions._two_classes import shrink_threshold

#: Fewer rows than this say nothing about a rule.
FEWEST_ROWS = 10

#: A rule must be better by this many standard errors to be used; a threshold is half used there.
MARGIN = 0.5

#: The number of folds, and that for more numbers than this among the probabilities.
FOLDS, FEWER_FOLDS, LARGE = 5, 2, 2_000_000


@dataclass(frozen=True)
class Verdict:
    """How much better the rule is on rows that it was not fitted on, and how far to trust it, in [0, 1]."""

    gain: Gain
    trust: float


def cross_fit(
    fit: Callable[[Floats], Iterable[Fitted]], p: Floats, y: Indices, weight: Floats, goal: Goal, seed: int
) -> Verdict | None:
    """Compare a rule with no rule, each row under a rule fitted on the other folds; None for too few rows.

    The gain is counted by labels. Of few rows they decide too much by chance, so the trust comes from a gain
    that is counted half by labels and half by calibrated probabilities, those of the other folds, too. With z
    as that gain divided by its standard error, a threshold is trusted by z^2 / (z^2 + MARGIN^2), and moved
    towards its anchor by the rest. Any other rule is trusted completely if z > MARGIN, or not at all, and a
    threshold that satisfies constraints always.
    """
    if len(y) < FEWEST_ROWS:
        return None
    k = FOLDS if p.size <= LARGE else FEWER_FOLDS
    fold = _deal(y, k, seed)
    weights = np.where(fold == np.arange(k)[:, None], 0.0, weight)
    if not weights.any(1).all():
        return None
    fits = list(fit(weights))
    rules, q = [one.rule for one in fits], np.empty_like(p)
    for number, one in enumerate(fits):
        q[fold == number] = one.q[fold == number]
    plain = (p >= 0.5).astype(np.int64) if goal.labels else p.argmax(1)
    decided = _decide(rules, p, fold)
    truth = _as_mass(y.astype(np.float64) if goal.labels else np.eye(p.shape[1])[y], goal)
    mixed = (truth + _as_mass(q, goal)) / 2
    (old, old_worth), (new, new_worth) = (_value(goal, truth, weight, side) for side in (plain, decided))
    error = np.sqrt(len(y)) * (new_worth - old_worth).std()
    gap = _value(goal, mixed, weight, decided)[0] - _value(goal, mixed, weight, plain)[0]
    z = max(0.0, gap / error) if error > 0 else 0.0
    if goal.labels or p.shape[1] > 2:
        trust = float(z > MARGIN)
    elif goal.constraints:
        trust = 1.0
    else:
        trust = z**2 / (z**2 + MARGIN**2)
        moved = [shrink_threshold(one.rule, trust, one.anchor) for one in fits]
        new, _ = _value(goal, truth, weight, _decide(moved, p, fold))
    return Verdict(Gain(float(new - old), float(error)), trust)


def _decide(rules: list[DecisionRule], p: Floats, fold: Indices) -> Indices:
    """What each rule decides for the rows of its fold."""
    return np.stack([rule.predict(p) for rule in rules])[fold, np.arange(len(p))]


def _deal(y: Indices, k: int, seed: int) -> Indices:
    """The fold of each row; each class is divided evenly."""
    chance = np.random.default_rng(seed).random(len(y))
    order = np.lexsort((chance, y) if y.ndim == 1 else (chance, y.sum(1)))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % k
    return fold


def _as_mass(share: Floats, goal: Goal) -> Floats:
    """What each row adds to the true classes: (1, n, d), or (L, n, 2) for labels."""
    return np.stack([1 - share.T, share.T], axis=2) if goal.labels else share[None]


def _value(goal: Goal, mass: Floats, weight: Floats, predicted: Indices) -> tuple[float, Floats]:
    """The metric (higher is better) of predictions, and what each row contributes to it at the margin."""
    mass = mass * weight[:, None]
    decided = np.eye(mass.shape[2])[predicted.reshape(len(weight), -1).T]
    matrix = torch.from_numpy(mass.swapaxes(1, 2) @ decided)
    with torch.inference_mode(False), torch.enable_grad():
        point = matrix.clone().requires_grad_()
        value = goal.metric.over_labels(point) if goal.labels else goal.metric(point[0])
        gradient = torch.zeros_like(point)
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value, point, materialize_grads=True)
    worth = (mass @ gradient.numpy() * decided).sum((0, 2))
    return goal.metric.sign * value.item(), goal.metric.sign * np.asarray(worth)
