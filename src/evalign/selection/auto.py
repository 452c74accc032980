"""`AutoClassifier`: whichever method is best for the metric on the user's data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from evalign._errors import check_integer, expected, show
from evalign._typing import ConstraintsLike, MetricLike
from evalign.selection.comparison import Comparison, Row, judge
from evalign.selection.methods import METHODS, Maker, Methods, makers
from evalign.selection.trials import Problem, Trial

#: What a simpler method may cost at most, as a share of the best one's value.
PRICE = 0.01


def _chosen_has(name: str) -> Callable[[Any], bool]:
    def check(model: Any) -> bool:
        # Before `fit` nobody knows; the method itself says then that it is not fitted.
        return not hasattr(model, "best_estimator_") or hasattr(model.best_estimator_, name)

    return check


class AutoClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The method that cross-validation finds best for the metric, fitted on all rows.

    Of the methods that are no worse than the best by more than one standard error of the paired
    difference, nor by more than 1 % of its value, it takes the simplest, and fits it on all rows. Where
    rows of a class are few, another draw of the folds would often have chosen another method: then all
    methods are tried on new folds too.

    Args:
        metric: Anything `evalign.metrics.as_metric` understands.
        constraints: Bounds such as `metrics.precision() >= 0.9`, or "precision >= 0.9"; methods that
            keep them on the folds on average come first.
        methods: Names of `evalign.selection.METHODS` (None: all), whose order there is from simple to
            elaborate; or a dictionary of classifiers by name, in that order.
        cv: How many folds; fewer if a class has fewer rows.
        n_repeats: How often the folds are drawn at most. They are drawn again until every method is worse
            than the best by two standard errors, or its difference is known to 1 % of the best's value.
        n_jobs: How many trials run at a time; if not 1, with one thread each.
        random_state: Seed of the folds and of the methods.
        verbose: 1 shows the progress on standard error.
        preprocessor: A transformer for the features, fitted anew on the rows each method is fitted on; with
            it the features need not be numbers, and `best_estimator_` is a pipeline.
        trials_file: A file for finished trials; a killed `fit` called again does only what is missing. Needs
            an integer `random_state`.

    Attributes:
        comparison_: The `Comparison` of the methods on the folds.
        best_method_: The name of the method chosen.
        best_estimator_: It, fitted on all rows.
        classes_: The class labels, sorted.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> methods = {"guess": DummyClassifier(), "logistic": LogisticRegression()}
    >>> model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, y)
    >>> model.best_method_, model.predict(X[:5]).shape
    ('logistic', (5,))

    References:
        Breiman et al. (1984), Classification and Regression Trees, section 3.4.3: the rule of one
        standard error.
    """

    classes_: NDArray[Any]
    comparison_: Comparison
    best_estimator_: Any

    def __init__(
        self,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        methods: Methods = None,
        cv: int = 5,
        n_repeats: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        preprocessor: Any = None,
        trials_file: str | PathLike[str] | None = None,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.methods = methods
        self.cv = cv
        self.n_repeats = n_repeats
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.trials_file = trials_file

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        parts = self.methods.values() if isinstance(self.methods, Mapping) else ["named"]
        inputs = [get_tags(part).input_tags for part in parts if not isinstance(part, str)]
        named = len(inputs) < len(list(parts))
        tags.input_tags.sparse = named or any(one.sparse for one in inputs)
        tags.input_tags.allow_nan = named or any(one.allow_nan for one in inputs)
        return tags

    def fit(self, X: Any, y: Any) -> AutoClassifier:
        """Choose by cross-validation, and fit the choice on all rows."""
        X, y = self._checked(X, y)
        problem = Problem.checked(X, y, self.metric, self.constraints, self.preprocessor)
        check_integer(2, cv=self.cv)
        check_integer(n_repeats=self.n_repeats)
        if self.trials_file is not None and not isinstance(self.random_state, int | np.integer):
            raise expected("random_state", "to be an integer with `trials_file`", show(self.random_state))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        methods = makers(self.methods, problem)
        self.comparison_ = self._compared(problem, methods, seed)
        # The order of a dictionary is the user's own word on what is simple.
        order = (
            methods if isinstance(self.methods, Mapping) else [name for name in METHODS if name in methods]
        )
        self.best_method_ = simplest_near_best(self.comparison_, order)
        self.best_estimator_ = methods[self.best_method_](seed).fit(X, y)
        self.classes_ = problem.classes
        return self

    def _compared(self, problem: Problem, methods: dict[str, Maker], seed: int) -> Comparison:
        """The methods on one draw of the folds after the other, until the choice is clear."""
        fewest = int(np.unique(problem.y, return_counts=True)[1].min())
        splits: list[Any] = []
        trials: dict[tuple[str, int], Trial] = {}
        show = bool(self.verbose)
        for repeat in range(self.n_repeats):
            folds = StratifiedKFold(min(int(self.cv), fewest), shuffle=True, random_state=seed + repeat)
            splits += folds.split(np.zeros(len(problem.y)), problem.y)
            found = judge(problem, methods, splits, seed, self.n_jobs, None, self.trials_file, show, trials)
            if settled(found):
                break
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        return np.asarray(self._delegated("predict", X))

    @available_if(_chosen_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class, where the method chosen has it."""
        return np.asarray(self._delegated("predict_proba", X))

    @available_if(_chosen_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:
        """The scores, where the method chosen has them."""
        return np.asarray(self._delegated("decision_function", X))

    def _delegated(self, name: str, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(self._checked(X))

    def _checked(self, X: Any, *y: Any) -> Any:
        if self.preprocessor is not None:  # it knows best what it takes
            return (X, np.asarray(y[0])) if y else X
        sparse = "csr" if get_tags(self).input_tags.sparse else False
        new = {"ensure_min_samples": 2} if y else {"reset": False}
        return validate_data(self, X, *y, accept_sparse=sparse, ensure_all_finite="allow-nan", **new)


def simplest_near_best(comparison: Comparison, order: Iterable[str]) -> str:
    """The first method in order whose mean is within one standard error of the best, and within 1 % of it.

    The standard error is that of the paired difference to the best; over few folds it is so wide that it
    would give away too much alone. Where the best keeps the constraints, so must the method; where it
    does not, none is taken in its place.
    """
    best = comparison.row(comparison.best)
    if best.slack is not None and best.slack < 0:
        return best.method
    for row in map(comparison.row, order):
        if row.error is None and (row.slack is None or row.slack >= 0):
            gap, error = _behind(row, comparison)
            if gap <= min(error, PRICE * abs(np.mean(best.values))):
                return row.method
    return best.method


def settled(comparison: Comparison) -> bool:
    """Whether every method is clearly worse than the best, or its difference is known to 1 % of the value."""
    price = PRICE * abs(np.mean(comparison.row(comparison.best).values))
    found = [_behind(row, comparison) for row in comparison.rows if row.error is None]
    return all(gap > 2 * error or error <= price for gap, error in found)


def _behind(row: Row, comparison: Comparison) -> tuple[float, float]:
    """How much worse than the best a method is on the same folds, and the standard error of that."""
    best = comparison.row(comparison.best)
    gaps = (np.array(best.values) - np.array(row.values)) * (1 if comparison.higher_is_better else -1)
    return float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
