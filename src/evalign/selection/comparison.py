"""`compare`: methods on the same splits of the user's data, with the evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state

from evalign._errors import check_integer, expected, is_number, show, suggest
from evalign._typing import ConstraintsLike, MetricLike
from evalign.selection.methods import Maker, Methods, makers
from evalign.selection.trials import Problem, Results, Task, Trial, run, with_progress

Splits = Sequence[tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class Row:
    """A method in a comparison; times are seconds, `slack` is the worst constraint's mean on test parts."""

    method: str
    values: tuple[float, ...] = ()
    mean: float | None = None
    standard_error: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    fit_time: float | None = None
    predict_time: float | None = None
    slack: float | None = None
    kept: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: a row for each method, differences to the reference, the best and advice.

    `standard_error` is that of the mean over the splits. `interval` holds the difference to the
    reference with 95 %, corrected for training parts that overlap: its variance over k splits is
    s^2 (1/k + n_test/n_train), with k - 1 degrees of freedom.

    References:
        Nadeau and Bengio (2003), Inference for the generalization error.
    """

    metric: str
    higher_is_better: bool
    reference: str
    constraints: tuple[str, ...]
    rows: tuple[Row, ...]

    def row(self, method: str) -> Row:
        """The row of a method."""
        return next(row for row in self.rows if row.method == method)

    @property
    def best(self) -> str:
        """The method with the best mean, of those that keep the constraints on average, if any does."""

        def standing(row: Row) -> tuple[float, float]:
            assert row.mean is not None
            slack = math.inf if row.slack is None or row.slack >= 0 else row.slack
            return slack, row.mean if self.higher_is_better else -row.mean

        return max((row for row in self.rows if row.error is None), key=standing).method

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        best, reference = self.row(self.best), self.row(self.reference)
        text = f"{best.method}: {self.metric} {_plus_minus(best)}"
        if best.slack is not None and best.slack < 0:
            bounds = " and ".join(self.constraints)
            return f"{text}; no method keeps {bounds} on average, and it misses least, by {-best.slack:.3f}."
        if best.method == reference.method:
            return f"{text}; no other method has a better mean."
        if best.difference is None:
            return f"{text}, the best mean; {reference.method} failed, so there is no difference to it."
        text += f", {best.difference:+.3f}"
        if best.interval is None:
            return f"{text} over {reference.method}, from one split: repeat it to see whether that is chance."
        low, high = best.interval
        text += f" (95 % interval {low:.3f} to {high:.3f}) over {reference.method}"
        if reference.slack is not None and reference.slack < 0:
            return f"{text}, which does not keep {' and '.join(self.constraints)}; use it."
        if low <= 0 <= high:
            return f"{text}; the interval holds 0, so {reference.method} may be as good."
        return f"{text}; use it."

    def to_frame(self) -> Any:
        """The rows as a pandas table."""
        import pandas as pd

        table = pd.DataFrame([asdict(row) for row in self.rows]).set_index("method")
        ends = [row.interval or (math.nan, math.nan) for row in self.rows]
        table["low"], table["high"] = zip(*ends, strict=True)
        names = ["mean", "standard_error", "difference", "low", "high", "fit_time", "predict_time"]
        return table[[*names, "slack", "kept", "error"]]

    def to_markdown(self) -> str:
        """The rows as a table in Markdown."""
        head = ["method", self.metric, f"difference to {self.reference}", "95 % interval", "fit (s)"]
        head += [" and ".join(self.constraints)] * bool(self.constraints)
        lines = [head, ["---"] * len(head)]
        for row in self.rows:
            if row.error is not None:
                lines.append([row.method, f"failed: {row.error}", *[""] * (len(head) - 2)])
                continue
            gap = "" if row.difference is None else f"{row.difference:+.3f}"
            interval = "" if row.interval is None else "{:.3f} to {:.3f}".format(*row.interval)
            line = [row.method, _plus_minus(row), gap, interval, f"{row.fit_time:.2f}"]
            lines.append(line + [f"kept in {row.kept} of {len(row.values)}"] * bool(self.constraints))
        return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)

    __str__ = to_markdown

    def to_json(self) -> str:
        """The comparison as a text that `from_json` reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read a comparison that `to_json` wrote."""

        def tuples(facts: dict[str, Any]) -> dict[str, Any]:
            return {name: tuple(part) if isinstance(part, list) else part for name, part in facts.items()}

        content = tuples(json.loads(text))
        return cls(**{**content, "rows": tuple(Row(**tuples(row)) for row in content["rows"])})


def compare(
    X: Any, y: Any, metric: MetricLike, methods: Methods = None,
    n_repeats: int = 5, test_size: float = 0.2, n_jobs: int | None = 1, random_state: Any = 0, *,
    constraints: ConstraintsLike = (), reference: str | None = None,
    trials_file: str | PathLike[str] | None = None, verbose: bool | None = None, preprocessor: Any = None,
) -> Comparison:  # fmt: skip
    """Compare methods on the same stratified splits of the data.

    Args:
        X: The features.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        methods: Names of `evalign.selection.METHODS` (None: all), or a dictionary of classifiers by name.
        n_repeats: How many splits.
        test_size: The share of rows that each split sets aside to judge.
        n_jobs: How many trials run at a time; if not 1, with one thread each.
        random_state: Seed of the splits and of the methods.
        constraints: Bounds such as `metrics.precision() >= 0.9`, or "precision >= 0.9".
        reference: The method all others are compared with; `"network_rule"`, a network with cross-entropy
            and a fitted decision rule, if it is among the methods, else the first.
        trials_file: A file for finished trials; a killed run called again does only what is missing.
        verbose: Show the progress on standard error; None: only on a terminal.
        preprocessor: A transformer for the features, fitted anew on the rows each method is fitted on.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> found = compare(X, y, "f1", {"guess": DummyClassifier(), "logistic": LogisticRegression()})
    >>> found.best, round(found.row("guess").mean, 3)
    ('logistic', 0.0)
    """
    problem = Problem.checked(X, y, metric, constraints, preprocessor)
    check_integer(n_repeats=n_repeats)
    if trials_file is not None and not isinstance(random_state, int | np.integer):
        raise expected("random_state", "to be an integer with `trials_file`", show(random_state))
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    splits = _shuffled(problem, int(n_repeats), test_size, seed)
    return judge(problem, makers(methods, problem), splits, seed, n_jobs, reference, trials_file, verbose)


def _shuffled(problem: Problem, n_repeats: int, test_size: float, seed: int) -> Splits:
    """Stratified splits; every class must be among the rows to train on."""
    if not is_number(test_size) or not 0 < test_size < 1:
        raise expected("test_size", "in (0, 1)", show(test_size))
    rows, classes = len(problem.y), problem.classes
    if min(math.ceil(test_size * rows), math.floor((1 - test_size) * rows)) < len(classes):
        raise expected("y", f"with a row of each of {len(classes)} classes in both parts", f"{rows} rows")
    splitter = StratifiedShuffleSplit(n_repeats, test_size=float(test_size), random_state=seed)
    splits = list(splitter.split(np.zeros(rows), problem.y))
    for train, _ in splits:
        lost = np.setdiff1d(classes, problem.y[train])
        if lost.size:
            raise expected("test_size", "that leaves rows of every class", f"none of {show(lost[0])}")
    return splits


def judge(
    problem: Problem, methods: dict[str, Maker], splits: Splits, seed: int, n_jobs: int | None,
    reference: str | None = None, trials_file: str | PathLike[str] | None = None, verbose: bool | None = None,
    trials: dict[tuple[str, int], Trial] | None = None,
) -> Comparison:  # fmt: skip
    """Try every method on every split, and sum up; `trials` has those done before, and gets the others."""
    reference = reference or ("network_rule" if "network_rule" in methods else next(iter(methods)))
    if reference not in methods:
        raise expected(
            "reference", "to be one of `methods`", show(reference), suggest(str(reference), methods)
        )
    seeds = np.random.RandomState(seed).randint(2**31 - 1, size=len(splits)).tolist()
    trials = {} if trials is None else trials
    tasks = [
        Task(name, repeat, partial(make, seeds[repeat]), *split)
        for repeat, split in enumerate(splits)  # an interrupted run leaves whole n_repeats
        for name, make in methods.items()
        if (name, repeat) not in trials
    ]
    for trial in _run(tasks, problem, n_jobs, trials_file, verbose):
        trials[trial.method, trial.repeat] = trial
    by_method = {name: [trials[name, repeat] for repeat in range(len(splits))] for name in methods}
    share = len(splits[0][1]) / len(splits[0][0])
    rows = tuple(_row(found, by_method[reference], share) for found in by_method.values())
    if all(row.error is not None for row in rows):
        raise ValueError(f"All methods failed: {'; '.join(f'{row.method}: {row.error}' for row in rows)}")
    bounds = tuple(one.name for one in problem.constraints)
    return Comparison(problem.metric.name, problem.metric.higher_is_better, reference, bounds, rows)


def _run(
    tasks: list[Task], problem: Problem, n_jobs: int | None, trials_file: Any, verbose: bool | None
) -> Iterator[Trial]:
    """Do what is not yet in the trials_file; what is done is written at once."""
    store = None if trials_file is None else Results(Path(trials_file), problem.identity)
    known = store.read() if store else {}
    keys = {(task.method, task.repeat): task.key if store else "" for task in tasks}
    waiting = [task for task in tasks if keys[task.method, task.repeat] not in known]
    for method, repeat in keys.keys() - {(task.method, task.repeat) for task in waiting}:
        yield replace(known[keys[method, repeat]], repeat=repeat)
    together: dict[tuple[int, str], list[Task]] = {}
    for task in waiting:
        together.setdefault((task.repeat, task.training), []).append(task)
    if n_jobs in (None, 1):
        found = (run(tasks, problem, one_thread=False) for tasks in together.values())
    else:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        found = parallel(delayed(run)(tasks, problem, one_thread=True) for tasks in together.values())
    for trial in with_progress(chain.from_iterable(found), len(waiting), verbose):
        if store and trial.error is None:  # what failed is tried again next time
            store.append(keys[trial.method, trial.repeat], trial)
        yield trial


def _row(found: list[Trial], reference: list[Trial], share: float) -> Row:
    """Sum up a method; `share` is the rows of a test part over those of its training part."""
    method = found[0].method
    error = next((trial.error for trial in found if trial.error is not None), None)
    if error is not None:
        return Row(method, error=error)
    values = np.array([trial.value for trial in found])
    gaps = values - np.array([trial.value for trial in reference])
    other = method != reference[0].method and bool(np.isfinite(gaps).all())
    slacks = np.array([trial.slacks for trial in found])
    return Row(
        method,
        tuple(values.tolist()),
        float(values.mean()),
        float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None,
        float(gaps.mean()) if other else None,
        corrected_interval(gaps, share) if other and len(values) > 1 else None,
        float(np.mean([trial.fit_time for trial in found])),
        float(np.mean([trial.predict_time for trial in found])),
        float(slacks.mean(0).min()) if slacks.size else None,
        int((slacks >= 0).all(1).sum()) if slacks.size else None,
    )


def corrected_interval(gaps: NDArray[Any], share: float) -> tuple[float, float]:
    """The corrected resampled t interval of the mean of paired differences, with 95 %."""
    k = len(gaps)
    error = math.sqrt(float(gaps.var(ddof=1)) * (1 / k + share))
    half = float(student.ppf(0.975, k - 1)) * error
    return float(gaps.mean()) - half, float(gaps.mean()) + half


def _plus_minus(row: Row) -> str:
    return f"{row.mean:.3f}" + ("" if row.standard_error is None else f" +/- {row.standard_error:.3f}")
