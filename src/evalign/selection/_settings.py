"""The settings of estimators: as text, and set where the user left them open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np

from evalign.metrics import Constraint, Metric


def set_where_none(estimator: Any, parameter: str, value: Any) -> Any:
    """Set a parameter of an estimator, and of those inside it, wherever it is None."""
    params = estimator.get_params()
    names = [name for name in params if name.split("__")[-1] == parameter and params[name] is None]
    return estimator.set_params(**dict.fromkeys(names, value))


def use_one_thread(estimator: Any) -> Any:
    """Set `n_jobs` to 1 wherever it is None, except where scikit-learn itself means 1 by None.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from evalign import MetricBooster
    >>> use_one_thread(MetricBooster()).n_jobs, use_one_thread(LogisticRegression()).n_jobs
    (1, None)
    """
    params = estimator.get_params()
    owners = {"": estimator, **params}
    names = [
        name
        for name, value in params.items()
        if value is None and name.split("__")[-1] == "n_jobs"
        and not type(owners[name.rpartition("__")[0]]).__module__.startswith("sklearn.")
    ]  # fmt: skip
    return estimator.set_params(**dict.fromkeys(names, 1))


def describe_settings(value: Any) -> str:
    """Describe settings by a text that is the same in every process, unlike `repr` and `hash`.

    >>> from sklearn.impute import SimpleImputer
    >>> describe_settings(SimpleImputer(strategy="median")) == describe_settings(SimpleImputer())
    False
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        params = value.get_params(deep=False).items()
        relevant = {name: part for name, part in params if name not in ("n_jobs", "verbose")}
        return f"{type(value).__module__}.{type(value).__qualname__}{describe_settings(relevant)}"
    if isinstance(value, Metric | Constraint):
        return f"{type(value).__qualname__}{describe_settings(vars(value))}"
    if isinstance(value, Mapping):
        items = sorted(f"{key!r}: {describe_settings(part)}" for key, part in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(describe_settings, value))}]"
    if isinstance(value, np.ndarray):
        return str(joblib.hash(value))
    code = getattr(value, "__code__", None)
    if code is not None:  # a function of the user's own: what it does and what it captured
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        value = (value.__qualname__, code.co_code, code.co_consts, value.__defaults__, cells)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
