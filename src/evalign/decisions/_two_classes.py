"""Two classes: the best threshold on the probability of the second, among all that make a difference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from evalign._typing import Floats, Indices
from evalign.decisions._evidence import Evidence, Fitted, collect_evidence
from evalign.decisions._goal import Goal
from evalign.decisions._rule import DecisionRule
from evalign.decisions._scaling import Scaling
from evalign.metrics import sweep_thresholds

#: Thresholds are cut off here before their log-odds are taken.
SMALLEST = 1e-9

#: With as many rows expected, a sample without any is out of the question.
ENOUGH = 30.0


def best_threshold(
    scores: Floats, positive: NDArray[np.bool_], weight: Floats, goal: Goal, belief: Floats | None = None
) -> float:
    """Find the best threshold; of equally good ones, the closest to 0.5.

    With `belief`, the probability that each row is positive, the metric is that of expected counts, or of a
    sample (`goal.sample`); constraints are judged by labels all the same.

    >>> from evalign import metrics
    >>> scores, positive = np.array([0.1, 0.3, 0.4, 0.8]), np.array([False, False, True, True])
    >>> best_threshold(scores, positive, np.ones(4), Goal(metrics.f1()))
    0.35
    """
    sweep = sweep_thresholds(scores, positive if belief is None else belief, weight)
    by_labels = None
    if belief is not None and goal.constraints:
        by_labels = sweep_thresholds(scores, positive, weight).matrices
    slack, value = goal.evaluate(sweep.matrices, by_labels)
    if belief is not None and goal.sample:
        counted = np.sort(scores[weight > 0])
        below = np.searchsorted(counted, sweep.thresholds)
        rows = torch.from_numpy(np.stack([below, len(counted) - below], axis=1))
        value = expect_value(sweep.matrices, value, goal, goal.sample * rows)
    prefer = torch.from_numpy(np.abs(sweep.thresholds - 0.5))
    return float(sweep.thresholds[goal.choose(slack, value, prefer)])


def expect_value(matrices: Tensor, value: Tensor, goal: Goal, rows: Tensor) -> Tensor:
    """The expected value of samples that may lack one of the predictions; `rows` (n, 2) of them are expected.

    The number of rows predicted as the rarer class is about a Poisson variable: with r expected there is
    none with probability exp(-r), and r / (1 - exp(-r)) are expected otherwise. Linear metrics do not change.

    >>> from evalign import metrics
    >>> matrices = torch.tensor([[[90.0, 0.2], [4.0, 0.8]], [[50.0, 40.0], [1.0, 4.0]]])
    >>> value = metrics.f1()(matrices)
    >>> value, expect_value(matrices, value, Goal(metrics.f1()), matrices.sum(-2))
    (tensor([0.2759, 0.1633]), tensor([0.2507, 0.1633]))
    """
    predicted, rarer = rows.to(value).min(-1)
    few = (predicted > 0) & (predicted < ENOUGH)
    if not few.any():
        return value
    matrices, chance = matrices[few], -torch.expm1(-predicted[few])
    rare = torch.nn.functional.one_hot(rarer[few], 2).bool().unsqueeze(-2)
    actual = matrices.sum(-1, keepdim=True)
    none = torch.where(rare, torch.zeros_like(matrices), actual)
    some = torch.minimum((matrices * rare).sum(-1, keepdim=True) / chance[:, None, None], actual)
    values = [goal.evaluate(one)[1] for one in (torch.where(rare, some, actual - some), none)]
    return value.masked_scatter(few, chance * values[0] + (1 - chance) * values[1])


def shrink_threshold(rule: DecisionRule, trust: float, anchor: float) -> DecisionRule:
    """Move the log-odds of the threshold towards those of `anchor`; 1 is the rule itself, 0 the anchor.

    >>> rule = DecisionRule(np.arange(2), np.diag([0.2, 0.8]), np.array([0.2]), "f1", 1.0)
    >>> [round(shrink_threshold(rule, trust, 0.5).threshold, 3) for trust in (0, 0.5, 1)]
    [0.5, 0.333, 0.2]
    """
    if trust == 1:
        return rule
    threshold = _move(anchor, trust, rule.threshold)
    return replace(rule, weights=np.diag([threshold, 1 - threshold]), thresholds=np.array([threshold]))


def fit_thresholds(
    p: Floats,
    y: Indices,
    weights: Floats,
    goal: Goal,
    kind: Evidence,
    seed: int,
    start: Scaling | None = None,
) -> Iterator[Fitted]:
    """Fit a rule for each row of weights (F, n)."""
    # A threshold on calibrated probabilities is one on the others, too: the calibration only counts.
    known = [None] * len(weights) if kind == "labels" else collect_evidence(p, y, weights, kind, start)
    for weight, evidence in zip(weights, known, strict=True):
        find = partial(best_threshold, p[:, 1], y == 1, weight, goal)
        threshold = find(None if evidence is None else evidence.mix(np.eye(2)[y])[:, 1])
        decisive = np.diag([threshold, 1 - threshold])
        rule = DecisionRule(np.arange(2), decisive, np.array([threshold]), goal.metric.name, math.nan)
        if evidence is None:
            yield Fitted(rule, p)
        else:
            believed = threshold if evidence.share == 0 else find(evidence.q[:, 1])
            anchor = find_anchor(believed, p[:, 1] >= 0.5, y == 1, weight)
            yield Fitted(rule, evidence.q, evidence.scaling, anchor)


def find_anchor(
    believed: float, predicted: NDArray[np.bool_], positive: NDArray[np.bool_], weight: Floats
) -> float:
    """The threshold where labels say nothing: between 0.5 and the best one by probabilities alone.

    Where 0.5 predicts both classes as often as they occur, it does well enough that only labels should move
    it. The more rarely it predicts one of them, the less there is to lose: the log-odds of `believed` are
    multiplied by the share of rows of that class that it misses at least.

    >>> positive = np.array([True, True, False, False, False, False])
    >>> [round(find_anchor(0.2, positive & (np.arange(6) < k), positive, np.ones(6)), 2) for k in range(3)]
    [0.2, 0.33, 0.5]
    """
    sides = ((predicted, positive), (~predicted, ~positive))
    masses = [(float(weight @ ours), float(weight @ truth)) for ours, truth in sides]
    found = [ours / truth for ours, truth in masses if truth > 0]
    return _move(0.5, 1 - min(1.0, *found), believed)


def _move(anchor: float, share: float, threshold: float) -> float:
    """The threshold on the way from an anchor to another, in log-odds."""
    start, end = logit(np.clip([anchor, threshold], SMALLEST, 1 - SMALLEST))
    return float(expit(start + share * (end - start)))
