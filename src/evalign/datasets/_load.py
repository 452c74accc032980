"""Data as arrays, by name."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected, near


@dataclass(frozen=True)
class Dataset:
    """Features, class indices and their names."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    citation: str


def load(name: str) -> Dataset:
    """Load a dataset by name: `"mammography"`, 11,183 rows of which 260 are positive.

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if name not in _LOADERS:
        raise expected("name", "to be a known dataset", repr(name), near(name, _LOADERS))
    dataset: Dataset = _LOADERS[name]()
    return dataset


def _mammography() -> Dataset:
    packed = resources.files("evalign.datasets").joinpath("data/mammography.csv.gz").read_bytes()
    rows = list(csv.reader(io.StringIO(gzip.decompress(packed).decode())))
    header, body = rows[0], rows[1:]
    return Dataset(
        name="mammography",
        X=np.array([row[:-1] for row in body], dtype=np.float32),
        y=np.array([row[-1] == "'1'" for row in body], dtype=np.int64),
        feature_names=tuple(header[:-1]),
        class_names=("-1", "1"),
        citation="Woods et al. (1993), Comparative evaluation of pattern recognition techniques for "
        "detection of microcalcifications in mammography.",
    )


_LOADERS: dict[str, Any] = {"mammography": _mammography}
