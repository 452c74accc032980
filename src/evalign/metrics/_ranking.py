"""Metrics of a whole curve, from one confusion matrix per threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import make_scorer
from torch import Tensor
from torch.nn.functional import pad

from evalign._errors import expected
from evalign.metrics._confusion import Confusion, as_matrix
from evalign.metrics._counts import mean_over_labels
from evalign.metrics._metric import Metric
from evalign.metrics._sweep import sweep_thresholds


class _Auroc(Metric):
    over_thresholds = True

    def __init__(self) -> None:
        super().__init__("auroc", "area under recall against 1 - specificity")

    def __call__(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        matrix = as_matrix(matrix)
        if matrix.ndim < 3 or matrix.shape[-1] != 2:
            raise expected("matrix", "of shape (..., thresholds, 2, 2)", f"shape {tuple(matrix.shape)}")
        return self._value(matrix, skip_absent)

    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        recalls = Confusion(matrix).recall
        hits, alarms = recalls[..., 1], 1 - recalls[..., 0]
        order = (hits + alarms).argsort(-1)
        hits, alarms = (
            torch.cat([pad(side.gather(-1, order), (1, 0)), torch.ones_like(side[..., :1])], -1)
            for side in (hits, alarms)
        )
        area = torch.trapezoid(hits, alarms, dim=-1)
        return torch.where(_has_both_classes(matrix), area, 0.0 * area)

    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        if matrix.ndim < 4:
            wanted = "of shape (..., thresholds, labels, 2, 2)"
            raise expected("matrix", wanted, f"shape {tuple(matrix.shape)}")
        areas = self._value(matrix.transpose(-3, -4), skip_absent)
        if not skip_absent:
            return areas.mean(-1)
        return mean_over_labels(areas, _has_both_classes(matrix.transpose(-3, -4)))

    def score(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        labels: Sequence[Any] | None = None,
    ) -> float:
        """The area under the curve over all thresholds; `y_pred` contains scores, not labels.

        >>> auroc().score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        0.75
        """
        if np.ndim(y_true) == 2 and np.shape(y_true)[1] > 1:
            columns = zip(np.asarray(y_true).T, np.asarray(y_pred).T, strict=True)
            return float(np.mean([self.score(t, s, sample_weight, labels) for t, s in columns]))
        truth, scores = np.asarray(y_true).ravel(), np.asarray(y_pred, dtype=np.float64).ravel()
        if truth.shape != scores.shape or truth.size == 0:
            raise expected("y_pred", f"with one score for each of {truth.size} rows", scores.size)
        if not np.isfinite(scores).all():
            raise expected("y_pred", "to contain finite scores", "NaN or inf")
        classes = np.unique(truth if labels is None else np.asarray(labels))
        if classes.size > 2:
            raise expected("y_true", "with two classes", f"{classes.size}")
        if not np.isin(truth, classes).all():
            raise expected("labels", "to name every class", classes.tolist())
        weight = np.ones(truth.size) if sample_weight is None else np.asarray(sample_weight, float)
        if weight.shape != truth.shape:
            raise expected("sample_weight", f"of shape {truth.shape}", f"shape {weight.shape}")
        positive = truth == _positive_of(classes)
        return float(self(sweep_thresholds(scores, positive, weight).matrices))

    def scorer(self, labels: Sequence[Any] | None = None) -> Any:
        """A scorer for scikit-learn that ranks by `decision_function` or `predict_proba`."""
        ways = ("decision_function", "predict_proba")
        return make_scorer(self.score, response_method=ways, labels=labels)


def auroc() -> Metric:
    """The area under the ROC curve, by the trapezoid rule with both end points (0, 0) and (1, 1).

    It takes the confusion matrices of many thresholds, (..., thresholds, 2, 2), in any order. If one class
    has no rows, the area is 0.

    >>> auroc()(torch.tensor([[[6.0, 4.0], [1.0, 9.0]], [[9.0, 1.0], [4.0, 6.0]]]))
    tensor(0.8250)

    References:
        Fawcett (2006), An introduction to ROC analysis.
    """
    return _Auroc()


def _has_both_classes(matrix: Tensor) -> Tensor:
    """Whether each curve (..., thresholds, 2, 2) has rows of both classes."""
    return (matrix.sum(-1) != 0).all(-1).all(-1)


def _positive_of(classes: Any) -> Any:
    """The positive class; a lone class is positive only if it is 1."""
    return classes[-1] if classes.size == 2 or classes[0] == 1 else 1
