"""What a table and the options ask for: one `Problem`, and what a report shows of it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign import metrics
from evalign._errors import expected, suggest
from evalign._typing import Floats, Indices
from evalign.cli._console import Console, blame_usage
from evalign.cli._main import UsageError
from evalign.cli._splits import (
    find_by,
    read_groups,
    read_times,
    read_weights,
    split_by_time,
    suggest_splits,
)
from evalign.estimators import Split, draw_shuffled
from evalign.reports import ColumnFacts, DataFacts, TaskFacts, describe_form
from evalign.selection import METHODS, Problem
from evalign.tables import Preparation, Schema, as_labels, drop_unlabelled, fingerprint, is_address, read

#: Labels that mean "positive" or "negative" whatever their share.
POSITIVE = {"1", "true", "yes", "y", "t", "positive", "pos"}
NEGATIVE = {"0", "-1", "false", "no", "n", "f", "negative", "neg"}

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
    jobs: int
    seed: int
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    kinds: tuple[str, ...] = ()
    drop_unlabelled: bool = False
    query: str | None = None
    by: str | None = None


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
    #: How rows are split, in a sentence, if not by chance; and the time of each row, if that decides.
    split: str | None = None
    times: Floats | None = None
    #: The column by which the report divides the rows, and its value in each row as text.
    by: tuple[str, NDArray[Any]] | None = None

    @property
    def task_facts(self) -> TaskFacts:
        """What a report shows of the task."""
        return describe_task(
            self.file, self.target, self.problem.metric, self.problem.constraints, self.labels, self.split
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
        """Split the rows of every class, or groups, or times: some to train on, and a share to hold out."""
        y, groups = self.problem.y, self.problem.groups
        if self.times is not None:
            return split_by_time(self.times, y, [1 - share])[0]
        try:
            train, test = draw_shuffled(1, share, y, groups, seed)[0]
        except ValueError:
            rows = f"{len(y)} rows of {len(self.labels)} classes"
            raise expected("data", f"with enough rows to hold out {share:.0%} of each class", rows) from None
        lost = set(range(len(self.labels))) - set(y[train].tolist())
        if lost:
            wanted = f"with several values per class, of which {share:.0%} can be held out"
            raise expected("group", wanted, f"no others with {self.labels[min(lost)]!r}")
        return train, test

    def draw_windows(self, count: int) -> list[Split] | None:
        """Splits in the order of time: the second half of the rows in windows; None without a time."""
        if self.times is None:
            return None
        return split_by_time(self.times, self.problem.y, np.linspace(0.5, 1, count, endpoint=False).tolist())


def describe_task(
    file: str, target: str, metric: metrics.Metric, constraints: Iterable[metrics.Constraint],
    labels: tuple[str, ...], split: str | None = None,
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
        split=split,
        form=describe_form(metric, labels),
    )


def read_task(console: Console, options: TaskOptions) -> TableTask:
    """Read the table and check everything before any work begins."""
    with blame_usage(table="data", kinds="kind"):
        metric, constraints = metrics.as_metric(options.metric), metrics.as_constraints(options.constraints)
        table, notes = read_table(options.data, options.query)
        check_column(options.target, table)
        if options.drop_unlabelled:
            table, dropped = drop_unlabelled(table, options.target)
            notes += (f"{dropped:,} rows without a label were left out.",) if dropped else ()
        names, y = encode_classes(table[options.target], options.positive)
        metric, constraints = metrics.resolve_classes(metric, constraints, names)
        rare, rows = _find_rarest(names, y)
        if rows < 2:
            others = int((np.bincount(y) == 1).sum()) - 1
            more = f", and of {others} other class{'es' if others > 1 else ''}" if others else ""
            hint = "Leave out such rows, or join the class with a similar one."
            raise expected("target", "with at least two rows of every class", f"one of {rare!r}{more}", hint)
        groups, weights, times = _read_roles(table, options)
        if weights is not None and not (sums := np.bincount(y, weights)).all():
            lost = f"only 0 for {names[int(sums.argmin())]!r}"
            raise expected("weight", "with a number above 0 in every class", lost)
        roles = [name for name in (options.group, options.weight, options.time) if name is not None]
        schema = Schema.infer(table.drop(columns=roles), options.target, parse_kinds(options.kinds))
        by = find_by(table, options.by, options.group, options.target)
        X, preparation = schema.convert(table), Preparation(schema)
        problem = Problem.check(X, y, metric, constraints, preparation, weights, groups)
        problem = replace(problem, categorical=preparation.categorical)
        _check_metric(problem)
    notes += schema.warnings
    if options.group is None and options.time is None:
        notes += suggest_splits(schema, X, y)
    if options.weight is not None:
        notes += (
            f"`{options.weight}` weighs rows in training and in the comparison; the report counts rows.",
        )
    if rows < FEW:
        notes += (f"Only {rows} of {len(y):,} rows are {rare!r}: differences may well be due to chance.",)
    console.warn(notes)
    if options.positive is None and len(names) == 2:
        console.remark(f"The positive class is {names[1]!r}; --positive selects the other.")
    return TableTask(
        options.data, options.target, names, problem, schema, _describe_columns(schema, X, table), notes,
        fingerprint(table), _describe_split(options), times, by,
    )  # fmt: skip


def parse_kinds(texts: Iterable[str]) -> dict[str, str]:
    """The kinds of columns from texts of the form name=kind.

    >>> parse_kinds(["zip=category", "a=b=text"])
    {'zip': 'category', 'a=b': 'text'}
    """
    kinds: dict[str, str] = {}
    for text in texts:
        name, separator, kind = text.rpartition("=")
        if not separator or name in kinds:
            raise expected("kind", "of the form NAME=KIND, once per column", repr(text))
        kinds[name] = kind
    return kinds


def _read_roles(table: Any, options: TaskOptions) -> tuple[Indices | None, Floats | None, Floats | None]:
    """The group, the weight and the time of each row, for the options that are given."""
    given = {"group": options.group, "weight": options.weight, "time": options.time}
    names = {role: name for role, name in given.items() if name is not None}
    for role, name in names.items():
        check_column(name, table, role)
        if name == options.target or list(names.values()).count(name) > 1:
            raise expected(role, "to be a column of its own", repr(name))
    if options.group is not None and options.time is not None:
        raise expected("group", "without `time`", "both")
    return (
        None if options.group is None else read_groups(table, options.group),
        None if options.weight is None else read_weights(table, options.weight),
        None if options.time is None else read_times(table, options.time, options.target),
    )


def _describe_split(options: TaskOptions) -> str | None:
    if options.group is not None:
        return f"rows of one {options.group} are never on both sides of a split"
    return None if options.time is None else f"later rows judge, in the order of {options.time}"


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


def read_table(file: str, query: str | None) -> tuple[Any, tuple[str, ...]]:
    """Read a table, and collect the warnings about its file."""
    with blame_usage(source="data"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read(file, query)
    return table, tuple(dict.fromkeys(str(one.message) for one in caught))


def strip_path(file: str) -> str:
    """The file name without its path, and of an address without what may be a secret."""
    return "standard input" if file == "-" else Path(file.split("?")[0] if is_address(file) else file).name


def check_column(name: str, table: Any, role: str = "target") -> None:
    """Refuse a name that is not a column, and suggest similar ones."""
    if name not in table.columns:
        raise expected(role, "to be a column", repr(name), suggest(name, table.columns))


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


def parse_methods(text: str | None, known: Collection[str] = METHODS) -> list[str]:
    """The names of methods in a text, separated by commas; None means all methods."""
    if text is None:
        return list(known)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(
                f"Expected `methods` to be known names, but got {name!r}. {suggest(name, known)}"
            )
    if not names or len(set(names)) < len(names):
        raise UsageError(f"Expected `methods` to be different names, but got {text!r}.")
    return names
