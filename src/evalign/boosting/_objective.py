"""The gradient of a metric with respect to the score of each row, for boosting libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.losses import MetricLoss
from evalign.metrics import hard_confusion

#: The least curvature p (1 - p), so that scores far from 0 do not take huge steps.
MIN_CURVATURE = 1e-3


class Objective:
    """A boosting objective, made by `objective`: scores and a dataset in, gradient and Hessian out."""

    def __init__(
        self,
        metric: MetricLike,
        temperature: float,
        constraints: ConstraintsLike,
    ) -> None:
        self.loss = MetricLoss(metric, temperature=temperature, constraints=constraints, sync=False)
        if self.loss.metric.over_thresholds:
            raise expected("metric", "that gives one number from predicted classes", self.loss.metric.name)

    def __call__(self, scores: Any, data: Any) -> tuple[Floats, Floats]:
        """The gradient and the diagonal of the Hessian at the scores of a LightGBM or XGBoost dataset."""
        weight = data.get_weight()
        weight = None if weight is None or len(weight) == 0 else np.asarray(weight)
        return self.gradients(np.asarray(scores), np.asarray(data.get_label()), weight)

    def gradients(self, scores: Floats, y: NDArray[Any], weight: Any = None) -> tuple[Floats, Floats]:
        """The same from arrays: scores (n,) for two classes or (n, d), class indices, weights."""
        logits = torch.from_numpy(np.array(scores, dtype=np.float64)).requires_grad_()
        binary = logits.ndim == 1 or logits.shape[1] == 1
        targets = torch.from_numpy(np.asarray(y).astype(np.int64))
        shares = torch.ones(len(targets)) if weight is None else torch.from_numpy(np.array(weight))
        shares = shares.double() / shares.double().mean()
        measure = self.loss.measure(logits.reshape(-1) if binary else logits, targets, shares)
        cost = self._cost_matrix(measure.confusion, measure.task)
        (gradient,) = torch.autograd.grad((cost * measure.confusion).sum(), logits)
        self.loss.update_multipliers(measure)
        # What is at stake in each row's prediction, scaled to mean 1.
        cost = cost.reshape(cost.shape[-2:])
        stakes = shares * (cost.amax(1) - cost.amin(1))[targets]
        mean = float(stakes.mean())
        scale = 1 / mean if mean > 0 else 0.0
        p = torch.sigmoid(logits.detach()) if binary else torch.softmax(logits.detach(), -1)
        curve = (p * (1 - p)).clamp_min(MIN_CURVATURE) * (1.0 if binary else p.shape[1] / (p.shape[1] - 1))
        hessian = curve * (stakes * scale).clamp_min(1e-9).reshape(-1, *[1] * (curve.ndim - 1))
        return (gradient * (scale * len(targets))).numpy(), hessian.numpy()

    def _cost_matrix(self, confusion: Tensor, task: str) -> Tensor:
        """The gradient of the loss with respect to the confusion matrix: -dM/dC, plus the constraints'."""
        point = confusion.detach().requires_grad_()
        (cost,) = torch.autograd.grad(self.loss.objective(point, task), point, materialize_grads=True)
        return cost


def objective(
    metric: MetricLike,
    temperature: float = 0.2,
    constraints: ConstraintsLike = (),
) -> Objective:
    """Make a custom objective for `lightgbm.train` and `xgboost.train` that boosts on a metric.

    The gradient of row i is -W[y_i] . d memberships_i / d scores_i with W = dM/dC at the soft confusion
    matrix of all rows, and its Hessian w_i p (1 - p), where w_i is the spread of W[y_i]; both are
    scaled so that w has mean 1, as in a weighted log-loss. Provide good start scores (`init_score`,
    `base_margin`): from constant scores, a metric such as F1 has little gradient.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        temperature: The softness of the memberships, in (0, 0.4].
        constraints: Constraints to satisfy, with multipliers as in `MetricLoss`.

    >>> import numpy as np
    >>> gradient, hessian = objective("f1").gradients(np.array([0.5, -1.0, 0.2]), np.array([1, 0, 0]))
    >>> gradient.round(3).tolist(), hessian.round(3).tolist()
    ([-0.49, 0.149, 0.187], [0.408, 0.124, 0.156])
    """
    return Objective(metric, temperature, constraints)


def evaluation(metric: MetricLike, threshold: float = 0.0) -> Callable[[Any, Any], tuple[Any, ...]]:
    """Make the hard metric as `feval` of `lightgbm.train` or `custom_metric` of `xgboost.train`.

    For two classes, scores are compared with `threshold`: 0 for the raw scores of a custom objective, 0.5
    for the probabilities of a built-in one. For more classes, argmax decides. With XGBoost, set the
    direction of early stopping: `EarlyStopping(..., maximize=True)`.

    >>> import numpy as np
    >>> class Rows:
    ...     get_label, get_weight = (lambda self: np.array([1, 0, 1])), (lambda self: None)
    >>> evaluation("recall")(np.array([0.5, 0.2, -1.0]), Rows())
    ('recall', 0.5)
    """
    chosen = metrics.as_metric(metric, scalar=True)
    if not is_number(threshold):
        raise expected("threshold", "to be a finite number", show(threshold))

    def value(scores: Any, data: Any) -> tuple[Any, ...]:
        table = torch.from_numpy(np.array(scores, dtype=np.float64))
        many = table.ndim == 2 and table.shape[1] > 1
        predicted = table.argmax(-1) if many else (table.reshape(-1) >= threshold).long()
        weight = data.get_weight()
        shares = None if weight is None or len(weight) == 0 else torch.from_numpy(np.array(weight)).double()
        targets = torch.from_numpy(np.asarray(data.get_label()).astype(np.int64))
        matrix = hard_confusion(predicted, targets, table.shape[1] if many else 2, shares)
        result = chosen.name, float(chosen(matrix))
        # LightGBM also expects the direction; only its datasets have this method.
        return (*result, chosen.higher_is_better) if hasattr(data, "get_init_score") else result

    return value
