"""`Problem`: the data, metric and constraints that methods are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from evalign import metrics
from evalign._errors import expected, show
from evalign._typing import ConstraintsLike, MetricLike
from evalign.metrics import Constraint, Metric
from evalign.selection._settings import describe_settings


@dataclass(frozen=True, eq=False)
class Problem:
    """What methods are tried on, checked once: the data, its preprocessor, the metric and its constraints.

    Args:
        X: The features.
        y: The class of each row.
        metric: The metric.
        constraints: Its constraints.
        preprocessor: A transformer of the features, or None.

    >>> problem = Problem.check([[1.0], [2.0], [3.0], [4.0]], ["a", "b", "a", "b"], "f1")
    >>> problem.classes.tolist(), problem.metric.name
    (['a', 'b'], 'f1')
    """

    X: Any
    y: NDArray[Any]
    metric: Metric
    constraints: tuple[Constraint, ...] = ()
    preprocessor: Any = None

    @classmethod
    def check(
        cls,
        X: Any,
        y: Any,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        preprocessor: Any = None,
    ) -> Problem:
        """Build a problem from the arguments of a user, or raise an error that names the wrong one."""
        X, y = indexable(X, column_or_1d(y, warn=True))
        check_classification_targets(y)
        if preprocessor is not None and not (
            hasattr(preprocessor, "fit") and hasattr(preprocessor, "transform")
        ):
            raise expected("preprocessor", "to be a scikit-learn transformer", show(preprocessor))
        metric, constraints = metrics.as_metric(metric, scalar=True), metrics.as_constraints(constraints)
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            raise expected("y", "with two classes", f"1 class: {show(labels[0])}")
        if counts.min() < 2:
            rarest = show(labels[counts.argmin()])
            raise expected("y", "with at least two rows of every class", f"1 row of {rarest}")
        return cls(X, y, metric, constraints, preprocessor)

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels, sorted."""
        return np.unique(self.y)

    @property
    def identity(self) -> str:
        """A hash of the data, preprocessor, metric and constraints that is the same in every process."""
        settings = describe_settings([self.metric, *self.constraints, self.preprocessor])
        return str(joblib.hash([self.X, self.y, settings]))
