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
from evalign.metrics import Metric
from evalign.selection.trials import Constraints, Problem, set_where_none

#: A method made ready: a seed in, an unfitted classifier out.
Maker = Callable[[int | None], Any]
#: What a user may give: names of methods, or classifiers (or names of methods) by names of one's own.
Methods = Sequence[str] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Method:
    """A way to a classifier for a metric: what it is, and its factory (metric, constraints, random_state)."""

    description: str
    make: Callable[[Metric, Constraints, Any], Any]


def _booster(settings: dict[str, Any], metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    return MetricBooster(metric, constraints, random_state=random_state, **settings)


def _forest(metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    # Out of bag some third of the trees speak of a row: of 200, enough for a rule as good as that of folds.
    forest = RandomForestClassifier(200, min_samples_leaf=2, random_state=random_state)
    return MetricDecision(forest, metric, constraints, cv="out_of_bag", random_state=random_state)


def _network(strategy: str, rule: bool, metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    # Smaller than by default, since a comparison trains many; faster, since few rows end a slow one early.
    # The metric needs its batches large, cross-entropy does not.
    pace = {"learning_rate": 3e-3} if strategy == "aligned" else {"learning_rate": 2e-3, "batch_size": 256}
    small: dict[str, Any] = {"hidden": (128, 64), "rule": rule, "random_state": random_state, **pace}
    return MetricClassifier(metric, strategy, constraints=constraints, **small)


_PLAIN: dict[str, Any] = {"strategy": "log_loss", "rule": False, "n_bags": 1}
_BALANCED = {**_PLAIN, "class_weight": "balanced"}
_RULED = {**_PLAIN, "rule": True}

#: Every named method, from the simplest to the most elaborate: trees before networks, which need more
#: settings and more time.
METHODS: dict[str, Method] = {
    "lightgbm": Method("LightGBM, stopped early", partial(_booster, _PLAIN)),
    "lightgbm_balanced": Method("LightGBM with balanced class weights", partial(_booster, _BALANCED)),
    "lightgbm_rule": Method("LightGBM and a fitted rule", partial(_booster, _RULED)),
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


def makers(methods: Methods, problem: Problem) -> dict[str, Maker]:
    """How each method asked for is made, by name; None asks for all."""
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
    found = {str(name): _maker(method, problem) for name, method in methods.items()}
    if problem.preprocessor is None:
        return found
    return {name: partial(_prepared, make, problem.preprocessor) for name, make in found.items()}


def _maker(method: Any, problem: Problem) -> Maker:
    if isinstance(method, str):
        if method not in METHODS:
            raise expected("methods", "to be known names", repr(method), suggest(method, METHODS))
        make = partial(METHODS[method].make, problem.metric, problem.constraints)
        return partial(_imputed, make) if problem.preprocessor is None and has_missing(problem.X) else make
    if not hasattr(method, "fit") or not hasattr(method, "predict") or isinstance(method, type):
        raise expected("methods", "to be names or scikit-learn classifiers", show(method))
    return lambda seed: set_where_none(clone(method), "random_state", seed)


def _prepared(make: Maker, preprocessor: Any, seed: int | None) -> Any:
    """A method on prepared features; the preparation is fitted on the rows the method is fitted on."""
    return make_pipeline(clone(preprocessor), make(seed))


def _imputed(make: Maker, seed: int | None) -> Any:
    """A method that knows no NaN gets the medians in their place."""
    estimator = make(seed)
    if get_tags(estimator).input_tags.allow_nan:
        return estimator
    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), estimator)


def has_missing(X: Any) -> bool:
    """Whether a table of numbers has NaN.

    >>> has_missing([[1.0, float("nan")]]), has_missing([["text"]])
    (True, False)
    """
    try:
        return bool(np.isnan(np.asarray(X.data if sparse.issparse(X) else X, dtype=float)).any())
    except (TypeError, ValueError):
        return False
