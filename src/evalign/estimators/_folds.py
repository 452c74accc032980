"""The splits of a cross-validation: folds, fractions, splitters, and splits of the user's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from evalign._errors import expected, is_integer, show
from evalign._typing import Indices

#: Row numbers to train on, and to validate or test on.
Split = tuple[Indices, Indices]
#: The number of folds where the user leaves it open, as in scikit-learn.
N_FOLDS = 5


def draw_splits(
    cv: Any,
    X: Any,
    y: NDArray[Any],
    groups: NDArray[Any] | None = None,
    random_state: Any = None,
    metadata: Mapping[str, Any] | None = None,
    allow_rare: bool = False,
) -> list[Split]:
    """Return the rows to train on and the rows to test on, for each split.

    Every class is spread evenly over the parts, and rows of one group stay together. Multilabel targets,
    `y` of shape (n, L), are split by chance.

    Args:
        cv: The number of folds (None: 5); a fraction in (0, 1) for one split; a splitter; or pairs of rows.
        X: The features, for splitters that look at them.
        y: The targets.
        groups: The group of each row.
        random_state: The seed of folds and fractions; a splitter has its own.
        metadata: What a splitter is called with, if that is not the groups alone.
        allow_rare: Draw as many folds as asked for even if a class has fewer rows, and is in some only.

    >>> [len(test) for _, test in draw_splits(3, None, np.array([0, 1] * 6), random_state=0)]
    [4, 4, 4]
    >>> draw_splits([([0, 1], [2])], np.zeros((3, 1)), np.array([0, 1, 0]))
    [(array([0, 1]), array([2]))]
    """
    if cv is None or is_integer(cv, least=2):
        return draw_folds(N_FOLDS if cv is None else int(cv), y, groups, random_state, allow_rare)
    if isinstance(cv, float | np.floating) and 0 < cv < 1:
        return draw_shuffled(1, float(cv), y, groups, random_state)
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        wanted = "to be a number of folds >= 2, a fraction in (0, 1), a splitter or pairs (train, test)"
        raise expected("cv", wanted, show(cv))
    if metadata is None:
        metadata = {} if groups is None else {"groups": groups}
    pairs = cv.split(X, y, **metadata) if hasattr(cv, "split") else cv
    splits = [_check_split(pair, len(y)) for pair in pairs]
    if not splits:
        raise expected("cv", "with at least one split", "none")
    return splits


def draw_shuffled(
    n_splits: int, test_size: float, y: NDArray[Any], groups: NDArray[Any] | None, random_state: Any
) -> list[Split]:
    """Draw random splits with a fraction of the rows, or of the groups, in each test part."""
    settings = {"n_splits": n_splits, "test_size": test_size, "random_state": random_state}
    if groups is not None:
        _count_groups(groups)
        return list(GroupShuffleSplit(**settings).split(y, y, groups))
    splitter = ShuffleSplit(**settings) if y.ndim == 2 else StratifiedShuffleSplit(**settings)
    return list(splitter.split(y, y))


def draw_folds(
    n_folds: int, y: NDArray[Any], groups: NDArray[Any] | None, random_state: Any, allow_rare: bool = False
) -> list[Split]:
    """Draw shuffled folds; every row is in one test part.

    >>> [len(test) for _, test in draw_folds(5, np.array([0, 1] * 5), None, random_state=0)]
    [2, 2, 2, 2, 2]
    """
    settings = {
        "n_splits": limit_folds(n_folds, y, groups, least=2, count=max if allow_rare else min),
        "shuffle": True,
        "random_state": random_state,
    }
    if y.ndim == 2:
        splitter = KFold(**settings) if groups is None else GroupKFold(**settings)
    else:
        splitter = StratifiedKFold(**settings) if groups is None else StratifiedGroupKFold(**settings)
    with warnings.catch_warnings():
        # A class too rare for two folds is held out in one of them.
        warnings.filterwarnings("ignore", message="The least populated class")
        return [_check_split(split, len(y)) for split in splitter.split(np.zeros(len(y)), y, groups)]


def limit_folds(
    n_folds: int,
    y: NDArray[Any],
    groups: NDArray[Any] | None = None,
    least: int = 1,
    parts: str = "folds",
    count: Callable[[Any], int] = min,
) -> int:
    """Return how many folds the rarest class has rows or groups for, with a warning if that is fewer.

    With `count=max`, the most frequent class counts instead.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     limit_folds(5, np.array([0, 0, 0, 0, 0, 1, 1, 1]))
    3
    >>> print(caught[0].message)
    Drew 3 folds instead of 5, since the rarest class has 3 rows.
    """
    n_units = len(y) if groups is None else _count_groups(groups)
    if n_units < least:
        raise expected("y", f"with at least {least} rows", n_units)
    fewest = n_units if y.ndim == 2 else min(n_units, int(count(_count_units(y, groups))))
    limited = max(least, min(n_folds, fewest))
    if limited < n_folds:
        unit = ("row" if groups is None else "group") + "s" * (fewest != 1)
        which = "rarest" if count is min else "most frequent"
        reason = f"there are {fewest} {unit}" if y.ndim == 2 else f"the {which} class has {fewest} {unit}"
        warnings.warn(f"Drew {limited} {parts} instead of {n_folds}, since {reason}.", stacklevel=2)
    return limited


def count_rarest(y: NDArray[Any], groups: NDArray[Any] | None) -> int:
    """Count the rows of the rarest class, or the groups of the class that is in the fewest."""
    return int(_count_units(y, groups).min())


def _count_units(y: NDArray[Any], groups: NDArray[Any] | None) -> NDArray[Any]:
    """Count the rows of each class, or the groups that it is in."""
    if groups is None:
        return np.asarray(np.unique(y, return_counts=True)[1])
    classes, indices = np.unique(y, return_inverse=True)
    pairs = np.unique(np.unique(groups, return_inverse=True)[1] * len(classes) + indices)
    return np.asarray(np.bincount(pairs % len(classes)))


def _count_groups(groups: NDArray[Any]) -> int:
    known = np.unique(groups)
    if len(known) < 2:
        raise expected("groups", "with at least two groups", f"1 group: {show(known[0])}")
    return len(known)


def _check_split(split: Any, n_rows: int) -> Split:
    """Return a split as two arrays of row numbers, or raise an error about `cv`."""
    if not isinstance(split, list | tuple) or len(split) != 2:
        raise expected("cv", "to be pairs (train, test)", show(split))
    train, test = (np.asarray(part) for part in split)
    if 0 in (train.size, test.size):
        raise expected("cv", "with rows to train on and rows to test on in every split", "an empty part")
    return _as_rows(train, n_rows), _as_rows(test, n_rows)


def _as_rows(part: NDArray[Any], n_rows: int) -> Indices:
    if part.dtype == bool and part.shape == (n_rows,):
        part = np.flatnonzero(part)
    if part.ndim != 1 or part.dtype.kind not in "iu" or part.min() < 0 or part.max() >= n_rows:
        raise expected("cv", f"with row numbers from 0 to {n_rows - 1}", show(part[:5]))
    return part.astype(np.int64)
