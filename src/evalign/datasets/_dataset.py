"""A dataset: arrays, names, where they come from, and how the papers split and scale them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from evalign._errors import expected, is_integer, show
from evalign._typing import Indices


class Split(NamedTuple):
    """The row numbers of the training, validation and test parts.

    >>> from evalign.datasets import load
    >>> train, valid, test = load("mammography").split()
    >>> len(train), len(valid), len(test)
    (7156, 1790, 2237)
    """

    train: Indices
    valid: Indices
    test: Indices


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, class indices, their names, and whom to cite.

    `feature_names` are the names along the last axis of `X`: the columns of a table, the channels of
    images (rows, height, width, channels; 0 to 255), or the features of a person in a graph (frames,
    people, features). `official_test` contains the rows of the official test part, if there is one.
    Splits are stratified by `strata`, or by `y` if it is None. `source` names the files that were read.

    >>> from evalign.datasets import load
    >>> data = load("mammography")
    >>> data.X.shape, data.feature_names[0], data.class_names
    ((11183, 6), 'attr1', ('-1', '1'))
    """

    name: str
    X: NDArray[Any]
    y: Indices
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    citation: str
    licence: str = "none stated"
    source: str = ""
    official_test: Indices | None = None
    strata: Indices | None = None

    def split(self, seed: int = 0, *, official: bool = True) -> Split:
        """Split the rows into 64 % for training, 16 % for validation and 20 % for testing, stratified.

        If there is an official test part, it is used and the remaining rows are split 80/20;
        `official=False` splits all rows 64/16/20.

        >>> from evalign.datasets import load
        >>> data = load("mammography")
        >>> [int(data.y[rows].sum()) for rows in data.split(seed=1)]
        [166, 42, 52]
        """
        if not is_integer(seed, 0) or seed >= 2**32:
            raise expected("seed", "to be a whole number from 0 to 2**32 - 1", show(seed))
        rest = np.arange(len(self.y), dtype=np.int64)
        if official and self.official_test is not None:
            test = self.official_test
            rest = np.setdiff1d(rest, test)
        else:
            rest, test = self._split_in_two(rest, int(seed))
        return Split(*self._split_in_two(rest, int(seed)), test)

    def _split_in_two(self, rows: Indices, seed: int) -> tuple[Indices, Indices]:
        """Split rows into 80 % and 20 %, stratified."""
        strata = self.y if self.strata is None else self.strata
        try:
            first, second = train_test_split(rows, test_size=0.2, stratify=strata[rows], random_state=seed)
        except ValueError as error:
            few = f"{len(rows)} rows in {len(np.unique(strata[rows]))} classes ({error})"
            raise expected(self.name, "to have enough rows of every class to split", few) from None
        return first, second


def standardise(X: NDArray[Any], train: NDArray[Any]) -> NDArray[np.float32]:
    """Centre each feature and scale it to unit variance, by the statistics of the training rows only.

    Features are along the last axis: the columns of a table, the channels of images. A constant feature
    is only centred.

    >>> from evalign.datasets import load
    >>> data = load("mammography")
    >>> train, valid, test = data.split()
    >>> X = standardise(data.X, train)
    >>> X[train].mean(0, dtype=float).round(4) + 0.0, X[train].std(0, dtype=float).round(4)
    (array([0., 0., 0., 0., 0., 0.]), array([1., 1., 1., 1., 1., 1.]))
    """
    X = np.asarray(X, dtype=np.float32)
    if X.ndim < 2:
        raise expected("X", "with rows and features", f"shape {X.shape}")
    sample = X[train].reshape(-1, X.shape[-1])
    if not len(sample):
        raise expected("train", "to select at least one row", "none")
    scaler = StandardScaler().fit(sample)
    scaled: NDArray[np.float32] = scaler.transform(X.reshape(-1, X.shape[-1])).astype(np.float32, copy=False)
    return scaled.reshape(X.shape)


def normalise(
    images: NDArray[np.uint8], *, train: NDArray[Any] | None = None, channels: int | None = None
) -> NDArray[np.float32]:
    """Convert images for a network: float, (rows, channels, height, width), pixels (p / 255 - 0.5) / 0.5.

    With `train`, the mean of each pixel over these rows is subtracted instead; `channels=3` repeats
    the channel of grey images. BtG does the former, the surrogate F-beta paper the latter.

    >>> import numpy as np
    >>> grey = np.array([0, 51, 255], dtype=np.uint8).reshape(1, 1, 3, 1)
    >>> normalise(grey, channels=3).shape, normalise(grey).ravel().tolist()
    ((1, 3, 1, 3), [-1.0, -0.6000000238418579, 1.0])
    """
    images = np.asarray(images)
    if images.ndim != 4 or images.dtype != np.uint8:
        form = f"{images.dtype} of shape {images.shape}"
        raise expected("images", "to be uint8 of shape (rows, height, width, channels)", form)
    if channels not in (None, images.shape[-1]) and images.shape[-1] != 1:
        raise expected("channels", f"to be {images.shape[-1]}, as the images have", show(channels))
    if channels is not None and channels < 1:
        raise expected("channels", "to be at least 1", show(channels))
    x = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)
    x /= 255
    if train is None:
        x -= 0.5
        x /= 0.5
    else:
        x -= x[train].mean(axis=0)
    return x if channels in (None, x.shape[1]) else np.repeat(x, channels or 1, axis=1)
