"""What a report contains, as frozen dataclasses of plain types.

The command line writes `Report`, `TaskFacts`, `DataFacts`, `ColumnFacts` and `MemberFacts`; `ComparisonFacts`
comes from a `Comparison`, `ModelEvidence` with all its parts from `evidence`, and the others come from the
functions that measure them. Templates and scripts only read.
A number that is undefined is None, here and in JSON. A field marked `formerly` has another key in reports of
evalign 0.1.0.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from evalign._errors import expected, is_number
from evalign.selection import MEMBERS, METHODS, Comparison

#: A number, or None where it is undefined.
Number: TypeAlias = float | None
Numbers: TypeAlias = tuple[float | None, ...]
#: A confusion matrix: rows are true classes, columns predicted ones.
Matrix: TypeAlias = tuple[tuple[int, ...], ...]

OUTDATED = "Fit the model again, or upgrade evalign if a newer version wrote it."


@dataclass(frozen=True)
class TaskFacts:
    """What the user asked for."""

    file: str
    target: str
    metric: str
    higher_is_better: bool = True
    constraints: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    positive: str | None = None
    split: str | None = None
    form: str | None = None


@dataclass(frozen=True)
class ColumnFacts:
    """A column of the table; `kind` is that of `evalign.tables.Schema`."""

    name: str
    kind: str
    missing: int
    distinct: int
    note: str = ""


@dataclass(frozen=True)
class DataFacts:
    """The table: its size, columns and classes, and what to know about it."""

    rows: int
    columns: tuple[ColumnFacts, ...] = ()
    class_counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    fingerprint: str | None = None

    @property
    def features(self) -> list[ColumnFacts]:
        """The columns that the model uses."""
        return [column for column in self.columns if column.kind != "dropped"]

    @property
    def kinds(self) -> list[tuple[str, int]]:
        """How many columns there are of each kind, the most frequent first."""
        return Counter(column.kind for column in self.columns).most_common()

    @property
    def frequencies(self) -> list[tuple[str, int]]:
        """The classes and their rows, the most frequent first."""
        return sorted(self.class_counts.items(), key=lambda item: -item[1])


@dataclass(frozen=True)
class MethodFacts:
    """A method in a comparison; `low` and `high` bound its difference to the reference with 95 %."""

    method: str
    description: str = ""
    mean: Number = None
    standard_error: Number = None
    difference: Number = None
    low: Number = None
    high: Number = None
    fit_time: Number = None
    error: str | None = None
    slack: Number = None
    n_satisfied: int | None = field(default=None, metadata={"formerly": "kept"})
    values: Numbers = ()


@dataclass(frozen=True)
class ComparisonFacts:
    """The methods of a comparison on the same splits."""

    metric: str
    higher_is_better: bool
    reference: str
    best: str
    repeats: int
    constraints: tuple[str, ...] = ()
    rows: tuple[MethodFacts, ...] = ()

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> ComparisonFacts:
        """Take over a comparison, and add what each named method is.

        >>> from evalign.selection import Comparison, Row
        >>> rows = (Row("lightgbm", (0.5, 0.7), 0.6, 0.1, fit_time=1.0), Row("mine", error="ValueError: no"))
        >>> facts = ComparisonFacts.from_comparison(Comparison("f1", True, "lightgbm", (), rows))
        >>> facts.best, facts.repeats, [row.description for row in facts.rows]
        ('lightgbm', 2, ['LightGBM, stopped early', ''])
        """
        named = {**MEMBERS, **METHODS}
        return cls(
            metric=comparison.metric,
            higher_is_better=comparison.higher_is_better,
            reference=comparison.reference,
            best=comparison.best,
            repeats=max(len(row.values) for row in comparison.rows),
            constraints=tuple(comparison.constraints),
            rows=tuple(
                MethodFacts(
                    method=row.method,
                    description=named[row.method].description if row.method in named else "",
                    mean=as_number(row.mean),
                    standard_error=as_number(row.standard_error),
                    difference=as_number(row.difference),
                    low=None if row.interval is None else as_number(row.interval[0]),
                    high=None if row.interval is None else as_number(row.interval[1]),
                    fit_time=as_number(row.fit_time),
                    error=row.error,
                    slack=as_number(row.slack),
                    n_satisfied=row.n_satisfied,
                    values=as_numbers(row.values),
                )
                for row in comparison.rows
            ),
        )

    @property
    def ranking(self) -> list[MethodFacts]:
        """The methods that did not fail, the best first; those that violate constraints on average last."""
        sign = 1 if self.higher_is_better else -1

        def merit(row: MethodFacts) -> tuple[float, float]:
            assert row.mean is not None
            return min(row.slack or 0.0, 0.0), sign * row.mean

        return sorted((row for row in self.rows if row.mean is not None), key=merit, reverse=True)

    @property
    def failures(self) -> list[MethodFacts]:
        """The methods that failed."""
        return [row for row in self.rows if row.mean is None]


@dataclass(frozen=True)
class Interval:
    """A metric on the held-out rows, with its 95 % bootstrap interval."""

    value: Number
    low: Number
    high: Number


@dataclass(frozen=True)
class ConstraintFacts:
    """A constraint on the held-out rows; `slack` is negative where it is violated."""

    value: Number
    slack: Number
    satisfied: bool
    sense: str
    bound: float


@dataclass(frozen=True)
class ClassFacts:
    """Precision, recall and F1 of a class, and its number of rows."""

    class_: str
    support: int
    precision: Number
    recall: Number
    f1: Number


@dataclass(frozen=True, kw_only=True)
class Track:
    """What is counted along the positions of a slider: the metric, and the slack of each constraint.

    `start` is the index of the position at which the model decides. It is not `exact` if the decisions of the
    report were made by other rules, fitted without the rows they decide.
    """

    positions: tuple[float, ...]
    values: Numbers
    constraints: Mapping[str, Numbers] = field(default_factory=dict)
    start: int = field(metadata={"formerly": "chosen"})
    exact: bool = True

    def __post_init__(self) -> None:
        size = len(self.positions)
        if not 0 <= self.start < size or any(
            len(one) != size for one in (self.values, *self.constraints.values())
        ):
            raise expected("track", "with one value per position", f"{size} positions", OUTDATED)

    @property
    def points(self) -> list[tuple[float, Number]]:
        """Position and value of each point."""
        return list(zip(self.positions, self.values, strict=True))

    def best(self, higher_is_better: bool) -> tuple[Number, Number]:
        """The best value along the track and its position."""
        points = [(y, x) for x, y in self.points if y is not None]
        return (max if higher_is_better else min)(points, default=(None, None))


@dataclass(frozen=True, kw_only=True)
class ThresholdSlider(Track):
    """What other thresholds would decide; each matrix is tn, fp, fn, tp with the second class positive."""

    kind: Literal["threshold"] = "threshold"
    matrices: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> Track:
        """The track to start with."""
        return self


@dataclass(frozen=True, kw_only=True)
class ClassTrack(Track):
    """What other weights of a class would decide; matrices are left out where there are many classes."""

    class_: str
    matrices: tuple[Matrix, ...] | None
    precision: Numbers
    recall: Numbers
    predicted: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class WeightSlider:
    """What other weights of the most frequent classes would decide."""

    kind: Literal["class_weight"] = "class_weight"
    classes: tuple[ClassTrack, ...]

    @property
    def first(self) -> ClassTrack:
        """The track to start with."""
        return self.classes[0]


SliderFacts: TypeAlias = ThresholdSlider | WeightSlider


@dataclass(frozen=True)
class OperatingPoint:
    """Precision and recall of a class by the model's own decisions."""

    precision: Number
    recall: Number


@dataclass(frozen=True)
class CurveFacts:
    """The precision-recall curve of a class."""

    class_: str
    precision: Numbers
    recall: Numbers
    thresholds: tuple[float, ...]
    average_precision: Number
    operating_point: OperatingPoint = field(metadata={"formerly": "chosen"})

    @property
    def points(self) -> list[tuple[Number, Number, float]]:
        """Recall, precision and threshold of each point."""
        return list(zip(self.recall, self.precision, self.thresholds, strict=True))


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about the same confidence: their mean confidence and their accuracy."""

    confidence: Number
    accuracy: Number
    count: int


@dataclass(frozen=True)
class Reliability:
    """How far confidence and accuracy are apart; `error` is the expected calibration error."""

    error: Number
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True)
class CalibrationFacts:
    """The reliability of the model as it is, and after a calibration where there are enough rows."""

    before: Reliability
    after: Reliability | None = None


@dataclass(frozen=True)
class EpochFacts:
    """An epoch of a network: the loss, the soft and the hard metric on its validation rows."""

    epoch: int
    phase: str
    temperature: Number
    loss: Number
    soft: Number
    hard: Number


@dataclass(frozen=True)
class ConfusedPair:
    """A cell of a confusion matrix off its diagonal, and its share of the true class."""

    true: str
    predicted: str
    rows: int
    share: float


@dataclass(frozen=True)
class ModelEvidence:
    """What a fitted classifier does on held-out rows.

    `positive` is the index of the positive one of two classes. Parts that need probabilities, or a network,
    are None for a classifier without.
    """

    name: str
    role: str
    description: str
    rows: int
    classes: tuple[str, ...]
    positive: int | None
    metric: str
    higher_is_better: bool
    matrix: Matrix
    value: Number
    constraints: Mapping[str, ConstraintFacts] = field(default_factory=dict)
    metrics: Mapping[str, Interval] = field(default_factory=dict)
    per_class: tuple[ClassFacts, ...] = ()
    slider: SliderFacts | None = None
    curves: tuple[CurveFacts, ...] | None = None
    calibration: CalibrationFacts | None = None
    history: tuple[EpochFacts, ...] | None = None

    def __post_init__(self) -> None:
        d = len(self.classes)
        if self.matrix and (len(self.matrix) != d or any(len(row) != d for row in self.matrix)):
            raise expected("matrix", f"of {d} classes", f"{len(self.matrix)} rows", OUTDATED)

    @property
    def confusions(self) -> list[ConfusedPair]:
        """The pairs of classes that are confused, the most frequent first."""
        cells = [
            ConfusedPair(self.classes[i], self.classes[j], n, n / sum(row))
            for i, row in enumerate(self.matrix)
            for j, n in enumerate(row)
            if i != j and n
        ]
        return sorted(cells, key=lambda cell: -cell.rows)

    @property
    def focus(self) -> int:
        """The index of the class for which the slider shows precision and recall at first."""
        if isinstance(self.slider, WeightSlider):
            return self.classes.index(self.slider.first.class_)
        return 1 if self.positive is None else self.positive


@dataclass(frozen=True)
class MethodCounts:
    """What a method does with the held-out rows: the model first, then what people use today.

    For each class, `missed` are its rows that are called something else, and `false_alarms` the other rows
    that are called so. `lead` is by how much the model is better by the metric. Of two classes, `found` is
    the share of the real cases that are found with as many false alarms as the model raises, and
    `found_lead` the share that the model finds beyond that.
    """

    name: str
    role: Literal["model", "tuned", "plain"]
    value: Number
    missed: tuple[int, ...]
    false_alarms: tuple[int, ...]
    lead: Interval | None = None
    found: Interval | None = None
    found_lead: Interval | None = None

    @property
    def label(self) -> str:
        """What the method is called in a sentence."""
        if self.role == "model":
            return self.name
        kind = "threshold" if len(self.missed) == 2 else "rule"
        return f"{self.name} with a tuned {kind}" if self.role == "tuned" else f"{self.name} as it comes"

    def share_found(self, support: tuple[int, ...], k: int) -> Number:
        """The share of the rows of a class that the method finds by its own decisions."""
        return 1 - self.missed[k] / support[k] if support[k] else None


@dataclass(frozen=True)
class BenefitFacts:
    """What the model brings, counted on held-out rows.

    `support` are the rows of each class. `same` is what the model is, if that is what people use today.
    """

    metric: str
    classes: tuple[str, ...]
    positive: int | None
    support: tuple[int, ...]
    methods: tuple[MethodCounts, ...]
    same: str | None = None

    def __post_init__(self) -> None:
        counts = [self.support, *(part for one in self.methods for part in (one.missed, one.false_alarms))]
        if any(len(one) != len(self.classes) for one in counts) or not self.methods:
            raise expected("benefit", "with counts of every class", f"{len(counts)} lists", OUTDATED)

    @property
    def rows(self) -> int:
        """The number of held-out rows."""
        return sum(self.support)

    @property
    def focus(self) -> int:
        """The index of the class that is looked for: the positive one of two, or the rarest."""
        if self.positive is not None:
            return self.positive
        return min(range(len(self.support)), key=lambda k: (not self.support[k], self.support[k]))

    @property
    def rival(self) -> MethodCounts | None:
        """The strongest method that people use today, tuned."""
        rivals = [one for one in self.methods if one.role == "tuned" and self.lead_over(one) is not None]
        return min(rivals, key=lambda one: self.lead_over(one).value, default=None)  # type: ignore

    @property
    def verdict(self) -> Literal["better", "unclear", "worse"] | None:
        """Whether the model is better than its strongest rival by more than chance; None without one."""
        lead = None if self.rival is None else self.lead_over(self.rival)
        if lead is None or lead.low is None or lead.high is None:
            return None
        return "better" if lead.low > 0 else "worse" if lead.high < 0 else "unclear"

    def lead_over(self, method: MethodCounts) -> Interval | None:
        """How far the model is ahead: in real cases found, or by the metric for more than two classes."""
        lead = method.lead if method.found_lead is None else method.found_lead
        return None if lead is None or lead.value is None else lead


@dataclass(frozen=True)
class MemberFacts:
    """A member of an ensemble: its weight (0: none), and its score alone, or why it was left out."""

    name: str
    description: str
    weight: float
    score: Number = None
    reason: str | None = None


@dataclass(frozen=True)
class ImportanceFacts:
    """By how much the metric falls if the values of a column are exchanged between rows."""

    column: str
    value: Number
    low: Number
    high: Number


@dataclass(frozen=True)
class DependenceFacts:
    """The mean probability of some classes if a column had the same value in every row.

    `positions` are the values of a column of numbers; `labels` are those of any column as text.
    """

    column: str
    labels: tuple[str, ...]
    positions: tuple[float, ...] | None
    probabilities: Mapping[str, Numbers]


@dataclass(frozen=True)
class ExplanationFacts:
    """Which columns matter, measured on `rows` held-out rows; `skipped` is why that was not measured."""

    metric: str
    rows: int = 0
    repeats: int = 0
    columns: int = 0
    importances: tuple[ImportanceFacts, ...] = ()
    dependences: tuple[DependenceFacts, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True)
class LearningPoint:
    """A metric after training on some of the rows, with its 95 % bootstrap interval."""

    rows: int
    value: Number
    low: Number
    high: Number


@dataclass(frozen=True)
class LearningFacts:
    """What more rows have brought so far; `gain` is that of the second half of the rows.

    `skipped` is why the curve was not traced, or not to its end.
    """

    metric: str
    method: str
    points: tuple[LearningPoint, ...] = ()
    gain: Interval | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class GroupFacts:
    """The held-out rows with the same value of a column, and the rows of the class that is looked for."""

    name: str
    rows: int
    cases: int
    found: Number
    metric: Interval


@dataclass(frozen=True)
class GroupsFacts:
    """What the model does for each value of a column; `class_` is the class that is looked for."""

    column: str
    metric: str
    class_: str
    groups: tuple[GroupFacts, ...]


@dataclass(frozen=True)
class Report:
    """Everything a report shows; parts that are None or empty are left out of the page.

    >>> report = Report(title="Churn", seed=0)
    >>> Report.from_json(report.to_json()) == report
    True
    """

    title: str = "evalign report"
    created: str | None = None
    command: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    answer: str | None = None
    remarks: tuple[str, ...] = ()
    benefit: BenefitFacts | None = None
    task: TaskFacts | None = None
    data: DataFacts | None = None
    comparison: ComparisonFacts | None = None
    models: tuple[ModelEvidence, ...] = ()
    members: tuple[MemberFacts, ...] = ()
    explanation: ExplanationFacts | None = None
    learning: LearningFacts | None = None
    groups: GroupsFacts | None = None

    @property
    def metric_names(self) -> list[str]:
        """The metrics that any model has, the one asked for first."""
        names = dict.fromkeys(name for model in self.models for name in model.metrics)
        return sorted(names, key=lambda name: name != self.models[0].metric)

    def to_json(self) -> str:
        """The report as a JSON text that `from_json` reads back."""
        return json.dumps(as_plain(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report that `to_json` wrote, now or in evalign 0.1.0.

        Raises:
            ValueError: If the text is not a report.

        >>> Report.from_json('{"models": 3}')
        Traceback (most recent call last):
        ValueError: Expected `report` with a list as models, but got 3. Fit the model again, or upgrade ...
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise expected("report", "to be JSON", str(error)[:80]) from None
        report: Report = _build(cls, content, "")
        return report


def as_number(value: Any) -> Number:
    """The value as a float, or None if it is not finite.

    >>> as_number(float("nan")), as_number(None), as_number(1)
    (None, None, 1.0)
    """
    return None if value is None or not math.isfinite(value) else float(value)


def as_numbers(values: Iterable[Any]) -> Numbers:
    """The values as floats, with None for those that are not finite."""
    return tuple(as_number(value) for value in values)


def as_plain(value: Any) -> Any:
    """Facts as dictionaries, lists, texts and numbers, ready for JSON.

    >>> as_plain(ClassFacts("yes", 3, 0.5, float("nan"), None))
    {'class': 'yes', 'support': 3, 'precision': 0.5, 'recall': None, 'f1': None}
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return as_number(value)
    if isinstance(value, Mapping):
        return {key: as_plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(part) for part in value]
    return {_key(one.name): as_plain(getattr(value, one.name)) for one in fields(value)}


def _key(name: str) -> str:
    """The key of a field in JSON: `class_` is there only because `class` is a keyword of Python."""
    return name.removesuffix("_")


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _refuse(where: str, wanted: str, value: Any) -> ValueError:
    place = f" as {where}" if where else ""
    return expected("report", f"with {wanted}{place}", repr(value)[:60], OUTDATED)


#: How errors call the types of JSON.
_WORDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


def _build(kind: Any, value: Any, where: str) -> Any:
    """Check a value from JSON against a type, and build it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None:
            return _build_none(arguments, where)
        return _build(_choose(arguments, value, where), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _refuse(where, "a list", value)
        return tuple(_build(arguments[0], part, where) for part in value)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _refuse(where, "an object", value)
        return {key: _build(arguments[1], part, where) for key, part in value.items()}
    if origin is Literal:
        if value not in arguments:
            raise _refuse(where, repr(arguments[0]), value)
        return value
    if is_dataclass(kind):
        return _build_facts(kind, value, where)
    known = is_number(value) if kind is float else type(value) is kind
    if not known:
        raise _refuse(where, _WORDS[kind], value)
    return value


def _build_none(arguments: tuple[Any, ...], where: str) -> None:
    if NoneType not in arguments:
        raise _refuse(where, "a value", None)


def _choose(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    """The type of a union that a value belongs to: the only one, or the one of its `kind`."""
    kinds = [one for one in arguments if one is not NoneType]
    if len(kinds) == 1:
        return kinds[0]
    name = value.get("kind") if isinstance(value, dict) else None
    for one in kinds:
        if one.kind == name:
            return one
    raise _refuse(where, "a known kind", value)


def _build_facts(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse(where, "an object", value)
    left = dict(value)
    parts: dict[str, Any] = {}
    for one in fields(kind):
        keys = (_key(one.name), one.metadata.get("formerly"))
        key = next((key for key in keys if key in left), None)
        if key is not None:
            inner = f"{where}.{key}" if where else str(key)
            parts[one.name] = _build(_types(kind)[one.name], left.pop(key), inner)
    if left:
        raise _refuse(where, "known keys only", next(iter(left)))
    try:
        return kind(**parts)
    except TypeError as error:
        raise _refuse(where, "all keys", str(error).split("missing ")[-1]) from None
