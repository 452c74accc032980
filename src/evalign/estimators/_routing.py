"""Which parameters `fit` of a classifier accepts, and by which name."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import _routing_enabled, get_routing_for_object
from sklearn.utils.validation import has_fit_parameter


def find_fit_parameter(estimator: Any, parameter: str) -> str | None:
    """Return the name by which `fit` accepts the weights or groups of rows, or None if it does not.

    A pipeline passes them to its last step, unless scikit-learn's metadata routing is enabled: then to the
    steps that request them.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> find_fit_parameter(make_pipeline(StandardScaler(), LogisticRegression()), "sample_weight")
    'logisticregression__sample_weight'
    >>> find_fit_parameter(LogisticRegression(), "groups") is None
    True
    """
    if isinstance(estimator, Pipeline):
        if _routing_enabled():
            requested = get_routing_for_object(estimator).consumes("fit", [parameter])
            return parameter if requested else None
        name, last = estimator.steps[-1]
        inner = find_fit_parameter(last, parameter)
        return None if inner is None else f"{name}__{inner}"
    if has_fit_parameter(estimator, parameter):
        return parameter
    if parameter == "groups":  # a search passes them on to its splitter, other classifiers to strangers
        return parameter if isinstance(estimator, BaseSearchCV) else None
    return parameter if _takes_any_parameter(estimator) else None


def _takes_any_parameter(estimator: Any) -> bool:
    if not hasattr(estimator, "fit"):
        return False
    parameters = inspect.signature(estimator.fit).parameters.values()
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def route_parameters(estimator: Any, **values: Any) -> dict[str, Any]:
    """Return those of the values that `fit` accepts, by their names there; None is left out.

    >>> from sklearn.linear_model import LogisticRegression
    >>> route_parameters(LogisticRegression(), sample_weight=[1.0, 2.0], groups=["a", "b"])
    {'sample_weight': [1.0, 2.0]}
    """
    names = {name: find_fit_parameter(estimator, name) for name, value in values.items() if value is not None}
    return {name: values[parameter] for parameter, name in names.items() if name is not None}


def name_last_step(estimator: Any) -> str:
    """Return the class name of a classifier, or of the last step of a pipeline."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return type(estimator).__name__
