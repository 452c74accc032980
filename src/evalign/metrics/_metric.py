"""`Metric`: a function of a confusion matrix that is a loss, a score and a tuning target at once."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from sklearn.metrics import make_scorer
from torch import Tensor

from evalign._errors import expected, is_number
from evalign._torch import divide
from evalign.metrics._algebra import UNBOUNDED, Range, join_degrees, join_ranges
from evalign.metrics._confusion import as_matrix
from evalign.metrics._counting import count_labels
from evalign.metrics._expression import parse

if TYPE_CHECKING:
    from evalign.metrics._accumulator import MetricAccumulator


class Metric(ABC):
    """What a classifier is judged by: a function M(C) of a confusion matrix.

    Rows of C are true classes, columns are predicted classes. Leading dimensions are batches, so that many
    thresholds, labels or models can be evaluated at once.

    >>> from evalign import metrics
    >>> f1 = metrics.f1()
    >>> f1(torch.tensor([[50.0, 10.0], [5.0, 35.0]]))
    tensor(0.8235)
    >>> f1.score([0, 1, 1, 0], [0, 1, 0, 0])
    0.6666666666666666
    >>> (0.5 * f1 + 0.5 * metrics.mcc()).name
    '0.5 * f1() + 0.5 * mcc()'
    """

    #: True if the metric needs a whole curve: one confusion matrix per threshold.
    over_thresholds = False
    #: Whether the metric of several labels is known to be the (weighted) mean of that of each label.
    is_mean_over_labels = False
    #: Whether `evalign.metrics.as_metric` reads the name back as this metric.
    has_text = True
    #: The labels of all classes if the metric names them, as `cost` of a DataFrame does.
    classes: tuple[Any, ...] | None = None
    #: Whether the metric names classes by labels that `with_classes` must resolve first.
    needs_classes = False

    def __init__(
        self,
        name: str,
        formula: str,
        *,
        higher_is_better: bool = True,
        params: Mapping[str, Any] | None = None,
        bounds: Range = (0, 1),
    ) -> None:
        self.name = name
        self.formula = formula
        self.higher_is_better = higher_is_better
        #: The constants of the formula by name, such as `beta`.
        self.params = dict(params or {})
        self._bounds = bounds

    @abstractmethod
    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        """The value of each matrix (..., d, d); the matrix is already checked."""

    @abstractmethod
    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        """The value over labels from (..., L, 2, 2); the matrix is already checked."""

    def _find_absent(self, matrix: Tensor, labels: bool) -> Tensor | None:
        """Where a class that the metric chooses has no true mass; None if it does not choose any.

        The matrix is (..., d, d), or (..., L, 2, 2) with `labels`.
        """
        return None

    @property
    def is_scalar(self) -> bool:
        """Whether the metric gives one number from one confusion matrix.

        >>> from evalign import metrics
        >>> metrics.f1().is_scalar, metrics.f1(average=None).is_scalar, metrics.auroc().is_scalar
        (True, False, False)
        """
        return not self.over_thresholds

    @property
    def range(self) -> Range | None:
        """The lowest and the highest value that the metric can have; None if neither is known.

        >>> from evalign import metrics
        >>> metrics.f1().range, (1 - metrics.mcc()).range, metrics.metric("fp").range
        ((0, 1), (0, 2), (0, inf))
        """
        return None if self._bounds == UNBOUNDED else self._bounds

    @property
    def degree(self) -> float | None:
        """The k with M(c C) = c^k M(C) for every c > 0: 0 for ratios, 1 for counts; None if there is none."""
        return 0

    @property
    def is_scale_free(self) -> bool:
        """Whether only the shares of the cells matter, not the number of rows: M(c C) = M(C).

        Losses see shares, so they require this; decision rules count, so they do not.

        >>> from evalign import metrics
        >>> metrics.f1().is_scale_free, metrics.as_metric("fp").is_scale_free
        (True, False)
        """
        return self.degree == 0

    @property
    def sign(self) -> int:
        """1 if higher is better, else -1: the metric times its sign is always better when higher."""
        return 1 if self.higher_is_better else -1

    @property
    def spelling(self) -> str:
        """The name as it is written in a constraint."""
        if not self.has_text and not self.name.isidentifier():
            return f"<{self.name.strip('<>')}>"
        return f"{self.name}()" if self.name.isidentifier() else self.name

    @property
    def term(self) -> str:
        """The name as it is written in arithmetic."""
        return self.spelling

    def with_classes(self, classes: Sequence[Any]) -> Metric:
        """The metric with every label of a class replaced by its index among the (sorted) classes.

        What is resolved stays resolved, so that later steps may encode the classes as 0, 1, ...

        >>> from evalign import metrics
        >>> metrics.as_metric("recall['rare']").with_classes(["common", "rare"])([[8, 2], [4, 6]])
        tensor(0.6000, dtype=torch.float64)
        """
        return self

    def __call__(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        """The metric of one confusion matrix (d, d), or of each in a batch (..., d, d).

        An average leaves out classes with neither true nor predicted mass, as in scikit-learn. With
        `skip_absent`, it leaves out all classes without true mass, as losses need it: soft counts spread some
        mass over every class.

        >>> from evalign import metrics
        >>> soft = torch.tensor([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.0, 0.0, 0.0]])
        >>> metrics.f1()(soft), metrics.f1()(soft, skip_absent=True)
        (tensor(0.6566), tensor(0.9849))
        """
        return self._value(as_matrix(matrix), skip_absent)

    def over_labels(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        """The metric of a multilabel problem from one 2 x 2 matrix per label, (..., L, 2, 2).

        `average="micro"` adds the matrices of all labels, `"weighted"` weights labels by their
        positives, anything else is the mean over labels. A label with neither true nor predicted
        positives counts as 0, as in scikit-learn; with `skip_absent`, labels without true positives are left
        out of the mean if others have some.

        >>> from evalign import metrics
        >>> metrics.f1().over_labels(torch.tensor([[[5.0, 1], [1, 3]], [[8.0, 2], [0, 0]]]))
        tensor(0.3750)
        """
        matrix = as_matrix(matrix)
        if matrix.ndim < 3 or matrix.shape[-1] != 2:
            raise expected("matrix", "of shape (..., labels, 2, 2)", f"shape {tuple(matrix.shape)}")
        return self._over_labels(matrix, skip_absent)

    def gradient(self, matrix: Any) -> Tensor:
        """The cost matrix dM/dC: what one more unit of (true i, predicted j) is worth.

        >>> from evalign import metrics
        >>> metrics.accuracy().gradient(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
        tensor([[ 0.0312, -0.0938],
                [-0.0938,  0.0312]])
        """
        with torch.inference_mode(False), torch.enable_grad():
            point = as_matrix(matrix).detach().clone().requires_grad_()
            value = self(point)
            if not value.requires_grad:
                return torch.zeros_like(point)
            whole = point.shape[:-3] if self.over_thresholds else point.shape[:-2]
            if value.shape != whole:
                raise expected("average", "that gives one number, as a gradient requires", None)
            (gradient,) = torch.autograd.grad(value.sum(), point, materialize_grads=True)
        return gradient

    def score(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        labels: Sequence[Any] | None = None,
    ) -> Any:
        """The metric of predicted labels, equal to scikit-learn's function of the same name.

        Classes are sorted; of two classes the second is class 1. `labels` names all classes when some may
        be absent from the data. Two-dimensional 0/1 arrays are multilabel.

        >>> from evalign import metrics
        >>> metrics.recall().score(["no", "yes", "yes"], ["no", "yes", "no"])
        0.5
        """
        classes, matrix = count_labels(
            y_true, y_pred, sample_weight, self.classes if labels is None else labels
        )
        value = self.over_labels(matrix) if classes is None else self.with_classes(classes)(matrix)
        return value.item() if value.ndim == 0 else value.numpy()

    def scorer(self, labels: Sequence[Any] | None = None) -> Any:
        """A scorer for scikit-learn's `cross_val_score`, `GridSearchCV` and the like.

        >>> from evalign import metrics
        >>> metrics.mcc().scorer()
        make_scorer(score, response_method='predict', labels=None)
        """
        return make_scorer(self.score, greater_is_better=self.higher_is_better, labels=labels)

    def accumulator(self, **settings: Any) -> MetricAccumulator:
        """Count batches for this metric; see `MetricAccumulator` for the settings.

        >>> from evalign import metrics
        >>> f1 = metrics.f1().accumulator(num_classes=2)
        >>> f1.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
        >>> f1.update(torch.tensor([1, 0]), torch.tensor([0, 0]))
        >>> f1.compute()
        tensor(0.6667, dtype=torch.float64)
        """
        from evalign.metrics._accumulator import MetricAccumulator  # noqa: PLC0415 (it imports this module)

        return MetricAccumulator(self, **settings)

    def __repr__(self) -> str:
        return f"Metric({self.name!r})"

    def __add__(self, other: Metric | float) -> Metric:
        return _combine("+", self, other)

    def __radd__(self, other: float) -> Metric:
        return _combine("+", other, self)

    def __sub__(self, other: Metric | float) -> Metric:
        return _combine("-", self, other)

    def __rsub__(self, other: float) -> Metric:
        return _combine("-", other, self)

    def __mul__(self, other: Metric | float) -> Metric:
        return _combine("*", self, other)

    def __rmul__(self, other: float) -> Metric:
        return _combine("*", other, self)

    def __truediv__(self, other: Metric | float) -> Metric:
        return _combine("/", self, other)

    def __rtruediv__(self, other: float) -> Metric:
        return _combine("/", other, self)

    def __neg__(self) -> Metric:
        return _combine("*", -1, self)

    def __ge__(self, bound: float) -> Constraint:
        return Constraint(self, ">=", bound)

    def __le__(self, bound: float) -> Constraint:
        return Constraint(self, "<=", bound)


class CombinedMetric(Metric):
    """Two metrics, or a metric and a number, combined by + - * /."""

    def __init__(self, symbol: str, left: Metric | float, right: Metric | float) -> None:
        level = _PRECEDENCE[symbol]
        name = f"{_write(left, level)} {symbol} {_write(right, level + 1)}"
        formula = f"{_write_formula(left, symbol)} {symbol} {_write_formula(right, symbol)}"
        super().__init__(name, formula, higher_is_better=_orientation(symbol, left, right))
        self.symbol, self.left, self.right = symbol, left, right
        parts = [part for part in (left, right) if isinstance(part, Metric)]
        self.has_text = all(part.has_text for part in parts)
        self.classes = next((part.classes for part in parts if part.classes), None)
        self.needs_classes = any(part.needs_classes for part in parts)
        self._bounds = join_ranges(symbol, _range_of(left), _range_of(right))
        if self.has_text:
            parse(name)  # refuses what is too long to be read back

    @property
    def degree(self) -> float | None:
        """The degree of the sum, difference, product or quotient."""
        left, right = (part.degree if isinstance(part, Metric) else 0 for part in (self.left, self.right))
        return join_degrees(self.symbol, left, right)

    def with_classes(self, classes: Sequence[Any]) -> Metric:
        """The combination of the parts with these classes."""
        left, right = (
            part.with_classes(classes) if isinstance(part, Metric) else part
            for part in (self.left, self.right)
        )
        same = left is self.left and right is self.right
        return self if same else CombinedMetric(self.symbol, left, right)

    def _find_absent(self, matrix: Tensor, labels: bool) -> Tensor | None:
        parts = (part for part in (self.left, self.right) if isinstance(part, Metric))
        absent = [one for one in (part._find_absent(matrix, labels) for part in parts) if one is not None]
        return torch.stack(absent).any(0) if absent else None

    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        return self._join(lambda part: part._value(matrix, skip_absent), matrix)

    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        return self._join(lambda part: part._over_labels(matrix, skip_absent), matrix)

    def _join(self, value: Callable[[Metric], Tensor], matrix: Tensor) -> Tensor:
        left, right = (
            value(part) if isinstance(part, Metric) else matrix.new_full((), part)
            for part in (self.left, self.right)
        )
        return _OPERATIONS[self.symbol](left, right)


class Constraint:
    """A bound on a metric, as in `precision() >= 0.9`.

    >>> from evalign import metrics
    >>> at_least = metrics.precision() >= 0.9
    >>> at_least
    Constraint('precision() >= 0.9')
    >>> at_least.slack(torch.tensor([[90.0, 10.0], [20.0, 80.0]]))
    tensor(-0.0111)
    """

    def __init__(self, metric: Metric, sense: Literal[">=", "<="], bound: float) -> None:
        if not is_number(bound):
            raise expected("bound", "to be a finite number", repr(bound))
        if not metric.is_scalar:
            raise expected("constraint", "on a metric that gives one number from one matrix", metric.name)
        self.metric, self.sense, self.bound = metric, sense, float(bound)
        self._check_bound()

    @property
    def sign(self) -> int:
        """1 for a lower bound (>=), -1 for an upper bound (<=): the sign of the metric in the slack."""
        return 1 if self.sense == ">=" else -1

    @property
    def name(self) -> str:
        """The text that `evalign.metrics.as_constraint` reads back."""
        return f"{self.metric.spelling} {self.sense} {plain(self.bound)}"

    @property
    def is_scale_free(self) -> bool:
        """Whether only the shares of the cells decide if the constraint is satisfied, not the number of rows.

        >>> from evalign import metrics
        >>> metrics.as_constraint("fp <= 10").is_scale_free
        False
        >>> metrics.as_constraint("fp <= 0.01 * total").is_scale_free
        True
        """
        return self.metric.is_scale_free or (self.bound == 0 and self.metric.degree is not None)

    def with_classes(self, classes: Sequence[Any]) -> Constraint:
        """The constraint with every label of a class replaced by its index, as in `Metric.with_classes`."""
        return Constraint(self.metric.with_classes(classes), self.sense, self.bound)

    def slack(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        """By how much the constraint is satisfied; negative where it is violated.

        With `skip_absent`, as in a loss, a constraint on a class without true mass has the slack 0: nothing
        is known about it.

        >>> from evalign import metrics
        >>> absent = torch.tensor([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
        >>> constraint = metrics.as_constraint("recall[2] >= 0.5")
        >>> constraint.slack(absent), constraint.slack(absent, skip_absent=True)
        (tensor(-0.5000), tensor(0.))
        """
        matrix = as_matrix(matrix)
        distance = self._distance(self.metric(matrix, skip_absent=skip_absent))
        return self._leave_out(distance, matrix, labels=False) if skip_absent else distance

    def slack_over_labels(self, matrix: Any, *, skip_absent: bool = False) -> Tensor:
        """The slack of a multilabel problem from one 2 x 2 matrix per label, as in `Metric.over_labels`.

        >>> from evalign import metrics
        >>> labels = torch.tensor([[[5.0, 1], [1, 3]], [[8.0, 2], [0, 0]]])
        >>> (metrics.f1() >= 0.5).slack_over_labels(labels)
        tensor(-0.1250)
        """
        matrix = as_matrix(matrix)
        distance = self._distance(self.metric.over_labels(matrix, skip_absent=skip_absent))
        return self._leave_out(distance, matrix, labels=True) if skip_absent else distance

    def _leave_out(self, distance: Tensor, matrix: Tensor, labels: bool) -> Tensor:
        absent = self.metric._find_absent(matrix, labels)
        return distance if absent is None else distance.masked_fill(absent, 0.0)

    def _check_bound(self) -> None:
        """Refuse a bound that every confusion matrix satisfies, or none."""
        low, high = _range_of(self.metric)
        rounding = 1e-9 * max(1.0, abs(self.bound))
        if self.sense == ">=":
            decides, where = low < self.bound <= high + rounding, f"({low:g}, {high:g}]"
        else:
            decides, where = low - rounding <= self.bound < high, f"[{low:g}, {high:g})"
        if not decides:
            wanted = f"in {where} for {self.metric.name}, which is always in [{low:g}, {high:g}]"
            raise expected("bound", wanted.replace("inf]", "inf)"), plain(self.bound))

    def _distance(self, value: Tensor) -> Tensor:
        return self.sign * (value - self.bound)

    def __bool__(self) -> bool:
        # Python reads 0.8 <= precision() <= 0.9 as two constraints joined by `and`, which drops the first.
        raise TypeError(f"Expected one bound per constraint, but the truth value of {self.name} was used.")

    def __repr__(self) -> str:
        return f"Constraint({self.name!r})"


_OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


def _combine(sign: str, left: Metric | float, right: Metric | float) -> Metric:
    for part in (left, right):
        if isinstance(part, Metric):
            if part.over_thresholds:
                raise ValueError(f"Expected metrics of one matrix in `{sign}`, but got {part.name}.")
            if not part.is_scalar:
                raise expected("average", "that gives one number in arithmetic", None)
        elif not is_number(part) or abs(part) > torch.finfo(torch.float32).max:
            raise TypeError(f"Expected a metric or a finite number in `{sign}`, but got {part!r}.")
    left, right = (part if isinstance(part, Metric) else plain(part) for part in (left, right))
    if sign == "/" and right == 0:
        raise expected("metric", "without division by 0", f"{getattr(left, 'name', left)} / 0")
    return CombinedMetric(sign, left, right)


def _write(part: Metric | float, level: int) -> str:
    """The name of a part, in parentheses if it binds less tightly than `level`."""
    if not isinstance(part, Metric):
        return repr(part)
    loose = isinstance(part, CombinedMetric) and _PRECEDENCE[part.symbol] < level
    return f"({part.term})" if loose else part.term


def _write_formula(part: Metric | float, symbol: str) -> str:
    if not isinstance(part, Metric):
        return repr(part)
    return part.formula if symbol == "+" or part.formula.isidentifier() else f"({part.formula})"


def _range_of(part: Metric | float) -> Range:
    return part._bounds if isinstance(part, Metric) else (part, part)


def plain(number: float) -> float:
    """A number as it is written in names: 2 rather than 2.0, and without NumPy's type.

    >>> plain(2.0), plain(1e22), plain(0.1)
    (2, 1e+22, 0.1)
    """
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _orientation(sign: str, left: Metric | float, right: Metric | float) -> bool:
    """Whether a higher result is better."""
    if isinstance(left, Metric) and isinstance(right, Metric):
        if sign in "+*" and left.higher_is_better != right.higher_is_better:
            raise ValueError(
                f"Expected metrics with the same direction (higher or lower is better) in `{sign}`, "
                f"but got {left.name} and {right.name}."
            )
        return left.higher_is_better
    if isinstance(left, Metric):
        assert not isinstance(right, Metric)
        return left.higher_is_better if sign in "+-" or right > 0 else not left.higher_is_better
    assert isinstance(right, Metric)
    flips = sign == "-" or (sign in "*/" and left < 0) != (sign == "/")
    return not right.higher_is_better if flips else right.higher_is_better
