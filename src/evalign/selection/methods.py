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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_array, get_tags
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import has_fit_parameter

from evalign._errors import expected, show, suggest
from evalign.estimators import (
    MetricBooster,
    MetricClassifier,
    MetricDecision,
    MetricLinear,
    TableEncoder,
    TargetMeans,
    find_fit_parameter,
    is_table,
    name_last_step,
)
from evalign.selection._settings import set_where_none
from evalign.selection.problem import Problem

#: A method for a problem: takes a seed and returns an unfitted classifier.
Builder = Callable[[int | None], Any]
#: The methods a user asks for: names, or classifiers (or names of methods) by names of one's own.
Methods = Sequence[str] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Method:
    """A description, and a function (problem, random_state) -> unfitted classifier."""

    description: str
    build: Callable[[Problem, Any], Any]


def _build_linear(problem: Problem, random_state: Any) -> Any:
    return MetricLinear(problem.metric, problem.constraints, random_state=random_state)


def build_booster(settings: dict[str, Any], problem: Problem, random_state: Any) -> Any:
    """Build a booster for a problem."""
    return MetricBooster(problem.metric, problem.constraints, random_state=random_state, **settings)


def _forest(problem: Problem, random_state: Any) -> Any:
    # About a third of the trees did not see a row: of 200, enough for a rule as good as one from folds.
    # Weights and groups need folds, and so do rare labels, which may be constant in a training part.
    forest = RandomForestClassifier(200, min_samples_leaf=2, random_state=random_state)
    needs_folds = problem.is_multilabel or problem.sample_weight is not None or problem.groups is not None
    cv = None if needs_folds else "out_of_bag"
    if _routing_enabled():
        forest.set_fit_request(sample_weight=True)
    return MetricDecision(forest, problem.metric, problem.constraints, cv=cv, random_state=random_state)


def build_network(strategy: str, rule: bool, problem: Problem, random_state: Any) -> Any:
    """Build a network for a problem."""
    # Smaller than by default, since a comparison trains many networks; faster, since with few rows a slow one
    # is stopped early. The metric needs large batches, cross-entropy does not.
    pace = {"learning_rate": 3e-3} if strategy == "aligned" else {"learning_rate": 2e-3, "batch_size": 256}
    small: dict[str, Any] = {"hidden": (128, 64), "rule": rule, "random_state": random_state, **pace}
    return MetricClassifier(problem.metric, problem.constraints, strategy=strategy, **small)


_PLAIN: dict[str, Any] = {"strategy": "log_loss", "rule": False, "n_bags": 1}
_BALANCED = {**_PLAIN, "class_weight": "balanced"}
_RULE = {**_PLAIN, "rule": True}

#: Every named method, from the simplest to the most elaborate: a linear model before trees, and trees before
#: networks, which need more settings and more time.
METHODS: dict[str, Method] = {
    "linear": Method("a linear model trained on the metric", _build_linear),
    "lightgbm": Method("LightGBM, stopped early", partial(build_booster, _PLAIN)),
    "lightgbm_balanced": Method("LightGBM with balanced class weights", partial(build_booster, _BALANCED)),
    "lightgbm_rule": Method("LightGBM and a fitted rule", partial(build_booster, _RULE)),
    "booster": Method("LightGBM boosted on the metric and a fitted rule", partial(build_booster, {})),
    "random_forest_rule": Method("a random forest and a fitted rule", _forest),
    "network": Method("a network on cross-entropy", partial(build_network, "cross_entropy", False)),
    "network_balanced": Method(
        "a network on class-balanced cross-entropy", partial(build_network, "weighted_cross_entropy", False)
    ),
    "network_rule": Method(
        "a network on cross-entropy and a fitted rule", partial(build_network, "cross_entropy", True)
    ),
    "aligned": Method("a network on the metric", partial(build_network, "aligned", False)),
    "aligned_rule": Method(
        "a network on the metric and a fitted rule", partial(build_network, "aligned", True)
    ),
}


def build_methods(methods: Methods, problem: Problem) -> dict[str, Builder]:
    """Return a function (seed) -> unfitted classifier for each method by name; None means all methods.

    >>> problem = Problem.check([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1], "mcc")
    >>> build_methods(["lightgbm"], problem)["lightgbm"](0).strategy
    'log_loss'
    """
    builders = find_builders(methods, problem, METHODS)
    if problem.preprocessor is None:
        return builders
    return {name: partial(_prepend, problem.preprocessor, build) for name, build in builders.items()}


def find_builders(methods: Methods, problem: Problem, known: Mapping[str, Method]) -> dict[str, Builder]:
    """Return a function (seed) -> unfitted classifier of prepared features for each method by name.

    Args:
        methods: What the user asks for; None means all that are known.
        problem: What they are tried on.
        known: The methods by name.
    """
    if methods is None:
        methods = list(known)
    if isinstance(methods, str) or not isinstance(methods, Sequence | Mapping):
        raise expected("methods", "to be a list of names or a dictionary of classifiers", show(methods))
    if not isinstance(methods, Mapping):
        if len({name for name in methods if isinstance(name, str)}) < len(methods):
            raise expected("methods", "to be different names, or classifiers in a dictionary", list(methods))
        methods = {name: name for name in methods}
    if not methods:
        raise expected("methods", "with at least one method", "none")
    builders = {str(name): _as_builder(method, problem, known) for name, method in methods.items()}
    if problem.sample_weight is not None:
        for name, method in methods.items():
            _check_weights(str(name), method)
    return builders


def _as_builder(method: Any, problem: Problem, known: Mapping[str, Method]) -> Builder:
    if isinstance(method, str):
        if method not in known:
            raise expected("methods", "to be known names", repr(method), suggest(method, known))
        return _build_named(known[method], problem)
    if not hasattr(method, "fit") or not hasattr(method, "predict") or isinstance(method, type):
        raise expected("methods", "to be names or scikit-learn classifiers", show(method))
    return lambda seed: set_where_none(clone(method), "random_state", seed)


def _build_named(method: Method, problem: Problem) -> Builder:
    build: Builder = partial(method.build, problem)
    if problem.categorical:
        return partial(_suit_codes, build, problem.categorical)
    if problem.preprocessor is not None:
        return build
    if is_table(problem.X):
        return partial(_encode, build)
    return partial(_impute, build) if _has_missing(problem.X) else build


def _encode(build: Builder, seed: int | None) -> Any:
    """Build a method; one that does not accept tables with categories and gaps gets numbers."""
    estimator = build(seed)
    if isinstance(estimator, MetricBooster | MetricClassifier | MetricLinear):
        return estimator
    return _make_pipeline(TableEncoder(), estimator)


def _suit_codes(build: Builder, categorical: tuple[int, ...], seed: int | None) -> Any:
    """Build a method that gets means of the target for codes; LightGBM splits the codes natively, too."""
    estimator = build(seed)
    is_native = isinstance(estimator, MetricBooster)
    if is_native:
        estimator.set_params(categorical_features=tuple(range(len(categorical))))
    return _make_pipeline(TargetMeans(categorical, keep=is_native), estimator)


def _check_weights(name: str, method: Any) -> None:
    """Refuse a classifier of the user that cannot be fitted with weights, before anything is fitted."""
    if not isinstance(method, str) and find_fit_parameter(method, "sample_weight") is None:
        wanted = f"to be None, since the method {name!r} does not accept it ({name_last_step(method)}.fit)"
        raise expected("sample_weight", wanted, "weights")


def _prepend(preprocessor: Any, build: Builder, seed: int | None) -> Any:
    """Build a pipeline, so that the preprocessor is fitted on the rows the method is fitted on."""
    return _make_pipeline(clone(preprocessor), build(seed))


def _impute(build: Builder, seed: int | None) -> Any:
    """Build a method; one that does not accept NaN gets medians in their place."""
    estimator = build(seed)
    if get_tags(estimator).input_tags.allow_nan:
        return estimator
    return _make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), estimator)


def _make_pipeline(transformer: Any, estimator: Any) -> Any:
    """Build a pipeline whose last step receives the weights and groups that it accepts."""
    if isinstance(estimator, Pipeline):
        return make_pipeline(transformer, *(step for _, step in estimator.steps))
    if _routing_enabled():
        accepted = [one for one in ("sample_weight", "groups") if has_fit_parameter(estimator, one)]
        if accepted:
            estimator.set_fit_request(**dict.fromkeys(accepted, True))
    return make_pipeline(transformer, estimator)


def _has_missing(X: Any) -> bool:
    """Whether an array contains NaN; of what is not a table, named methods accept numbers only.

    >>> _has_missing([[1.0, float("nan")]]), _has_missing([[1, 2]])
    (True, False)
    """
    try:
        table = check_array(X, accept_sparse=True, dtype=np.float64, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        hint = "Pass a DataFrame, `preprocessor=`, or classifiers of your own that accept it."
        reason = str(error).splitlines()[0].rstrip(".")
        wanted = "to be a DataFrame or an array of numbers for named methods"
        raise expected("X", wanted, f"one that is not ({reason})", hint) from None
    return bool(np.isnan(table.data if sparse.issparse(table) else table).any())
