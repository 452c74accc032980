"""What a fitted classifier says about rows: probabilities, or else scores, in the columns of our classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected
from evalign._typing import Floats


def predict_response(
    model: Any, X: Any, classes: NDArray[Any], multilabel: bool = False
) -> tuple[Floats, bool]:
    """Return probabilities, or else scores, one column per class or label; and which of the two.

    A class that the model has not seen has probability 0, or a score below all others.
    """
    if multilabel:
        return predict_labels(model, X, len(classes)), True
    name = type(model).__name__
    is_probability = hasattr(model, "predict_proba")
    if not is_probability and not hasattr(model, "decision_function"):
        raise expected("estimator", "with `predict_proba` or `decision_function`", name)
    respond = model.predict_proba if is_probability else model.decision_function
    response = np.asarray(respond(X), dtype=np.float64)
    if response.ndim == 1:  # the scores of the second of two classes
        response = np.stack([-response / 2, response / 2], axis=1)
    if response.shape[1] != len(model.classes_):
        wanted = f"with one column per class, {len(model.classes_)}"
        raise expected("estimator", wanted, f"{name} with {response.shape[1]}")
    if np.array_equal(model.classes_, classes):
        return response, is_probability
    absent = 0.0 if is_probability else float(response.min()) - 1.0
    table = np.full((len(response), len(classes)), absent)
    table[:, np.searchsorted(classes, model.classes_)] = response
    return table, is_probability


def predict_labels(model: Any, X: Any, n_labels: int) -> Floats:
    """Return the probability of each label, (n, L), in whichever form the classifier has them.

    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4, 1)), np.array([[0, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0]])
    >>> model = DummyClassifier(strategy="prior").fit(X, y)
    >>> [part.shape for part in model.predict_proba(X)]
    [(4, 2), (4, 1), (4, 1)]
    >>> predict_labels(model, X[:1], 3)
    array([[0.75, 1.  , 0.  ]])
    """
    name = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise expected("estimator", "with `predict_proba` for multilabel targets", name)
    response = model.predict_proba(X)
    if isinstance(response, list):  # one table per label, as of forests
        columns = [_take_positive(p, known) for p, known in zip(response, model.classes_, strict=True)]
        response = np.stack(columns, axis=1)
    p = np.asarray(response, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != n_labels:
        raise expected(
            "estimator", f"with probabilities of {n_labels} labels", f"{name} with shape {p.shape}"
        )
    return p


def _take_positive(p: Any, classes: NDArray[Any]) -> Floats:
    """Return the probability of 1; a label that is constant in training has one column only."""
    known = list(classes)
    return np.asarray(p)[:, known.index(1)] if 1 in known else np.zeros(len(p))
