"""Codes of categories as means of the target: for methods that do not split categories natively."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_array, check_is_fitted

from evalign._errors import expected
from evalign._typing import Floats, Indices

if TYPE_CHECKING:
    from typing_extensions import Self


#: The number of parts of the rows: in `fit_transform`, each gets the means of the others.
_PARTS = 5


class TargetMeans(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace columns of codes 0, 1, ... by the shares of the classes among the rows with the same code.

    The n rows with a code count as much as K rows with the share p of all rows: (n p_code + K p) / (n + K),
    where K is the variance within codes over the variance between them (Buehlmann's credibility). Unknown
    codes have the share of all rows. In `fit_transform`, a row gets the shares of other rows, so that what is
    trained on them does not see the row's own class. Two classes give one column per code, the share of the
    second; more classes give one column per class.

    The shares come first. With `keep`, the codes come before them, for trees that split categories natively:
    these see what the shares do not, such as an effect of another column that differs between categories.

    Args:
        categorical: The places of the columns with codes.
        keep: Keep the codes.

    Attributes:
        means_: For each column, the shares by code, and in the last row those of all rows.

    References:
        Buehlmann (1967), Experience rating and credibility; Micci-Barreca (2001), A preprocessing scheme for
        high-cardinality categorical attributes.

    >>> X, y = np.repeat([[0.0, 5.0], [1.0, 6.0]], 50, axis=0), np.repeat([0, 1, 0, 1], [40, 10, 10, 40])
    >>> TargetMeans((0,)).fit(X, y).transform(np.array([[0.0, 7.0], [9.0, 7.0]])).round(2)
    array([[0.21, 7.  ],
           [0.5 , 7.  ]])
    """

    def __init__(self, categorical: tuple[int, ...] = (), keep: bool = False) -> None:
        self.categorical = categorical
        self.keep = keep

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the shares of the classes."""
        X = check_array(X, dtype=np.float64)
        self.n_features_in_ = X.shape[1]
        codes, targets = self._read_codes(X), _indicate_classes(y)
        self.means_ = [_find_shares(own, targets) for own in codes.T]
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Learn the shares, and return the rows with shares that their own classes had no part in."""
        self.fit(X, y)
        X = check_array(X, dtype=np.float64)
        codes, targets = self._read_codes(X), _indicate_classes(y)
        shares = np.empty((len(X), len(codes.T) * targets.shape[1]))
        parts = _draw_parts(y)
        for part in range(_PARTS):
            own = parts == part
            means = [_find_shares(column[~own], targets[~own]) for column in codes.T]
            shares[own] = _look_up(codes[own], means)
        return self._replace(X, shares)

    def transform(self, X: Any) -> Floats:
        """Replace the codes by the shares."""
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self.n_features_in_:
            raise expected("X", f"with {self.n_features_in_} features", X.shape[1])
        return self._replace(X, _look_up(self._read_codes(X), self.means_))

    def _read_codes(self, X: Floats) -> Indices:
        codes = X[:, list(self.categorical)]
        if (codes < 0).any() or (codes > np.iinfo(np.int32).max).any():
            raise expected("X", "with codes from 0 on", codes.min())
        return np.asarray(codes, dtype=np.int64)

    def _replace(self, X: Floats, shares: Floats) -> Floats:
        places = list(self.categorical)
        kept = [X[:, places]] if self.keep else []
        return np.concatenate([*kept, shares, np.delete(X, places, axis=1)], axis=1)

    @classmethod
    def restore(
        cls, categorical: tuple[int, ...], keep: bool, means: Sequence[Any], n_features: int
    ) -> TargetMeans:
        """Build fitted means from settings, `means_` and `n_features_in_`, checking every part."""
        places = list(categorical)
        valid = (
            all(type(place) is int and 0 <= place < n_features for place in places)
            and len(set(places)) == len(places) == len(means) > 0
            and all(one.dtype == np.float64 and one.ndim == 2 and one.size for one in means)
            and len({one.shape[1] for one in means}) == 1
            and all(np.isfinite(one).all() for one in means)
        )
        if not valid:
            raise expected("folder", "with means of its categories", "others")
        restored = cls(tuple(places), bool(keep))
        restored.means_, restored.n_features_in_ = list(means), n_features
        return restored


def _indicate_classes(y: Any) -> Floats:
    """One column per class with 1 for its rows; of two classes, only the second."""
    classes, places = np.unique(column_or_1d(y), return_inverse=True)
    wanted = np.arange(len(classes))[1 if len(classes) == 2 else 0 :]
    return np.asarray(places[:, None] == wanted, dtype=np.float64)


def _find_shares(codes: Indices, targets: Floats) -> Floats:
    """The share of each class by code, drawn towards that of all rows, which is the last row."""
    counts = np.bincount(codes).astype(np.float64)[:, None]
    sums = np.stack([np.bincount(codes, own, len(counts)) for own in targets.T], axis=1)
    mean, n_rows, n_codes = targets.mean(0), len(targets), int((counts > 0).sum())
    means = np.divide(sums, counts, out=np.tile(mean, (len(counts), 1)), where=counts > 0)
    within = (counts * means * (1 - means)).sum(0) / max(n_rows - n_codes, 1)
    spread = (counts * (means - mean) ** 2).sum(0) - (n_codes - 1) * within
    between = np.maximum(spread, 0) / max(n_rows - float((counts**2).sum()) / n_rows, 1e-9)
    if n_rows == n_codes:  # nothing is known about the variance within codes
        between = np.zeros_like(between)
    # K = within / between, which may be infinite: the weight n / (n + K) is written without it.
    weight = np.divide(
        counts * between, counts * between + within, out=np.zeros_like(means), where=counts * between > 0
    )
    return np.concatenate([mean + weight * (means - mean), mean[None]])


def _look_up(codes: Indices, means: list[Floats]) -> Floats:
    places = [np.minimum(own, len(table) - 1) for own, table in zip(codes.T, means, strict=True)]
    return np.concatenate([table[own] for own, table in zip(places, means, strict=True)], axis=1)


def _draw_parts(y: Any) -> Indices:
    """The part of each row: by chance, and about as many rows of every class in each part."""
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(np.asarray(y)[order], kind="stable")]
    parts = np.empty(len(y), dtype=np.int64)
    parts[order] = np.arange(len(y)) % _PARTS
    return parts
