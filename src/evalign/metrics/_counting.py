"""Counting a hard confusion matrix, from class indices or from labels of any type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix
from torch import Tensor

from evalign._errors import expected, show
from evalign._torch import check_indices
from evalign._typing import Floats


def hard_confusion(
    predicted: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None = None
) -> Tensor:
    """Count the confusion matrix (d, d) of predicted and true class indices, in double precision.

    >>> hard_confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), 2)
    tensor([[1., 1.],
            [0., 1.]], dtype=torch.float64)
    """
    if predicted.shape != targets.shape or predicted.is_floating_point():
        raise expected(
            "predicted", f"to be class indices of shape {tuple(targets.shape)}",
            f"{predicted.dtype} of shape {tuple(predicted.shape)}",
        )  # fmt: skip
    check_indices("predicted", predicted, num_classes)
    check_indices("targets", targets, num_classes)
    cells = (targets.long() * num_classes + predicted.long()).flatten()
    weights = None if weight is None else weight.flatten().double()
    return torch.bincount(cells, weights, num_classes**2).view(num_classes, num_classes).double()


def label_confusion(
    y_true: Any, y_pred: Any, sample_weight: Any = None, labels: Sequence[Any] | None = None
) -> Tensor:
    """Count labels of any type: (d, d) for one label per row, (L, 2, 2) for 0/1 arrays with L columns.

    >>> label_confusion(["no", "yes", "yes"], ["no", "yes", "no"])
    tensor([[1., 0.],
            [1., 1.]], dtype=torch.float64)
    """
    return count_labels(y_true, y_pred, sample_weight, labels)[1]


def count_labels(
    y_true: Any, y_pred: Any, sample_weight: Any = None, labels: Sequence[Any] | None = None
) -> tuple[Any, Tensor]:
    """The classes (None for 0/1 arrays with several columns) and the matrix of `label_confusion`.

    >>> count_labels(["no", "yes"], ["no", "no"])[0].tolist()
    ['no', 'yes']
    """
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim not in (1, 2):
        raise expected("y_true", "with one or two dimensions", f"shape {truth.shape}")
    if truth.shape != guess.shape:
        raise expected("y_pred", f"of the shape {truth.shape} of `y_true`", f"shape {guess.shape}")
    if truth.shape[0] == 0:
        raise expected("y_true", "with at least one row", "none")
    weight = None if sample_weight is None else check_row_weights(sample_weight, len(truth))
    if truth.ndim == 2 and truth.shape[1] > 1:
        return None, torch.from_numpy(_count_columns(truth, guess, weight))
    truth, guess = truth.ravel(), guess.ravel()
    classes = _find_classes(truth, guess, labels)
    return classes, _count_cells(truth, guess, weight, classes)


def _count_cells(truth: Any, guess: Any, weight: Floats | None, classes: Any) -> Tensor:
    kinds = {one.dtype.kind.replace("u", "i") for one in (truth, guess, classes)}
    if not (kinds <= {"b", "i"} or kinds == {"U"}):  # scikit-learn refuses scores and missing labels
        counts = confusion_matrix(truth, guess, labels=classes, sample_weight=weight)
        return torch.from_numpy(np.asarray(counts, dtype=np.float64))
    predicted, targets = (torch.from_numpy(np.searchsorted(classes, side)) for side in (guess, truth))
    mass = None if weight is None else torch.from_numpy(weight)
    return hard_confusion(predicted, targets, len(classes), mass)


def _count_columns(truth: Any, guess: Any, weight: Floats | None) -> Floats:
    sides = truth, guess
    if not all(one.dtype.kind in "biu" and one.min() >= 0 and one.max() <= 1 for one in sides):
        counts = multilabel_confusion_matrix(truth, guess, sample_weight=weight)
        return np.asarray(counts, dtype=np.float64)
    weight = np.ones(len(truth)) if weight is None else weight
    cells = [[weight @ (own & other) for other in (guess ^ 1, guess)] for own in (truth ^ 1, truth)]
    return np.moveaxis(np.array(cells, dtype=np.float64), -1, 0)


def check_row_weights(sample_weight: Any, rows: int) -> Floats:
    """Return the weights of rows as an array; refuse those that would make a count negative or NaN.

    >>> check_row_weights([1, 0.5], rows=2)
    array([1. , 0.5])
    """
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (rows,):
        raise expected("sample_weight", f"of shape {(rows,)}", f"shape {weight.shape}")
    wrong = weight[~(np.isfinite(weight) & (weight >= 0))]
    if wrong.size:
        raise expected("sample_weight", "to be finite numbers >= 0", show(wrong[0]))
    return weight


def _find_classes(truth: Any, guess: Any, labels: Sequence[Any] | None) -> Any:
    """All classes, sorted; numeric labels that are only 0 or 1 always give both."""
    occurring = np.union1d(truth, guess)
    if labels is not None:
        known = np.unique(np.asarray(labels))
        stray = np.setdiff1d(occurring, known)
        if stray.size:
            raise expected("labels", "to name every class", f"data that also contains {stray[0]!r}")
        if known.size < 2:
            raise expected("labels", "to name two classes", known)
        return known
    if occurring.dtype.kind in "biuf" and np.isin(occurring, (0, 1)).all():
        return np.array([0, 1], dtype=occurring.dtype)
    if occurring.size < 2:
        raise expected(
            "y_true",
            "and `y_pred` to contain two classes",
            f"only {occurring[0]!r}",
            "Name all classes with `labels`.",
        )
    return occurring
