"""The members of an ensemble by name, and how one of them is fitted on a fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled

from evalign.estimators import CatBoost, MetricBooster, MetricClassifier, Split, route_parameters
from evalign.selection.methods import METHODS, Method, build_booster, build_network
from evalign.selection.problem import Problem


@dataclass(frozen=True)
class Member(Method):
    """A method with what one fold of it costs for two classes, as a multiple of LightGBM's time.

    It is only a first guess, until the first fold is measured.

    Attributes:
        cost: The multiple.
        grows_with_classes: Whether the time is proportional to the number of classes, as that of boosted
            trees is; that of a forest, or of a network, hardly depends on it.
        package: What it needs beyond evalign's own dependencies; without it, it is not used by default.
    """

    cost: float = 1.0
    grows_with_classes: bool = False
    package: str | None = None

    def guess_cost(self, problem: Problem) -> float:
        """The cost for the number of classes: a label costs as much as two of them."""
        if not self.grows_with_classes:
            return self.cost
        return self.cost * len(problem.classes) / (1 if problem.is_multilabel else 2)


def _build_forest(kind: Any, rows_per_leaf: int, problem: Problem, random_state: Any) -> Any:
    # Trees of one fold are a fifth of the bag, and leaves of few rows make large files of large tables.
    rows_per_leaf = rows_per_leaf if len(problem.y) < 10_000 else 5
    return _request_weights(kind(150, min_samples_leaf=rows_per_leaf, random_state=random_state))


def _build_logistic(problem: Problem, random_state: Any) -> Any:
    linear: Any = LogisticRegression(max_iter=2000)
    if problem.is_multilabel:
        linear = OneVsRestClassifier(linear)
    # Sparse features stay sparse; the intercept takes the place of the means.
    return make_pipeline(StandardScaler(with_mean=False), _request_weights(linear))


def _build_catboost(problem: Problem, random_state: Any) -> Any:
    model: Any = CatBoost(random_state=random_state)
    return OneVsRestClassifier(model) if problem.is_multilabel else model


def _request_weights(estimator: Any) -> Any:
    return estimator.set_fit_request(sample_weight=True) if _routing_enabled() else estimator


_PLAIN: dict[str, Any] = {"strategy": "log_loss", "rule": False, "n_bags": 1}
_RANDOM = {"extra_trees": True, "feature_fraction": 0.6, "bagging_fraction": 0.8, "bagging_freq": 1}

#: Every named member, in the order in which they pay. Forests with leaves of one row are best where classes
#: are separate, those with larger leaves where they overlap: there is one of each.
MEMBERS: dict[str, Member] = {
    "lightgbm": Member(
        "LightGBM, stopped early", partial(build_booster, _PLAIN), 1.0, grows_with_classes=True
    ),
    "extra_trees": Member("extremely randomized trees", partial(_build_forest, ExtraTreesClassifier, 1), 1.4),
    "logistic": Member("logistic regression", _build_logistic, 0.2),
    "random_forest": Member("a random forest", partial(_build_forest, RandomForestClassifier, 4), 2.0),
    "catboost": Member(
        "CatBoost, stopped early", _build_catboost, 6.0, grows_with_classes=True, package="catboost"
    ),
    "lightgbm_random": Member(
        "LightGBM with random splits, columns and rows",
        partial(build_booster, {**_PLAIN, "params": _RANDOM}), 1.2, grows_with_classes=True,
    ),
    "network": Member(
        "a network on cross-entropy", partial(build_network, "cross_entropy", False), 2.5
    ),
    "booster": Member(
        "LightGBM boosted on the metric", partial(build_booster, {"n_bags": 1}), 1.6, grows_with_classes=True
    ),
    "aligned": Member("a network on the metric", partial(build_network, "aligned", False), 10.0),
}  # fmt: skip


def list_members() -> dict[str, Member]:
    """The members that are used by default: all whose packages are installed."""
    return {name: one for name, one in MEMBERS.items() if one.package is None or find_spec(one.package)}


#: What `AutoClassifier` accepts by name: its members, and whatever `compare` knows.
KNOWN: dict[str, Method] = {**METHODS, **MEMBERS}


def fit_on_fold(
    estimator: Any, problem: Problem, split: Split, prepare: Callable[[Any], Any] = lambda X: X
) -> Any:
    """Fit a classifier on the rows to train on; the others validate it if it stops by validation."""
    train, held_out = split
    X, y = prepare(_safe_indexing(problem.X, train)), problem.y[train]
    rows = {"sample_weight": problem.sample_weight, "groups": problem.groups}
    own = {name: None if values is None else values[train] for name, values in rows.items()}
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not _stops_by_log_loss(last):
        return estimator.fit(X, y, **route_parameters(estimator, **own))
    if not problem.is_multilabel:  # nothing can be said about a class that was never seen
        held_out = held_out[np.isin(problem.y[held_out], y)]
    if not len(held_out):
        return estimator.fit(X, y, **route_parameters(estimator, **own))
    valid = prepare(_safe_indexing(problem.X, held_out))
    if last is not estimator:
        X = estimator[:-1].fit_transform(X, y)
        valid = estimator[:-1].transform(valid)
    data = [valid, problem.y[held_out]]
    if problem.sample_weight is not None:
        data.append(problem.sample_weight[held_out])
    last.fit(X, y, own["sample_weight"], validation_data=data)
    return estimator


def _stops_by_log_loss(model: Any) -> bool:
    """Whether a fold may stop a classifier and judge it, too.

    What is stopped by the hard metric fits the fold so well that it seems better than it is: it is stopped by
    a part of its training rows instead.
    """
    if isinstance(model, MetricBooster):
        return model.strategy == "log_loss"
    if isinstance(model, CatBoost):
        return True
    return isinstance(model, MetricClassifier) and "cross_entropy" in model.strategy


def fit_on_all(estimator: Any, problem: Problem, models: list[Any], prepare: Callable[[Any], Any]) -> Any:
    """Fit a classifier on all rows; trees with the mean number of rounds of the models of the folds."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(last, MetricBooster) and last.strategy == "log_loss":
        boosters = [one[-1] if isinstance(one, Pipeline) else one for one in models]
        rounds = round(float(np.mean([one.n_iter_ for one in boosters])))
        last.set_params(n_estimators=max(1, rounds), patience=1 + rounds)
        rows: NDArray[Any] = np.arange(len(problem.y))
        # Rows that are trained on improve with every round, so that the last one is kept.
        return fit_on_fold(estimator, problem, (rows, rows), prepare)
    params = route_parameters(estimator, sample_weight=problem.sample_weight, groups=problem.groups)
    return estimator.fit(prepare(problem.X), problem.y, **params)
