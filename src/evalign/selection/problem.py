"""`Problem`: the data, metric and constraints that methods are tried on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, column_or_1d, indexable
from sklearn.utils.validation import _check_sample_weight

from evalign import metrics
from evalign._errors import expected, show
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.estimators import check_targets, route_parameters
from evalign.metrics import Constraint, Metric
from evalign.selection._settings import describe_settings


@dataclass(frozen=True, eq=False)
class Problem:
    """What methods are tried on, checked once: the data, its preprocessor, the metric and its constraints.

    Args:
        X: The features, as the user passed them.
        y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
        metric: The metric.
        constraints: Its constraints.
        preprocessor: A transformer of the features, or None.
        sample_weight: The weight of each row, in training and in the metric, or None.
        groups: The group of each row, or None; rows of one group are either all trained on or all tested.
        categorical: The places of the prepared features that are codes of categories.

    >>> problem = Problem.check([[1.0], [2.0], [3.0], [4.0]], ["a", "b", "a", "b"], "f1")
    >>> problem.classes.tolist(), problem.metric.name
    (['a', 'b'], 'f1')
    """

    X: Any
    y: NDArray[Any]
    metric: Metric
    constraints: tuple[Constraint, ...] = ()
    preprocessor: Any = None
    sample_weight: Floats | None = None
    groups: NDArray[Any] | None = None
    categorical: tuple[int, ...] = ()

    @classmethod
    def check(
        cls,
        X: Any,
        y: Any,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        preprocessor: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Problem:
        """Build a problem from the arguments of a user, or raise an error that names the wrong one."""
        X, y, groups = indexable(X, check_targets(y), groups)
        if preprocessor is not None and not (
            hasattr(preprocessor, "fit") and hasattr(preprocessor, "transform")
        ):
            raise expected("preprocessor", "to be a scikit-learn transformer", show(preprocessor))
        metric, constraints = metrics.as_metric(metric, scalar=True), metrics.as_constraints(constraints)
        if sample_weight is not None:
            sample_weight = np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
        if groups is not None:
            groups = column_or_1d(groups)
        problem = cls(X, y, metric, constraints, preprocessor, sample_weight, groups)
        if len(problem.classes) < 2:
            raise expected("y", "with two classes", f"1 class: {show(problem.classes[0])}")
        metric, constraints = metrics.resolve_classes(metric, constraints, problem.classes)
        return replace(problem, metric=metric, constraints=constraints)

    @property
    def is_multilabel(self) -> bool:
        """Whether a row has any number of labels."""
        return self.y.ndim == 2

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels, sorted; for multilabel targets the numbers of the labels."""
        return np.arange(self.y.shape[1]) if self.is_multilabel else np.unique(self.y)

    def __sizeof__(self) -> int:
        """The bytes of the data, by which Dask decides to send it to a worker once, not with every task."""
        parts = (self.X, self.y, self.sample_weight, self.groups)
        sizes = (getattr(one, "nbytes", None) for one in parts)
        return sum(8 * self.y.size if size is None else size for size in sizes)

    @property
    def identity(self) -> str:
        """A hash of everything the problem consists of that is the same in every process."""
        settings = describe_settings([self.metric, *self.constraints, self.preprocessor])
        return str(joblib.hash([self.X, self.y, settings, self.sample_weight, self.groups, self.categorical]))

    def take(self, rows: NDArray[Any]) -> Problem:
        """The same problem for some of the rows."""
        weight, groups = (None if one is None else one[rows] for one in (self.sample_weight, self.groups))
        X = _safe_indexing(self.X, rows)
        return replace(self, X=X, y=self.y[rows], sample_weight=weight, groups=groups)

    def fit(self, estimator: Any, rows: NDArray[Any] | None = None) -> Any:
        """Fit an estimator on some rows, or on all, with their weights and groups if it accepts them."""
        params = route_parameters(estimator, sample_weight=self.sample_weight, groups=self.groups)
        if rows is None:
            return estimator.fit(self.X, self.y, **params)
        params = {name: values[rows] for name, values in params.items()}
        return estimator.fit(_safe_indexing(self.X, rows), self.y[rows], **params)
