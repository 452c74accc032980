"""From typed columns to the matrix that a classifier reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from evalign._errors import expected
from evalign.tables._schema import Schema

#: The types that a stored preparation may hold beyond those that skops trusts anyway.
TRUSTED = ["evalign.tables._preparation.Preparation", "numpy.dtype"]
#: The category of missing values.
_MISSING = "(missing)"
#: A column of categories becomes at most so many features, each with so many rows.
_MOST, _ROWS = 50, 10
#: Larger numbers are no measurements, and their squares would not be finite.
_LARGEST = 1e100


class Preparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the columns of a schema, raw or typed, into one dense matrix of finite numbers.

    Missing numbers, booleans and dates become the median of the rows it was fitted on, with a feature
    that says so. A date is its days since 1970, its month, its weekday and its hour if it has one.
    A category is a feature of its own if at least 1 % of the rows (between 2 and 10 of them) have it;
    rarer ones, and those that were never seen, share one. Missing is a category too.

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
        """Learn medians and categories from the rows given, and from no others."""
        if not isinstance(self.schema, Schema):
            raise expected("schema", "to be a Schema", type(self.schema).__name__)
        typed = self.schema.typed(X)
        if not len(typed):
            raise expected("X", "with rows", "none")
        self.timed_ = [name for name in self._named("date") if (_seconds(typed[name]) % 86_400 > 0).any()]
        numbers, categories = self._numbers(typed), self._categories(typed)
        columns = {
            column.name for column in self.schema.kept
        }  # one feature of a date says that it is missing
        named = enumerate(self._number_names())
        self.missing_ = [at for at, name in named if name in columns and np.isnan(numbers[:, at]).any()]
        self.imputer_ = SimpleImputer(strategy="median", keep_empty_features=True)
        rare = int(np.clip(round(0.01 * len(typed)), 2, _ROWS))
        self.encoder_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=rare,
            max_categories=_MOST,
            sparse_output=False,
        )
        for part, values in ((self.imputer_, numbers), (self.encoder_, categories)):
            part.set_output(transform="default")
            if values.shape[1]:
                part.fit(values)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The matrix of a table; each row of it depends on that row alone."""
        check_is_fitted(self)
        typed = self.schema.typed(X)
        if not len(typed):
            return np.empty((0, len(self.get_feature_names_out())))
        numbers, categories = self._numbers(typed), self._categories(typed)
        parts = [np.isnan(numbers[:, self.missing_])]
        if numbers.shape[1]:
            parts.insert(0, self.imputer_.transform(numbers))
        if categories.shape[1]:
            parts.append(self.encoder_.transform(categories))
        return np.hstack(parts, dtype=np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """What the features of the matrix are."""
        check_is_fitted(self)
        names = self._number_names()
        names += [f"{names[at]} missing" for at in self.missing_]
        for at, column in enumerate(self._named("category")):
            rare = self.encoder_.infrequent_categories_[at]
            grouped = set() if rare is None else set(rare)
            names += [
                f"{column} = {value}" for value in self.encoder_.categories_[at] if value not in grouped
            ]
            names += [f"{column} rare"] if grouped else []
        return np.array(names, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "schema": self.schema.to_json()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "schema": Schema.from_json(state["schema"])})

    def _named(self, *kinds: str) -> list[str]:
        return [column.name for column in self.schema.kept if column.kind in kinds]

    def _number_names(self) -> list[str]:
        names = self._named("number", "boolean")
        for name in self._named("date"):
            names += [name, f"{name}: month", f"{name}: weekday"]
            names += [f"{name}: hour"] if name in self.timed_ else []
        return names

    def _numbers(self, typed: Any) -> NDArray[np.float64]:
        parts = [typed[name].to_numpy() for name in self._named("number", "boolean")]
        for name in self._named("date"):
            seconds = _seconds(typed[name])
            parts += [
                seconds / 86_400,
                typed[name].dt.month.to_numpy(),
                typed[name].dt.day_of_week.to_numpy(),
            ]
            parts += [seconds % 86_400 / 3_600] if name in self.timed_ else []
        found = np.column_stack(parts) if parts else np.empty((len(typed), 0))
        return np.asarray(np.clip(found, -_LARGEST, _LARGEST), dtype=np.float64)

    def _categories(self, typed: Any) -> NDArray[np.object_]:
        parts = [typed[name].fillna(_MISSING).to_numpy(dtype=object) for name in self._named("category")]
        return np.column_stack(parts) if parts else np.empty((len(typed), 0), dtype=object)


def _seconds(moments: Any) -> NDArray[np.float64]:
    """Seconds since 1970, NaN where there is no moment."""
    values = moments.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)
