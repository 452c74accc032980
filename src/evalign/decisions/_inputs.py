"""Checking probabilities, labels and weights, and bringing them into one form."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected, show
from evalign._typing import Floats, Indices

#: How far the sum of a row of probabilities may be from 1; half precision needs this much.
TOLERANCE = 1e-3

#: How far probabilities may lie outside [0, 1]; means in single precision need this much.
ROUNDING = 1e-6


def as_numbers(argument: str, values: Any) -> NDArray[np.float64]:
    """Check that values are finite numbers of shape (n,) or (n, classes), in any kind of array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        table = np.asarray(values)
        if table.dtype.kind not in "biufO":
            raise TypeError
        table = table.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise expected(argument, "to be an array of numbers", type(values).__name__) from None
    if table.ndim not in (1, 2) or 0 in table.shape:
        raise expected(argument, "of shape (n,) or (n, classes)", f"shape {table.shape}")
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(1))[0])
        raise expected(argument, "without NaN or infinity", f"{show(table[row].tolist())} in row {row}")
    return table


def as_probabilities(probabilities: Any, labels: bool = False) -> NDArray[np.float64]:
    """Check probabilities and return (n, columns); a single column is that of the second of two classes.

    >>> as_probabilities([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    p = as_numbers("probabilities", probabilities)
    low, high = p.min(), p.max()
    if low < -ROUNDING or high > 1 + ROUNDING:
        hint = "`fit_calibration` turns scores into probabilities."
        raise expected("probabilities", "in [0, 1]", float(low if low < 0 else high), hint)
    if low < 0 or high > 1:
        p = p.clip(0.0, 1.0)
    if labels:
        return p[:, None] if p.ndim == 1 else p
    if p.ndim == 1 or p.shape[1] == 1:
        p = p.reshape(-1)
        return np.stack([1 - p, p], axis=1)
    gap = np.abs(p.sum(1) - 1)
    if gap.max() > TOLERANCE:
        row = int(gap.argmax())
        raise expected("probabilities", "with rows that sum to 1", f"sum {p[row].sum():.4g} in row {row}")
    return p


def class_indices(
    y: NDArray[Any], width: int, classes: Sequence[Any] | None = None
) -> tuple[NDArray[Any], Indices]:
    """The classes of `width` columns, and the column of each row's label.

    >>> class_indices(np.array(["b", "a", "b"]), 2)
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    y = y.reshape(-1)
    labels = np.unique(y)
    if classes is not None:
        known = np.asarray(classes)
        if known.shape != (width,) or not np.array_equal(np.unique(known), known):
            raise expected("classes", f"to be {width} sorted labels, one per column", show(classes))
        # Compare as Python does: NumPy treats the number 1 and the string "1" as equal.
        stray = [label for label in labels.tolist() if label not in set(known.tolist())]
        if stray:
            raise expected("y", "with labels of `classes` only", show(stray[0]))
    elif len(labels) == width:
        known = labels
    elif y.dtype.kind in "biu" and np.isin(labels, np.arange(width)).all():
        known = np.arange(width).astype(bool if y.dtype.kind == "b" else np.int64)
    else:
        hint = "Name them with `classes`."
        raise expected("y", f"with one class per column, {width}", f"{len(labels)} classes", hint)
    return known, np.searchsorted(known, y).astype(np.int64)


def as_targets(y: Any) -> NDArray[Any]:
    """Labels of any type as an array, with none missing.

    >>> as_targets(["a", "b", None])
    Traceback (most recent call last):
    ValueError: Expected `y` without missing labels, but got None in row 2.
    """
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    try:
        truth = np.asarray(y)
    except ValueError:
        raise expected("y", "with rows of equal length", "rows of different lengths") from None
    if truth.ndim not in (1, 2) or len(truth) == 0:
        raise expected("y", "with one label per row, or one column per label", f"shape {truth.shape}")
    if truth.dtype.kind in "fcOmM":
        # Only missing values differ from themselves; comparing pandas' NA raises an error.
        flat = truth.reshape(len(truth), -1)
        missing = (flat == None) | np.frompyfunc(_differs, 1, 1)(flat).astype(bool)  # noqa: E711
        if missing.any():
            row = int(np.flatnonzero(missing.any(1))[0])
            raise expected("y", "without missing labels", f"{show(flat[row, 0])} in row {row}")
    if truth.dtype.kind == "O" and len({_kind(label) for label in truth.reshape(-1)}) > 1:
        raise expected("y", "with labels of one type", show(truth.reshape(-1)[:3].tolist()))
    return truth


def _differs(label: Any) -> bool:
    try:
        return bool(label != label)
    except TypeError:
        return True


def _kind(label: Any) -> type:
    return float if isinstance(label, numbers.Real) else str if isinstance(label, str) else type(label)


def row_weights(sample_weight: Any, rows: int) -> Floats:
    """Check the weights of the rows; ones by default."""
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
        raise expected("sample_weight", "with finite weights >= 0, not all 0", show(weight[:5].tolist()))
    if not 1e-100 < weight.max() < 1e100:
        raise expected("sample_weight", "small enough to be squared", show(weight.max()))
    return weight
