"""The rows a classifier is trained and validated on: splits, folds and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from evalign._errors import expected, is_number, show
from evalign._typing import Floats, Indices

#: Row numbers to train on, and to validate on.
Split = tuple[Indices, Indices]


def split_rows(y: NDArray[Any], n_bags: int, fraction: float, seed: int) -> list[Split]:
    """Draw the training and validation rows of each bag: one split, or a fold per bag."""
    return draw_folds(y, n_bags, seed) if n_bags > 1 else [stratified_split(y, fraction, seed)]


def stratified_split(y: NDArray[Any], fraction: float, seed: int) -> Split:
    """Draw a validation part that contains the same fraction of every class.

    Every class keeps at least one row for training; a class of two rows or more has one for validation.

    >>> train, valid = stratified_split(np.array([0] * 8 + [1] * 2 + [2]), 0.25, seed=0)
    >>> len(train), np.bincount(np.array([0] * 8 + [1] * 2 + [2])[valid]).tolist()
    (8, [2, 1])
    """
    generator = np.random.default_rng(seed)
    valid = []
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        size = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        valid.append(rows[:size])
    held_out = np.sort(np.concatenate(valid))
    if held_out.size == 0:
        raise expected("y", "with two rows of some class, one of them for validation", f"{y.size} rows")
    return np.setdiff1d(np.arange(len(y)), held_out), held_out


def draw_folds(y: NDArray[Any], n_bags: int, seed: int) -> list[Split]:
    """Draw the training and validation rows of each bag; every row is in one validation part.

    >>> [len(held_out) for _, held_out in draw_folds(np.array([0, 1] * 5), 5, seed=0)]
    [2, 2, 2, 2, 2]
    """
    fewest = int(np.bincount(y).min())
    if fewest < n_bags:
        raise expected("n_bags", f"of at most {fewest}, the rows of the rarest class", n_bags)
    splitter = StratifiedKFold(n_bags, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def normalize_weights(sample_weight: Any, X: Any) -> Floats | None:
    """Check the weights of rows and scale them to mean 1, since only their ratios matter."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise expected("sample_weight", "with a weight above 0", "zeros only")
    weight = weight / weight.max()
    return np.asarray(weight / weight.mean())


def as_class_weights(
    class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any], counts: NDArray[Any]
) -> Tensor | None:
    """Return one weight per class, in their order; `"balanced"` is n / (d n_y), as in scikit-learn.

    >>> as_class_weights("balanced", np.array(["a", "b"]), np.array([3, 1]))
    tensor([0.6667, 2.0000])
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return torch.as_tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32)
    if not isinstance(class_weight, Mapping):
        raise expected("class_weight", "to be 'balanced' or one weight per class", show(class_weight))
    known = classes.tolist()
    if not all(is_number(value) and value >= 0 for value in class_weight.values()):
        raise expected("class_weight", "with weights >= 0", show(list(class_weight.values())))
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise expected("class_weight", "with classes of `y` only", show(unknown[0]))
    return torch.tensor([float(class_weight.get(label, 1.0)) for label in known])
