"""The named metrics, each one formula of counts. Add a new metric here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evalign._errors import expected, is_number
from evalign._torch import divide, weighted_mean
from evalign.metrics._confusion import Confusion, root
from evalign.metrics._counts import Average, CountMetric
from evalign.metrics._metric import Metric

Beta = float | Sequence[float]
#: Above this, F-beta equals recall and beta^2 may overflow the type of the counts.
MAX_BETA = 1e9


def accuracy() -> Metric:
    """The share of right predictions: trace(C) / total.

    >>> accuracy()(torch.tensor([[3.0, 1.0], [1.0, 5.0]]))
    tensor(0.8000)
    """
    return CountMetric(_accuracy, "accuracy", "sum(tp) / total")


def balanced_accuracy() -> Metric:
    """The mean recall of the classes that have true rows.

    >>> balanced_accuracy()(torch.tensor([[3.0, 1.0], [0.0, 5.0]]))
    tensor(0.8750)
    """
    return CountMetric(_balanced_accuracy, "balanced_accuracy", "mean recall of the classes with true rows")


def precision(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The share of a class's predictions that are right: tp / (tp + fp); 0 if there are none.

    >>> precision()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.7500)
    """
    return _by_class(_precision, "precision", "tp / (tp + fp)", average, positive)


def recall(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The share of a class's rows that are found: tp / (tp + fn); 0 for a class without true rows.

    >>> recall()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6000)
    """
    return _by_class(_recall, "recall", "tp / (tp + fn)", average, positive)


def specificity(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The share of the other classes' rows that are rejected: tn / (tn + fp).

    >>> specificity()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.8000)
    """
    return _by_class(_specificity, "specificity", "tn / (tn + fp)", average, positive)


def fbeta(beta: Beta = 1.0, *, average: Average = "auto", positive: int = 1) -> Metric:
    """Precision and recall in one number, with recall counting beta times as much.

    (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp). `beta` is one number, or one per class: above 1
    favours recall, below 1 precision.

    >>> fbeta(2)(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6250)
    >>> fbeta([1, 1, 5]).name
    'fbeta(beta=[1, 1, 5])'
    """
    if isinstance(beta, np.ndarray | np.generic | Tensor):
        beta = beta.tolist()
    betas = list(beta) if isinstance(beta, Sequence) else [beta]
    if not betas or not all(is_number(value) and 0 <= value <= MAX_BETA for value in betas):
        raise expected("beta", f"to be one number in [0, {MAX_BETA:g}], or one per class", repr(beta))
    if isinstance(beta, Sequence) and average == "micro":
        raise expected("beta", "to be one number with average='micro'", repr(beta))
    formula = "(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)"
    values = partial(_fbeta, beta=tuple(beta) if isinstance(beta, Sequence) else beta)
    return _by_class(values, "fbeta", formula, average, positive, {"beta": beta}, beta=beta)


def f1(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    >>> f1()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6667)
    """
    values = partial(_fbeta, beta=1.0)
    return _by_class(values, "f1", "2 tp / (2 tp + fp + fn)", average, positive, {"beta": 1.0})


def jaccard(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The intersection over the union of truth and prediction: tp / (tp + fp + fn).

    >>> jaccard()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.5000)
    """
    return _by_class(_jaccard, "jaccard", "tp / (tp + fp + fn)", average, positive)


def gmean() -> Metric:
    """The geometric mean of the recalls of the classes that have true rows.

    It is 0, with gradient 0, as soon as one of these classes is never predicted correctly.

    >>> gmean()(torch.tensor([[8.0, 2.0], [5.0, 5.0]]))
    tensor(0.6325)
    """
    return CountMetric(_gmean, "gmean", "(product of recalls) ^ (1 / classes)")


def mcc() -> Metric:
    """Matthews correlation coefficient, for any number of classes.

    (c s - sum_k p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)) with c the trace, s the total,
    t the row sums, p the column sums. 0 if all rows have one class, or are predicted as one class.

    >>> mcc()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.4082)

    References:
        Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient.
    """
    formula = "(c s - sum(p t)) / sqrt((s^2 - sum(p^2)) (s^2 - sum(t^2)))"
    return CountMetric(_mcc, "mcc", formula)


def cohen_kappa() -> Metric:
    """Agreement beyond chance: (observed - chance) / (1 - chance); 0 if chance agreement is certain.

    >>> cohen_kappa()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.4000)

    References:
        Cohen (1960), A coefficient of agreement for nominal scales.
    """
    return CountMetric(_cohen_kappa, "cohen_kappa", "(observed - chance) / (1 - chance)")


def informedness(*, average: Average = "auto", positive: int = 1) -> Metric:
    """Youden's J: recall + specificity - 1; for two classes, the same from either side.

    >>> informedness()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.4000)
    """
    return _by_class(_informedness, "informedness", "recall + specificity - 1", average, positive)


def cost(matrix: Any) -> Metric:
    """The mean cost per row, with `matrix[i][j]` the cost of predicting j where i is true.

    Lower is better: the loss is the cost itself, not 1 - M.

    >>> cost([[0, 1], [10, 0]])(torch.tensor([[90.0, 5.0], [2.0, 3.0]]))
    tensor(0.2500)
    """
    try:
        table = torch.as_tensor(matrix, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        wanted = "to contain one row of costs per class"
        raise expected("matrix", wanted, repr(matrix), f"({error})") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] < 2:
        raise expected("matrix", "of shape (d, d) with d >= 2", f"shape {tuple(table.shape)}")
    if not table.isfinite().all():
        raise expected("matrix", "to contain finite costs", table.tolist())
    name = f"cost(matrix={[[_short(v) for v in row] for row in table.tolist()]})"
    formula = "sum(matrix * C) / total"
    return CountMetric(
        partial(_cost, table=table), name, formula, higher_is_better=False, params={"matrix": table.tolist()}
    )


def _accuracy(c: Confusion) -> Tensor:
    return divide(c.tp.sum(-1, keepdim=True), c.total)


def _balanced_accuracy(c: Confusion) -> Tensor:
    return weighted_mean(c.recall, c.actual != 0).unsqueeze(-1)


def _precision(c: Confusion) -> Tensor:
    return c.precision


def _recall(c: Confusion) -> Tensor:
    return c.recall


def _specificity(c: Confusion) -> Tensor:
    return divide(c.tn, c.total - c.actual)


def _fbeta(c: Confusion, beta: float | tuple[float, ...]) -> Tensor:
    if isinstance(beta, tuple):
        if len(beta) != c.num_classes:
            raise expected("beta", f"with one value for each of {c.num_classes} classes", list(beta))
        square = c.tp.new_tensor(beta) ** 2
        return divide((1 + square) * c.tp, square * c.actual + c.predicted)
    return divide((1 + beta**2) * c.tp, torch.add(c.predicted, c.actual, alpha=beta**2))


def _jaccard(c: Confusion) -> Tensor:
    return divide(c.tp, c.actual + c.predicted - c.tp)


def _gmean(c: Confusion) -> Tensor:
    occurs = c.actual != 0
    missed = ((c.tp <= 0) & occurs).any(-1, keepdim=True)
    recalls = torch.where(occurs & ~missed, c.recall, 1.0)
    value = weighted_mean(recalls.log(), occurs).exp().unsqueeze(-1) * (
        occurs.any(-1, keepdim=True) & ~missed
    )
    return torch.where(c.total.isnan(), c.total, value)


def _mcc(c: Confusion) -> Tensor:
    return divide(_excess_agreement(c), root(_spread(c.predicted) * _spread(c.actual)))


def _excess_agreement(c: Confusion) -> Tensor:
    """(c s - sum_k p_k t_k) / s^2, summed class by class so that rare classes are not lost to rounding."""
    tp, fp, fn, tn = (divide(count, c.total) for count in (c.tp, c.fp, c.fn, c.tn))
    return (tp * tn - fp * fn).sum(-1, keepdim=True)


def _spread(counts: Tensor) -> Tensor:
    """1 - sum_k p_k^2 of the shares p_k; exactly 0 if one class has everything."""
    total = counts.sum(-1, keepdim=True)
    return (divide(counts, total) * divide(total - counts, total)).sum(-1, keepdim=True)


def _cohen_kappa(c: Confusion) -> Tensor:
    disagreement = (divide(c.actual, c.total) * divide(c.total - c.predicted, c.total)).sum(-1, keepdim=True)
    return divide(_excess_agreement(c), disagreement)


def _informedness(c: Confusion) -> Tensor:
    return c.recall + _specificity(c) - (c.total != 0).to(c.tp.dtype)


def _cost(c: Confusion, table: Tensor) -> Tensor:
    if table.shape[0] != c.num_classes:
        raise expected("matrix", f"of costs for {c.num_classes} classes", f"{table.shape[0]}")
    weighted = c.matrix * table.to(c.matrix)
    return divide(weighted.sum((-2, -1)).unsqueeze(-1), c.total)


def _by_class(
    values: Callable[[Confusion], Tensor],
    name: str,
    formula: str,
    average: Average,
    positive: int,
    params: Mapping[str, Any] | None = None,
    **spelling: Any,
) -> Metric:
    """Make a metric of one class against the rest whose name `as_metric` reads back."""
    if average != "auto":
        spelling["average"] = average
    if positive != 1:
        spelling["positive"] = positive
    arguments = ", ".join(f"{key}={value!r}" for key, value in spelling.items())
    full_name = f"{name}({arguments})" if arguments else name
    return CountMetric(values, full_name, formula, average=average, positive=positive, params=params)


def _short(value: float) -> float:
    return int(value) if value.is_integer() else value
