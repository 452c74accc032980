"""`AutoClassifier`: the method that is best for the metric on the user's data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from evalign._errors import check_integer, is_number
from evalign._typing import ConstraintsLike, MetricLike
from evalign.estimators import Split, draw_splits
from evalign.selection.comparison import Comparison, Row, compare_on_splits, draw_seed
from evalign.selection.methods import METHODS, Builder, Methods, build_methods
from evalign.selection.problem import Problem
from evalign.selection.trials import Trial, TrialOptions

if TYPE_CHECKING:
    from typing_extensions import Self

#: How much a simpler method may cost at most, as a fraction of the best value.
TOLERANCE = 0.01


def _best_has(name: str) -> Callable[[Any], bool]:
    def check(model: Any) -> bool:
        # Before `fit` it is not known; the method itself then raises that it is not fitted.
        return not hasattr(model, "best_estimator_") or hasattr(model.best_estimator_, name)

    return check


class AutoClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The method that cross-validation finds best for the metric, fitted on all rows.

    Among the methods that are worse than the best by at most one standard error of the paired difference, and
    by at most 1 % of its value, it takes the simplest, and fits it on all rows. Where a class has few rows,
    other folds would often lead to another choice: then all methods are tried on further folds, too.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `metrics.precision() >= 0.9`, or "precision >= 0.9"; methods that
            satisfy them on average over the folds come first.
        methods: Names of `evalign.selection.METHODS` (None: all), which are ordered from simple to
            elaborate; or a dictionary of classifiers by name, in that order.
        cv: The number of folds (None: 5), fewer with a warning if a class has fewer rows; a fraction in
            (0, 1) for one split; a splitter of scikit-learn; or pairs (train, test) of row numbers.
        n_repeats: The maximum number of times that folds are drawn. They are drawn again until every method
            is worse than the best by two standard errors, or its difference is known to 1 % of the value.
            Splitters and pairs are used once.
        preprocessor: A transformer for the features, fitted anew on the rows each method is fitted on. With
            it the features need not be numbers, and `best_estimator_` is a pipeline.
        trials_file: A file for finished trials; a killed `fit` that is called again runs only what is
            missing. Requires an integer `random_state`.
        n_jobs: The number of trials run at a time, with one thread each; None runs one at a time and leaves
            the threads to the libraries.
        random_state: The seed of the folds and of the methods.
        verbose: 1 shows a progress bar on standard error.

    Attributes:
        comparison_: The `Comparison` of the methods on the folds.
        best_method_: The name of the best method.
        best_estimator_: The classifier of the best method, fitted on all rows.
        classes_: The class labels, sorted; for multilabel targets the numbers of the labels.

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
        cv: Any = 5,
        n_repeats: int = 3,
        preprocessor: Any = None,
        trials_file: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.methods = methods
        self.cv = cv
        self.n_repeats = n_repeats
        self.preprocessor = preprocessor
        self.trials_file = trials_file
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        methods = list(self.methods.values()) if isinstance(self.methods, Mapping) else ["named"]
        inputs = [get_tags(method).input_tags for method in methods if not isinstance(method, str)]
        any_named = len(inputs) < len(methods)
        tags.input_tags.sparse = any_named or any(one.sparse for one in inputs)
        tags.input_tags.allow_nan = any_named or any(one.allow_nan for one in inputs)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose a method by cross-validation, and fit it on all rows.

        Args:
            X: The features. Classifiers of your own get them as they are; named methods take
                numbers and DataFrames; anything else needs a `preprocessor`.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows, both for fitting and for the metric on the test rows.
            groups: The group of each row; rows of one group are either all trained on or all tested.
        """
        return self.fit_problem(
            Problem.check(X, y, self.metric, self.constraints, self.preprocessor, sample_weight, groups)
        )

    def fit_problem(self, problem: Problem) -> Self:
        """Fit on a problem that is already checked, with its own metric, constraints and preprocessor."""
        check_integer(n_repeats=self.n_repeats)
        seed = draw_seed(self.random_state, self.trials_file)
        builders = build_methods(self.methods, problem)
        self.comparison_ = self._compare(problem, builders, seed)
        # The order of a dictionary is the user's own, from simple to elaborate.
        given = isinstance(self.methods, Mapping)
        order = builders if given else [name for name in METHODS if name in builders]
        self.best_method_ = simplest_near_best(self.comparison_, order)
        self.best_estimator_ = problem.fit(builders[self.best_method_](seed))
        self.classes_ = problem.classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _compare(self, problem: Problem, builders: dict[str, Builder], seed: int) -> Comparison:
        """Compare the methods on one draw of the folds after the other, until the choice is clear."""
        options = TrialOptions(self.n_jobs, self.trials_file, bool(self.verbose))
        splits: list[Split] = []
        trials: dict[tuple[str, int], Trial] = {}
        is_drawn = self.cv is None or is_number(self.cv)
        for repeat in range(self.n_repeats if is_drawn else 1):
            splits += draw_splits(self.cv, problem.X, problem.y, problem.groups, seed + repeat)
            comparison = compare_on_splits(problem, builders, splits, seed, options, trials=trials)
            if is_clear(comparison):
                break
        return comparison

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, or 0 and 1 for each label."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class, if the best method can, in its own form."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_best_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the scores of each row, if the best method has them."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))


def simplest_near_best(comparison: Comparison, order: Iterable[str]) -> str:
    """Return the first method whose mean is within one standard error of the best, and within 1 % of it.

    The standard error is that of the paired difference from the best; over few folds it is so wide that
    alone it would give away too much. Where the best satisfies the constraints, so must the method; where it
    does not, none is taken in its place.
    """
    best = comparison.row(comparison.best)
    if best.slack is not None and best.slack < 0:
        return best.method
    for row in map(comparison.row, order):
        if row.error is None and (row.slack is None or row.slack >= 0):
            gap, error = _gap_to_best(row, comparison)
            if gap <= min(error, TOLERANCE * abs(np.mean(best.values))):
                return row.method
    return best.method


def is_clear(comparison: Comparison) -> bool:
    """Whether every method is clearly worse than the best, or its difference is known to 1 % of the value."""
    tolerance = TOLERANCE * abs(np.mean(comparison.row(comparison.best).values))
    gaps = [_gap_to_best(row, comparison) for row in comparison.rows if row.error is None]
    return all(gap > 2 * error or error <= tolerance for gap, error in gaps)


def _gap_to_best(row: Row, comparison: Comparison) -> tuple[float, float]:
    """Return how much worse than the best a method is on the same folds, and the standard error of that."""
    best = comparison.row(comparison.best)
    gaps = (np.array(best.values) - np.array(row.values)) * (1 if comparison.higher_is_better else -1)
    if len(gaps) == 1:
        return float(gaps[0]), math.inf
    return float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
