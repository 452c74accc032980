"""What a classifier says of rows it was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from evalign._errors import expected


class Held:
    """Rows a classifier was not trained on, and what it says of them."""

    def __init__(self, rows: NDArray[Any], response: NDArray[Any], probable: bool, estimator: Any) -> None:
        self.rows, self.response, self.probable, self.estimator = rows, response, probable, estimator


def fit_fold(
    estimator: Any, X: Any, y: NDArray[Any], weight: Any, rows: Any, held: Any, classes: Any,
    fit_params: dict[str, Any],
) -> Held:  # fmt: skip
    """Fit a copy of the classifier on some rows, and ask it about the others."""
    params = fit_params if weight is None else {**fit_params, "sample_weight": weight[rows]}
    model = clone(estimator).fit(_safe_indexing(X, rows), y[rows], **params)
    response, probable = response_of(model, _safe_indexing(X, held), classes)
    return Held(np.asarray(held), response, probable, model)


def response_of(model: Any, X: Any, classes: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Probabilities (n, d), or scores if there are none, in the order of the classes; and which it is.

    A class the model has not seen has probability 0, and a score below all others.
    """
    if hasattr(model, "predict_proba"):
        found, probable, absent = np.asarray(model.predict_proba(X), dtype=np.float64), True, 0.0
    elif hasattr(model, "decision_function"):
        found, probable = np.asarray(model.decision_function(X), dtype=np.float64), False
        absent = float(found.min()) - 1.0
        if found.ndim == 1:
            found = np.stack([-found / 2, found / 2], axis=1)
    else:
        wanted = "with `predict_proba` or `decision_function`"
        raise expected("estimator", wanted, type(model).__name__)
    if found.shape[1] != len(model.classes_):
        wanted = f"with one column a class, {len(model.classes_)}"
        raise expected("estimator", wanted, f"{type(model).__name__} with {found.shape[1]}")
    if np.array_equal(model.classes_, classes):
        return found, probable
    table = np.full((len(found), len(classes)), absent)
    table[:, np.searchsorted(classes, model.classes_)] = found
    return table, probable
