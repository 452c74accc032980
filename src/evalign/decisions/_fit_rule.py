"""`fit_rule`: the decision rule that is best for a metric on labelled probabilities."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, shown
from evalign.decisions._coordinates import Data
from evalign.decisions._goal import ROUNDING, Goal
from evalign.decisions._labels import best_thresholds
from evalign.decisions._many_classes import best_weights
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
            about that probability (for more than two classes, where more is fitted, somewhat less).
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
    if not isinstance(random_state, numbers.Integral) or not 0 <= random_state < 2**32:
        raise expected("random_state", "to be a whole number in [0, 2^32)", shown(random_state))
    truth = as_targets(y)
    labels = truth.ndim == 2 and truth.shape[1] > 1
    p = as_probabilities(probabilities, labels=labels)
    weight = row_weights(sample_weight, len(p))
    share = weight / weight.max()
    rows = float(share.sum() ** 2 / np.square(share).sum())
    goal = Goal(metric, bounds, confidence, rows, labels)
    _try(goal, p.shape[1])
    if labels:
        if classes is not None:
            raise expected("classes", "for one class a row only", "many labels a row")
        return _rule_for_labels(p, truth, weight, goal)
    known, indices = class_indices(truth, p.shape[1], classes)
    if len(indices) != len(p):
        raise expected("y", f"with the {len(p)} rows of `probabilities`", f"{len(indices)}")
    if len(known) == 2:
        return _rule_for_two(p, indices, weight, goal, known)
    found = best_weights(Data(p, indices, weight), goal, int(random_state))
    return _rule(goal, torch.from_numpy(found.matrix), known, found.weights)


def _try(goal: Goal, width: int) -> None:
    """Refuse a metric that cannot judge many matrices at once, before any work is done."""
    shape = (2, width, 2, 2) if goal.labels else (2, width, width)
    try:
        goal.judge(torch.ones(shape, dtype=torch.float64))
    except RuntimeError as error:
        told = str(error).splitlines()[0][:100]
        raise expected("metric", "to be written with operations of tensors only", told) from error


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
    found = np.unique(y)
    if classes is not None:
        known = np.asarray(classes)
        if known.shape != (width,) or not np.array_equal(np.unique(known), known):
            raise expected("classes", f"to be {width} sorted labels, one a column", shown(classes))
        # Compared as Python does: NumPy takes the number 1 for the text "1".
        stray = [label for label in found.tolist() if label not in set(known.tolist())]
        if stray:
            raise expected("y", "with labels of `classes` only", shown(stray[0]))
    elif len(found) == width:
        known = found
    elif y.dtype.kind in "biu" and np.isin(found, np.arange(width)).all():
        known = np.arange(width).astype(bool if y.dtype.kind == "b" else np.int64)
    else:
        hint = "Name them by `classes`."
        raise expected("y", f"with one class a column, {width}", f"{len(found)} classes", hint)
    return known, np.searchsorted(known, y).astype(np.int64)


def as_targets(y: Any) -> NDArray[Any]:
    """Labels of any kind as an array, none of them missing.

    >>> as_targets(["a", "b", None])
    Traceback (most recent call last):
    ValueError: Expected `y` without missing labels, but got None in row 2.
    """
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    try:
        truth = np.asarray(y)
    except ValueError:
        raise expected("y", "with rows of one length", "rows of several") from None
    if truth.ndim not in (1, 2) or len(truth) == 0:
        raise expected("y", "with one label a row, or one column a label", f"shape {truth.shape}")
    if truth.dtype.kind in "fcOmM":
        # Only what is missing differs from itself; pandas' NA cannot say whether it does.
        flat = truth.reshape(len(truth), -1)
        missing = (flat == None) | np.frompyfunc(_differs, 1, 1)(flat).astype(bool)  # noqa: E711
        if missing.any():
            row = int(np.flatnonzero(missing.any(1))[0])
            raise expected("y", "without missing labels", f"{shown(flat[row, 0])} in row {row}")
    if truth.dtype.kind == "O" and len({_kind(label) for label in truth.reshape(-1)}) > 1:
        raise expected("y", "with labels of one kind", shown(truth.reshape(-1)[:3].tolist()))
    return truth


def _differs(label: Any) -> bool:
    try:
        return bool(label != label)
    except TypeError:
        return True


def _kind(label: Any) -> type:
    return float if isinstance(label, numbers.Real) else str if isinstance(label, str) else type(label)


def row_weights(sample_weight: Any, rows: int) -> Floats:
    """Weights of the rows, checked; ones by default."""
    if sample_weight is None:
        return np.ones(rows)
    if hasattr(sample_weight, "detach"):
        sample_weight = sample_weight.detach().cpu().numpy()
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise expected("sample_weight", "to be an array of numbers", type(sample_weight).__name__) from None
    if weight.shape != (rows,):
        raise expected("sample_weight", f"of shape ({rows},)", f"shape {weight.shape}")
    if not np.isfinite(weight).all() or weight.min() < 0 or not weight.any():
        raise expected("sample_weight", "with finite weights >= 0, not all 0", shown(weight[:5].tolist()))
    if not 1e-100 < weight.max() < 1e100:
        raise expected("sample_weight", "of a size whose square is a number", shown(weight.max()))
    return weight


def _rule_for_two(
    p: Floats, y: NDArray[np.int64], weight: Floats, goal: Goal, classes: NDArray[Any]
) -> DecisionRule:
    found = sweep(p[:, 1], y == 1, weight)
    at = goal.best(found.matrices, torch.from_numpy(np.abs(found.thresholds - 0.5)))
    threshold = float(found.thresholds[at])
    weights = np.diag([threshold, 1 - threshold])
    return _rule(goal, found.matrices[at], classes, weights, np.array([threshold]))


def _rule_for_labels(p: Floats, y: NDArray[Any], weight: Floats, goal: Goal) -> DecisionRule:
    if y.shape != p.shape:
        raise expected("y", f"of the shape {p.shape} of `probabilities`", f"shape {y.shape}")
    if not np.isin(y, (0, 1)).all():
        stray = y[~np.isin(y, (0, 1))]
        raise expected("y", "with 0 and 1 only for many labels a row", shown(stray[0]))
    thresholds, matrices = best_thresholds(p, y == 1, weight, goal)
    return _rule(goal, matrices, thresholds=thresholds)


def _rule(
    goal: Goal,
    matrix: Tensor,
    classes: NDArray[Any] | None = None,
    weights: Floats | None = None,
    thresholds: Floats | None = None,
) -> DecisionRule:
    """The rule with its value and by how much it misses each constraint, of those it misses."""
    value = goal.value(matrix)
    if not math.isfinite(value):
        raise expected("metric", "to be a finite number for some rule", f"{value} for the best")
    slacks = {one.name: float(goal.slack(one, matrix[None])[0]) for one in goal.constraints}
    for name, slack in slacks.items():
        if not math.isfinite(slack):
            raise expected("constraints", "to be finite numbers for some rule", f"{slack} for {name}")
    missed = {name: -slack for name, slack in slacks.items() if slack < -ROUNDING}
    return DecisionRule(classes, weights, thresholds, goal.metric.name, value, missed)
