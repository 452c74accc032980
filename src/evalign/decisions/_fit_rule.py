"""`fit_rule`: the best decision rule for a metric on labelled probabilities."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions._cross_fit import cross_fit
from evalign.decisions._evidence import Evidence
from evalign.decisions._goal import ROUNDING, Goal
from evalign.decisions._inputs import as_probabilities, as_targets, class_indices, row_weights
from evalign.decisions._labels import fit_label_thresholds
from evalign.decisions._many_classes import fit_weights
from evalign.decisions._rule import DecisionRule, Gain
from evalign.decisions._two_classes import fit_thresholds, shrink_threshold
from evalign.metrics import hard_confusion, label_confusion


def fit_rule(
    probabilities: Any,
    y: Any,
    metric: MetricLike,
    constraints: ConstraintsLike = (),
    sample_weight: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    confidence: float | None = None,
    evidence: Evidence = "mixed",
    sample: float = 0.0,
    random_state: int = 0,
) -> DecisionRule:
    """Fit the decision rule with the best metric, among those that satisfy the constraints.

    Use rows the classifier was not trained on. Two classes: the exact best threshold, in O(n log n). More
    classes: argmax_j sum_i q_i W_ij of calibrated probabilities q, with W = dM/dC. Multilabel (`y` has the
    shape of the probabilities): one threshold per label. If no rule satisfies the constraints, the result is
    the one that violates them least, and `rule.violations` contains by how much.

    Labels of few rows are noisy evidence: the best rule for them is often worse than none on new rows. So
    the metric is that of counts made partly by labels and partly by calibrated probabilities. And the rule is
    compared with argmax (or thresholds of 0.5) on rows that it was not fitted on: beyond two classes it is
    only used if it is better there; for two, the less certain that is, the closer the threshold is to 0.5,
    or, if that predicts a class too rarely, to the best one by probabilities alone. See `rule.gain_`.

    Args:
        probabilities: (n, d); for two classes also (n,), the probabilities of the second class.
        y: The class of each row, or 0 and 1 of shape (n, L) for multilabel problems.
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `metrics.precision() >= 0.9`, or "precision >= 0.9". They are judged
            by labels, and beyond two classes so is the metric with them.
        sample_weight: Weights of the rows.
        classes: The class of each column, sorted, if some are absent from `y`.
        confidence: In (0.5, 1): satisfy the constraints with a margin, so that new rows satisfy them with
            about this probability (somewhat less for more than two classes, where more is fitted).
        evidence: What the metric of a rule is counted by. `"mixed"`: by both; the more the probabilities,
            calibrated by one slope and one offset per class, contradict the labels of groups of rows, the
            larger is the share of the labels. `"probabilities"`: by calibrated probabilities alone.
            `"labels"`: by labels alone; the rule is then the best on these very rows, and is always used.
        sample: For two classes, judge thresholds by the metric that a sample with this share of the rows can
            be expected to have. The best threshold for a rare class may predict it for two rows that happen
            to be right; a fifth of the rows would often have none such, and a metric of 0. It helps models
            that are unstable with so few rows of a class. 0 judges by all rows, and so do labels alone.
        random_state: Seed of the folds, and of the search by labels for more than two classes.

    >>> generator = np.random.default_rng(0)
    >>> p = generator.beta(1, 5, 2000)
    >>> y = np.where(generator.random(2000) < p, "yes", "no")
    >>> rule = fit_rule(p, y, "f1")
    >>> round(rule.threshold, 2), round(rule.gain_.value, 2), rule.predict([0.35]).tolist()
    (0.23, 0.29, ['yes'])
    >>> fit_rule([0.1, 0.3, 0.35, 0.8], [0, 1, 0, 1], "recall", "precision >= 0.9").threshold
    0.575

    References:
        Koyejo et al. (2014), Consistent binary classification with generalized performance metrics.
    """
    metric = metrics.as_metric(metric, scalar=True)
    bounds = metrics.as_constraints(constraints)
    if confidence is not None and not (is_number(confidence) and 0.5 < confidence < 1):
        raise expected("confidence", "in (0.5, 1)", show(confidence))
    if not is_number(sample) or not 0 <= sample <= 1:
        raise expected("sample", "in [0, 1]", show(sample))
    if evidence not in get_args(Evidence):
        raise expected("evidence", "to be 'mixed', 'labels' or 'probabilities'", show(evidence))
    if not isinstance(random_state, numbers.Integral) or not 0 <= random_state < 2**32:
        raise expected("random_state", "to be an integer in [0, 2^32)", show(random_state))
    truth = as_targets(y)
    labels = truth.ndim == 2 and truth.shape[1] > 1
    p = as_probabilities(probabilities, labels=labels)
    weight = row_weights(sample_weight, len(p))
    share = weight / weight.max()
    rows = float(share.sum() ** 2 / np.square(share).sum())
    if labels:
        if classes is not None:
            raise expected("classes", "only for one label per row", "several labels per row")
        _check_labels(truth, p)
        known, indices = None, (truth == 1).astype(np.int64)
        goal = Goal(metric, bounds, confidence, rows, labels)
    else:
        known, indices = class_indices(truth, p.shape[1], classes)
        named = metric.with_classes(known), tuple(bound.with_classes(known) for bound in bounds)
        goal = Goal(*named, confidence, rows, sample=float(sample))
    _check_batched(goal, p.shape[1])
    if len(indices) != len(p):
        raise expected("y", f"with the {len(p)} rows of `probabilities`", f"{len(indices)}")
    rule = _fit_and_compare(p, indices, weight, goal, evidence, int(random_state))
    return replace(rule, classes=known)


def _fit_and_compare(
    p: Floats, y: Indices, weight: Floats, goal: Goal, kind: Evidence, seed: int
) -> DecisionRule:
    """Fit a rule on all rows with a weight, and compare it with none on rows that it was not fitted on."""
    counted = weight > 0
    if not counted.all():
        p, y, weight = p[counted], y[counted], weight[counted]
    two = not goal.labels and p.shape[1] == 2
    if goal.constraints and not two:
        kind = "labels"
    fit = partial(
        fit_label_thresholds if goal.labels else fit_thresholds if two else fit_weights,
        p, y, goal=goal, kind=kind, seed=seed,
    )  # fmt: skip
    (fitted,) = fit(weight[None])
    rule = _evaluate(fitted.rule, p, y, weight, goal)
    if kind == "labels":
        return rule
    verdict = cross_fit(partial(fit, start=fitted.start), p, y, weight, goal, seed)
    if verdict is None:
        return rule
    if two and verdict.trust < 1:
        rule = _evaluate(shrink_threshold(rule, verdict.trust, fitted.anchor), p, y, weight, goal)
    elif verdict.trust == 0:
        d = p.shape[1]
        plain = DecisionRule(
            rule.classes, None if goal.labels else np.eye(d), np.full(d, 0.5) if goal.labels else None,
            rule.metric, math.nan,
        )  # fmt: skip
        plain = _evaluate(plain, p, y, weight, goal)
        if plain.feasible:
            return replace(plain, gain_=Gain(0.0, 0.0))
    return replace(rule, gain_=verdict.gain)


def _check_labels(y: NDArray[Any], p: Floats) -> None:
    if y.shape != p.shape:
        raise expected("y", f"of the shape {p.shape} of `probabilities`", f"shape {y.shape}")
    if not np.isin(y, (0, 1)).all():
        stray = y[~np.isin(y, (0, 1))]
        raise expected("y", "with only 0 and 1 for several labels per row", show(stray[0]))


def _check_batched(goal: Goal, width: int) -> None:
    """Refuse a metric that cannot evaluate many matrices at once, before any work is done."""
    shape = (2, width, 2, 2) if goal.labels else (2, width, width)
    try:
        goal.evaluate(torch.ones(shape, dtype=torch.float64))
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:100]
        raise expected("metric", "to use tensor operations only", reason) from error


def _evaluate(rule: DecisionRule, p: Floats, y: Indices, weight: Floats, goal: Goal) -> DecisionRule:
    """The rule with its value and its violations on labels."""
    predicted, truth, mass = (torch.from_numpy(side) for side in (rule.predict(p), y, weight))
    if goal.labels:
        matrix = label_confusion(truth, predicted, mass)
    else:
        matrix = hard_confusion(predicted, truth, p.shape[1], mass)
    value = goal.value(matrix)
    if not math.isfinite(value):
        raise expected("metric", "to be a finite number for some rule", f"{value} for the best")
    slacks = {one.name: float(goal.slack(one, matrix[None])[0]) for one in goal.constraints}
    for name, slack in slacks.items():
        if not math.isfinite(slack):
            raise expected("constraints", "to be finite numbers for some rule", f"{slack} for {name}")
    violations = {name: -slack for name, slack in slacks.items() if slack < -ROUNDING}
    return replace(rule, value=value, violations=violations)
