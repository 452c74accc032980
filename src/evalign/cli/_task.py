"""What a table and the options ask for: one `Problem`, and what a report shows of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from evalign import metrics
from evalign._errors import expected, suggest
from evalign._typing import Indices
from evalign.cli._console import Console, blame_usage
from evalign.cli._main import UsageError
from evalign.reports import ColumnFacts, DataFacts, TaskFacts
from evalign.selection import METHODS, Problem
from evalign.tables import Preparation, Schema, as_labels, fingerprint, read

#: Labels that mean "positive" or "negative" whatever their share.
POSITIVE = {"1", "true", "yes", "y", "t", "positive", "pos"}
NEGATIVE = {"0", "-1", "false", "no", "n", "f", "negative", "neg"}

#: The rows to train on, and the held-out rows.
Split = tuple[Indices, Indices]

#: With fewer rows of a class than this, methods differ by chance more than by merit.
FEW = 40


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options that `compare` and `fit` share."""

    data: str
    target: str
    metric: str
    positive: str | None
    constraints: tuple[str, ...]
    methods: str | None
    repeats: int
    jobs: int
    seed: int


@dataclass(frozen=True)
class TableTask:
    """A table to learn from, and the problem that its classifiers solve: predict 0, 1, ... for `labels`."""

    file: str
    target: str
    labels: tuple[str, ...]
    problem: Problem
    schema: Schema
    columns: tuple[ColumnFacts, ...]
    warnings: tuple[str, ...]
    fingerprint: str

    @property
    def task_facts(self) -> TaskFacts:
        """What a report shows of the task."""
        return describe_task(
            self.file, self.target, self.problem.metric, self.problem.constraints, self.labels
        )

    @property
    def data_facts(self) -> DataFacts:
        """What a report shows of the table."""
        counts = np.bincount(self.problem.y, minlength=len(self.labels)).tolist()
        return DataFacts(
            rows=len(self.problem.y),
            columns=self.columns,
            class_counts=dict(zip(self.labels, counts, strict=True)),
            warnings=self.warnings,
            fingerprint=self.fingerprint,
        )

    def hold_out(self, seed: int, share: float = 0.2) -> Split:
        """Split the rows of every class: some to train on, and a share to hold out."""
        y = self.problem.y
        try:
            split = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
            train, test = next(split.split(y, y))
        except ValueError:
            rows = f"{len(y)} rows of {len(self.labels)} classes"
            raise expected("data", f"with enough rows to hold out {share:.0%} of each class", rows) from None
        return train, test


def describe_task(
    file: str, target: str, metric: metrics.Metric, constraints: Iterable[metrics.Constraint],
    labels: tuple[str, ...],
) -> TaskFacts:  # fmt: skip
    """What a report shows of a task; of two classes, the second is positive."""
    return TaskFacts(
        file=strip_path(file),
        target=target,
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        constraints=tuple(one.name for one in constraints),
        classes=labels,
        positive=labels[1] if len(labels) == 2 else None,
    )


def read_task(console: Console, options: TaskOptions) -> TableTask:
    """Read the table and check everything before any work begins."""
    with blame_usage():
        metric, constraints = metrics.as_metric(options.metric), metrics.as_constraints(options.constraints)
        table, notes = read_table(options.data)
        check_column(options.target, table)
        names, y = encode_classes(table[options.target], options.positive)
        rare, rows = _find_rarest(names, y)
        if rows < 2:
            raise expected("target", "with at least two rows of every class", f"one of {rare!r}")
        schema = Schema.infer(table, options.target)
        X = schema.convert(table)
        problem = Problem.check(X, y, metric, constraints, Preparation(schema))
        _check_metric(problem)
    notes += schema.warnings
    if rows < FEW:
        notes += (f"Only {rows} of {len(y):,} rows are {rare!r}: differences may well be due to chance.",)
    console.warn(notes)
    if options.positive is None and len(names) == 2:
        console.remark(f"The positive class is {names[1]!r}; --positive selects the other.")
    return TableTask(
        options.data, options.target, names, problem, schema, _describe_columns(schema, X, table), notes,
        fingerprint(table),
    )  # fmt: skip


def _find_rarest(names: tuple[str, ...], y: Indices) -> tuple[str, int]:
    """The class with the fewest rows, and their number."""
    counts = np.bincount(y)
    return names[counts.argmin()], int(counts.min())


def _check_metric(problem: Problem) -> None:
    """Refuse a metric that is never finite before it costs a training."""
    counts = np.bincount(problem.y).astype(float)
    guesses = (np.diag(counts), counts[:, None] * counts / counts.sum())  # all right, and by chance
    values = [float(problem.metric(guess)) for guess in guesses]
    if not np.isfinite(values).any():
        raise expected("metric", "to be a finite number", f"{values[0]} if all predictions are right")


def _describe_columns(schema: Schema, X: Any, table: Any) -> tuple[ColumnFacts, ...]:
    facts = []
    for column in schema.columns:
        values = X[column.name] if column.name in X else table[column.name]
        missing, distinct = int(values.isna().sum()), int(values.nunique())
        facts.append(ColumnFacts(column.name, column.kind, missing, distinct, column.note))
    return tuple(facts)


def read_table(file: str) -> tuple[Any, tuple[str, ...]]:
    """Read a table, and collect the warnings about its file."""
    with blame_usage(source="data"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read(file)
    return table, tuple(dict.fromkeys(str(one.message) for one in caught))


def strip_path(file: str) -> str:
    """The file name without its path."""
    return "standard input" if file == "-" else Path(file).name


def check_column(name: str, table: Any) -> None:
    """Refuse a name that is not a column, and suggest similar ones."""
    if name not in table.columns:
        raise expected("target", "to be a column", repr(name), suggest(name, table.columns))


def encode_classes(column: Any, positive: str | None) -> tuple[tuple[str, ...], Indices]:
    """The names of the classes, with the positive one of two last, and the class of each row."""
    names, codes, counts = np.unique(as_labels(column), return_inverse=True, return_counts=True)
    order = names.tolist()
    if positive is not None and len(order) != 2:
        raise expected("positive", "only with two classes", f"{len(order)} classes")
    if len(order) > 2:
        return tuple(order), codes.astype(np.int64)
    last = _guess_positive(order, counts.tolist()) if positive is None else _match_class(order, positive)
    if last == order[0]:
        return (order[1], order[0]), 1 - codes.astype(np.int64)
    return (order[0], order[1]), codes.astype(np.int64)


def _match_class(names: list[str], text: str) -> str:
    """The class that the user means: 1.0 may stand for 1, and Yes for yes."""
    try:
        return str(as_labels([text], known=names)[0])
    except ValueError:
        raise expected("positive", f"to be {' or '.join(map(repr, names))}", repr(text)) from None


def _guess_positive(names: list[str], counts: list[int]) -> str:
    """The positive one of two classes by default: by its name, else the rarer one."""
    words = [name.strip(" '\"").lower() for name in names]
    for word, other, name in ((words[0], words[1], names[0]), (words[1], words[0], names[1])):
        if word in POSITIVE and other in NEGATIVE:
            return name
    return names[0] if counts[0] < counts[1] else names[1]


def parse_methods(text: str | None) -> list[str]:
    """The names of methods in a text, separated by commas; None means all methods."""
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
