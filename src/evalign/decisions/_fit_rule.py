"""`fit_rule`: the best decision rule for a metric on labelled probabilities."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.decisions._coordinates import RuleData
from evalign.decisions._goal import ROUNDING, Goal
from evalign.decisions._inputs import as_probabilities, as_targets, class_indices, row_weights
from evalign.decisions._labels import best_thresholds
from evalign.decisions._many_classes import best_weights
from evalign.decisions._rule import DecisionRule
from evalign.decisions._two_classes import best_threshold


def fit_rule(
    probabilities: Any,
    y: Any,
    metric: MetricLike,
    constraints: ConstraintsLike = (),
    sample_weight: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    confidence: float | None = None,
    random_state: int = 0,
) -> DecisionRule:
    """Fit the decision rule with the best metric on these rows, among those that satisfy the constraints.

    Use rows the classifier was not trained on. Two classes: the exact best threshold, in O(n log n). More
    classes: a search over weight matrices that is never worse than argmax on these rows. Multilabel (`y` has
    the shape of the probabilities): one threshold per label. If no rule satisfies the constraints, the
    result is the one that violates them least, and `rule.violations` contains by how much.

    Args:
        probabilities: (n, d); for two classes also (n,), the probabilities of the second class.
        y: The class of each row, or 0 and 1 of shape (n, L) for multilabel problems.
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `metrics.precision() >= 0.9`, or "precision >= 0.9".
        sample_weight: Weights of the rows.
        classes: The class of each column, sorted, if some are absent from `y`.
        confidence: In (0.5, 1): satisfy the constraints with a margin, so that new rows satisfy them with
            about this probability (somewhat less for more than two classes, where more is fitted).
        random_state: Seed of the search for more than two classes.

    >>> p, y = [0.1, 0.3, 0.35, 0.8], ["no", "yes", "no", "yes"]
    >>> rule = fit_rule(p, y, "f1")
    >>> rule.threshold, rule.value, rule.predict([0.25]).tolist()
    (0.2, 0.8, ['yes'])
    >>> fit_rule(p, y, "recall", "precision >= 0.9").threshold
    0.575

    References:
        Koyejo et al. (2014), Consistent binary classification with generalized performance metrics.
    """
    metric = metrics.as_metric(metric, scalar=True)
    bounds = metrics.as_constraints(constraints)
    if confidence is not None and not (is_number(confidence) and 0.5 < confidence < 1):
        raise expected("confidence", "in (0.5, 1)", show(confidence))
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
        goal = Goal(metric, bounds, confidence, rows, labels)
        _check_batched(goal, p.shape[1])
        return _rule_for_labels(p, truth, weight, goal)
    known, indices = class_indices(truth, p.shape[1], classes)
    named = metric.with_classes(known), tuple(bound.with_classes(known) for bound in bounds)
    goal = Goal(*named, confidence, rows)
    _check_batched(goal, p.shape[1])
    if len(indices) != len(p):
        raise expected("y", f"with the {len(p)} rows of `probabilities`", f"{len(indices)}")
    if len(known) == 2:
        return _rule_for_two(p, indices, weight, goal, known)
    best = best_weights(RuleData(p, indices, weight), goal, int(random_state))
    return _make_rule(goal, torch.from_numpy(best.matrix), known, best.weights)


def _check_batched(goal: Goal, width: int) -> None:
    """Refuse a metric that cannot evaluate many matrices at once, before any work is done."""
    shape = (2, width, 2, 2) if goal.labels else (2, width, width)
    try:
        goal.evaluate(torch.ones(shape, dtype=torch.float64))
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:100]
        raise expected("metric", "to use tensor operations only", reason) from error


def _rule_for_two(
    p: Floats, y: NDArray[np.int64], weight: Floats, goal: Goal, classes: NDArray[Any]
) -> DecisionRule:
    threshold, matrix = best_threshold(p[:, 1], y == 1, weight, goal)
    weights = np.diag([threshold, 1 - threshold])
    return _make_rule(goal, matrix, classes, weights, np.array([threshold]))


def _rule_for_labels(p: Floats, y: NDArray[Any], weight: Floats, goal: Goal) -> DecisionRule:
    if y.shape != p.shape:
        raise expected("y", f"of the shape {p.shape} of `probabilities`", f"shape {y.shape}")
    if not np.isin(y, (0, 1)).all():
        stray = y[~np.isin(y, (0, 1))]
        raise expected("y", "with only 0 and 1 for several labels per row", show(stray[0]))
    thresholds, matrices = best_thresholds(p, y == 1, weight, goal)
    return _make_rule(goal, matrices, thresholds=thresholds)


def _make_rule(
    goal: Goal,
    matrix: Tensor,
    classes: NDArray[Any] | None = None,
    weights: Floats | None = None,
    thresholds: Floats | None = None,
) -> DecisionRule:
    """Make a rule with its value and its violations."""
    value = goal.value(matrix)
    if not math.isfinite(value):
        raise expected("metric", "to be a finite number for some rule", f"{value} for the best")
    slacks = {one.name: float(goal.slack(one, matrix[None])[0]) for one in goal.constraints}
    for name, slack in slacks.items():
        if not math.isfinite(slack):
            raise expected("constraints", "to be finite numbers for some rule", f"{slack} for {name}")
    violations = {name: -slack for name, slack in slacks.items() if slack < -ROUNDING}
    return DecisionRule(classes, weights, thresholds, goal.metric.name, value, violations)
