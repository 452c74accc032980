"""From true and predicted labels of any type to a confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix
from torch import Tensor

from evalign._errors import expected


def label_confusion(
    y_true: Any, y_pred: Any, sample_weight: Any = None, labels: Sequence[Any] | None = None
) -> Tensor:
    """Count labels: (d, d) for one label a row, (L, 2, 2) for 0/1 arrays with L columns.

    >>> label_confusion(["no", "yes", "yes"], ["no", "yes", "no"])
    tensor([[1., 0.],
            [1., 1.]], dtype=torch.float64)
    """
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim not in (1, 2):
        raise expected("y_true", "with one or two dimensions", f"shape {truth.shape}")
    if truth.shape != guess.shape:
        raise expected("y_pred", f"of the shape {truth.shape} of `y_true`", f"shape {guess.shape}")
    if truth.shape[0] == 0:
        raise expected("y_true", "with at least one row", "none")
    if truth.ndim == 2 and truth.shape[1] > 1:
        counts = multilabel_confusion_matrix(truth, guess, sample_weight=sample_weight)
    else:
        truth, guess = truth.ravel(), guess.ravel()
        known = _classes(truth, guess, labels)
        counts = confusion_matrix(truth, guess, labels=known, sample_weight=sample_weight)
    return torch.from_numpy(np.asarray(counts, dtype=np.float64))


def _classes(truth: Any, guess: Any, labels: Sequence[Any] | None) -> Any:
    """All classes, sorted; 0 and 1 are taken for granted where nothing else occurs."""
    found = np.union1d(truth, guess)
    if labels is not None:
        known = np.unique(np.asarray(labels))
        stray = np.setdiff1d(found, known)
        if stray.size:
            raise expected("labels", "to name every class", f"data with {stray[0]!r} too")
        if known.size < 2:
            raise expected("labels", "to name two classes", known)
        return known
    if found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return np.array([0, 1], dtype=found.dtype)
    if found.size < 2:
        raise expected(
            "y_true",
            "and `y_pred` to hold two classes",
            f"only {found[0]!r}",
            "Name all classes with `labels`.",
        )
    return found
