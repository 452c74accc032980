"""Datasets as the tables use them: split, subsampled, scaled and converted to tensors."""

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

from evalign._typing import Indices
from evalign.datasets import Dataset, normalise, standardise
from evalign.papers.data._load import load
from evalign.papers.data._synthetic import SYNTHETIC
from evalign.papers.tables import Protocol
from evalign.training import TrainingData


class MissingDataError(Exception):
    """Data that a table needs is not on this machine."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The training, validation and test parts of a dataset as tensors, and the names of its classes."""

    train: TrainingData
    valid: TrainingData
    test: TrainingData
    class_names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`"table"`, `"images"`, or `"graph"` for people in frames with one target per pair."""
        return {2: "table", 3: "graph", 4: "images"}[self.train.x.ndim]


def class_index(class_names: Sequence[str], word: str) -> int:
    """Return the index of a class by its name, ignoring case and a leading number.

    >>> class_index(("055.dice", "056.dog", "060.hot-dog"), "dog")
    1
    """
    return [name.lower().lstrip("0123456789.") for name in class_names].index(word)


@lru_cache(maxsize=2)
def prepare(name: str, rows: int | None, seeds: tuple[int, ...], protocol: Protocol) -> tuple[Parts, ...]:
    """Load a dataset, and split it with each seed: at most `rows` rows, scaled by the training part.

    Made-up data has new rows for each seed.
    """
    if name in SYNTHETIC:
        return tuple(_prepare(load(name, seed=seed), rows, seed, protocol) for seed in seeds)
    data = _load(name)
    return tuple(_prepare(data, rows, seed, protocol) for seed in seeds)


def _prepare(data: Dataset, rows: int | None, seed: int, protocol: Protocol) -> Parts:
    split = data.split(seed, official=protocol.official_test)
    used, places = _concatenate([_subsample(data, part, rows, seed) for part in split])
    X, y = data.X[used], data.y[used]
    if X.ndim != 4:
        X = standardise(X, places[0])
    elif protocol.unit_variance:
        X = np.ascontiguousarray(standardise(X, places[0]).transpose(0, 3, 1, 2))
    else:
        X = normalise(X)
    if y.ndim == 3:  # pairs of people: each pair once, nobody paired with themselves
        first, second = np.triu_indices(y.shape[1], 1)
        y = y[:, first, second]
    return _as_tensors(X, y, places, data.class_names)


@lru_cache(maxsize=2)
def prepare_photos(name: str, rows: int | None, seed: int) -> Parts:
    """Prepare images as Lee et al. do: three channels, with the mean of each pixel subtracted.

    A tenth of the rows outside the official test part, drawn with the seed, is the validation part.
    """
    data = _load(name)
    test = data.split(seed).test
    rest = np.setdiff1d(np.arange(len(data.y)), test)
    train, valid = train_test_split(rest, test_size=0.1, stratify=data.y[rest], random_state=seed)
    used, places = _concatenate([_subsample(data, part, rows, seed) for part in (train, valid, test)])
    X = normalise(data.X[used], train=places[0], channels=3)
    return _as_tensors(X, data.y[used], places, data.class_names)


def fingerprint(name: str) -> str:
    """A hash of the data that a name stands for on this machine, so that subsets do not share a study."""
    data = _load(name)
    shape = f"{data.X.shape} {np.bincount(data.y.ravel()).tolist()}"
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def _load(name: str) -> Dataset:
    try:
        return load(name)
    except (OSError, ImportError) as error:
        raise MissingDataError(str(error)) from error


def _subsample(data: Dataset, part: Indices, rows: int | None, seed: int) -> Indices:
    """Reduce a part to its share of `rows` rows of the dataset, preserving the shares of the classes."""
    if rows is None or rows >= len(data.y):
        return part
    strata = (data.y if data.strata is None else data.strata)[part]
    generator = np.random.default_rng(seed)
    sample = []
    for label in np.unique(strata):
        members = generator.permutation(np.flatnonzero(strata == label))
        sample.append(members[: max(1, round(len(members) * rows / len(data.y)))])
    return np.asarray(part[np.sort(np.concatenate(sample))])


def _concatenate(parts: Sequence[Indices]) -> tuple[Indices, list[Indices]]:
    """The rows of all parts, and the places of each part among them."""
    rows = np.concatenate(parts)
    return rows, np.split(np.arange(len(rows)), np.cumsum([len(part) for part in parts])[:-1])


def _as_tensors(
    X: NDArray[Any], y: NDArray[Any], places: Sequence[Indices], class_names: tuple[str, ...]
) -> Parts:
    train, valid, test = (TrainingData(torch.from_numpy(X[at]), torch.from_numpy(y[at])) for at in places)
    return Parts(train, valid, test, class_names)
