"""What boosting libraries pass to objectives and metrics, as scores, labels and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected, show
from evalign._typing import Floats

#: Scores, class indices, weights or None.
Call = tuple[Floats, NDArray[Any], "NDArray[Any] | None"]


def is_dataset(argument: Any) -> bool:
    """Whether an argument is a dataset of LightGBM or a matrix of XGBoost."""
    return hasattr(argument, "get_label") and hasattr(argument, "get_weight")


def read_call(first: Any, second: Any, weight: Any = None) -> Call:
    """Read (scores, dataset), as `train` calls, or (labels, scores, weights), as scikit-learn classes do.

    >>> read_call(np.array([1, 0]), np.array([0.5, -0.5]))[0]
    array([ 0.5, -0.5])
    """
    if is_dataset(second):
        first, second, weight = second.get_label(), first, second.get_weight()
    scores, y = np.asarray(second), np.asarray(first)
    if scores.ndim not in (1, 2) or y.shape != scores.shape[:1]:
        raise expected("y", "with one class index per row of scores", f"shapes {y.shape} and {scores.shape}")
    wrong = y[(y < 0) | (y >= _count_classes(scores)) | (y != np.floor(y))]
    if wrong.size:
        hint = "Set `num_class`." if _count_classes(scores) == 2 and (wrong > 1).all() else ""
        wanted = f"with class indices from 0 to {_count_classes(scores) - 1}"
        raise expected("y", wanted, show(wrong[0]), hint)
    return scores, y, None if weight is None or len(weight) == 0 else np.asarray(weight)


def _count_classes(scores: NDArray[Any]) -> int:
    return scores.shape[1] if scores.ndim == 2 and scores.shape[1] > 1 else 2
