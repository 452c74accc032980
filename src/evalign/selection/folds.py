"""The models of the folds: which are fitted next, where they are fitted, and what is known of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median_low
from time import perf_counter, time
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from evalign._errors import expected, is_number, show
from evalign._torch import use_threads
from evalign._typing import Floats
from evalign.estimators import Split, predict_response
from evalign.selection._deadline import OutOfTime, stop_after
from evalign.selection._settings import describe_settings, use_one_thread
from evalign.selection.members import MEMBERS, fit_on_fold
from evalign.selection.mixture import as_scores
from evalign.selection.problem import Problem
from evalign.selection.workers import run_jobs

#: The error of a fold that was stopped since the time was over.
LATE = "the time was over"


@dataclass(frozen=True, eq=False)
class FoldModel:
    """A member fitted without the rows of a fold: the model, and its scores for these rows."""

    member: str
    fold: int
    model: Any = None
    scores: Floats | None = None
    fit_time: float = math.nan
    predict_time: float = math.nan
    error: str | None = None


@dataclass(frozen=True, eq=False)
class FoldTask:
    """A member to be fitted without the rows of a fold; the preprocessor is already fitted on the others.

    It is stopped at `deadline`, in seconds since the epoch, since it may have to wait for a worker.
    """

    member: str
    fold: int
    build: Callable[[], Any]
    split: Split
    preprocessor: Any = None
    deadline: float | None = None

    @property
    def key(self) -> str:
        """A hash that identifies the model within its problem."""
        try:
            settings = describe_settings(self.build())
        except Exception as error:  # reported when it is fitted
            settings = repr(error)
        return str(joblib.hash([self.member, settings, *self.split]))

    def run(self, problem: Problem, one_thread: bool) -> FoldModel:
        """Fit the member and predict the rows of the fold; an error is a result."""
        try:
            left = None if self.deadline is None else self.deadline - time()
            with stop_after(left), use_threads(1 if one_thread else None):
                return self._fit(problem, one_thread)
        except OutOfTime:
            return FoldModel(self.member, self.fold, error=LATE)
        except Exception as error:
            return self.as_failure(error)

    def as_failure(self, error: Exception) -> FoldModel:
        """Return an error as a result."""
        lines = str(error).strip().splitlines() or [""]
        return FoldModel(self.member, self.fold, error=f"{type(error).__name__}: {lines[0]}")

    def _fit(self, problem: Problem, one_thread: bool) -> FoldModel:
        estimator = self.build()
        if one_thread:
            use_one_thread(estimator)
        start = perf_counter()
        with warnings.catch_warnings():
            if self.member in MEMBERS:  # what a user cannot change need not be known
                warnings.simplefilter("ignore", ConvergenceWarning)
            model = fit_on_fold(estimator, problem, self.split, self.prepare)
        middle = perf_counter()
        X = self.prepare(_safe_indexing(problem.X, self.split[1]))
        scores = score_rows(model, X, problem.classes, problem.is_multilabel)
        return FoldModel(self.member, self.fold, model, scores, middle - start, perf_counter() - middle)

    def prepare(self, X: Any) -> Any:
        """Convert features as the preprocessor does."""
        return X if self.preprocessor is None else self.preprocessor.transform(X)


def score_rows(model: Any, X: Any, classes: NDArray[Any], has_labels: bool) -> Floats:
    """The scores of a fitted classifier, one column per class or label: log-probabilities if it has any."""
    response, is_probability = predict_response(model, X, classes, has_labels)
    if not np.isfinite(response).all():
        raise expected("methods", "with finite probabilities or scores", f"{type(model).__name__} without")
    return as_scores(response, is_probability, has_labels)


def run_tasks(tasks: Iterable[FoldTask], problem: Problem, n_jobs: int | None) -> Iterator[FoldModel]:
    """Run tasks as they are drawn: a task is drawn when there is a worker for it."""
    return run_jobs(FoldTask.run, tasks, problem, n_jobs, FoldTask.as_failure)


@dataclass
class Clock:
    """The time that is left of a limit in seconds; None is no limit."""

    limit: float | None = None
    start: float = field(default_factory=perf_counter)

    @property
    def spent(self) -> float:
        """The seconds since the start."""
        return perf_counter() - self.start

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return math.inf if self.limit is None else self.limit - self.spent


def as_seconds(time_limit: Any) -> float | None:
    """Read a time limit.

    >>> as_seconds("1.5h"), as_seconds("10m"), as_seconds(30), as_seconds(None)
    (5400.0, 600.0, 30.0, None)
    """
    if time_limit is None:
        return None
    value: Any = time_limit
    if isinstance(time_limit, str):
        text = time_limit.strip().lower()
        units = {"h": 3600.0, "m": 60.0, "s": 1.0}
        factor = units.get(text[-1:], 1.0)
        try:
            value = factor * float(text[:-1] if text[-1:] in units else text)
        except ValueError:
            value = None
    if not is_number(value) or not 0 < value < math.inf:
        wanted = 'to be seconds above 0, or a text such as "90s", "10m" or "1.5h"'
        raise expected("time_limit", wanted, show(time_limit))
    return float(value)


@dataclass
class Schedule:
    """Which member is fitted on which fold next, in the time that is left.

    A member is begun, and continued, only if all its folds are expected to fit into the time: by what its
    folds took so far, those that are still running included, or else by its guessed cost and what the others
    took; if it takes longer, it is stopped. The first member is different: it is fitted on as many folds as
    there is time for, and on one at least, and never stopped.

    Args:
        costs: The members in their order, with their guessed costs.
        n_folds: The number of folds.
        clock: The time that is left.
        n_jobs: The number of folds that are fitted at a time.
        reserve: The fraction of the limit that is kept for the mixture.

    >>> schedule = Schedule({"a": 1.0, "b": 2.0}, 2, Clock())
    >>> list(schedule)
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """

    costs: dict[str, float]
    n_folds: int
    clock: Clock
    n_jobs: int = 1
    reserve: float = 0.1
    started: set[tuple[str, int]] = field(default_factory=set)
    running: dict[tuple[str, int], float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        while (following := self._find_next()) is not None:
            self.started.add(following)
            self.running[following] = self.clock.spent
            yield following

    def record(self, result: FoldModel) -> None:
        """Take note of what a fold took, or that it failed."""
        self.started.add((result.member, result.fold))
        self.running.pop((result.member, result.fold), None)
        if result.error == LATE:
            done = len(self.seconds.get(result.member, ()))
            self.drop(result.member, f"after {done} of {self.n_folds} folds, {LATE}")
        elif result.error is not None:
            self.left_out[result.member] = f"failed: {result.error}"
        else:
            self.seconds.setdefault(result.member, []).append(result.fit_time + result.predict_time)

    def find_deadline(self, member: str) -> float | None:
        """When a fold of a member is stopped, in seconds since the epoch; None: never."""
        first = next(name for name in self.costs if name not in self.left_out)
        if self.clock.limit is None or member == first:
            return None
        return time() + self.clock.left - self.reserve * self.clock.limit

    def count_models(self) -> int:
        """The number of models in all: those that are fitted, and those that there may be time for."""
        started = sum(member in self.left_out for member, _ in self.started)
        return started + self.n_folds * sum(member not in self.left_out for member in self.costs)

    def estimate_left(self) -> float | None:
        """The seconds until all models are fitted, at most what is left; None if nothing is known yet.

        >>> schedule = Schedule({"a": 1.0, "b": 2.0}, 2, Clock())
        >>> schedule.record(FoldModel("a", 0, fit_time=2.0, predict_time=1.0))
        >>> schedule.estimate_left()
        15.0
        """
        total = 0.0
        for member in self.costs:
            if member not in self.left_out:
                seconds = self._estimate(member)
                if seconds is None:
                    return None
                total += seconds * (self.n_folds - sum(name == member for name, _ in self.started))
        return min(total / self.n_jobs, max(self.clock.left, 0.0))

    def drop(self, member: str, reason: str) -> None:
        """Fit no further folds of a member."""
        self.left_out.setdefault(member, reason)

    def _find_next(self) -> tuple[str, int] | None:
        is_first = True
        for member in self.costs:
            if member in self.left_out:
                if is_first and member in self.seconds:  # no other member has all its folds
                    return None
                continue
            waiting = [fold for fold in range(self.n_folds) if (member, fold) not in self.started]
            if waiting and self._has_time(member, len(waiting), is_first):
                return member, waiting[0]
            if waiting and is_first:
                return None
            is_first = False
        return None

    def _has_time(self, member: str, n_waiting: int, is_first: bool) -> bool:
        # The next fold is drawn before the result of the last one is known: its time is, at least.
        elapsed = [self.clock.spent - start for (name, _), start in self.running.items() if name == member]
        known = self._estimate(member)
        seconds = max([*elapsed, *([] if known is None else [known])], default=None)
        if self.clock.limit is None or seconds is None:
            return self.clock.left > 0 or (is_first and n_waiting == self.n_folds)
        rounds = 1 if is_first else math.ceil(n_waiting / self.n_jobs)
        left = self.clock.left - self.reserve * self.clock.limit
        if rounds * seconds <= left:
            return True
        needed, done = rounds * seconds, self.n_folds - n_waiting
        text = f"it needs about {math.ceil(needed)} s more, and {max(0, math.floor(left))} s are left"
        self.left_out[member] = f"after {done} of {self.n_folds} folds, {text}" if done else text
        return False

    def _estimate(self, member: str) -> float | None:
        """The seconds that a fold takes, or None if nothing is known yet."""
        if member in self.seconds:
            return float(np.mean(self.seconds[member]))
        known = [np.mean(seconds) / self.costs[name] for name, seconds in self.seconds.items()]
        return self.costs[member] * float(median_low(known)) if known else None
