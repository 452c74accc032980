"""Metrics of a whole curve, from one confusion matrix per threshold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from sklearn.metrics import make_scorer
from torch import Tensor
from torch.nn.functional import pad

from evalign._errors import expected, show
from evalign._torch import divide, weighted_mean
from evalign._typing import Floats
from evalign.metrics._confusion import Confusion, as_matrix
from evalign.metrics._counting import check_row_weights
from evalign.metrics._counts import mean_over_labels
from evalign.metrics._metric import Metric
from evalign.metrics._sweep import sweep_thresholds

CurveAverage = Literal["macro", "micro", "weighted"]


def auroc(average: CurveAverage = "macro") -> Metric:
    """The area under the ROC curve, by the trapezoid rule with both end points (0, 0) and (1, 1).

    It takes the confusion matrices of many thresholds, (..., thresholds, 2, 2), in any order. If one class
    has no rows, the area is 0. Several labels, or more than two classes (each against the rest), have one
    curve each, (..., thresholds, labels, 2, 2); `average` is the mean of their areas, the mean weighted by
    the positives of each, or one curve of all their counts ("micro").

    >>> auroc()(torch.tensor([[[6.0, 4.0], [1.0, 9.0]], [[9.0, 1.0], [4.0, 6.0]]]))
    tensor(0.8250)
    >>> scores = [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.5, 0.1]]
    >>> auroc().score(["a", "b", "c", "a"], scores)
    0.75

    References:
        Fawcett (2006), An introduction to ROC analysis.
    """
    return _Auroc("auroc", "area under recall against 1 - specificity", average)


def average_precision(average: CurveAverage = "macro") -> Metric:
    """The mean precision over recall: sum_n (recall_n - recall_{n-1}) precision_n, by falling thresholds.

    Shapes and averages are those of `auroc`. The curve ends where all rows are predicted as positive. If
    there are no positives, it is 0. Where positives are rare, it tells more than `auroc`.

    >>> average_precision().score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.8333333333333333

    References:
        Davis and Goadrich (2006), The relationship between precision-recall and ROC curves.
    """
    return _AveragePrecision("average_precision", "sum of precision * (increase of recall)", average)


class _CurveMetric(Metric):
    """A metric of the curve that the confusion matrices of many thresholds draw."""

    over_thresholds = True

    def __init__(self, name: str, formula: str, average: CurveAverage) -> None:
        if average not in ("macro", "micro", "weighted"):
            raise expected("average", "to be 'macro', 'micro' or 'weighted'", show(average))
        super().__init__(name if average == "macro" else f"{name}(average={average!r})", formula)
        self.average = average

    @abstractmethod
    def _is_defined(self, matrix: Tensor) -> Tensor:
        """Whether each curve (..., thresholds, 2, 2) has the rows that the metric needs."""

    def __call__(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        matrix = as_matrix(matrix)
        if matrix.ndim < 3 or matrix.shape[-1] != 2:
            raise expected("matrix", "of shape (..., thresholds, 2, 2)", f"shape {tuple(matrix.shape)}")
        return self._value(matrix, skip_absent)

    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        if matrix.ndim < 4:
            wanted = "of shape (..., thresholds, labels, 2, 2)"
            raise expected("matrix", wanted, f"shape {tuple(matrix.shape)}")
        if self.average == "micro":
            return self._value(matrix.sum(-3), skip_absent)
        curves = matrix.transpose(-3, -4)
        areas = self._value(curves, skip_absent)
        if self.average == "weighted":
            return weighted_mean(areas, curves[..., 0, 1, :].sum(-1))
        return mean_over_labels(areas, self._is_defined(curves)) if skip_absent else areas.mean(-1)

    def score(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        labels: Sequence[Any] | None = None,
    ) -> float:
        """The metric over all thresholds; `y_pred` contains scores, not labels.

        For more than two classes, or for 0/1 arrays with several columns, `y_pred` has one column per
        class (in sorted order) or per label.

        >>> auroc().score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        0.75
        """
        truth, scores = np.asarray(y_true), np.asarray(y_pred, dtype=np.float64)
        if truth.size == 0 or scores.ndim == 0:
            raise expected("y_true", "with at least one row, and as many in `y_pred`", "none")
        if truth.ndim != 2 or truth.shape[1] == 1:
            truth = _positives(truth.ravel(), scores, labels)
        columns = scores[:, None] if scores.ndim == 1 else scores
        if truth.shape != columns.shape:
            raise expected("y_pred", f"with one score for each of {len(truth)} rows", f"shape {scores.shape}")
        if not np.isfinite(columns).all():
            raise expected("y_pred", "to contain finite scores", "NaN or inf")
        rows = len(truth)
        weight = np.ones(rows) if sample_weight is None else check_row_weights(sample_weight, rows)
        return self._score_columns(truth == 1, columns, weight)

    def _score_columns(self, positive: Any, scores: Floats, weight: Floats) -> float:
        width = scores.shape[1]
        if self.average == "micro":
            return float(
                self(sweep_thresholds(scores.ravel(), positive.ravel(), weight.repeat(width)).matrices)
            )
        pairs = zip(positive.T, scores.T, strict=True)
        areas = [float(self(sweep_thresholds(side, truth, weight).matrices)) for truth, side in pairs]
        if self.average == "macro" or width == 1:
            return float(np.mean(areas))
        shares = weight @ positive
        return float(np.average(areas, weights=shares)) if shares.any() else 0.0

    def scorer(self, labels: Sequence[Any] | None = None) -> Any:
        """A scorer for scikit-learn that ranks by `predict_proba` or `decision_function`."""
        ways = ("predict_proba", "decision_function")
        return make_scorer(self.score, response_method=ways, labels=labels)


class _Auroc(_CurveMetric):
    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        recalls = Confusion(matrix).recall
        hits, alarms = recalls[..., 1], 1 - recalls[..., 0]
        order = (hits + alarms).argsort(-1)
        hits, alarms = (
            torch.cat([pad(side.gather(-1, order), (1, 0)), torch.ones_like(side[..., :1])], -1)
            for side in (hits, alarms)
        )
        area = torch.trapezoid(hits, alarms, dim=-1)
        return torch.where(self._is_defined(matrix), area, 0.0 * area)

    def _is_defined(self, matrix: Tensor) -> Tensor:
        return (matrix.sum(-1) != 0).all(-1).all(-1)


class _AveragePrecision(_CurveMetric):
    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        c = Confusion(matrix)
        recall, precision = c.recall[..., 1], c.precision[..., 1]
        order = c.predicted[..., 1].argsort(-1)
        recall, precision = (side.gather(-1, order) for side in (recall, precision))
        share = divide(c.actual[..., 1], c.total[..., 0])[..., :1]
        precision = torch.cat([precision, share], -1)
        recall = torch.cat([pad(recall, (1, 0)), torch.ones_like(share)], -1)
        area = (recall.diff(dim=-1) * precision).sum(-1)
        return torch.where(self._is_defined(matrix), area, 0.0 * area)

    def _is_defined(self, matrix: Tensor) -> Tensor:
        return (matrix[..., 1, :].sum(-1) != 0).all(-1)


def _positives(truth: Any, scores: Floats, labels: Sequence[Any] | None) -> Any:
    """Which rows are positive: one column for two classes, else one per class against the rest."""
    classes = np.unique(truth if labels is None else np.asarray(labels))
    if not np.isin(truth, classes).all():
        raise expected("labels", "to name every class", classes.tolist())
    if classes.size > 2:
        if scores.ndim != 2 or scores.shape[1] != classes.size:
            raise expected(
                "y_pred", f"with one column of scores for each of {classes.size} classes",
                f"shape {scores.shape}",
            )  # fmt: skip
        return truth[:, None] == classes
    return (truth == _positive_of(classes))[:, None]


def _positive_of(classes: Any) -> Any:
    """The positive class; a lone class is positive only if it is 1."""
    return classes[-1] if classes.size == 2 or classes[0] == 1 else 1
