"""The matrix of numbers that a classifier reads, from the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from evalign._errors import expected
from evalign._typing import Floats
from evalign.tables._schema import Schema

#: The types that a stored preparation may contain beyond those that are known.
TRUSTED = ["evalign.tables._preparation.Preparation", "sklearn.preprocessing._encoders.OneHotEncoder"]
#: The category of missing values.
_MISSING = "(missing)"
#: The largest number of features of a column of categories.
_MAX_CATEGORIES = 50
#: A category with this many rows is never rare.
_MAX_RARE = 10
#: Larger numbers are not measurements, and their squares would not be finite.
_LARGEST = 1e100


class Preparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Convert the columns of a schema, raw or converted already, to one dense matrix of finite numbers.

    Missing numbers, booleans and dates become the median of the rows used for fitting, and an extra feature
    marks them. A date becomes its days since 1970, its month, its weekday and, if it has a time, its hour.
    A category has a feature of its own if at least 1 % of the rows (between 2 and 10 of them) belong to it;
    rarer and unseen categories share one. Missing is a category too.

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

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Preparation:
        """Learn the medians and categories of these rows."""
        if not isinstance(self.schema, Schema):
            raise expected("schema", "to be a Schema", type(self.schema).__name__)
        table = self.schema.convert(X)
        if not len(table):
            raise expected("X", "with rows", "none")
        self.timed_ = [name for name in self._names("date") if (_seconds(table[name]) % 86_400 > 0).any()]
        numbers, categories = self._numbers(table), self._categories(table)
        # One feature marks a missing date, not one for each of its parts.
        columns = {column.name for column in self.schema.inputs}
        names = enumerate(self._number_names())
        self.missing_ = [
            index for index, name in names if name in columns and np.isnan(numbers[:, index]).any()
        ]
        self.imputer_ = SimpleImputer(strategy="median", keep_empty_features=True)
        self.encoder_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=int(np.clip(round(0.01 * len(table)), 2, _MAX_RARE)),
            max_categories=_MAX_CATEGORIES,
            sparse_output=False,
        )
        for part, values in ((self.imputer_, numbers), (self.encoder_, _stack_columns(categories, table))):
            part.set_output(transform="default")
            if values.shape[1]:
                part.fit(values)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the matrix of a table; each of its rows depends on that row alone."""
        check_is_fitted(self)
        return self.encode(self.schema.convert(X))

    def encode(self, table: Any) -> Floats:
        """Return the matrix of a table that is converted already."""
        check_is_fitted(self)
        matrix = np.empty((len(table), len(self.get_feature_names_out())))
        if not len(table):
            return matrix
        numbers, categories = self._numbers(table), self._categories(table)
        parts = [np.isnan(numbers[:, self.missing_])]
        if numbers.shape[1]:
            parts.insert(0, self.imputer_.transform(numbers))
        parts += [self._indicate(index, values) for index, values in enumerate(categories)]
        return np.concatenate(parts, axis=1, out=matrix)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns of the matrix."""
        check_is_fitted(self)
        names = self._number_names()
        names += [f"{names[index]} missing" for index in self.missing_]
        for index, column in enumerate(self._names("category")):
            frequent, has_rare = self._known_categories(index)
            names += [f"{column} = {value}" for value in frequent]
            names += [f"{column} rare"] * has_rare
        return np.array(names, dtype=object)

    def _known_categories(self, index: int) -> tuple[list[str], bool]:
        """The categories of a column that have a feature of their own, and whether others share one."""
        infrequent = self.encoder_.infrequent_categories_[index]
        rare = set() if infrequent is None else set(infrequent)
        return [value for value in self.encoder_.categories_[index] if value not in rare], bool(rare)

    def _indicate(self, index: int, values: NDArray[np.object_]) -> Floats:
        """The features of a column of categories: faster than the encoder, and every index is checked."""
        frequent, has_rare = self._known_categories(index)
        features = np.zeros((len(values), len(frequent) + has_rare))
        codes = pd.Index(frequent, dtype=object).get_indexer(values)
        if has_rare:
            codes[codes < 0] = len(frequent)
        rows = np.flatnonzero(codes >= 0)
        features[rows, codes[rows]] = 1.0
        return features

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "schema": self.schema.to_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "schema": Schema.from_json(state["schema"])})

    def _names(self, *kinds: str) -> list[str]:
        return [column.name for column in self.schema.inputs if column.kind in kinds]

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

    def _categories(self, table: Any) -> list[NDArray[np.object_]]:
        columns = (table[name].to_numpy() for name in self._names("category"))
        return [np.where(pd.isna(column), _MISSING, column) for column in columns]


def _stack_columns(columns: list[NDArray[np.object_]], table: Any) -> NDArray[np.object_]:
    return np.column_stack(columns) if columns else np.empty((len(table), 0), dtype=object)


def _seconds(timestamps: Any) -> Floats:
    """Seconds since 1970, NaN where a timestamp is missing."""
    values = timestamps.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)
