"""Tables of pandas and polars as numbers: the kinds of their columns and the categories seen in `fit`."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import is_multilabel
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from evalign._errors import expected, show
from evalign._typing import Floats

if TYPE_CHECKING:
    from typing_extensions import Self

#: A category of a network's input: the most frequent ones get a column of their own, the others none.
MAX_DUMMIES = 64


@dataclass(frozen=True)
class KnownColumn:
    """What is remembered of a column: its categories, the most frequent first, or None for numbers."""

    levels: list[Any] | None
    #: The mean of the numbers, and whether some were missing.
    mean: float = 0.0
    has_gaps: bool = False


@dataclass(frozen=True)
class Columns:
    """The columns of a table as they were in `fit`.

    Texts, categories and objects that are not numbers are categories; booleans are numbers. A
    category that was not seen in `fit` is treated as missing.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", "red"]})
    >>> columns = Columns.find(table)
    >>> columns.encode(pd.DataFrame({"size": [2.0, None], "color": ["blue", "green"]}))
    array([[ 2.,  1.],
           [nan, nan]])
    >>> columns.make_dummies(columns.encode(table))              # size, its gaps, red, blue
    array([[1., 0., 1., 0.],
           [2., 1., 0., 1.],
           [3., 0., 1., 0.]])
    """

    columns: tuple[KnownColumn, ...]

    @classmethod
    def find(cls, table: Any) -> Columns:
        """Find the kinds of all columns of a table, and their categories."""
        return cls(tuple(_find_column(name, series) for name, series in _iterate(table)))

    @property
    def categorical(self) -> list[int]:
        """The places of the columns with categories."""
        return [place for place, column in enumerate(self.columns) if column.levels is not None]

    @property
    def has_gaps(self) -> bool:
        """Whether numbers were missing."""
        return any(column.has_gaps for column in self.columns)

    @property
    def n_dummies(self) -> int:
        """The number of columns that `make_dummies` returns."""
        return sum(map(_count_dummies, self.columns))

    def encode(self, table: Any) -> Floats:
        """Convert a table to numbers, with the place of each category, and NaN where a value is missing."""
        encoded = [
            _read_numbers(name, series) if column.levels is None else _find_levels(series, column.levels)
            for column, (name, series) in zip(self.columns, _iterate(table), strict=True)
        ]
        return np.stack(encoded, axis=1)

    def make_dummies(self, encoded: Floats) -> Floats:
        """Replace missing numbers by the mean, with a column that marks them, and categories by 0 and 1."""
        parts = []
        for column, values in zip(self.columns, encoded.T, strict=True):
            if column.levels is not None:
                parts.append(values[:, None] == np.arange(_count_dummies(column)))
                continue
            gaps = np.isnan(values)
            parts.append(np.where(gaps, column.mean, values)[:, None])
            if column.has_gaps:
                parts.append(gaps[:, None])
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def name_dummies(self, names: Sequence[str]) -> list[str]:
        """Name the columns that `make_dummies` returns.

        >>> Columns((KnownColumn(None, has_gaps=True), KnownColumn(["red"]))).name_dummies(["age", "color"])
        ['age', 'age is missing', 'color=red']
        """
        named = []
        for column, name in zip(self.columns, names, strict=True):
            if column.levels is None:
                named += [name, f"{name} is missing"][: _count_dummies(column)]
            else:
                named += [f"{name}={level}" for level in column.levels[: _count_dummies(column)]]
        return named

    def to_json(self) -> list[list[Any]]:
        """Return the columns as plain lists."""
        return [[column.levels, column.mean, column.has_gaps] for column in self.columns]

    @classmethod
    def from_json(cls, stored: Any) -> Columns:
        """Read what `to_json` returned."""
        columns = tuple(KnownColumn(levels, float(mean), bool(gaps)) for levels, mean, gaps in stored)
        for column in columns:
            levels = column.levels
            if levels is not None and not (isinstance(levels, list) and len(set(levels)) == len(levels)):
                raise expected("folder", "with distinct categories", show(levels)[:60])
        return cls(columns)


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table of pandas or polars into numbers, for a classifier that accepts nothing else.

    >>> import pandas as pd
    >>> TableEncoder().fit_transform(pd.DataFrame({"color": ["red", "blue", "red"]}))
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the columns and their categories."""
        validate_data(self, X, skip_check_array=True)
        self.columns_ = Columns.find(X)
        return self

    def transform(self, X: Any) -> Floats:
        """Convert a table to numbers."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self.columns_.make_dummies(self.columns_.encode(X))


def validate_features(model: Any, X: Any, *y: Any, reset: bool, gaps: bool = False, **checks: Any) -> Any:
    """Validate as scikit-learn does, and convert tables with categories by `model.columns_`.

    Arrays, sparse matrices and tables of numbers are left to scikit-learn, and `columns_` is None. With
    `gaps`, NaN is allowed and remains; without it, missing numbers in a table are filled.
    """
    if reset:
        columns = Columns.find(X) if is_table(X) else None
        needed = columns is not None and (columns.categorical or (columns.has_gaps and not gaps))
        model.columns_ = columns if needed else None
    columns = getattr(model, "columns_", None)
    if y and is_multilabel(y[0]):
        checks["multi_output"] = True
    if gaps:
        checks["ensure_all_finite"] = "allow-nan"
    if columns is None:
        return validate_data(model, X, *y, accept_sparse="csr", reset=reset, **checks)
    if not is_table(X):
        raise expected("X", "to be a table with the columns of `fit`", type(X).__name__)
    validate_data(model, X, skip_check_array=True, reset=reset)
    encoded = check_array(columns.encode(X), ensure_all_finite="allow-nan", input_name="X")
    encoded = encoded if gaps else columns.make_dummies(encoded)
    return check_X_y(encoded, *y, **checks) if y else check_array(encoded, **checks)


def is_table(X: Any) -> bool:
    """Whether X is a DataFrame of pandas or polars.

    >>> is_table(np.zeros((2, 2)))
    False
    """
    return hasattr(X, "columns") and hasattr(X, "dtypes") and getattr(X, "ndim", 2) == 2


def _iterate(table: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the names and the columns, by their places, since names may occur twice."""
    for place, name in enumerate(table.columns):
        yield name, table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]


def _find_column(name: Any, series: Any) -> KnownColumn:
    if _is_numeric(name, series):
        values = _read_numbers(name, series)
        known = values[~np.isnan(values)]
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is refused later
            mean = float(known.mean()) if known.size else 0.0
        return KnownColumn(None, mean, known.size < values.size)
    counts = Counter(map(_as_level, series.to_list()))
    counts.pop(None, None)
    order = sorted(counts, key=lambda level: (-counts[level], type(level).__name__, level))
    return KnownColumn(order)


def _is_numeric(name: Any, series: Any) -> bool:
    """Whether a column contains numbers or booleans; neither these nor categories are an error."""
    dtype = series.dtype
    if not hasattr(dtype, "kind"):  # polars
        kind = str(dtype).partition("(")[0]
        if dtype.is_numeric() or kind in ("Boolean", "Null"):
            return True
        if kind in ("String", "Categorical", "Enum"):
            return False
    elif dtype.kind in "biuf":
        return True
    elif dtype.kind == "O":
        if str(dtype) != "object":
            return False
        values = [value for value in series.to_list() if not is_missing(value)]
        wrong = [value for value in values if not isinstance(value, str | numbers.Number | np.bool_)]
        if not wrong:
            return not any(isinstance(value, str) for value in values)
        dtype = type(wrong[0]).__name__
    hint = "Convert it to numbers or texts."
    raise expected("X", f"with numbers, texts or categories in column {name!r}", f"{dtype}", hint)


def _read_numbers(name: Any, series: Any) -> Floats:
    """Read a column of numbers, with NaN where they are missing."""
    if not _is_numeric(name, series):
        raise expected("X", f"with numbers in column {name!r}, as in `fit`", f"{series.dtype}")
    if not hasattr(series, "iloc"):
        return np.asarray(series.to_numpy(), dtype=np.float64)
    if series.dtype.kind != "O":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.array([np.nan if is_missing(one) else float(one) for one in series.to_list()])


def _find_levels(series: Any, levels: list[Any]) -> Floats:
    places = {level: float(place) for place, level in enumerate(levels)}
    return np.array([places.get(_as_level(value), np.nan) for value in series.to_list()])


def _as_level(value: Any) -> Any:
    """A category as a text or number that JSON can hold, or None if it is missing."""
    if is_missing(value):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, str | bool | int | float) else str(plain)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas' NA is neither equal nor unequal
        return True


def _count_dummies(column: KnownColumn) -> int:
    return 1 + column.has_gaps if column.levels is None else min(len(column.levels), MAX_DUMMIES)
