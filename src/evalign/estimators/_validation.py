"""The rows that a user validates on, in place of a part of the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evalign._errors import expected, show
from evalign._typing import Floats, Indices
from evalign.estimators._columns import validate_features
from evalign.estimators._rows import Targets, normalize_weights


@dataclass(frozen=True)
class ValidationRows:
    """Features, class indices (or 0 and 1 for each label) and weights (or None) of rows to validate on."""

    X: Any
    indices: Indices
    weight: Floats | None


def read_validation_data(model: Any, data: Any, gaps: bool = False) -> ValidationRows:
    """Check (X, y) or (X, y, sample_weight) against the features and classes that a model is fitted on."""
    if not isinstance(data, list | tuple) or len(data) not in (2, 3):
        raise expected("validation_data", "to be (X, y) or (X, y, sample_weight)", type(data).__name__)
    X, labels = validate_features(model, *data[:2], reset=False, gaps=gaps)
    weight = normalize_weights(data[2], X) if len(data) == 3 else None
    if model.multilabel_:
        indices = Targets.read(labels).indices
        if indices.ndim != 2 or indices.shape[1] != len(model.classes_):
            wanted = f"with {len(model.classes_)} labels per row, as in `y`"
            raise expected("validation_data", wanted, f"shape {np.shape(labels)}")
        return ValidationRows(X, indices, weight)
    unknown = np.setdiff1d(labels, model.classes_)
    if unknown.size:
        raise expected("validation_data", "with classes of `y` only", show(unknown[0]))
    return ValidationRows(X, np.searchsorted(model.classes_, labels), weight)
