"""`fit_rule`: the decision rule that is best for a metric on labelled probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, shown
from evalign.decisions import _many_classes
from evalign.decisions._goal import Goal
from evalign.decisions._labels import best_thresholds
from evalign.decisions._rule import DecisionRule, as_probabilities
from evalign.decisions._two_classes import Floats, sweep
from evalign.metrics import Confusion, Constraint, Metric


def fit_rule(
    probabilities: Any,
    y: Any,
    metric: Metric | Callable[[Confusion], Tensor] | str,
    constraints: Constraint | str | Sequence[Constraint | str] = (),
    sample_weight: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    confidence: float | None = None,
    random_state: int = 0,
) -> DecisionRule:
    """The decision rule with the best metric on these rows, among those that keep the constraints.

    Fit it on rows the classifier was not trained on. Two classes: the exact best threshold, in
    O(n log n). More classes: a search over weight matrices that never ends below argmax. Many labels a
    row (`y` has the shape of the probabilities): one threshold a label. If no rule keeps the
    constraints, the one that misses them least is given, and `rule.missed` says by how much.

    Args:
        probabilities: (n, d); for two classes also (n,), those of the second class.
        y: The class of each row, or 0 and 1 of shape (n, L) for many labels a row.
        metric: Anything `evalign.metrics.get` understands.
        constraints: Bounds such as `metrics.precision() >= 0.9`, or "precision >= 0.9".
        sample_weight: Weights of the rows.
        classes: The class of each column, sorted, where `y` misses some.
        confidence: In (0.5, 1): keep the constraints with a margin, so that new rows keep them too with
            about that probability.
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
    metric = one_number(metrics.get(metric))
    bounds = metrics.constraints(constraints)
    if confidence is not None and not (is_number(confidence) and 0.5 < confidence < 1):
        raise expected("confidence", "in (0.5, 1)", shown(confidence))
    truth = np.asarray(y)
    labels = truth.ndim == 2 and truth.shape[1] > 1
    p = as_probabilities(probabilities, labels=labels)
    weight = row_weights(sample_weight, len(p))
    rows = float(weight.sum() ** 2 / np.square(weight).sum())
    goal = Goal(metric, bounds, confidence, rows, labels)
    if labels:
        return _rule_for_labels(p, truth, weight, goal)
    known, indices = class_indices(truth, p.shape[1], classes)
    if len(indices) != len(p):
        raise expected("y", f"with the {len(p)} rows of `probabilities`", f"{len(indices)}")
    if len(known) == 2:
        return _rule_for_two(p, indices, weight, goal, known)
    data = _many_classes.Data(*(torch.from_numpy(side) for side in (p, indices, weight)))
    weights = _many_classes.best_weights(data, goal, random_state)
    # Judged as it will be used.
    matrix = data.confusion(torch.from_numpy((p @ weights.numpy()).argmax(1)))
    return DecisionRule(known, weights.numpy(), None, metric.name, goal.value(matrix), _missed(goal, matrix))


def one_number(metric: Metric) -> Metric:
    """Refuse a metric that gives no single number from predicted classes."""
    if metric.over_thresholds or getattr(metric, "average", "auto") is None:
        raise expected("metric", "that gives one number from predicted classes", metric.name)
    return metric


def class_indices(
    y: NDArray[Any], width: int, classes: Sequence[Any] | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes of `width` columns, and the column of each row.

    >>> class_indices(np.array(["b", "a", "b"]), 2)
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    y = y.reshape(-1)
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise expected("y", "without NaN", "NaN")
    found = np.unique(y)
    if classes is not None:
        known = np.asarray(classes)
        if len(known) != width or not np.array_equal(np.unique(known), known):
            raise expected("classes", f"to be {width} sorted labels, one a column", shown(known.tolist()))
        stray = np.setdiff1d(found, known)
        if stray.size:
            raise expected("y", "with labels of `classes` only", shown(stray[0]))
    elif len(found) == width:
        known = found
    elif y.dtype.kind in "biu" and np.isin(found, np.arange(width)).all():
        known = np.arange(width)
    else:
        raise expected(
            "y",
            f"with one class a column, {width}",
            f"{len(found)} classes",
            "Name them by `classes`.",
        )
    return known, np.searchsorted(known, y).astype(np.int64)


def row_weights(sample_weight: Any, rows: int) -> Floats:
    """Weights of the rows, checked; ones by default."""
    if sample_weight is None:
        return np.ones(rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (rows,):
        raise expected("sample_weight", f"of shape ({rows},)", f"shape {weight.shape}")
    if not np.isfinite(weight).all() or weight.min() < 0 or not weight.any():
        raise expected("sample_weight", "with finite weights >= 0, not all 0", shown(weight[:5].tolist()))
    return weight


def _rule_for_two(
    p: Floats, y: NDArray[np.int64], weight: Floats, goal: Goal, classes: NDArray[Any]
) -> DecisionRule:
    found = sweep(p[:, 1], y == 1, weight)
    at = goal.best(found.matrices, torch.from_numpy(np.abs(found.thresholds - 0.5)))
    threshold, matrix = float(found.thresholds[at]), found.matrices[at]
    return DecisionRule(
        classes,
        np.diag([threshold, 1 - threshold]),
        np.array([threshold]),
        goal.metric.name,
        goal.value(matrix),
        _missed(goal, matrix),
    )


def _rule_for_labels(p: Floats, y: NDArray[Any], weight: Floats, goal: Goal) -> DecisionRule:
    if y.shape != p.shape:
        raise expected("y", f"of the shape {p.shape} of `probabilities`", f"shape {y.shape}")
    if not np.isin(y, (0, 1)).all():
        stray = y[~np.isin(y, (0, 1))]
        raise expected("y", "with 0 and 1 only for many labels a row", shown(stray[0]))
    thresholds = best_thresholds(p, y == 1, weight, goal)
    matrix = torch.stack([sweep(p[:, j], y[:, j] == 1, weight).at(t) for j, t in enumerate(thresholds)])
    return DecisionRule(None, None, thresholds, goal.metric.name, goal.value(matrix), _missed(goal, matrix))


def _missed(goal: Goal, matrix: Tensor) -> dict[str, float]:
    """By how much each constraint is missed, of those that are."""
    slacks = {one.name: float(goal.slack(one, matrix[None])[0]) for one in goal.constraints}
    return {name: -slack for name, slack in slacks.items() if slack < 0}
