"""`explain`: which columns matter to a model, and how, measured on held-out rows in a bounded time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from evalign import metrics
from evalign._typing import Floats, Indices, MetricLike
from evalign.metrics import Metric
from evalign.reports._held_out import as_indices
from evalign.reports._paired import compare_decisions
from evalign.reports.facts import DependenceFacts, ExplanationFacts, ImportanceFacts, as_numbers

#: The most columns that are measured, and of which the dependence is shown.
MOST_COLUMNS, MOST_DEPENDENCES = 15, 4
#: The most and the fewest rows in which a column is permuted, and the most permutations of it.
MOST_ROWS, FEWEST_ROWS, REPEATS = 5000, 200, 5
#: The rows by which columns are chosen where there are many, and by which dependences are averaged.
SCREENING_ROWS, DEPENDENCE_ROWS = 60, 200
#: The share of the time that is kept for them.
DEPENDENCE_SHARE = 0.3
#: The values of a column at which its dependence is shown.
VALUES = 10
#: The most classes of which it is shown.
MOST_CLASSES = 4
#: The most rows that are predicted at once.
CHUNK = 20_000


def explain(
    models: Sequence[Any], parts: Sequence[Indices], X: Any, y: Any, metric: MetricLike,
    kinds: Mapping[str, str], *, seconds: float, seed: int = 0,
) -> ExplanationFacts:  # fmt: skip
    """Permute each column of held-out rows, and measure by how much the metric falls.

    Args:
        models: Fitted classifiers with `classes_`, `predict` and `predict_proba`, one per part.
        parts: The rows of each part, which its model was not trained on.
        X: The columns of all rows, as a DataFrame.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        kinds: The kind of each column: "number", "boolean", "date", "category" or another.
        seconds: The time to spend; rows and permutations are fewer where it is short.
        seed: The seed of the rows and permutations.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = pd.DataFrame({"noise": [0.0, 1.0] * 200, "signal": np.arange(400.0)})
    >>> y = np.arange(400) >= 200
    >>> model = DecisionTreeClassifier().fit(X, y)
    >>> facts = explain([model], [np.arange(400)], X, y, "accuracy", dict.fromkeys(X, "number"), seconds=9)
    >>> [(one.column, one.value > 0.3) for one in facts.importances]
    [('signal', True), ('noise', False)]

    References:
        Breiman (2001), Random forests, section 10.
    """
    end = perf_counter() + seconds
    target = metrics.as_metric(metric, scalar=True)
    rows = _SampledRows.draw(models, parts, X, y, seed)
    target, _ = metrics.resolve_classes(target, (), rows.classes)
    columns = [name for name in X if name in kinds]
    start, pace = _measure_pace(rows)
    needed = start + pace * SCREENING_ROWS * len(columns)
    if len(columns) > MOST_COLUMNS:
        if needed > (end - perf_counter()) / 2:
            return _skip(target, f"{len(columns):,} columns would take about {2 * needed:.1f} s", end)
        columns = _screen(rows, columns, seed)
    affordable = ((end - perf_counter()) / 2 - start) / pace / (len(columns) + 1)
    if affordable < min(FEWEST_ROWS, rows.size):
        needed = 2 * (start + pace * FEWEST_ROWS * (len(columns) + 1))
        return _skip(target, f"it would take about {needed:.1f} s", end)
    sample = rows.take(int(min(affordable, MOST_ROWS)))
    repeats, importances = _permute(sample, columns, target, end - DEPENDENCE_SHARE * seconds, seed)
    chosen = [one.column for one in importances if kinds[one.column] in _KINDS][:MOST_DEPENDENCES]
    each = (end - perf_counter()) / max(len(chosen), 1)
    n_rows = int(min((each - start) / pace / VALUES, DEPENDENCE_ROWS))
    enough = n_rows >= min(DEPENDENCE_ROWS, rows.size) // 4
    return ExplanationFacts(
        metric=target.name,
        rows=sample.size,
        repeats=repeats,
        columns=len([name for name in X if name in kinds]),
        importances=tuple(importances),
        dependences=_trace_dependences(rows.take(n_rows), chosen, X, kinds) if enough else (),
    )


@dataclass(frozen=True)
class _SampledRows:
    """Held-out rows in parts, each with the model that was not trained on it."""

    classes: tuple[str, ...]
    models: tuple[Any, ...]
    frames: tuple[Any, ...]
    truths: tuple[Indices, ...]

    @classmethod
    def draw(cls, models: Sequence[Any], parts: Sequence[Indices], X: Any, y: Any, seed: int) -> _SampledRows:
        """Draw rows of every part, in a random order."""
        generator, total = np.random.default_rng(seed), sum(map(len, parts))
        labels = np.asarray(models[0].classes_)
        truth = as_indices("y", np.asarray(y), labels)
        drawn = []
        for part in parts:
            size = min(len(part), -(-MOST_ROWS * len(part) // total))
            drawn.append(generator.permutation(np.asarray(part))[:size])
        return cls(
            tuple(str(label) for label in labels.tolist()),
            tuple(models),
            tuple(X.iloc[rows].reset_index(drop=True) for rows in drawn),
            tuple(truth[rows] for rows in drawn),
        )

    @property
    def size(self) -> int:
        """The number of rows."""
        return sum(map(len, self.truths))

    @property
    def truth(self) -> Indices:
        """The class of each row."""
        return np.concatenate(self.truths)

    def take(self, size: int) -> _SampledRows:
        """About `size` of the rows, taken from every part in proportion."""
        sizes = [min(len(own), max(1, -(-size * len(own) // self.size))) for own in self.truths]
        frames = tuple(frame.iloc[:n] for frame, n in zip(self.frames, sizes, strict=True))
        truths = tuple(own[:n] for own, n in zip(self.truths, sizes, strict=True))
        return _SampledRows(self.classes, self.models, frames, truths)

    def predict(self, frames: Sequence[Any]) -> Indices:
        """The decision about each row of the frames of every part."""
        labels = np.asarray(self.models[0].classes_)
        pairs = zip(self.models, frames, strict=True)
        return np.concatenate(
            [as_indices("model", np.asarray(model.predict(frame)), labels) for model, frame in pairs]
        )

    def predict_proba(self, frames: Sequence[Any]) -> Floats:
        """The probabilities of each row of the frames of every part."""
        pairs = zip(self.models, frames, strict=True)
        return np.concatenate([np.asarray(model.predict_proba(frame)) for model, frame in pairs])


def _skip(metric: Metric, reason: str, end: float) -> ExplanationFacts:
    spare = max(end - perf_counter(), 0.0)
    return ExplanationFacts(metric.name, skipped=f"{reason}, and there are only {spare:.1f} s")


def _measure_pace(rows: _SampledRows) -> tuple[float, float]:
    """The seconds that a prediction takes at least, and those that each further row takes."""
    times = []
    for size in (len(rows.models), min(rows.size, 4 * FEWEST_ROWS)):
        part = rows.take(size)
        begin = perf_counter()
        part.predict(part.frames)
        times.append((perf_counter() - begin, part.size))
    (first, few), (second, many) = times
    pace = (second - first) / (many - few) if many > few else 0.0
    return first, max(pace, 1e-7)


def _copy_permuted(rows: _SampledRows, columns: Sequence[str], generator: np.random.Generator) -> list[Any]:
    """For every part, one copy of its rows per column, in which the values of that column are permuted."""
    frames = []
    for frame in rows.frames:
        n = len(frame)
        big = frame.iloc[np.tile(np.arange(n), len(columns))].reset_index(drop=True)
        for place, name in enumerate(columns):
            taken = np.tile(np.arange(n), len(columns))
            taken[place * n : (place + 1) * n] = generator.permutation(n)
            big[name] = frame[name].array.take(taken)
        frames.append(big)
    return frames


def _regroup(values: Any, rows: _SampledRows, n_copies: int) -> Any:
    """Predictions of copies of every part as (copies, rows, ...), with the rows in the order of the parts."""
    sizes = [len(own) * n_copies for own in rows.truths]
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return np.concatenate([one.reshape(n_copies, -1, *values.shape[1:]) for one in parts], axis=1)


def _split_columns(rows: _SampledRows, columns: Sequence[str]) -> list[Sequence[str]]:
    step = max(1, CHUNK // rows.size)
    return [columns[k : k + step] for k in range(0, len(columns), step)]


def _screen(rows: _SampledRows, columns: list[str], seed: int) -> list[str]:
    """The columns whose permutation changes the probabilities of some rows most."""
    part, generator = rows.take(SCREENING_ROWS), np.random.default_rng(seed)
    base = part.predict_proba(part.frames)
    changes: list[float] = []
    for some in _split_columns(part, columns):
        p = _regroup(part.predict_proba(_copy_permuted(part, some, generator)), part, len(some))
        changes += np.abs(p - base).mean((1, 2)).tolist()
    order = np.argsort(-np.array(changes), kind="stable")[:MOST_COLUMNS]
    return [columns[place] for place in sorted(order)]


def _permute(
    rows: _SampledRows, columns: list[str], metric: Metric, end: float, seed: int
) -> tuple[int, list[ImportanceFacts]]:
    """The importance of each column, the largest first, and the number of permutations there was time for."""
    generator = np.random.default_rng(seed)
    decisions: list[Indices] = []
    base = rows.predict(rows.frames)
    while len(decisions) < REPEATS:
        begin = perf_counter()
        once = [
            _regroup(rows.predict(_copy_permuted(rows, some, generator)), rows, len(some))
            for some in _split_columns(rows, columns)
        ]
        decisions.append(np.concatenate(once))
        if 2 * perf_counter() - begin > end:
            break
    repeats, d = len(decisions), len(rows.classes)
    truth, own = np.tile(rows.truth, repeats), np.tile(base, repeats)
    importances = []
    for place, name in enumerate(columns):
        other = np.concatenate([one[place] for one in decisions])
        drop = compare_decisions(truth, own, other, d, metric, n_rows=rows.size)
        importances.append(ImportanceFacts(name, drop.value, drop.low, drop.high))
    return repeats, sorted(importances, key=lambda one: -(one.value or 0.0))


def _trace_dependences(
    rows: _SampledRows, columns: Sequence[str], X: Any, kinds: Mapping[str, str]
) -> tuple[DependenceFacts, ...]:
    """The mean probability of the classes at some values of each column."""
    common = np.argsort(-np.bincount(rows.truth, minlength=len(rows.classes)), kind="stable")[:MOST_CLASSES]
    shown = [1] if len(rows.classes) == 2 else sorted(common.tolist())
    facts = []
    for name in columns:
        places = _choose_values(X[name], kinds[name])
        frames = []
        for frame in rows.frames:
            big = frame.iloc[np.tile(np.arange(len(frame)), len(places))].reset_index(drop=True)
            big[name] = X[name].array.take(np.repeat(places, len(frame)))
            frames.append(big)
        p = _regroup(rows.predict_proba(frames), rows, len(places)).mean(1)
        values = X[name].iloc[places]
        facts.append(
            DependenceFacts(
                column=name,
                labels=tuple(_label(value, kinds[name]) for value in values),
                positions=tuple(map(float, values)) if kinds[name] == "number" else None,
                probabilities={rows.classes[k]: as_numbers(p[:, k]) for k in shown},
            )
        )
    return tuple(facts)


#: The kinds of columns whose dependence can be shown.
_KINDS = ("number", "boolean", "date", "category")


def _choose_values(values: Any, kind: str) -> Indices:
    """The places of some values of a column: quantiles in order, or the most frequent categories."""
    known = np.flatnonzero(~values.isna().to_numpy())
    if kind == "category":
        frequent = values.iloc[known].value_counts().index[:VALUES]
        first = ~values.iloc[known].duplicated().to_numpy()
        place_of = dict(zip(values.iloc[known[first]], known[first], strict=True))
        return np.array([place_of[value] for value in frequent], dtype=np.int64)
    ordered = known[np.argsort(values.iloc[known].to_numpy(), kind="stable")]
    # Few rows are beyond these quantiles; both values of a boolean are shown, however rare one is.
    first, last = (0.0, 1.0) if kind == "boolean" else (0.02, 0.98)
    places = ordered[np.rint(np.linspace(first, last, VALUES) * (len(ordered) - 1)).astype(np.int64)]
    return np.asarray(places[~values.iloc[places].duplicated().to_numpy()])


def _label(value: Any, kind: str) -> str:
    if kind == "boolean":
        return "yes" if value else "no"
    if kind == "date":
        return str(pd.Timestamp(value).date())
    return f"{value:.4g}" if kind == "number" else str(value)
