"""The rows a classifier is trained and validated on: splits, folds and weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, is_multilabel
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from evalign._errors import expected, is_number, show
from evalign._typing import Floats, Indices
from evalign.estimators._columns import is_missing
from evalign.estimators._folds import Split, count_rarest, draw_folds, limit_folds


def check_targets(y: Any) -> NDArray[Any]:
    """Return the class of each row, or 0 and 1 of shape (n, L) for multilabel targets, without gaps.

    >>> check_targets(["a", "b"]), check_targets([[0, 1], [True, False]]).tolist()
    (array(['a', 'b'], dtype='<U1'), [[0, 1], [1, 0]])
    """
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None")
    table = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if table.ndim == 2 and table.shape[1] > 1:
        return _check_label_table(table)
    labels = column_or_1d(y, warn=True)
    if len(labels) == 0:
        raise expected("y", "with at least one row", "none")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    _check_labels(labels)
    return np.asarray(labels)


def _check_labels(labels: NDArray[Any]) -> None:
    """Refuse labels that are missing, of several types, or not those of classes."""
    if labels.dtype.kind == "O":
        for row in np.flatnonzero([is_missing(label) for label in labels])[:1]:
            raise expected("y", "without missing labels", f"{show(labels[row])} in row {row}")
        try:
            np.unique(labels)
        except TypeError as error:
            raise expected("y", "with labels of one type", f"several ({error})") from None
    check_classification_targets(labels)


def _check_label_table(table: NDArray[Any]) -> NDArray[Any]:
    stray = table[~np.isin(table, (0, 1))]
    if stray.size:
        wanted = "with the class of each row, or 0 and 1 for each of several labels"
        raise expected("y", wanted, f"{show(stray[0])} in {table.shape[1]} columns")
    return table.astype(np.int64)


@dataclass(frozen=True)
class Targets:
    """What a classifier learns: class indices (n,) of sorted classes, or 0 and 1 of shape (n, L).

    For labels, the classes are their places 0 ... L - 1, as in scikit-learn's `MLPClassifier`.

    >>> Targets.read(np.array(["b", "a"])).indices, Targets.read([[1, 0], [1, 1]]).classes
    (array([1, 0]), array([0, 1]))
    """

    classes: NDArray[Any]
    indices: Indices

    @classmethod
    def read(cls, y: Any) -> Targets:
        """Read targets of any kind, which scikit-learn has checked."""
        if is_multilabel(y):
            table = _check_label_table(np.asarray(y.toarray() if sparse.issparse(y) else y))
            return cls(np.arange(table.shape[1]), table)
        _check_labels(np.asarray(y))
        classes, indices = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise expected("y", "with at least two classes", f"1 class: {show(classes[0])}")
        return cls(classes, indices.astype(np.int64))

    @property
    def multilabel(self) -> bool:
        """Whether there are several labels per row."""
        return self.indices.ndim == 2

    def count_groups(self, groups: Indices) -> int:
        """Count the groups of the class, or of the stratum of labels, that is in the fewest."""
        return count_rarest(_label_strata(self.indices, 2) if self.multilabel else self.indices, groups)

    def split(self, n_bags: int, fraction: float, seed: int, groups: Indices | None = None) -> list[Split]:
        """Draw the training and validation rows of each bag, stratified by class or by rare labels.

        Rows of one group are in the same part.
        """
        strata = _label_strata(self.indices, n_bags) if self.multilabel else self.indices
        return split_rows(strata, n_bags, fraction, seed, groups)


def index_groups(groups: Any, n_rows: int) -> Indices | None:
    """Number the groups of the rows 0, 1, ...

    >>> index_groups(["b", "a", "b"], 3), index_groups(None, 3)
    (array([1, 0, 1]), None)
    """
    if groups is None:
        return None
    names = column_or_1d(groups)
    if len(names) != n_rows:
        raise expected("groups", f"with one group for each of {n_rows} rows", len(names))
    return np.asarray(np.unique(names, return_inverse=True)[1])


def count_classes(y: Indices, num_classes: int) -> NDArray[Any]:
    """Count the rows of each class, or for labels the rows without and with the rarest one.

    >>> count_classes(np.array([0, 1, 1]), 2), count_classes(np.array([[1, 0], [1, 1], [0, 0]]), 2)
    (array([1, 2]), array([2, 1]))
    """
    if y.ndim == 1:
        return np.bincount(y, minlength=num_classes)
    positives = y.sum(0)
    rarest = int(positives[positives > 0].min(initial=len(y) - 1))
    return np.array([len(y) - rarest, rarest])


def _label_strata(y: Indices, least: int) -> Indices:
    """Group rows by the rarest of their labels; groups below `least` join the rows without any.

    >>> _label_strata(np.array([[1, 0], [1, 1], [0, 0], [1, 0], [0, 1]]), 2)
    array([1, 2, 0, 1, 2])
    """
    frequency = y.sum(0)
    costs = np.where(y == 1, frequency, len(y) + 1)
    groups = np.where(y.any(1), costs.argmin(1) + 1, 0)
    groups[np.bincount(groups)[groups] < least] = 0
    return np.asarray(np.unique(groups, return_inverse=True)[1])


def split_rows(
    y: NDArray[Any], n_bags: int, fraction: float, seed: int, groups: Indices | None = None
) -> list[Split]:
    """Draw the training and validation rows of each bag: one split, or a fold per bag.

    There are at most as many bags as rows, or groups, of the rarest class.
    """
    wanted = limit_folds(n_bags, y, groups, parts="bags") if n_bags > 1 else 1
    for n_folds in range(wanted, 1, -1):
        folds = draw_folds(n_folds, y, groups, seed)
        if groups is None or all(len(np.unique(y[train])) == len(np.unique(y)) for train, _ in folds):
            break
    else:
        n_folds = 1
        folds = [
            stratified_split(y, fraction, seed) if groups is None else split_groups(y, groups, fraction, seed)
        ]
    if n_folds < wanted:
        reason = "otherwise some class would have no rows to train on"
        warnings.warn(f"Drew {n_folds} bags instead of {n_bags}, since {reason}.", stacklevel=2)
    return folds


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


def split_groups(y: NDArray[Any], groups: Indices, fraction: float, seed: int) -> Split:
    """Draw a validation part of whole groups that contains about the same fraction of every class.

    Every class keeps a group for training; a class in two groups or more has one for validation if that is
    possible.

    >>> y, groups = np.array([0, 0, 1] * 5), np.repeat(np.arange(5), 3)
    >>> train, valid = split_groups(y, groups, 0.2, seed=0)
    >>> len(train), len(np.unique(groups[valid]))
    (12, 1)
    """
    classes, indices = np.unique(y, return_inverse=True)
    n_groups, d = int(groups.max()) + 1, len(classes)
    counts = np.bincount(groups * d + indices, minlength=n_groups * d).reshape(n_groups, d)
    order = np.random.default_rng(seed).permutation(n_groups)
    shares = counts[order] / counts.sum(0)
    held, chosen = np.zeros(d), np.zeros(n_groups, dtype=bool)
    for label in np.argsort((shares > 0).sum(0), kind="stable"):  # the class in the fewest groups first
        own = (shares[:, label] > 0) & _leaves_rows(held + shares)
        if own.any() and not held[label]:
            distances = np.where(own, np.square(held + shares - fraction).sum(1), np.inf)
            chosen[distances.argmin()] = True
            held = shares[chosen].sum(0)
    for group in np.flatnonzero(~chosen):
        after = held + shares[group]
        if _leaves_rows(after) and np.square(after - fraction).sum() < np.square(held - fraction).sum():
            held, chosen[group] = after, True
    if not chosen.any():
        wanted = "that share a class, so that one of them can be held out for validation"
        raise expected("groups", wanted, f"{n_groups} group{'s' * (n_groups > 1)}")
    is_held_out = np.isin(groups, order[chosen])
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def _leaves_rows(held: Floats) -> Any:
    """Whether every class has rows to train on if these shares are held out."""
    return (held < 1 - 1e-9).all(-1)


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
