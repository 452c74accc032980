"""Which rows may judge which: groups that stay together, times in order, and the weights of rows."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evalign._errors import expected, suggest
from evalign._typing import Floats, Indices
from evalign.estimators import Split
from evalign.tables import Column, Schema

#: A column with fewer values, or with fewer rows per value on average, is not taken for a group.
_FEWEST_GROUPS, _FEWEST_ROWS = 10, 2
#: How much better than by chance a column without the name of an id has to tell the classes, and its values.
_PURER, _MANY_GROUPS = 0.15, 50
#: The least change of the share of a class between the first and the last third of the time.
_CHANGE = 0.1
#: A report is not divided by a group with more values than this; numbers with more are divided into ranges.
_FEW_GROUPS, _FEW_VALUES = 20, 8
#: How a division of the rows calls those without a value.
MISSING = "(missing)"
_WORDS = (
    "id",
    "patient",
    "user",
    "customer",
    "client",
    "subject",
    "person",
    "household",
    "account",
    "device",
)


def read_groups(table: Any, name: str) -> Indices:
    """The number of each row's group."""
    codes, groups = pd.factorize(Column(name, "category").convert(table[name]))
    if (codes < 0).any():
        raise expected(
            "group", "with a value in every row", f"{int((codes < 0).sum())} rows without {name!r}"
        )
    if len(groups) < 2:
        raise expected("group", "with at least two values", f"only {groups[0]!r} as {name!r}")
    return np.asarray(codes, dtype=np.int64)


def read_weights(table: Any, name: str) -> Floats:
    """The weight of each row."""
    weights = np.asarray(Column(name, "number").convert(table[name]))
    wrong = np.flatnonzero(~(weights >= 0))
    if wrong.size:
        value = table[name].iloc[wrong[0]]
        raise expected(
            "weight", "with a number >= 0 in every row", f"{value!r} in row {wrong[0] + 1} of {name!r}"
        )
    if not weights.any():
        raise expected("weight", "with a number above 0", f"only 0 as {name!r}")
    return weights


def read_times(table: Any, name: str, target: str) -> Floats:
    """The time of each row: dates as seconds, numbers as they are."""
    column, own = None, table[[name, target]]
    for kinds in ({}, {name: "number"}):  # what numbers the rows is not learned from, but may be a time
        with suppress(ValueError):
            (column,) = Schema.infer(own, target, kinds).columns
            break
    if column is None or column.kind not in ("date", "number"):
        wanted = "to be a column of numbers, or of dates such as 2024-12-31, that differ"
        raise expected("time", wanted, repr(name) if column is None else f"{name!r} ({column.kind})")
    values = column.convert(table[name])
    missing = int(pd.isna(values).sum())
    if missing:
        raise expected("time", "with a value in every row", f"{missing} rows without {name!r}")
    times = np.asarray(values)
    return np.asarray(times.astype("datetime64[us]") if column.kind == "date" else times, dtype=float)


def find_by(table: Any, by: str | None, group: str | None, target: str) -> tuple[str, NDArray[Any]] | None:
    """The column by which a report divides the rows, and its values: the one named, or a group with few."""
    if by is not None and by not in table.columns:
        raise expected("by", "to be a column", repr(by), suggest(by, table.columns))
    name = group if by is None else by
    if name is None or (by is None and table[name].nunique() > _FEW_GROUPS):
        return None
    return name, read_values(table, name, target)


def read_values(table: Any, name: str, target: str) -> NDArray[Any]:
    """The value of each row as text; numbers and dates with many values in four ranges of about equal size.

    >>> table = pd.DataFrame({"age": [20, 31, 45, 60, 33, 70] * 5, "y": ["a", "b"] * 15})
    >>> sorted(set(read_values(table, "age", "y")))
    ['20', '31', '33', '45', '60', '70']
    """
    column = None
    if name != target and table[name].nunique() > _FEW_VALUES:
        with suppress(ValueError):  # a column that no model can learn from, such as a number of the row
            columns = Schema.infer(table[[name, target]], target).columns
            column = next((one for one in columns if one.kind in ("number", "date")), None)
    if column is None:
        texts = Column(name, "category").convert(table[name])
        return np.array([MISSING if pd.isna(one) else str(one) for one in texts], dtype=object)
    values = column.convert(table[name])
    ranges = pd.qcut(pd.Series(values), 4, duplicates="drop")
    words = {one: _describe_range(one.left, one.right, column.kind) for one in ranges.cat.categories}
    return np.array([MISSING if pd.isna(one) else words[one] for one in ranges], dtype=object)


def _describe_range(low: Any, high: Any, kind: str) -> str:
    if kind == "date":
        return f"{low.date()} to {high.date()}"
    return f"{low:.4g} to {high:.4g}"


def split_by_time(times: Floats, y: Indices, shares: list[float]) -> list[Split]:
    """Train on the rows before each share of the time, and test on those up to the next.

    >>> [(train.tolist(), test.tolist()) for train, test in split_by_time(
    ...     np.array([3.0, 1, 2, 4, 2, 1]), np.array([0, 0, 1, 1, 0, 1]), [0.5, 0.8])]
    [([1, 5], [2, 4]), ([1, 2, 4, 5], [0, 3])]
    """
    ordered = np.sort(times)
    # Rows of the same time are on the same side.
    cuts = [ordered[int(share * len(times))] for share in shares] + [np.inf]
    splits = []
    for start, end in pairwise(cuts):
        train, test = np.flatnonzero(times < start), np.flatnonzero((times >= start) & (times < end))
        if len(np.unique(y[train])) < len(np.unique(y)) or not test.size:
            wanted = "with rows of every class before those that judge"
            raise expected("time", wanted, f"{len(train)} rows before and {len(test)} rows after")
        splits.append((train, test))
    return splits


def suggest_splits(schema: Schema, X: Any, y: Indices) -> tuple[str, ...]:
    """Warn of columns that look like groups, and of classes that change over time."""
    notes = []
    for name, kind in ((column.name, column.kind) for column in schema.inputs):
        values = X[name]
        if kind in ("category", "number") and _is_group(name, kind, values, y):
            several = f"{values.nunique():,} values with several rows each"
            notes.append(
                f"`{name}` looks like a group ({several}): if new rows will have other values, only "
                f"--group {name} shows how good the model is there."
            )
        if kind == "date" and _changes_over_time(values, y):
            notes.append(f"The classes change over `{name}`: with --time {name}, later rows judge.")
    return tuple(notes)


def _is_group(name: str, kind: str, values: Any, y: Indices) -> bool:
    present = values.dropna()
    distinct = present.nunique()
    if distinct < _FEWEST_GROUPS or len(present) < _FEWEST_ROWS * distinct:
        return False
    if kind == "number" and (present != present.round()).any():
        return False
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    if words[-1] in _WORDS or name.endswith(("Id", "ID")):
        return True
    if kind == "number" or distinct < _MANY_GROUPS:
        return False
    codes = pd.factorize(values)[0]
    shuffled = np.random.default_rng(0).permutation(y)
    return _measure_purity(codes, y) > _measure_purity(codes, shuffled) + _PURER


def _measure_purity(codes: Indices, y: NDArray[Any]) -> float:
    """The share of rows whose class is the most frequent one of their group."""
    known = codes >= 0
    counts = np.zeros((codes.max() + 1, y.max() + 1))
    np.add.at(counts, (codes[known], y[known]), 1)
    return float(counts.max(1).sum() / known.sum())


def _changes_over_time(values: Any, y: Indices) -> bool:
    known = ~values.isna().to_numpy()
    ordered = y[known][np.argsort(values[known].to_numpy(), kind="stable")]
    part = len(ordered) // 3
    if not part:
        return False
    first, last = (
        np.bincount(rows, minlength=y.max() + 1) / part for rows in (ordered[:part], ordered[-part:])
    )
    # Three standard errors of the difference of two shares.
    return bool(np.abs(first - last).max() > max(_CHANGE, 3 * np.sqrt(0.5 / part)))
