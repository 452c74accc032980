"""Methods by name, from the simplest to the most elaborate, and the trial of one on a split."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets

from evalign import metrics
from evalign._errors import expected, near, shown
from evalign.decisions._fit_rule import one_number
from evalign.estimators._booster import MetricBooster
from evalign.estimators._classifier import MetricClassifier
from evalign.estimators._decision import MetricDecision
from evalign.metrics import Constraint, Metric

#: A method made ready: a seed in, an unfitted classifier out.
Maker = Callable[[int | None], Any]
Constraints = tuple[Constraint, ...]
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
    forest = RandomForestClassifier(100, min_samples_leaf=2, random_state=random_state)
    return MetricDecision(forest, metric, constraints, random_state=random_state)


def _network(strategy: str, rule: bool, metric: Metric, constraints: Constraints, random_state: Any) -> Any:
    # Smaller than by default, since a comparison trains many; faster, since few rows end a slow one early.
    # The metric needs its batches large, cross-entropy does not.
    pace = {"lr": 3e-3} if strategy == "aligned" else {"lr": 2e-3, "batch_size": 256}
    small: dict[str, Any] = {"hidden": (128, 64), "rule": rule, "random_state": random_state, **pace}
    return MetricClassifier(metric, strategy, constraints=constraints, **small)


_PLAIN: dict[str, Any] = {"strategy": "log_loss", "rule": False, "bags": 1}
_BALANCED = {**_PLAIN, "class_weight": "balanced"}

#: Every named method, from the simplest to the most elaborate.
METHODS: dict[str, Method] = {
    "lightgbm": Method("LightGBM, stopped early", partial(_booster, _PLAIN)),
    "lightgbm_balanced": Method("LightGBM with balanced class weights", partial(_booster, _BALANCED)),
    "lightgbm_rule": Method("LightGBM and a fitted rule", partial(_booster, {"strategy": "log_loss"})),
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
    "booster": Method("LightGBM boosted on the metric and a fitted rule", partial(_booster, {})),
}


@dataclass(frozen=True)
class Problem:
    """What methods are tried on: the data, the metric and its constraints."""

    X: Any
    y: NDArray[Any]
    metric: Metric
    constraints: Constraints

    @staticmethod
    def checked(X: Any, y: Any, metric: Any, constraints: Any) -> Problem:
        """Check what the user gave."""
        X, y = indexable(X, column_or_1d(y, warn=True))
        check_classification_targets(y)
        found = Problem(X, y, one_number(metrics.get(metric)), metrics.constraints(constraints))
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            raise ValueError(f"Expected `y` with two classes, but got 1 class: {shown(labels[0])}.")
        if counts.min() < 2:
            rare = shown(labels[counts.argmin()])
            raise expected("y", "with at least two rows of every class", f"1 row of {rare}")
        return found

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels, sorted."""
        return np.unique(self.y)

    @property
    def identity(self) -> str:
        """The same for the same data, metric and constraints, in any process."""
        return str(joblib.hash([self.X, self.y, settings([self.metric, *self.constraints])]))


@dataclass(frozen=True)
class Trial:
    """What a method did on the test part of a split: metric, slack of each constraint, seconds."""

    method: str
    repeat: int
    value: float = float("nan")
    slacks: tuple[float, ...] = ()
    fit_time: float = float("nan")
    predict_time: float = float("nan")
    error: str | None = None


@dataclass(frozen=True)
class Task:
    """A trial to be done: which method on which split; `key` is the same for the same trial only."""

    method: str
    repeat: int
    make: Callable[[], Any]
    train: NDArray[Any]
    test: NDArray[Any]

    @property
    def key(self) -> str:
        """The identity of the trial within its problem."""
        try:
            made = settings(self.make())
        except Exception as error:  # what cannot be made is told when it is run
            made = repr(error)
        return str(joblib.hash([self.method, made, self.train, self.test]))

    def run(self, problem: Problem, one_thread: bool) -> Trial:
        """Fit and judge; an error is a result too."""
        threads = torch.get_num_threads()
        try:
            estimator = self.make()
            if one_thread:
                torch.set_num_threads(1)
                _set_where_none(estimator, "n_jobs", 1)
            return self._judged(problem, estimator)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            return Trial(self.method, self.repeat, error=f"{type(error).__name__}: {lines[0]}")
        finally:
            torch.set_num_threads(threads)

    def _judged(self, problem: Problem, estimator: Any) -> Trial:
        X, y = problem.X, problem.y
        start = perf_counter()
        estimator.fit(_safe_indexing(X, self.train), y[self.train])
        fitted = perf_counter()
        guess = estimator.predict(_safe_indexing(X, self.test))
        done = perf_counter()

        def value(metric: Metric) -> float:
            return float(metric.score(y[self.test], guess, labels=problem.classes.tolist()))

        slacks = tuple(
            (1 if one.sense == ">=" else -1) * (value(one.metric) - one.bound) for one in problem.constraints
        )
        found = value(problem.metric)
        if not np.isfinite([found, *slacks]).all():
            raise expected("metric", "to be a number on every test part", found)
        return Trial(self.method, self.repeat, found, slacks, fitted - start, done - fitted)


@dataclass(frozen=True)
class Results:
    """A file of finished trials of one problem, a JSON line each."""

    path: Path
    problem: str

    def read(self) -> dict[str, Trial]:
        """The trials by key; a line torn by a kill is left out, what is not ours is refused."""
        try:
            self.path.touch()
            lines = self.path.read_text(errors="replace").splitlines()
        except OSError as error:
            raise expected("results", "to be a file that can be written", f"{self.path} ({error})") from None
        start, found = '{"problem": ', {}
        for line in lines:
            try:
                content = json.loads(line)
                problem, fields = content["problem"], content["trial"]
                found[content["key"]] = Trial(**{**fields, "slacks": tuple(fields["slacks"])})
            except (ValueError, KeyError, TypeError):
                if not line.startswith(start) and not start.startswith(line):
                    wanted = "to be a file of finished trials"
                    raise expected("results", wanted, f"{self.path} with {line[:40]!r}") from None
                continue
            if problem != self.problem:
                raise expected("results", "of this data, metric and constraints", f"{self.path} of others")
        return found

    def append(self, key: str, trial: Trial) -> None:
        """Write a trial on a line of its own, whatever was left of the last one."""
        line = json.dumps({"problem": self.problem, "key": key, "trial": asdict(trial)})
        with self.path.open("a") as file:
            file.write("\n" * (file.tell() > 0) + line)


def makers(methods: Methods, problem: Problem) -> dict[str, Maker]:
    """How each method asked for is made, by name; None asks for all."""
    if methods is None:
        methods = list(METHODS)
    if isinstance(methods, str) or not isinstance(methods, Sequence | Mapping):
        raise expected("methods", "to be a list of names or a dictionary of classifiers", shown(methods))
    if not isinstance(methods, Mapping):
        if len({name for name in methods if isinstance(name, str)}) < len(methods):
            raise expected("methods", "to be different names, or classifiers in a dictionary", list(methods))
        methods = {name: name for name in methods}
    if not methods:
        raise expected("methods", "with at least one method", "none")
    return {str(name): _maker(method, problem) for name, method in methods.items()}


def _maker(method: Any, problem: Problem) -> Maker:
    if isinstance(method, str):
        if method not in METHODS:
            raise expected("methods", "to be known names", repr(method), near(method, METHODS))
        make = partial(METHODS[method].make, problem.metric, problem.constraints)
        return partial(_imputed, make) if has_missing(problem.X) else make
    if not hasattr(method, "fit") or not hasattr(method, "predict") or isinstance(method, type):
        raise expected("methods", "to be names or scikit-learn classifiers", shown(method))
    return lambda seed: _set_where_none(clone(method), "random_state", seed)


def _imputed(make: Maker, seed: int | None) -> Any:
    """A method that knows no NaN gets the medians in their place."""
    estimator = make(seed)
    if get_tags(estimator).input_tags.allow_nan:
        return estimator
    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), estimator)


def _set_where_none(estimator: Any, parameter: str, value: Any) -> Any:
    """Set a parameter of an estimator, and of those inside it, where the user left it open."""
    found = estimator.get_params()
    open_ones = [key for key in found if key.split("__")[-1] == parameter and found[key] is None]
    return estimator.set_params(**dict.fromkeys(open_ones, value))


def has_missing(X: Any) -> bool:
    """Whether a table of numbers has NaN.

    >>> has_missing([[1.0, float("nan")]]), has_missing([["text"]])
    (True, False)
    """
    try:
        return bool(np.isnan(np.asarray(X.data if sparse.issparse(X) else X, dtype=float)).any())
    except (TypeError, ValueError):
        return False


def settings(value: Any) -> str:
    """A text that is the same for the same settings in any process, unlike `repr` and `hash`.

    >>> settings(SimpleImputer(strategy="median")) == settings(SimpleImputer())
    False
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        parts = value.get_params(deep=False)
        kept = {name: part for name, part in parts.items() if name not in ("n_jobs", "verbose")}
        return f"{type(value).__module__}.{type(value).__qualname__}{settings(kept)}"
    if isinstance(value, Metric | Constraint):
        return f"{type(value).__qualname__}{settings(vars(value))}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{key!r}: {settings(part)}' for key, part in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(settings, value))}]"
    if isinstance(value, np.ndarray):
        return str(joblib.hash(value))
    code = getattr(value, "__code__", None)
    if code is not None:  # a function of the user's own: what it does and what it captured
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        value = (value.__qualname__, code.co_code, code.co_consts, value.__defaults__, cells)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
