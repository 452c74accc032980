"""Held-out rows as a fitted classifier sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evalign._errors import expected, show
from evalign._typing import Floats, Indices
from evalign.decisions import as_probabilities, as_targets
from evalign.metrics import Metric

#: The most numbers of confusion matrices evaluated at once; more are evaluated in parts.
BLOCK = 1 << 22


@dataclass(frozen=True)
class Held:
    """True and predicted class indices of each row, and the probabilities if the model gives any."""

    classes: tuple[str, ...]
    truth: Indices
    predicted: Indices
    p: Floats | None

    @property
    def matrix(self) -> Floats:
        """The confusion matrix of the model's own decisions."""
        return counted(self.truth, self.predicted, len(self.classes))

    @property
    def frequent(self) -> list[int]:
        """The classes by their rows, most first."""
        rows = np.bincount(self.truth, minlength=len(self.classes))
        return [int(k) for k in np.argsort(-rows, kind="stable")]


def held(model: Any, X: Any, y: Any) -> Held:
    """Let a fitted classifier predict rows it was not trained on."""
    labels = np.asarray(model.classes_)
    if labels.ndim != 1 or len(labels) < 2:
        raise expected("model", "with two or more classes", show(labels.tolist()))
    truth = _indices("y", as_targets(y), labels)
    predicted = _indices("model", np.asarray(model.predict(X)), labels)
    if len(truth) != len(predicted):
        raise expected("y", f"with the {len(predicted)} rows of `X`", f"{len(truth)}")
    p = as_probabilities(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
    if p is not None and p.shape != (len(truth), len(labels)):
        raise expected("model", f"with {len(labels)} columns of probabilities", f"shape {p.shape}")
    return Held(tuple(str(label) for label in labels.tolist()), truth, predicted, p)


def _indices(argument: str, values: NDArray[Any], labels: NDArray[Any]) -> Indices:
    """Where each label stands among the classes, compared as Python does: 1 is not the text "1"."""
    places = {label: index for index, label in enumerate(labels.tolist())}
    found, inverse = np.unique(values.reshape(-1), return_inverse=True)
    for label in found.tolist():
        if label not in places:
            raise expected(argument, f"with the classes {show(labels.tolist()[:10])} only", show(label))
    return np.array([places[label] for label in found.tolist()], dtype=np.int64)[inverse.reshape(-1)]


def counted(truth: Indices, predicted: Indices, d: int) -> Floats:
    """The confusion matrix of class indices.

    >>> counted(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return np.bincount(truth * d + predicted, minlength=d * d).reshape(d, d).astype(np.float64)


def values(metric: Metric, matrices: Floats) -> Floats:
    """A metric of many confusion matrices (k, d, d), in parts that bound the memory.

    >>> from evalign import metrics
    >>> values(metrics.accuracy(), np.array([[[3.0, 1.0], [0.0, 4.0]], [[2.0, 2.0], [2.0, 2.0]]])).tolist()
    [0.875, 0.5]
    """
    parts = torch.split(torch.from_numpy(matrices), max(1, BLOCK // matrices[0].size))
    return np.concatenate([metric(part).numpy().astype(np.float64) for part in parts])


def inside(model: Any, name: str) -> Any:
    """The classifier that has a fitted attribute: the model, the end of a pipeline, the best of a search.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> inside(make_pipeline(LogisticRegression()).fit([[0.0], [1.0]], [0, 1]), "coef_")
    LogisticRegression()
    """
    while model is not None and not hasattr(model, name):
        steps = getattr(model, "steps", None)
        inner = getattr(model, "best_estimator_", getattr(model, "estimator_", None))
        model = steps[-1][1] if steps else inner
    return model


def plain(value: Any) -> Any:
    """The same for JSON: lists, texts and Python's numbers, and None where a number is not finite.

    >>> plain({"a": np.float64(0.5), "b": (np.nan, np.int64(2)), "c": np.array([True])})
    {'a': 0.5, 'b': [None, 2], 'c': [True]}
    """
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
