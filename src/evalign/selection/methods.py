"""Methods by name, from the simplest to the most elaborate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from evalign._errors import expected, show, suggest
from evalign.estimators import MetricBooster, MetricClassifier, MetricDecision
from evalign.metrics import Constraint, Metric
from evalign.selection._settings import set_where_none
from evalign.selection.problem import Problem

Constraints = tuple[Constraint, ...]
#: A method for a problem: takes a seed and returns an unfitted classifier.
Builder = Callable[[int | None], Any]
#: The methods a user asks for: names, or classifiers (or names of methods) by names of one's own.
Methods = Sequence[str] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Method:
    """A description, and a function (metric, constraints, random_state) -> unfitted classifier."""

    description: str
    build: Callable[[Metric, Constraints, Any], Any]


def _booster(settings: dict[str, Any], metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    return MetricBooster(metric, constraints, random_state=random_state, **settings)


def _forest(metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    # About a third of the trees did not see a row: of 200, enough for a rule as good as one from folds.
    forest = RandomForestClassifier(200, min_samples_leaf=2, random_state=random_state)
    return MetricDecision(forest, metric, constraints, cv="out_of_bag", random_state=random_state)


def _network(strategy: str, rule: bool, metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    # Smaller than by default, since a comparison trains many networks; faster, since with few rows a slow one
    # is stopped early. The metric needs large batches, cross-entropy does not.
    pace = {"learning_rate": 3e-3} if strategy == "aligned" else {"learning_rate": 2e-3, "batch_size": 256}
    small: dict[str, Any] = {"hidden": (128, 64), "rule": rule, "random_state": random_state, **pace}
    return MetricClassifier(metric, constraints, strategy=strategy, **small)


_PLAIN: dict[str, Any] = {"strategy": "log_loss", "rule": False, "n_bags": 1}
_BALANCED = {**_PLAIN, "class_weight": "balanced"}
_RULE = {**_PLAIN, "rule": True}

#: Every named method, from the simplest to the most elaborate: trees before networks, which need more
#: settings and more time.
METHODS: dict[str, Method] = {
    "lightgbm": Method("LightGBM, stopped early", partial(_booster, _PLAIN)),
    "lightgbm_balanced": Method("LightGBM with balanced class weights", partial(_booster, _BALANCED)),
    "lightgbm_rule": Method("LightGBM and a fitted rule", partial(_booster, _RULE)),
    "booster": Method("LightGBM boosted on the metric and a fitted rule", partial(_booster, {})),
    "random_forest_rule": Method("a random forest and a fitted rule", _forest),
    "network": Method("a network on cross-entropy", partial(_network, "cross_entropy", False)),
    "network_balanced": Method(
        "a network on class-balanced cross-entropy", partial(_network, "weighted_cross_entropy", False)
    ),
    "network_rule": Method(
        "a network on cross-entropy and a fitted rule", partial(_network, "cross_entropy", True)
    ),
    "aligned": Method("a network on the metric", partial(_network, "aligned", False)),
    "aligned_rule": Method("a network on the metric and a fitted rule", partial(_network, "aligned", True)),
}


def build_methods(methods: Methods, problem: Problem) -> dict[str, Builder]:
    """Return a function (seed) -> unfitted classifier for each method by name; None means all methods.

    >>> problem = Problem.check([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1], "mcc")
    >>> build_methods(["lightgbm"], problem)["lightgbm"](0).strategy
    'log_loss'
    """
    if methods is None:
        methods = list(METHODS)
    if isinstance(methods, str) or not isinstance(methods, Sequence | Mapping):
        raise expected("methods", "to be a list of names or a dictionary of classifiers", show(methods))
    if not isinstance(methods, Mapping):
        if len({name for name in methods if isinstance(name, str)}) < len(methods):
            raise expected("methods", "to be different names, or classifiers in a dictionary", list(methods))
        methods = {name: name for name in methods}
    if not methods:
        raise expected("methods", "with at least one method", "none")
    builders = {str(name): _as_builder(method, problem) for name, method in methods.items()}
    if problem.preprocessor is None:
        return builders
    return {name: partial(_prepend, problem.preprocessor, build) for name, build in builders.items()}


def _as_builder(method: Any, problem: Problem) -> Builder:
    if isinstance(method, str):
        if method not in METHODS:
            raise expected("methods", "to be known names", repr(method), suggest(method, METHODS))
        build = partial(METHODS[method].build, problem.metric, problem.constraints)
        impute = problem.preprocessor is None and _has_missing(problem.X)
        return partial(_impute, build) if impute else build
    if not hasattr(method, "fit") or not hasattr(method, "predict") or isinstance(method, type):
        raise expected("methods", "to be names or scikit-learn classifiers", show(method))
    return lambda seed: set_where_none(clone(method), "random_state", seed)


def _prepend(preprocessor: Any, build: Builder, seed: int | None) -> Any:
    """Build a pipeline, so that the preprocessor is fitted on the rows the method is fitted on."""
    return make_pipeline(clone(preprocessor), build(seed))


def _impute(build: Builder, seed: int | None) -> Any:
    """Build a method; one that does not accept NaN gets medians in their place."""
    estimator = build(seed)
    if get_tags(estimator).input_tags.allow_nan:
        return estimator
    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), estimator)


def _has_missing(X: Any) -> bool:
    """Whether a table of numbers contains NaN.

    >>> _has_missing([[1.0, float("nan")]]), _has_missing([["text"]])
    (True, False)
    """
    try:
        return bool(np.isnan(np.asarray(X.data if sparse.issparse(X) else X, dtype=float)).any())
    except (TypeError, ValueError):
        return False
