"""Held-out rows as a fitted classifier sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evalign._errors import expected, show
from evalign._typing import Floats, Indices
from evalign.decisions import as_probabilities, as_targets
from evalign.metrics import Metric, hard_confusion

#: The most numbers of confusion matrices evaluated at once; more are evaluated in parts.
BLOCK = 1 << 22


@dataclass(frozen=True)
class HeldOutRows:
    """True and predicted class indices of each row, and the probabilities if the model has any."""

    classes: tuple[str, ...]
    truth: Indices
    predicted: Indices
    p: Floats | None

    @classmethod
    def predict(cls, model: Any, X: Any, y: Any) -> HeldOutRows:
        """Predict rows that a fitted classifier was not trained on."""
        labels = np.asarray(model.classes_)
        if labels.ndim != 1 or len(labels) < 2:
            raise expected("model", "with two or more classes", show(labels.tolist()))
        truth = as_indices("y", as_targets(y), labels)
        predicted = as_indices("model", np.asarray(model.predict(X)), labels)
        if len(truth) != len(predicted):
            raise expected("y", f"with the {len(predicted)} rows of `X`", f"{len(truth)}")
        p = as_probabilities(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
        if p is not None and p.shape != (len(truth), len(labels)):
            raise expected("model", f"with {len(labels)} columns of probabilities", f"shape {p.shape}")
        return cls(tuple(str(label) for label in labels.tolist()), truth, predicted, p)

    @property
    def matrix(self) -> Floats:
        """The confusion matrix of the model's own decisions."""
        predicted, truth = torch.from_numpy(self.predicted), torch.from_numpy(self.truth)
        return np.asarray(hard_confusion(predicted, truth, len(self.classes)))

    @property
    def frequent(self) -> list[int]:
        """The indices of the classes, those with the most rows first."""
        rows = np.bincount(self.truth, minlength=len(self.classes))
        return [int(k) for k in np.argsort(-rows, kind="stable")]


def as_indices(argument: str, values: NDArray[Any], labels: NDArray[Any]) -> Indices:
    """The index of each label among the classes, compared as Python does: 1 is not the text "1"."""
    places = {label: index for index, label in enumerate(labels.tolist())}
    distinct, inverse = np.unique(values.reshape(-1), return_inverse=True)
    for label in distinct.tolist():
        if label not in places:
            raise expected(argument, f"with the classes {show(labels.tolist()[:10])} only", show(label))
    return np.array([places[label] for label in distinct.tolist()], dtype=np.int64)[inverse.reshape(-1)]


def evaluate(metric: Metric, matrices: Floats) -> Floats:
    """Evaluate a metric on many confusion matrices (k, d, d), in parts that bound the memory.

    >>> from evalign import metrics
    >>> evaluate(metrics.accuracy(), np.array([[[3.0, 1.0], [0.0, 4.0]], [[2.0, 2.0], [2.0, 2.0]]])).tolist()
    [0.875, 0.5]
    """
    parts = torch.split(torch.from_numpy(matrices), max(1, BLOCK // matrices[0].size))
    return np.concatenate([metric(part).numpy().astype(np.float64) for part in parts])


def find_part(model: Any, attribute: str) -> Any:
    """The classifier with a fitted attribute: the model itself, or the one inside a pipeline or a search.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> find_part(make_pipeline(LogisticRegression()).fit([[0.0], [1.0]], [0, 1]), "coef_")
    LogisticRegression()
    """
    while model is not None and not hasattr(model, attribute):
        steps = getattr(model, "steps", None)
        inner = getattr(model, "best_estimator_", getattr(model, "estimator_", None))
        model = steps[-1][1] if steps else inner
    return model
