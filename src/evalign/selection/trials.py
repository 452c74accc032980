"""The trial of a method on a split, and the file of finished ones."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from evalign import metrics
from evalign._errors import expected, show
from evalign.estimators import MetricBooster, MetricClassifier
from evalign.metrics import Constraint, Metric

Constraints = tuple[Constraint, ...]


@dataclass(frozen=True)
class Problem:
    """What methods are tried on: the data, how it is prepared, the metric and its constraints."""

    X: Any
    y: NDArray[Any]
    metric: Metric
    constraints: Constraints
    preprocessor: Any = None

    @staticmethod
    def checked(X: Any, y: Any, metric: Any, constraints: Any, preprocessor: Any = None) -> Problem:
        """Check what the user gave."""
        X, y = indexable(X, column_or_1d(y, warn=True))
        check_classification_targets(y)
        if preprocessor is not None and not (
            hasattr(preprocessor, "fit") and hasattr(preprocessor, "transform")
        ):
            raise expected("preprocessor", "to be a scikit-learn transformer", show(preprocessor))
        found = Problem(
            X, y, metrics.as_metric(metric, scalar=True), metrics.as_constraints(constraints), preprocessor
        )
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            raise ValueError(f"Expected `y` with two classes, but got 1 class: {show(labels[0])}.")
        if counts.min() < 2:
            rare = show(labels[counts.argmin()])
            raise expected("y", "with at least two rows of every class", f"1 row of {rare}")
        return found

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels, sorted."""
        return np.unique(self.y)

    @property
    def identity(self) -> str:
        """The same for the same data, metric and constraints, in any process."""
        # Without `preprocessor` the same as ever, so that files of older runs go on.
        parts = [self.metric, *self.constraints, *([] if self.preprocessor is None else [self.preprocessor])]
        return str(joblib.hash([self.X, self.y, settings(parts)]))


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

    @property
    def training(self) -> str:
        """The same for methods whose training is the same: their rule is fitted after it."""
        try:
            estimator = self.make()
        except Exception:
            return f"{self.method} cannot be made"
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        boosted = isinstance(last, MetricBooster) and last.strategy == "log_loss"
        if not boosted and not isinstance(last, MetricClassifier):
            return self.method
        last.set_params(rule=True)
        return settings(estimator)

    def fit(self, problem: Problem, one_thread: bool) -> tuple[Any, float]:
        """The classifier fitted on the training part, and the seconds it took."""
        estimator = self.make()
        if one_thread:
            set_where_none(estimator, "n_jobs", 1)
        start = perf_counter()
        estimator.fit(_safe_indexing(problem.X, self.train), problem.y[self.train])
        return estimator, perf_counter() - start

    def failed(self, error: Exception) -> Trial:
        """An error is a result too."""
        lines = str(error).strip().splitlines() or [""]
        return Trial(self.method, self.repeat, error=f"{type(error).__name__}: {lines[0]}")

    def judged(self, problem: Problem, estimator: Any, fit_time: float) -> Trial:
        """What a fitted classifier does on the test part."""
        y, start = problem.y, perf_counter()
        guess = estimator.predict(_safe_indexing(problem.X, self.test))
        done = perf_counter()

        def value(metric: Metric) -> float:
            return float(metric.score(y[self.test], guess, labels=problem.classes.tolist()))

        slacks = tuple(one.sign * (value(one.metric) - one.bound) for one in problem.constraints)
        found = value(problem.metric)
        if not np.isfinite([found, *slacks]).all():
            raise expected("metric", "to be a number on every test part", found)
        return Trial(self.method, self.repeat, found, slacks, fit_time, done - start)


def run(tasks: Sequence[Task], problem: Problem, one_thread: bool) -> list[Trial]:
    """Do tasks of one split and one training: fit once, and judge with and without the rule."""
    threads = torch.get_num_threads()
    try:
        if one_thread:
            torch.set_num_threads(1)
        # With a rule first: it is fitted after training, and can be left away for the others.
        first = max(tasks, key=lambda task: _has_rule(task.make()) if len(tasks) > 1 else False)
        estimator, seconds = first.fit(problem, one_thread)
        return [_judged(task, problem, estimator, seconds, first) for task in tasks]
    except Exception as error:
        return [task.failed(error) for task in tasks]
    finally:
        torch.set_num_threads(threads)


def _judged(task: Task, problem: Problem, estimator: Any, seconds: float, first: Task) -> Trial:
    try:
        if task is not first and not _has_rule(task.make()):
            estimator = _without_rule(estimator)
        return task.judged(problem, estimator, seconds)
    except Exception as error:
        return task.failed(error)


def _has_rule(estimator: Any) -> bool:
    return bool((estimator[-1] if isinstance(estimator, Pipeline) else estimator).rule)


def _without_rule(estimator: Any) -> Any:
    """A classifier that decides by argmax, and shares all else."""
    estimator = copy.copy(estimator)
    if isinstance(estimator, Pipeline):
        *steps, (name, last) = estimator.steps
        estimator.steps = [*steps, (name, _without_rule(last))]
    else:
        estimator.rule, estimator.rule_ = False, None
    return estimator


def with_progress(found: Iterator[Trial], total: int, verbose: bool | None) -> Iterator[Trial]:
    """Show on standard error how much is done: one line, written over again and again."""
    if not (sys.stderr.isatty() if verbose is None else verbose):
        yield from found
        return
    start = perf_counter()
    try:
        for done, trial in enumerate(found, 1):
            yield trial
            left = (perf_counter() - start) / done * (total - done)
            bar = "#" * (20 * done // total)
            sys.stderr.write(f"\r[{bar:.<20}] {done} of {total} trials, {left:.0f} s left   ")
            sys.stderr.flush()
    finally:
        sys.stderr.write("\n")


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
            raise expected(
                "trials_file", "to be a file that can be written", f"{self.path} ({error})"
            ) from None
        start, found = '{"problem": ', {}
        for line in lines:
            try:
                content = json.loads(line)
                problem, fields = content["problem"], content["trial"]
                found[content["key"]] = Trial(**{**fields, "slacks": tuple(fields["slacks"])})
            except (ValueError, KeyError, TypeError):
                if not line.startswith(start) and not start.startswith(line):
                    wanted = "to be a file of finished trials"
                    raise expected("trials_file", wanted, f"{self.path} with {line[:40]!r}") from None
                continue
            if problem != self.problem:
                raise expected(
                    "trials_file", "of this data, metric and constraints", f"{self.path} of others"
                )
        return found

    def append(self, key: str, trial: Trial) -> None:
        """Write a trial on a line of its own, whatever was left of the last one."""
        line = json.dumps({"problem": self.problem, "key": key, "trial": asdict(trial)})
        with self.path.open("a") as file:
            file.write("\n" * (file.tell() > 0) + line)


def set_where_none(estimator: Any, parameter: str, value: Any) -> Any:
    """Set a parameter of an estimator, and of those inside it, where the user left it open."""
    found = estimator.get_params()
    open_ones = [key for key in found if key.split("__")[-1] == parameter and found[key] is None]
    return estimator.set_params(**dict.fromkeys(open_ones, value))


def settings(value: Any) -> str:
    """A text that is the same for the same settings in any process, unlike `repr` and `hash`.

    >>> from sklearn.impute import SimpleImputer
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
