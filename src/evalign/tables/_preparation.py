"""The matrix of numbers that a classifier reads, from the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from evalign._errors import expected, show
from evalign._typing import Floats
from evalign.estimators import TargetMeans
from evalign.tables._columns import MANY, MOST_CATEGORIES
from evalign.tables._schema import Schema
from evalign.tables._texts import TextFeatures

#: The types that a stored preparation of an older format may contain beyond those that are known.
TRUSTED = ["evalign.tables._preparation.Preparation", "sklearn.preprocessing._encoders.OneHotEncoder"]
#: The category of missing values.
_MISSING = "(missing)"
#: A category with this many rows is never rare.
_MAX_RARE = 10
#: Larger numbers are not measurements, and their squares would not be finite.
_LARGEST = 1e100


class Preparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Convert the columns of a schema, raw or converted already, to one dense matrix of finite numbers.

    Missing numbers, booleans and dates become the median of the rows used for fitting, and an extra feature
    marks them. A date becomes its days since 1970, its month, its weekday and, if it has a time, its hour.
    A category has a feature of its own if at least 1 % of the rows (between 2 and 10 of them) belong to it;
    rarer and unseen categories share one. Missing is a category too. A column of many categories becomes
    one feature of codes, the most frequent first; unseen categories share the code after the last one. Texts
    become the directions of `TextFeatures`. None of this looks at the classes.

    Codes are no measurements: their places, which come first, are in `categorical`, and a method gets them in
    the form that suits it. `attach` makes the means of the target that it was fitted with a part of the
    preparation.

    Args:
        schema: The kinds of the columns.

    >>> import pandas as pd
    >>> from evalign.tables import Column, Schema
    >>> table = pd.DataFrame({"age": [41, None, 23], "city": ["Rome", "Oslo", "Rome"]})
    >>> schema = Schema((Column("age", "number"), Column("city", "category")))
    >>> preparation = Preparation(schema).fit(table)
    >>> preparation.get_feature_names_out().tolist()
    ['age', 'age missing', 'city = Rome', 'city rare']
    >>> preparation.transform(table).tolist()
    [[41.0, 0.0, 1.0, 0.0], [32.0, 1.0, 0.0, 1.0], [23.0, 0.0, 1.0, 0.0]]
    """

    #: The means of the target that replace the codes, after `attach`.
    means_: TargetMeans | None

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def categorical(self) -> tuple[int, ...]:
        """The places of the features that are codes of categories."""
        return tuple(range(len(self._names("many"))))

    def fit(self, X: Any, y: Any = None) -> Preparation:
        """Learn the medians, categories and terms of these rows."""
        if not isinstance(self.schema, Schema):
            raise expected("schema", "to be a Schema", type(self.schema).__name__)
        table = self.schema.convert(X)
        if not len(table):
            raise expected("X", "with rows", "none")
        self.timed_ = [name for name in self._names("date") if (_seconds(table[name]) % 86_400 > 0).any()]
        numbers = self._numbers(table)
        gaps = np.isnan(numbers)
        # One feature marks a missing date, not one for each of its parts.
        columns = {column.name for column in self.schema.inputs}
        self.missing_ = [
            place
            for place, name in enumerate(self._number_names())
            if name in columns and gaps[:, place].any()
        ]
        self.medians_ = _find_medians(numbers, gaps)
        self.frequent_, self.has_rare_ = [], []
        least = int(np.clip(round(0.01 * len(table)), 2, _MAX_RARE))
        for name in self._names("few"):
            frequent, has_rare = _find_frequent(_as_texts(table[name]), least)
            self.frequent_.append(frequent)
            self.has_rare_.append(has_rare)
        self.levels_ = [_rank_levels(_as_texts(table[name])) for name in self._names("many")]
        self.texts_ = [
            TextFeatures.fit(table[column.name].to_numpy(), column.format == "characters")
            for column in self.schema.inputs if column.kind == "text"
        ]  # fmt: skip
        self.means_ = None
        return self

    def attach(self, means: TargetMeans) -> None:
        """Let the means of the target replace the codes from now on."""
        check_is_fitted(self)
        if tuple(means.categorical) != self.categorical or not self.categorical:
            raise expected("means", f"of the features {self.categorical}", show(means.categorical)[:80])
        self.means_ = means

    def transform(self, X: Any) -> Floats:
        """Return the matrix of a table; each of its rows depends on that row alone."""
        check_is_fitted(self)
        return self.encode(self.schema.convert(X))

    def encode(self, table: Any) -> Floats:
        """Return the matrix of a table that is converted already."""
        check_is_fitted(self)
        numbers = self._numbers(table)
        gaps = np.isnan(numbers)
        codes = zip(self._names("many"), self.levels_, strict=True)
        few = zip(self._names("few"), self.frequent_, self.has_rare_, strict=True)
        texts = zip(self._names("text"), self.texts_, strict=True)
        blocks = [
            *(_find_codes(levels, table[name], len(levels))[:, None] for name, levels in codes),
            np.where(gaps, self.medians_, numbers),
            gaps[:, self.missing_],
            *(_indicate(table[name], frequent, has_rare) for name, frequent, has_rare in few),
            *(text.transform(table[name].to_numpy()) for name, text in texts),
        ]
        matrix: Floats = np.concatenate(blocks, axis=1, dtype=np.float64)
        return matrix if self.means_ is None or not len(matrix) else self.means_.transform(matrix)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns of the matrix."""
        check_is_fitted(self)
        names = self._name_codes()
        numbers = self._number_names()
        names += [*numbers, *(f"{numbers[place]} missing" for place in self.missing_)]
        for column, frequent, has_rare in zip(
            self._names("few"), self.frequent_, self.has_rare_, strict=True
        ):
            names += [f"{column} = {value}" for value in frequent]
            names += [f"{column} rare"] * has_rare
        for column, text in zip(self._names("text"), self.texts_, strict=True):
            names += [f"{column}: direction {number + 1}" for number in range(len(text.directions))]
            names += [f"{column}: words"]
        return np.array(names, dtype=object)

    def _name_codes(self) -> list[str]:
        if self.means_ is None:
            return self._names("many")
        kept = self._names("many") if self.means_.keep else []
        widths = [means.shape[1] for means in self.means_.means_]
        return kept + [
            f"{column}: share" if width == 1 else f"{column}: share of class {number}"
            for column, width in zip(self._names("many"), widths, strict=True)
            for number in range(width)
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "schema": self.schema.to_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = _upgrade(state) if "encoder_" in state else state
        super().__setstate__({**state, "schema": Schema.from_json(state["schema"])})

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted preparation as facts for JSON, and arrays by name."""
        check_is_fitted(self)
        facts = {
            "timed": self.timed_, "missing": self.missing_, "medians": self.medians_.tolist(),
            "frequent": self.frequent_, "has_rare": self.has_rare_, "levels": self.levels_,
            "means": None if self.means_ is None else {"keep": self.means_.keep},
        }  # fmt: skip
        arrays = {
            f"text {place} {name}": array
            for place, text in enumerate(self.texts_)
            for name, array in text.to_arrays().items()
        }
        if self.means_ is not None:
            arrays |= {f"means {place}": means for place, means in enumerate(self.means_.means_)}
        return facts, arrays

    @classmethod
    def unpack(cls, schema: Schema, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Preparation:
        """Restore a fitted preparation from what `pack` returned, checking every part of it."""
        new = cls(schema)
        dates = new._names("date")
        new.timed_ = _read_texts(facts["timed"])
        new.medians_ = np.array(facts["medians"], dtype=np.float64)
        new.missing_ = facts["missing"]
        new.frequent_ = [_read_texts(values) for values in facts["frequent"]]
        new.has_rare_ = facts["has_rare"]
        new.levels_ = [_read_texts(values) for values in facts["levels"]]
        n_numbers = len(new._number_names())
        valid = (
            set(new.timed_) <= set(dates)
            and new.medians_.shape == (n_numbers,) and np.isfinite(new.medians_).all()
            and all(type(place) is int and 0 <= place < n_numbers for place in new.missing_)
            and all(type(flag) is bool for flag in new.has_rare_)
            and len(new.frequent_) == len(new.has_rare_) == len(new._names("few"))
            and len(new.levels_) == len(new._names("many"))
        )  # fmt: skip
        if not valid:
            raise expected("model", "with a preparation of its own columns", "another one")
        names = ("buckets", "weights", "directions")
        texts = [column for column in schema.inputs if column.kind == "text"]
        new.texts_ = [
            TextFeatures.from_arrays(
                {name: arrays[f"text {place} {name}"] for name in names}, column.format == "characters"
            )
            for place, column in enumerate(texts)
        ]
        new.means_ = None
        if facts["means"] is not None:
            own = [arrays[f"means {place}"] for place in new.categorical]
            width = new._count_features()
            new.attach(TargetMeans.restore(new.categorical, facts["means"]["keep"], own, width))
        return new

    def _count_features(self) -> int:
        return len(self.get_feature_names_out())

    def _names(self, *kinds: str) -> list[str]:
        """The columns of these kinds, where "few" and "many" are those of categories."""
        return [column.name for column in self.schema.inputs if _describe_kind(column) in kinds]

    def _number_names(self) -> list[str]:
        names = self._names("number", "boolean")
        for name in self._names("date"):
            names += [name, f"{name}: month", f"{name}: weekday"]
            names += [f"{name}: hour"] if name in self.timed_ else []
        return names

    def _numbers(self, table: Any) -> Floats:
        parts = [table[name].to_numpy() for name in self._names("number", "boolean")]
        for name in self._names("date"):
            seconds, dates = _seconds(table[name]), table[name].dt
            parts += [seconds / 86_400, dates.month.to_numpy(), dates.day_of_week.to_numpy()]
            parts += [seconds % 86_400 / 3_600] if name in self.timed_ else []
        numbers = np.column_stack(parts) if parts else np.empty((len(table), 0))
        return np.asarray(np.clip(numbers, -_LARGEST, _LARGEST), dtype=np.float64)


def _describe_kind(column: Any) -> str:
    if column.kind != "category":
        return str(column.kind)
    return "many" if column.format == MANY else "few"


def _find_medians(numbers: Floats, gaps: NDArray[np.bool_]) -> Floats:
    """The median of each column, and 0 for one without a number."""
    medians = np.zeros(numbers.shape[1])
    known = ~gaps.all(0)
    if known.any():
        medians[known] = np.nanmedian(numbers[:, known], axis=0)
    return medians


def _find_frequent(values: NDArray[np.object_], least: int) -> tuple[list[str], bool]:
    """The categories that get a feature of their own, sorted, and whether there are others."""
    categories, counts = np.unique(values, return_counts=True)
    chosen = np.flatnonzero(counts >= least)
    if len(chosen) >= MOST_CATEGORIES:  # one feature is for the others
        order = np.argsort(counts[chosen], kind="stable")[1 - MOST_CATEGORIES :]
        chosen = np.sort(chosen[order])
    return [str(category) for category in categories[chosen]], len(chosen) < len(categories)


def _rank_levels(values: NDArray[np.object_]) -> list[str]:
    """The categories, the most frequent first."""
    categories, counts = np.unique(values, return_counts=True)
    return [str(category) for category in categories[np.argsort(-counts, kind="stable")]]


def _as_texts(values: Any) -> NDArray[np.object_]:
    """The categories of a column, with one for missing values."""
    column = values.to_numpy()
    return np.where(pd.isna(column), _MISSING, column)


def _find_codes(known: list[str], values: Any, unknown: int) -> NDArray[np.intp]:
    """The place of each category among the known ones."""
    codes = pd.Index(known, dtype=object).get_indexer(_as_texts(values))
    return np.where(codes < 0, unknown, codes)


def _indicate(values: Any, frequent: list[str], has_rare: bool) -> Floats:
    """The features of a column of few categories: 1 for its own, or for the rare ones if there are any."""
    width = len(frequent) + has_rare
    features = np.zeros((len(values), width))
    codes = _find_codes(frequent, values, len(frequent))
    rows = np.flatnonzero(codes < width)
    features[rows, codes[rows]] = 1.0
    return features


def _read_texts(values: Any) -> list[str]:
    is_list = isinstance(values, list) and all(isinstance(value, str) for value in values)
    if not is_list or len(set(values)) < len(values):
        raise expected("model", "with distinct categories", show(values)[:80])
    return list(values)


def _upgrade(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a preparation before format 5, which had parts of scikit-learn."""
    state = dict(state)
    imputer, encoder = state.pop("imputer_"), state.pop("encoder_")
    categories = getattr(encoder, "categories_", [])
    rare = [
        set() if one is None else set(one.tolist())
        for one in (encoder.infrequent_categories_ if len(categories) else [])
    ]
    frequent = [
        [str(value) for value in values if value not in own]
        for values, own in zip(categories, rare, strict=True)
    ]
    medians = np.asarray(getattr(imputer, "statistics_", np.zeros(0)), dtype=np.float64)
    return {
        **state, "medians_": medians, "frequent_": frequent, "has_rare_": [bool(own) for own in rare],
        "levels_": [], "texts_": [], "means_": None,
    }  # fmt: skip


def _seconds(timestamps: Any) -> Floats:
    """Seconds since 1970, NaN where a timestamp is missing."""
    values = timestamps.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)
