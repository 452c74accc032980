"""The trials of methods on splits: which are needed, how they are run, and the file of finished ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from evalign._errors import expected
from evalign._files import FORMAT, check_format
from evalign._progress import Progress
from evalign._torch import use_threads
from evalign.estimators import MetricBooster, MetricClassifier
from evalign.metrics import Metric
from evalign.selection._settings import describe_settings, use_one_thread
from evalign.selection.problem import Problem
from evalign.selection.workers import run_jobs


@dataclass(frozen=True)
class Trial:
    """The result of a method on the test part of a split: metric, slack of each constraint, seconds."""

    method: str
    repeat: int
    value: float = float("nan")
    slacks: tuple[float, ...] = ()
    fit_time: float = float("nan")
    predict_time: float = float("nan")
    error: str | None = None


@dataclass(frozen=True)
class TrialOptions:
    """How trials are run: the number of jobs, the file of finished trials, whether to show progress."""

    n_jobs: int | None = None
    trials_file: str | PathLike[str] | None = None
    #: None shows progress on a terminal only.
    verbose: bool | None = None


@dataclass(frozen=True, eq=False)
class TrialTask:
    """A trial to be run: a method, as a function that builds its classifier, on a split."""

    method: str
    repeat: int
    build: Callable[[], Any]
    train: NDArray[Any]
    test: NDArray[Any]

    @property
    def key(self) -> str:
        """A hash that identifies the trial within its problem."""
        try:
            settings = describe_settings(self.build())
        except Exception as error:  # reported when the trial is run
            settings = repr(error)
        return str(joblib.hash([self.method, settings, self.train, self.test]))

    @property
    def training(self) -> str:
        """A text that is the same for methods that differ only in a rule, which is fitted after training."""
        try:
            estimator = self.build()
        except Exception:
            return f"{self.method} cannot be built"
        last = _last_step(estimator)
        on_log_loss = isinstance(last, MetricBooster) and last.strategy == "log_loss"
        if not on_log_loss and not isinstance(last, MetricClassifier):
            return self.method
        last.set_params(rule=True)
        return describe_settings(estimator)

    def fit(self, problem: Problem, one_thread: bool) -> tuple[Any, float]:
        """Fit the classifier on the training part, and return it with the seconds it took."""
        estimator = self.build()
        if one_thread:
            use_one_thread(estimator)
        start = perf_counter()
        problem.fit(estimator, self.train)
        return estimator, perf_counter() - start

    def evaluate(self, problem: Problem, estimator: Any, fit_time: float) -> Trial:
        """Evaluate a fitted classifier on the test part."""
        start = perf_counter()
        predicted = estimator.predict(_safe_indexing(problem.X, self.test))
        predict_time = perf_counter() - start
        labels, weight = problem.classes.tolist(), problem.sample_weight
        weight = None if weight is None else weight[self.test]

        def score(metric: Metric) -> float:
            return float(metric.score(problem.y[self.test], predicted, weight, labels))

        slacks = tuple(one.sign * (score(one.metric) - one.bound) for one in problem.constraints)
        value = score(problem.metric)
        if not np.isfinite([value, *slacks]).all():
            raise expected("metric", "to be a finite number on every test part", value)
        return Trial(self.method, self.repeat, value, slacks, fit_time, predict_time)

    def as_failure(self, error: Exception) -> Trial:
        """Return an error as a result."""
        lines = str(error).strip().splitlines() or [""]
        return Trial(self.method, self.repeat, error=f"{type(error).__name__}: {lines[0]}")


def run_trials(tasks: Sequence[TrialTask], problem: Problem, options: TrialOptions) -> Iterator[Trial]:
    """Run the trials that are not yet in the file; each is written as soon as it is finished."""
    file = None if options.trials_file is None else TrialFile(Path(options.trials_file), problem.identity)
    known = file.read() if file else {}
    keys = {(task.method, task.repeat): task.key if file else "" for task in tasks}
    waiting = []
    for task in tasks:
        key = keys[task.method, task.repeat]
        if key in known:
            yield replace(known[key], repeat=task.repeat)
        else:
            waiting.append(task)
    for trial in _show_progress(_run_groups(waiting, problem, options.n_jobs), len(waiting), options.verbose):
        if file and trial.error is None:  # what failed is tried again next time
            file.append(keys[trial.method, trial.repeat], trial)
        yield trial


def _run_groups(tasks: Sequence[TrialTask], problem: Problem, n_jobs: int | None) -> Iterator[Trial]:
    """Run trials, those that share their training together."""
    groups: dict[tuple[int, str], list[TrialTask]] = {}
    for task in tasks:
        groups.setdefault((task.repeat, task.training), []).append(task)

    def give_up(group: Sequence[TrialTask], error: Exception) -> list[Trial]:
        return [task.as_failure(error) for task in group]

    return chain.from_iterable(run_jobs(run_group, groups.values(), problem, n_jobs, give_up))


def _show_progress(trials: Iterator[Trial], total: int, verbose: bool | None) -> Iterator[Trial]:
    """Yield trials as they are finished, and show how many are; by default on a terminal only."""
    visible = verbose is not False and total > 0
    with Progress("compare", "trials", total, lines=bool(verbose), visible=visible) as progress:
        for done, trial in enumerate(trials, 1):
            progress.update(done)
            yield trial


def run_group(tasks: Sequence[TrialTask], problem: Problem, one_thread: bool) -> list[Trial]:
    """Run trials of one split and one training: fit once, and evaluate with and without the rule."""
    try:
        with use_threads(1 if one_thread else None):
            # With a rule first: the rule is fitted after training, and can be left out afterwards.
            first = max(tasks, key=lambda task: _has_rule(task) if len(tasks) > 1 else False)
            estimator, seconds = first.fit(problem, one_thread)
            return [_evaluate(task, problem, estimator, seconds, first) for task in tasks]
    except Exception as error:
        return [task.as_failure(error) for task in tasks]


def _evaluate(task: TrialTask, problem: Problem, estimator: Any, seconds: float, first: TrialTask) -> Trial:
    try:
        if task is not first and not _has_rule(task):
            estimator = _remove_rule(estimator)
        return task.evaluate(problem, estimator, seconds)
    except Exception as error:
        return task.as_failure(error)


def _has_rule(task: TrialTask) -> bool:
    return bool(_last_step(task.build()).rule)


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _remove_rule(estimator: Any) -> Any:
    if isinstance(estimator, Pipeline):
        *steps, (name, last) = estimator.steps
        return copy.copy(estimator).set_params(steps=[*steps, (name, last.without_rule())])
    return estimator.without_rule()


@dataclass(frozen=True)
class TrialFile:
    """A file of finished trials of one problem, one JSON line each."""

    path: Path
    #: The identity of the problem.
    problem: str

    def read(self) -> dict[str, Trial]:
        """Return the trials by key; a line cut off by a kill is skipped, foreign content is rejected."""
        try:
            self.path.touch()
            lines = self.path.read_text(errors="replace").splitlines()
        except OSError as error:
            raise expected("trials_file", "that can be written", f"{self.path} ({error})") from None
        trials = {}
        for line in lines:
            self._check_line(line)
            try:
                content = json.loads(line)
            except ValueError:
                continue
            check_format(content["format"], "trials_file")
            try:
                fields, key, problem = content["trial"], content["key"], content["problem"]
                trial = Trial(**{**fields, "slacks": tuple(fields["slacks"])})
            except (KeyError, TypeError):
                continue
            if problem != self.problem:
                wanted = "of this data, metric and constraints"
                raise expected("trials_file", wanted, f"{self.path} of others")
            trials[key] = trial
        return trials

    def _check_line(self, line: str) -> None:
        """Reject a line that is neither ours nor the beginning of one that is."""
        start, old_start = '{"format": ', '{"problem": '
        if line.startswith(old_start):
            hint = "It was written by an older version of evalign; delete it or choose another file."
            raise expected("trials_file", f"of format {FORMAT}", f"{self.path} without a number", hint)
        if not line.startswith(start) and not start.startswith(line):
            raise expected("trials_file", "of finished trials", f"{self.path} with {line[:40]!r}")

    def append(self, key: str, trial: Trial) -> None:
        """Write a trial on a line of its own, whatever is left of the last one."""
        content = {"format": FORMAT, "problem": self.problem, "key": key, "trial": asdict(trial)}
        with self.path.open("a") as file:
            file.write("\n" * (file.tell() > 0) + json.dumps(content))
