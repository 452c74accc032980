"""The gradient of a metric with respect to the score of each row, for boosting libraries."""

from __future__ import annotations

import copy
from math import exp
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign._errors import expected
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.boosting._calls import read_call
from evalign.boosting._catboost import Rounds, RowPrices, SingleRows, Total, differentiate_memberships
from evalign.losses import Measure, MetricLoss

#: The least curvature p (1 - p), so that scores far from 0 do not take huge steps.
MIN_CURVATURE = 1e-3


class Objective:
    """A boosting objective, made by `objective`, in the forms in which the libraries call it."""

    #: Without this, CatBoost tries to compile the methods and warns that it cannot.
    no_jit = True

    def __init__(
        self,
        metric: MetricLike,
        temperature: float,
        constraints: ConstraintsLike,
    ) -> None:
        self.loss = MetricLoss(metric, temperature=temperature, constraints=constraints, sync=False)
        if self.loss.metric.over_thresholds:
            raise expected("metric", "that gives one number from predicted classes", self.loss.metric.name)
        self._start_rounds()

    def _start_rounds(self) -> None:
        self.rounds = Rounds()
        self.single_rows = SingleRows(self.rounds, self._price_single_rows)

    def __repr__(self) -> str:
        return f"objective({self.loss.metric.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.loss = state["loss"]
        self._start_rounds()

    def __deepcopy__(self, memo: dict[int, Any]) -> Objective:
        # `sklearn.base.clone` requires of CatBoost, which copies its settings, that a copy is the object.
        if not self.loss.constraints:
            return self
        other = type(self).__new__(type(self))
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[Floats, Floats]:
        """The gradient and the diagonal of the Hessian.

        `lightgbm.train` and `xgboost.train` call with scores and a dataset, the scikit-learn classes of the
        two libraries with labels, scores and weights.
        """
        return self.gradients(*read_call(first, second, sample_weight))

    def gradients(self, scores: Floats, y: NDArray[Any], weight: Any = None) -> tuple[Floats, Floats]:
        """The same from arrays: scores (n,) for two classes or (n, d), class indices, weights."""
        shares = torch.ones(len(y)) if weight is None else torch.from_numpy(np.array(weight))
        shares = shares.double() / shares.double().mean()
        logits, targets, measure = self._measure(scores, y, shares)
        cost = self._cost_matrix(measure.confusion, measure.task)
        (gradient,) = torch.autograd.grad((cost * measure.confusion).sum(), logits)
        self.loss.update_multipliers(measure)
        # What is at stake in each row's prediction, scaled to mean 1.
        stakes = shares * _spread(cost)[targets]
        mean = float(stakes.mean())
        scale = 1 / mean if mean > 0 else 0.0
        curve = _curvature(logits.detach())
        hessian = curve * (stakes * scale).clamp_min(1e-9).reshape(-1, *[1] * (curve.ndim - 1))
        return (gradient * (scale * len(targets))).numpy(), hessian.numpy()

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> Floats:
        """The derivatives of a block of rows of two classes, as CatBoost expects them: it maximises."""
        self._check_blocks()
        scores, y, weight = read_call(targets, approxes, weights)
        shares = torch.ones(len(y)) if weight is None else torch.from_numpy(np.array(weight))
        logits, classes, measure = self._measure(scores, y, shares.double())
        matrix, weight_sum = measure.confusion.reshape(2, 2), float(shares.double().sum())
        with self.rounds.lock:
            equal_scores = bool(scores.min() == scores.max())
            self.rounds.add(Total(matrix.detach() * weight_sum, len(y)), equal_scores)
            total = self.rounds.total
        assert total is not None
        cost, scale = self._price(total)
        (gradient,) = torch.autograd.grad((cost * matrix).sum(), logits)
        hessian = _curvature(logits.detach()) * (shares * _spread(cost)[classes] * scale).clamp_min(1e-9)
        return np.asarray(-torch.stack([gradient * (weight_sum * scale), hessian], dim=1).numpy())

    def calc_ders_multi(self, approxes: Any, target: float, weight: float | None) -> tuple[Any, Any]:
        """The derivatives of one row of more than two classes, as CatBoost expects them."""
        self._check_blocks()
        scores, label, share = approxes.tolist(), int(target), 1.0 if weight is None else float(weight)
        equal_scores = min(scores) == max(scores)
        with self.rounds.lock:
            prices = self.single_rows.get_prices(len(scores), equal_scores)
            memberships, gradient = differentiate_memberships(
                scores, prices.cost[label], self.loss.temperature
            )
            self.single_rows.add(label, memberships, share, equal_scores)
        slope, stake = -share * prices.scale, max(share * prices.scale * prices.stakes[label], 1e-9)
        zeros = [0.0] * len(scores)
        hessian = [
            [*zeros[:k], -stake * one, *zeros[k + 1 :]] for k, one in enumerate(_row_curvature(scores))
        ]
        return [slope * one for one in gradient], hessian

    def _price(self, total: Total) -> tuple[Tensor, float]:
        """The cost matrix of rows, and the factor that scales their mean stake to 1."""
        matrix = total.shares
        binary = matrix.shape[0] == 2
        point, task = (matrix[None, None], "binary") if binary else (matrix, "multiclass")
        cost = self._cost_matrix(point, task).reshape(matrix.shape)
        mean = float((matrix.sum(1) * _spread(cost)).sum())
        return cost, 1 / (mean * total.mean_weight) if mean > 0 else 0.0

    def _price_single_rows(self, total: Total) -> RowPrices:
        cost, scale = self._price(total)
        return RowPrices(cost.tolist(), _spread(cost).tolist(), scale)

    def _check_blocks(self) -> None:
        if self.loss.constraints:
            hint = "Satisfy them by a rule: `evalign.decisions.fit_rule`."
            raise expected("constraints", "to be empty for CatBoost", self.loss.constraints[0].name, hint)

    def _measure(self, scores: Floats, y: NDArray[Any], shares: Tensor) -> tuple[Tensor, Tensor, Measure]:
        logits = torch.from_numpy(np.array(scores, dtype=np.float64)).requires_grad_()
        targets = torch.from_numpy(np.asarray(y).astype(np.int64))
        binary = logits.ndim == 1 or logits.shape[1] == 1
        return logits, targets, self.loss.measure(logits.reshape(-1) if binary else logits, targets, shares)

    def _cost_matrix(self, confusion: Tensor, task: str) -> Tensor:
        """The gradient of the loss with respect to the confusion matrix: -dM/dC, plus the constraints'."""
        point = confusion.detach().requires_grad_()
        (cost,) = torch.autograd.grad(self.loss.objective(point, task), point, materialize_grads=True)
        return cost


def _spread(cost: Tensor) -> Tensor:
    """What is at stake in the prediction of a row of each class."""
    cost = cost.reshape(cost.shape[-2:])
    return cost.amax(1) - cost.amin(1)


def _curvature(logits: Tensor) -> Tensor:
    """The diagonal of the Hessian of the log-loss, bounded from below."""
    if logits.ndim == 1 or logits.shape[1] == 1:
        p = torch.sigmoid(logits)
        return (p * (1 - p)).clamp_min(MIN_CURVATURE)
    p = torch.softmax(logits, -1)
    return (p * (1 - p)).clamp_min(MIN_CURVATURE) * (p.shape[1] / (p.shape[1] - 1))


def _row_curvature(scores: list[float]) -> list[float]:
    """`_curvature` of one row, in plain Python."""
    top = max(scores)
    terms = [exp(one - top) for one in scores]
    total, factor = sum(terms), len(scores) / (len(scores) - 1)
    return [max(one / total * (1 - one / total), MIN_CURVATURE) * factor for one in terms]


def objective(
    metric: MetricLike,
    temperature: float = 0.2,
    constraints: ConstraintsLike = (),
) -> Objective:
    """Make a custom objective for LightGBM, XGBoost or CatBoost that boosts on a metric.

    The gradient of row i is -W[y_i] . d memberships_i / d scores_i with W = dM/dC at the soft confusion
    matrix of all rows, and its Hessian w_i p (1 - p), where w_i is the spread of W[y_i]; both are
    scaled so that w has mean 1, as in a weighted log-loss. Continue from a model of the log-loss
    (`init_model`, `xgb_model`, `init_score`, `base_margin`): from constant scores, a metric such as F1 has
    little gradient.

    The same object is accepted by `lightgbm.train`, `LGBMClassifier` and `XGBClassifier` (as `objective`),
    by `xgboost.train` (as `obj`) and by `CatBoostClassifier` (as `loss_function`). What predicts afterwards:

    | class | predictions |
    |---|---|
    | `XGBClassifier` | `predict` and `predict_proba`, as always |
    | `CatBoostClassifier` | the same, if its `class_names` are given, such as `class_names=[0, 1]` |
    | `LGBMClassifier` | `model.classes_[boosting.decide(model.predict(X, raw_score=True))]` |

    `LGBMClassifier` returns raw scores whatever it is asked for; `boosting.scores_to_probabilities` turns
    them into probabilities. CatBoost never passes all rows at once: its W is that of the round before, and
    it allows no constraints. With several threads, its order of rows and so its model vary a little.

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
