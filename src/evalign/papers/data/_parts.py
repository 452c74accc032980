"""Datasets as the tables use them: split, cut to size, scaled, as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from evalign.datasets import Dataset, normalise, standardise
from evalign.papers.data import load
from evalign.training import TrainingData


class MissingDataError(Exception):
    """Data that a table needs is not on this machine."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The three parts of a dataset, ready for a network, and what its classes are called."""

    train: TrainingData
    valid: TrainingData
    test: TrainingData
    class_names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`"table"`, `"images"`, or `"graph"` for people in frames with a target for every pair."""
        return {2: "table", 3: "graph", 4: "images"}[self.train.x.ndim]


def class_index(class_names: Sequence[str], word: str) -> int:
    """The class of a name, in whatever case and with a number before it or not.

    >>> class_index(("055.dice", "056.dog", "060.hot-dog"), "dog")
    1
    """
    return [name.lower().lstrip("0123456789.") for name in class_names].index(word)


@lru_cache(maxsize=2)
def prepare(name: str, rows: int | None, seed: int) -> Parts:
    """Load a dataset, split it, keep at most so many rows, and scale it by its training part."""
    data = _loaded(name)
    parts = [_fewer(data, part, rows, seed) for part in data.split(seed)]
    used = np.concatenate(parts)
    ends = np.cumsum([len(part) for part in parts])
    train, valid, test = np.split(np.arange(len(used)), ends[:-1])
    X, y = data.X[used], data.y[used]
    X = normalise(X) if X.ndim == 4 else standardise(X, train)
    if y.ndim == 3:  # pairs of people: each once, none with itself
        first, second = np.triu_indices(y.shape[1], 1)
        y = y[:, first, second]

    return _as_tensors(X, y, (train, valid, test), data.class_names)


@lru_cache(maxsize=2)
def prepare_photos(name: str, rows: int | None, seed: int) -> Parts:
    """Images as Lee et al. prepare them: three channels, the mean of each pixel subtracted.

    Of the rows that are no official test part, a tenth, drawn with the seed, is the validation part.
    """
    data = _loaded(name)
    test = data.split(seed).test
    rest = np.setdiff1d(np.arange(len(data.y)), test)
    train, valid = train_test_split(rest, test_size=0.1, stratify=data.y[rest], random_state=seed)
    parts = [_fewer(data, part, rows, seed) for part in (train, valid, test)]
    used = np.concatenate(parts)
    places = np.split(np.arange(len(used)), np.cumsum([len(part) for part in parts])[:-1])
    X = normalise(data.X[used], train=places[0], channels=3)
    return _as_tensors(X, data.y[used], places, data.class_names)


def _as_tensors(
    X: NDArray[Any], y: NDArray[Any], places: Sequence[NDArray[Any]], class_names: tuple[str, ...]
) -> Parts:
    train, valid, test = (TrainingData(torch.from_numpy(X[at]), torch.from_numpy(y[at])) for at in places)
    return Parts(train, valid, test, class_names)


def fingerprint(name: str) -> str:
    """Which data a name stands for on this machine: a subset and the whole must not share a study."""
    data = _loaded(name)
    shape = f"{data.X.shape} {np.bincount(data.y.ravel()).tolist()}"
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def _loaded(name: str) -> Dataset:
    try:
        return load(name)
    except (OSError, ImportError) as error:
        raise MissingDataError(str(error)) from error


def _fewer(data: Dataset, part: NDArray[Any], rows: int | None, seed: int) -> NDArray[Any]:
    """Rows of a part in their share of at most so many of all, with the shares of the classes kept."""
    if rows is None or rows >= len(data.y):
        return part
    strata = (data.y if data.strata is None else data.strata)[part]
    generator = np.random.default_rng(seed)
    kept = []
    for label in np.unique(strata):
        members = generator.permutation(np.flatnonzero(strata == label))
        kept.append(members[: max(1, round(len(members) * rows / len(data.y)))])
    return np.asarray(part[np.sort(np.concatenate(kept))])
