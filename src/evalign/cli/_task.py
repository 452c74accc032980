"""What a file and the options ask for: features, classes, metric and constraints."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evalign
from evalign import metrics
from evalign._errors import expected, suggest
from evalign.cli._console import Console, usage
from evalign.cli._main import UsageError
from evalign.selection import METHODS, Problem
from evalign.tables import Preparation, Schema, as_labels, fingerprint, read

#: Labels that mean "positive" whatever their share.
POSITIVE = {"1", "true", "yes", "y", "t", "positive", "pos"}
NEGATIVE = {"0", "-1", "false", "no", "n", "f", "negative", "neg"}

#: Below so many rows of a class, methods differ by chance more than by merit.
FEW = 40


@dataclass(frozen=True)
class Task:
    """A table to learn from, and what its classifiers are judged by."""

    file: str
    target: str
    table: Any
    schema: Schema
    X: Any
    y: NDArray[np.int64]
    labels: tuple[str, ...]
    metric: metrics.Metric
    constraints: tuple[metrics.Constraint, ...]
    warnings: tuple[str, ...]
    fingerprint: str

    @property
    def positive(self) -> str | None:
        """The positive of two classes."""
        return self.labels[1] if len(self.labels) == 2 else None

    @cached_property
    def problem(self) -> Problem:
        """What methods are tried on; the columns are prepared anew for every one."""
        return Problem.checked(self.X, self.y, self.metric, self.constraints, Preparation(self.schema))

    def facts(self) -> dict[str, Any]:
        """What a report says of the task and its data."""
        counts = np.bincount(self.y, minlength=len(self.labels)).tolist()
        return {
            "task": {
                "file": file_name(self.file),
                "target": self.target,
                "metric": self.metric.name,
                "higher_is_better": self.metric.higher_is_better,
                "constraints": [one.name for one in self.constraints],
                "classes": list(self.labels),
                "positive": self.positive,
            },
            "data": {
                "rows": len(self.y),
                "columns": [self._column(column) for column in self.schema.columns],
                "class_counts": dict(zip(self.labels, counts, strict=True)),
                "warnings": list(self.warnings),
            },
        }

    def _column(self, column: Any) -> dict[str, Any]:
        values = self.X[column.name] if column.name in self.X else self.table[column.name]
        return {
            "name": column.name,
            "kind": column.kind,
            "missing": int(values.isna().sum()),
            "distinct": int(values.nunique()),
            "note": column.note,
        }


def task_of(
    console: Console, file: str, target: str, metric: str, positive: str | None, constraints: Sequence[str]
) -> Task:
    """Read and check everything before any work begins."""
    with usage():
        found, bounds = metrics.as_metric(metric), metrics.as_constraints(list(constraints))
        table, said = quietly_read(file)
        check_column(target, table)
        names, y = classes_of(table[target], positive)
        rarest = int(np.bincount(y).argmin())
        rows = int((y == rarest).sum())
        if rows < 2:
            raise expected("target", "with at least two rows of every class", f"one of {names[rarest]!r}")
        schema = Schema.infer(table, target)
        X = schema.convert(table)
        few = f"Only {rows} of {len(y):,} rows are {names[rarest]!r}: differences may well be chance."
        remarks = (*said, *schema.warnings, *([few] if rows < FEW else []))
        task = Task(file, target, table, schema, X, y, names, found, bounds, remarks, fingerprint(table))
        _check_metric(task)
    for remark in remarks:
        console.remark(f"Note: {remark}")
    if positive is None and len(names) == 2:
        console.remark(f"The positive class is {names[1]!r}; --positive chooses another.")
    return task


def _check_metric(task: Task) -> None:
    """Refuse a metric that is not one number, or never a finite one, before it costs a training."""
    counts = np.bincount(task.y).astype(float)
    guesses = (np.diag(counts), counts[:, None] * counts / counts.sum())  # all right, and by chance
    found = [float(task.problem.metric(guess)) for guess in guesses]
    if not np.isfinite(found).any():
        raise expected("metric", "to be a finite number", f"{found[0]} if all predictions are right")


def quietly_read(file: str) -> tuple[Any, tuple[str, ...]]:
    """A table, and what there is to say about its file."""
    with usage(source="data"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read(file)
    return table, tuple(dict.fromkeys(str(one.message) for one in caught))


def file_name(file: str) -> str:
    """What a report calls a file; where it lies is nobody's business."""
    return "standard input" if file == "-" else Path(file).name


def check_column(name: str, table: Any) -> None:
    """Refuse a name that is not a column, and say which are near."""
    if name not in table.columns:
        raise expected("target", "to be a column", repr(name), suggest(name, table.columns))


def classes_of(column: Any, positive: str | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names of the classes, the positive one of two last, and the class of each row."""
    names, codes, counts = np.unique(as_labels(column), return_inverse=True, return_counts=True)
    order = names.tolist()
    if positive is not None and len(order) != 2:
        raise expected("positive", "only with two classes", f"{len(order)} classes")
    if len(order) > 2:
        return tuple(order), codes.astype(np.int64)
    chosen = _usual(order, counts.tolist()) if positive is None else _asked(order, positive)
    if chosen == order[0]:
        return (order[1], order[0]), 1 - codes.astype(np.int64)
    return (order[0], order[1]), codes.astype(np.int64)


def _asked(names: list[str], positive: str) -> str:
    """The class that the user means: 1.0 may stand for 1, and Yes for yes."""
    try:
        return str(as_labels([positive], known=names)[0])
    except ValueError:
        raise expected("positive", f"to be {' or '.join(map(repr, names))}", repr(positive)) from None


def _usual(names: list[str], counts: list[int]) -> str:
    """Which of two classes is the positive one if nobody says: by its name, else the rarer one."""
    plain = [name.strip(" '\"").lower() for name in names]
    for word, other, name in ((plain[0], plain[1], names[0]), (plain[1], plain[0], names[1])):
        if word in POSITIVE and other in NEGATIVE:
            return name
    return names[0] if counts[0] < counts[1] else names[1]


def methods_of(text: str | None) -> list[str]:
    """The names of methods in a text with commas between."""
    if text is None:
        return list(METHODS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in METHODS:
            raise UsageError(
                f"Expected `methods` to be known names, but got {name!r}. {suggest(name, METHODS)}"
            )
    if not names or len(set(names)) < len(names):
        raise UsageError(f"Expected `methods` to be different names, but got {text!r}.")
    return names


def versions() -> dict[str, str]:
    """The versions of what the numbers depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"evalign": evalign.__version__, "python": sys.version.split()[0]}
    for name in ("torch", "scikit-learn", "lightgbm", "numpy", "pandas"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
