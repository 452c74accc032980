"""How the rows to predict differ from those a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evalign._errors import expected, is_number
from evalign._typing import Floats
from evalign.tables._schema import Schema

#: The share of rows, above that of the training rows, from which a difference is worth a remark.
_UNSEEN, _MISSING, _OUTSIDE = 0.05, 0.1, 0.05
#: The population stability index from which a distribution counts as another one, and the fewest rows for it:
#: by chance alone, it is about the number of bins over the number of rows.
_UNSTABLE, _FEWEST = 0.25, 200
#: The most categories that are remembered; the others share a bin.
_MOST = 50


@dataclass(frozen=True)
class ColumnProfile:
    """The values of a column in the training rows.

    Args:
        missing: The share of missing values.
        shares: The share of each bin among the values that are not missing.
        edges: Where the bins of numbers end, except the last.
        range: The smallest and the largest number.
        categories: The categories with a bin of their own, in order.
        others: All other categories, which share the last bin.
    """

    missing: float
    shares: tuple[float, ...]
    edges: tuple[float, ...] = ()
    range: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def measure(cls, values: Any) -> ColumnProfile:
        """The profile of a converted column.

        >>> ColumnProfile.measure(pd.Series(["a", None, "a", "b"], dtype=object)).shares
        (0.6666666666666666, 0.3333333333333333, 0.0)
        """
        missing = float(pd.isna(values).mean())
        if values.dtype == object:
            counts = values.value_counts()
            known = tuple(counts.index[:_MOST])
            profile = cls(missing, (), categories=known, others=tuple(counts.index[_MOST:]))
        else:
            numbers = _as_numbers(values)
            numbers = numbers[~np.isnan(numbers)]
            edges = np.unique(np.quantile(numbers, np.linspace(0.1, 0.9, 9))) if numbers.size else numbers
            ends = (float(numbers.min()), float(numbers.max())) if numbers.size else ()
            profile = cls(missing, (), edges=tuple(edges.tolist()), range=ends)
        counted = profile.count(values).bins
        return cls(**{**vars(profile), "shares": tuple((counted / max(counted.sum(), 1)).tolist())})

    def count(self, values: Any) -> Counts:
        """Count the values of a converted column."""
        missing = int(pd.isna(values).sum())
        if values.dtype == object:
            codes = pd.Index(self.categories, dtype=object).get_indexer(values)
            present = values.to_numpy()[(codes < 0) & ~pd.isna(values).to_numpy()]
            unseen = present[pd.Index(self.others, dtype=object).get_indexer(present) < 0]
            bins = np.bincount(codes[codes >= 0], minlength=len(self.categories) + 1)
            bins[-1] += present.size
            return Counts(len(values), missing, bins, len(unseen), str(unseen[0]) if len(unseen) else "")
        numbers = _as_numbers(values)
        numbers = numbers[~np.isnan(numbers)]
        bins = np.bincount(np.searchsorted(self.edges, numbers, side="left"), minlength=len(self.edges) + 1)
        low, high = self.range or (np.inf, -np.inf)
        outside = numbers[(numbers < low) | (numbers > high)]
        return Counts(len(values), missing, bins, outside.size, f"{outside[0]:g}" if outside.size else "")


@dataclass(frozen=True)
class Counts:
    """What was counted in rows to predict: all, missing, by bin, and unseen or outside of the range."""

    rows: int
    missing: int
    bins: NDArray[Any]
    unusual: int
    example: str = ""

    def __add__(self, other: Counts) -> Counts:
        bins = self.bins + other.bins
        sums = self.rows + other.rows, self.missing + other.missing, bins, self.unusual + other.unusual
        return Counts(*sums, self.example or other.example)


@dataclass(frozen=True)
class Drift:
    """A difference between the rows to predict and the training rows; `column` is None for predictions."""

    column: str | None
    kind: str
    value: float
    text: str


@dataclass(frozen=True)
class Profile:
    """The columns of the training rows, and the share of each class among the predictions for held-out rows.

    >>> schema = Schema.from_json({"columns": [{"name": "age", "kind": "number"}], "warnings": []})
    >>> old, new = (pd.DataFrame({"age": np.arange(300.0) + start}) for start in (0, 100))
    >>> profile = Profile.measure(schema, old)
    >>> [drift.kind for drift in profile.find_drift(profile.count(new))]
    ['range', 'distribution']
    """

    columns: Mapping[str, ColumnProfile]
    predictions: Mapping[str, float] = field(default_factory=dict)
    #: The columns of texts, of which the lengths are compared.
    texts: tuple[str, ...] = ()

    @classmethod
    def measure(cls, schema: Schema, table: Any, predictions: Mapping[str, float] | None = None) -> Profile:
        """The profile of a converted table."""
        texts = tuple(column.name for column in schema.inputs if column.kind == "text")
        columns = {
            column.name: ColumnProfile.measure(_measure_texts(table[column.name], column.name in texts))
            for column in schema.inputs
        }
        return cls(columns, dict(predictions or {}), texts)

    def count(self, table: Any, predictions: Any = ()) -> dict[str | None, Counts]:
        """Count the values of a converted table, and the predictions for it under None."""
        counts: dict[str | None, Counts] = {
            name: profile.count(_measure_texts(table[name], name in self.texts))
            for name, profile in self.columns.items()
        }
        if self.predictions:
            codes = pd.Index(list(self.predictions), dtype=object).get_indexer(predictions)
            bins = np.bincount(codes[codes >= 0], minlength=len(self.predictions))
            counts[None] = Counts(len(table), 0, bins, 0)
        return counts

    def find_drift(self, counts: Mapping[str | None, Counts]) -> list[Drift]:
        """The differences that are worth a remark."""
        drifts = []
        for name, profile in self.columns.items():
            drifts += _compare(name, profile, counts[name])
        if None in counts:
            shares = np.array(list(self.predictions.values()))
            drifts += _compare_distributions(None, shares, counts[None].bins)
        return drifts

    def to_json(self) -> dict[str, Any]:
        """The profile as plain dicts and lists for a JSON file."""
        columns = {name: asdict(profile) for name, profile in self.columns.items()}
        return {"columns": columns, "predictions": dict(self.predictions)}

    @classmethod
    def from_json(cls, facts: Any, schema: Schema) -> Profile:
        """Build a profile from the result of `to_json`, checking every part of it."""
        names = [column.name for column in schema.inputs]
        try:
            columns = {name: _build_column(facts["columns"][name]) for name in names}
            predictions = {str(name): float(share) for name, share in facts["predictions"].items()}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise expected("model", "with a complete profile", repr(error)[:100]) from None
        texts = tuple(column.name for column in schema.inputs if column.kind == "text")
        return cls(columns, predictions, texts)


def _measure_texts(values: Any, are_texts: bool) -> Any:
    """The lengths of texts, in characters; other values as they are."""
    return values.str.len().astype(np.float64) if are_texts else values


def _build_column(facts: Any) -> ColumnProfile:
    parts: dict[str, Any] = {
        name: tuple(part) if isinstance(part, list) else part for name, part in facts.items()
    }
    profile = ColumnProfile(**parts)
    numbers = (profile.missing, *profile.shares, *profile.edges, *profile.range)
    texts = (*profile.categories, *profile.others)
    bins = len(profile.categories if texts or not profile.edges else profile.edges) + 1
    if (
        not all(map(is_number, numbers))
        or not all(isinstance(text, str) for text in texts)
        or len(set(texts)) < len(texts)
        or len(profile.shares) != bins
        or len(profile.range) not in (0, 2)
        or list(profile.edges) != sorted(profile.edges)
    ):
        raise ValueError("another profile of a column")
    return profile


def _as_numbers(values: Any) -> Floats:
    """Numbers, booleans and dates as numbers."""
    array = values.to_numpy()
    if array.dtype.kind == "M":
        return np.where(np.isnat(array), np.nan, array.astype("datetime64[us]").astype(np.int64))
    return np.asarray(array, dtype=np.float64)


def _compare(name: str, profile: ColumnProfile, counts: Counts) -> list[Drift]:
    drifts = []
    missing = counts.missing / counts.rows
    if missing > profile.missing + _MISSING:
        text = f"`{name}` is missing in {missing:.1%} of the rows, in training in {profile.missing:.1%}."
        drifts.append(Drift(name, "missing", missing, text))
    unusual = counts.unusual / counts.rows
    if profile.range and unusual > _OUTSIDE:
        text = f"`{name}` is outside of the training range in {unusual:.1%} of the rows: {counts.example}."
        drifts.append(Drift(name, "range", unusual, text))
    elif not profile.range and unusual > _UNSEEN:
        example = counts.example if len(counts.example) <= 40 else f"{counts.example[:40]}..."
        text = f"`{name}` has categories that are new in {unusual:.1%} of the rows, such as {example!r}."
        drifts.append(Drift(name, "unseen", unusual, text))
    return drifts + _compare_distributions(name, np.array(profile.shares), counts.bins)


def _compare_distributions(name: str | None, shares: Floats, bins: NDArray[Any]) -> list[Drift]:
    total = int(bins.sum())
    if total < _FEWEST:
        return []
    index = measure_stability(shares, bins / total)
    if index <= _UNSTABLE:
        return []
    what = "The predictions are" if name is None else f"`{name}` is"
    text = f"{what} distributed as in another population than in training (stability index {index:.2f})."
    return [Drift(name, "predictions" if name is None else "distribution", index, text)]


def measure_stability(old: Floats, new: Floats) -> float:
    """The population stability index of two distributions over the same bins: sum (q - p) ln(q / p).

    >>> round(measure_stability(np.array([0.5, 0.5]), np.array([0.25, 0.75])), 4)
    0.2747
    """
    p, q = (np.clip(shares, 1e-4, None) for shares in (old, new))
    return float(np.sum((q - p) * np.log(q / p)))
