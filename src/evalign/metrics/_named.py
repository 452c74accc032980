"""The named metrics, each one formula of counts. Add a new metric here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from evalign._errors import expected, is_number, show
from evalign._torch import Constant, divide, weighted_mean
from evalign._typing import Floats
from evalign.metrics._confusion import Confusion, divide_by_root
from evalign.metrics._counts import Average, CountMetric, find_class
from evalign.metrics._metric import Metric, plain
from evalign.metrics._overlap import OverlapMetric

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
    return OverlapMetric(1.0, "precision", "tp / (tp + fp)", average=average, positive=positive)


def recall(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The share of a class's rows that are found: tp / (tp + fn); 0 for a class without true rows.

    >>> recall()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6000)
    """
    return OverlapMetric(0.0, "recall", "tp / (tp + fn)", average=average, positive=positive)


def specificity(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The share of the other classes' rows that are rejected: tn / (tn + fp).

    >>> specificity()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.8000)
    """
    return CountMetric(_specificity, "specificity", "tn / (tn + fp)", average=average, positive=positive)


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
    betas = [value if type(value) in (int, float) else float(value) for value in betas]
    chosen = betas if isinstance(beta, Sequence) else betas[0]
    formula = "(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)"
    shares = [1 / (1 + value**2) for value in betas]
    share = shares if isinstance(beta, Sequence) else shares[0]
    return OverlapMetric(
        share, "fbeta", formula, average=average, positive=positive,
        arguments={"beta": chosen}, params={"beta": chosen},
    )  # fmt: skip


def f1(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    >>> f1()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6667)
    """
    formula = "2 tp / (2 tp + fp + fn)"
    return OverlapMetric(0.5, "f1", formula, average=average, positive=positive, params={"beta": 1.0})


def jaccard(*, average: Average = "auto", positive: int = 1) -> Metric:
    """The intersection over the union of truth and prediction: tp / (tp + fp + fn).

    >>> jaccard()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.5000)
    """
    return CountMetric(_jaccard, "jaccard", "tp / (tp + fp + fn)", average=average, positive=positive)


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
    return CountMetric(_mcc, "mcc", formula, bounds=(-1, 1))


def cohen_kappa(weights: Literal["linear", "quadratic"] | None = None) -> Metric:
    """Agreement beyond chance: 1 - disagreement / chance; 0 if chance agreement is certain.

    The disagreement is the mean weight of a cell, that of chance if true and predicted classes were
    independent. All errors weigh the same, or, for grades in their order, |i - j| (`weights="linear"`) or
    (i - j)^2 (`"quadratic"`).

    >>> cohen_kappa()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.4000)
    >>> cohen_kappa(weights="quadratic")(torch.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]]))
    tensor(0.8000)

    References:
        Cohen (1960), A coefficient of agreement for nominal scales; Cohen (1968), Weighted kappa.
    """
    if weights is None:
        formula = "(observed - chance) / (1 - chance)"
        return CountMetric(_cohen_kappa, "cohen_kappa", formula, bounds=(-1, 1))
    if weights not in ("linear", "quadratic"):
        raise expected("weights", "to be None, 'linear' or 'quadratic'", show(weights))
    return CountMetric(
        partial(_weighted_kappa, power=1 if weights == "linear" else 2), "cohen_kappa",
        "1 - disagreement / chance", arguments={"weights": weights}, bounds=(-1, 1),
    )  # fmt: skip


def informedness(*, average: Average = "auto", positive: int = 1) -> Metric:
    """Youden's J: recall + specificity - 1; for two classes, the same from either side.

    >>> informedness()(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.4000)
    """
    formula = "recall + specificity - 1"
    return CountMetric(
        _informedness, "informedness", formula, average=average, positive=positive, bounds=(-1, 1)
    )


def cost(matrix: Any, classes: Sequence[Any] | None = None) -> Metric:
    """The mean cost per row, with `matrix[i][j]` the cost of predicting j where i is true.

    Lower is better: the loss is the cost itself, not 1 - M.

    Args:
        matrix: One row of costs per true class. The index and the columns of a pandas DataFrame name the
            classes, in any order.
        classes: The class of each row and column, if they are not in the order of the classifier's classes.

    >>> cost([[0, 1], [10, 0]])(torch.tensor([[90.0, 5.0], [2.0, 3.0]]))
    tensor(0.2500)
    >>> cost([[0, 10], [1, 0]], classes=["yes", "no"]).score(["no", "yes", "no"], ["no", "no", "yes"])
    3.6666666666666665
    """
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):
        matrix, classes = _read_frame(matrix, classes)
    try:
        table = np.array(matrix.tolist() if isinstance(matrix, Tensor) else matrix, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        wanted = "to contain one row of costs per class"
        raise expected("matrix", wanted, repr(matrix), f"({error})") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] < 2:
        raise expected("matrix", "of shape (d, d) with d >= 2", f"shape {table.shape}")
    if not (np.abs(table) <= np.finfo(np.float32).max).all():
        raise expected("matrix", "to contain finite costs", table.tolist())
    return _Cost(table, None if classes is None else _as_labels(classes, len(table)))


class _Cost(CountMetric):
    """The mean cost per row; with `classes`, the table is put into the order of the classifier's."""

    def __init__(self, table: Floats, classes: tuple[Any, ...] | None) -> None:
        arguments: dict[str, Any] = {"matrix": [[plain(v) for v in row] for row in table.tolist()]}
        if classes is not None:
            arguments["classes"] = list(classes)
        super().__init__(
            partial(_cost, table=Constant(table)), "cost", "sum(matrix * C) / total", higher_is_better=False,
            arguments=arguments, params={"matrix": table.tolist()},
            bounds=(float(table.min()), float(table.max())),
        )  # fmt: skip
        self.classes = classes
        self.needs_classes = classes is not None

    def with_classes(self, classes: Sequence[Any]) -> Metric:
        """The cost with its table in the order of the classes."""
        if not self.needs_classes:
            return self
        assert self.classes is not None
        if len(classes) != len(self.classes):
            raise expected("matrix", f"of costs for the classes {show(list(classes))}", list(self.classes))
        order = [find_class(label, classes) for label in self.classes]
        table = np.array(self.params["matrix"])
        ordered = np.empty_like(table)
        ordered[np.ix_(order, order)] = table
        same = _Cost(table, self.classes)
        same.values, same.needs_classes = partial(_cost, table=Constant(ordered)), False
        return same

    def _averaged(self, matrix: Tensor, skip_absent: bool, average: Average) -> Tensor:
        if self.needs_classes:
            hint = "Call with_classes(classes) first."
            raise expected("matrix", "without labels where those of the classes are unknown", self.name, hint)
        return super()._averaged(matrix, skip_absent, average)


def _accuracy(c: Confusion) -> Tensor:
    return divide(c.tp.sum(-1, keepdim=True), c.total)


def _balanced_accuracy(c: Confusion) -> Tensor:
    return weighted_mean(c.recall, c.actual != 0).unsqueeze(-1)


def _specificity(c: Confusion) -> Tensor:
    return divide(c.tn, c.total - c.actual)


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
    t, p, not_t, not_p, missed = _shares(c)
    return divide_by_root(_add_up(t * not_p) - _add_up(missed), _add_up(t * not_t) * _add_up(p * not_p))


def _cohen_kappa(c: Confusion) -> Tensor:
    t, _, _, not_p, missed = _shares(c)
    by_chance = _add_up(t * not_p)
    return divide(by_chance - _add_up(missed), by_chance)


def _shares(c: Confusion) -> tuple[Tensor, ...]:
    """The shares t and p of the rows that are of a class or predicted as it, 1 - t, 1 - p, and that of fn.

    (c s - sum_k p_k t_k) / s^2 is sum(t (1 - p)) - sum(fn) / s, disagreement by chance less that observed. If
    one class has almost all rows, agreement is almost 1, and the other classes would be lost to its rounding.
    """
    not_predicted = _add_up(c.predicted) - c.predicted  # exactly 0 for a class that is always predicted
    counts = [c.actual, c.predicted, c.total - c.actual, not_predicted, c.fn]
    return divide(torch.stack(counts), c.total).unbind()


def _add_up(values: Tensor) -> Tensor:
    """The sum over classes, for the whole matrix."""
    return values.sum(-1, keepdim=True)


def _weighted_kappa(c: Confusion, power: int) -> Tensor:
    grades = torch.arange(c.num_classes, dtype=c.matrix.dtype, device=c.matrix.device)
    weights = (grades[:, None] - grades).abs() ** power
    actual, predicted, shares = (
        divide(part, c.total) for part in (c.actual, c.predicted, c.matrix.flatten(-2))
    )
    chance = (actual @ weights * predicted).sum(-1, keepdim=True)
    return divide(chance - (weights.flatten() * shares).sum(-1, keepdim=True), chance)


def _informedness(c: Confusion) -> Tensor:
    return c.recall + _specificity(c) - (c.total != 0).to(c.tp.dtype)


def _cost(c: Confusion, table: Constant) -> Tensor:
    if len(table.values) != c.num_classes:
        raise expected("matrix", f"of costs for {c.num_classes} classes", len(table.values))
    weighted = c.matrix * table.like(c.matrix)
    return divide(weighted.sum((-2, -1)).unsqueeze(-1), c.total)


def _read_frame(frame: Any, classes: Sequence[Any] | None) -> tuple[Any, list[Any]]:
    """The costs and the classes of a DataFrame, with the columns in the order of the rows."""
    rows, columns = frame.index.tolist(), frame.columns.tolist()
    if classes is not None:
        raise expected("classes", "only without a DataFrame, which names them itself", show(list(classes)))
    if len(set(rows)) != len(rows) or set(rows) != set(columns) or len(columns) != len(rows):
        raise expected(
            "matrix", "with the same classes as index and columns", f"{show(rows)} and {show(columns)}"
        )
    return frame.to_numpy()[:, [columns.index(label) for label in rows]], rows


def _as_labels(classes: Sequence[Any], count: int) -> tuple[Any, ...]:
    """Check the labels of a cost matrix: plain, so that they can be written as text."""
    labels = tuple(one.item() if hasattr(one, "item") else one for one in classes)
    plain_labels = all(isinstance(one, str | int | float) for one in labels)
    if len(set(labels)) != count or len(labels) != count or not plain_labels:
        raise expected("classes", f"to be {count} different texts or numbers", show(list(labels)))
    return labels
