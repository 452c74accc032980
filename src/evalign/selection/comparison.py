"""`compare`: methods on the same splits of the data, with the evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from evalign._errors import check_integer, expected, is_number, show, suggest
from evalign._typing import ConstraintsLike, MetricLike
from evalign.estimators import Split, draw_shuffled, draw_splits
from evalign.selection.methods import Builder, Methods, build_methods
from evalign.selection.problem import Problem
from evalign.selection.trials import Trial, TrialOptions, TrialTask, run_trials


@dataclass(frozen=True)
class Row:
    """A method in a comparison.

    Attributes:
        method: Its name.
        values: The metric on each test part.
        mean: Their mean.
        standard_error: The standard error of the mean over the splits.
        difference: The mean difference from the reference, on the same splits.
        interval: The 95 % interval of the difference; see `Comparison`.
        fit_time: The mean seconds to fit.
        predict_time: The mean seconds to predict a test part.
        slack: The mean slack of the worst constraint.
        n_satisfied: The number of splits in which all constraints are satisfied.
        error: Why the method failed, or None.
    """

    method: str
    values: tuple[float, ...] = ()
    mean: float | None = None
    standard_error: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    fit_time: float | None = None
    predict_time: float | None = None
    slack: float | None = None
    n_satisfied: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: one row per method, the differences from the reference, the best, and advice.

    The `interval` of a row contains the difference from the reference with 95 % confidence, corrected for
    training parts that overlap: its variance over k splits is s^2 (1/k + n_test/n_train), with k - 1 degrees
    of freedom.

    References:
        Nadeau and Bengio (2003), Inference for the generalization error.
    """

    metric: str
    higher_is_better: bool
    reference: str
    constraints: tuple[str, ...]
    rows: tuple[Row, ...]

    def row(self, method: str) -> Row:
        """Return the row of a method."""
        return next(row for row in self.rows if row.method == method)

    @property
    def best(self) -> str:
        """The method with the best mean, among those that satisfy the constraints on average, if any does."""

        def rank(row: Row) -> tuple[float, float]:
            assert row.mean is not None
            slack = math.inf if row.slack is None or row.slack >= 0 else row.slack
            return slack, row.mean if self.higher_is_better else -row.mean

        return max((row for row in self.rows if row.error is None), key=rank).method

    @property
    def advice(self) -> str:
        """What to do, in one sentence."""
        best, reference = self.row(self.best), self.row(self.reference)
        text = f"{best.method}: {self.metric} {_format_mean(best)}"
        constraints = " and ".join(self.constraints)
        if best.slack is not None and best.slack < 0:
            text += f"; no method satisfies {constraints} on average"
            return f"{text}, and this one violates it least, by {-best.slack:.3f}."
        if best.method == reference.method:
            return f"{text}; no other method has a better mean."
        if best.difference is None:
            return f"{text}, the best mean; {reference.method} failed, so they cannot be compared."
        text += f", {best.difference:+.3f}"
        if best.interval is None:
            return f"{text} over {reference.method}, from one split: use more to see whether that is chance."
        low, high = best.interval
        text += f" (95 % interval {low:.3f} to {high:.3f}) over {reference.method}"
        if reference.slack is not None and reference.slack < 0:
            return f"{text}, which violates {constraints}; use it."
        if low <= 0 <= high:
            return f"{text}; the interval contains 0, so {reference.method} may be as good."
        return f"{text}; use it."

    def to_frame(self) -> Any:
        """Return the rows as a pandas table."""
        import pandas as pd  # noqa: PLC0415

        table = pd.DataFrame([asdict(row) for row in self.rows]).set_index("method")
        ends = [row.interval or (math.nan, math.nan) for row in self.rows]
        table["low"], table["high"] = zip(*ends, strict=True)
        names = ["mean", "standard_error", "difference", "low", "high", "fit_time", "predict_time"]
        return table[[*names, "slack", "n_satisfied", "error"]]

    def to_markdown(self) -> str:
        """Return the rows as a table in Markdown."""
        head = ["method", self.metric, f"difference from {self.reference}", "95 % interval", "fit (s)"]
        head += [" and ".join(self.constraints)] * bool(self.constraints)
        lines = [head, ["---"] * len(head)]
        for row in self.rows:
            if row.error is not None:
                lines.append([row.method, f"failed: {row.error}", *[""] * (len(head) - 2)])
                continue
            gap = "" if row.difference is None else f"{row.difference:+.3f}"
            interval = "" if row.interval is None else "{:.3f} to {:.3f}".format(*row.interval)
            line = [row.method, _format_mean(row), gap, interval, f"{row.fit_time:.2f}"]
            satisfied = f"satisfied in {row.n_satisfied} of {len(row.values)}"
            lines.append(line + [satisfied] * bool(self.constraints))
        return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)

    __str__ = to_markdown

    def to_json(self) -> str:
        """Return the comparison as text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read a comparison that `to_json` wrote."""

        def with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
            return {name: tuple(part) if isinstance(part, list) else part for name, part in facts.items()}

        try:
            content = with_tuples(json.loads(text))
            return cls(**{**content, "rows": tuple(Row(**with_tuples(row)) for row in content["rows"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "It may be of another version of evalign: compare again."
            raise expected("text", "to be a comparison", f"{text[:40]!r} ({error})"[:200], hint) from None


def compare(
    X: Any,
    y: Any,
    metric: MetricLike = "f1",
    constraints: ConstraintsLike = (),
    *,
    methods: Methods = None,
    cv: Any = None,
    n_repeats: int = 5,
    test_size: float = 0.2,
    sample_weight: Any = None,
    groups: Any = None,
    reference: str | None = None,
    preprocessor: Any = None,
    trials_file: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: bool | None = None,
) -> Comparison:
    """Compare methods on the same splits of the data.

    Args:
        X: The features. Classifiers of your own get them as they are; named methods take
            numbers and DataFrames; anything else needs a `preprocessor`.
        y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `metrics.precision() >= 0.9`, or "precision >= 0.9".
        methods: Names of `evalign.selection.METHODS` (None: all), or a dictionary of classifiers by name.
        cv: A number of folds, a splitter of scikit-learn or pairs (train, test) of row numbers, in place of
            `n_repeats` and `test_size`.
        n_repeats: The number of splits, stratified (random with groups and multilabel targets).
        test_size: The fraction of rows, or of groups, in the test part of each split.
        sample_weight: Weights of the rows, both for fitting and for the metric on the test parts.
        groups: The group of each row; rows of one group are either all trained on or all tested.
        reference: The method all others are compared with; by default `"network_rule"`, a network with
            cross-entropy and a fitted decision rule, if it is among the methods, else the first.
        preprocessor: A transformer for the features, fitted anew on the rows each method is fitted on.
        trials_file: A file for finished trials; a killed run that is called again runs only what is missing.
            Requires an integer `random_state`.
        n_jobs: The number of trials run at a time, with one thread each; None runs one at a time and leaves
            the threads to the libraries, or does what `joblib.parallel_config` says (Dask, Ray).
        random_state: The seed of the splits and of the methods.
        verbose: Show progress on standard error, as a bar on a terminal and as a line per minute elsewhere;
            None shows the bar only.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> methods = {"guess": DummyClassifier(), "logistic": LogisticRegression()}
    >>> comparison = compare(X, y, "f1", methods=methods)
    >>> comparison.best, round(comparison.row("guess").mean, 3)
    ('logistic', 0.0)
    """
    return compare_problem(
        Problem.check(X, y, metric, constraints, preprocessor, sample_weight, groups), methods=methods,
        cv=cv, n_repeats=n_repeats, test_size=test_size, reference=reference, trials_file=trials_file,
        n_jobs=n_jobs, random_state=random_state, verbose=verbose,
    )  # fmt: skip


def compare_problem(
    problem: Problem,
    *,
    methods: Methods = None,
    cv: Any = None,
    n_repeats: int = 5,
    test_size: float = 0.2,
    reference: str | None = None,
    trials_file: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: bool | None = None,
) -> Comparison:
    """Compare methods on a problem that is already checked; see `compare`."""
    check_integer(n_repeats=n_repeats)
    seed = draw_seed(random_state, trials_file)
    if cv is None:
        splits = _draw_shuffled(problem, int(n_repeats), test_size, seed)
    else:
        splits = draw_splits(cv, problem.X, problem.y, problem.groups, seed)
    builders, options = build_methods(methods, problem), TrialOptions(n_jobs, trials_file, verbose)
    return compare_on_splits(problem, builders, splits, seed, options, reference)


def draw_seed(random_state: Any, file: str | PathLike[str] | None, argument: str = "trials_file") -> int:
    """Draw one seed from `random_state`, which must be an integer with a file to resume from."""
    if file is not None and not isinstance(random_state, int | np.integer):
        raise expected("random_state", f"to be an integer with `{argument}`", show(random_state))
    return int(check_random_state(random_state).randint(2**31 - 1))


def _draw_shuffled(problem: Problem, n_repeats: int, test_size: float, seed: int) -> list[Split]:
    """Draw splits by chance; if they are stratified, every class must be in the training parts."""
    if not is_number(test_size) or not 0 < test_size < 1:
        raise expected("test_size", "in (0, 1)", show(test_size))
    is_stratified = problem.groups is None and not problem.is_multilabel
    if is_stratified:
        _check_stratification(problem, test_size)
    splits = draw_shuffled(n_repeats, float(test_size), problem.y, problem.groups, seed)
    for train, _ in splits if is_stratified else ():
        absent = np.setdiff1d(problem.classes, problem.y[train])
        if absent.size:
            wanted = "that leaves rows of every class to train on"
            raise expected("test_size", wanted, f"none of {show(absent[0])}")
    return splits


def _check_stratification(problem: Problem, test_size: float) -> None:
    labels, counts = np.unique(problem.y, return_counts=True)
    if counts.min() < 2:
        rarest = show(labels[counts.argmin()])
        raise expected("y", "with at least two rows of every class", f"1 row of {rarest}")
    n_rows = len(problem.y)
    if min(math.ceil(test_size * n_rows), math.floor((1 - test_size) * n_rows)) < len(labels):
        wanted = f"with a row of each of {len(labels)} classes in both parts"
        raise expected("y", wanted, f"{n_rows} rows")


def compare_on_splits(
    problem: Problem,
    builders: dict[str, Builder],
    splits: Sequence[Split],
    seed: int,
    options: TrialOptions,
    reference: str | None = None,
    trials: dict[tuple[str, int], Trial] | None = None,
) -> Comparison:
    """Try every method on every split, and summarize; new trials are added to `trials`."""
    reference = reference or ("network_rule" if "network_rule" in builders else next(iter(builders)))
    if reference not in builders:
        hint = suggest(str(reference), builders)
        raise expected("reference", "to be one of `methods`", show(reference), hint)
    seeds = np.random.RandomState(seed).randint(2**31 - 1, size=len(splits)).tolist()
    trials = {} if trials is None else trials
    tasks = [
        TrialTask(name, repeat, partial(build, seeds[repeat]), *split)
        for repeat, split in enumerate(splits)  # an interrupted run leaves complete repeats
        for name, build in builders.items()
        if (name, repeat) not in trials
    ]
    for trial in run_trials(tasks, problem, options):
        trials[trial.method, trial.repeat] = trial
    by_method = {name: [trials[name, repeat] for repeat in range(len(splits))] for name in builders}
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    rows = tuple(summarize(own, by_method[reference], ratio) for own in by_method.values())
    if all(row.error is not None for row in rows):
        kind = TypeError if all(str(row.error).startswith("TypeError") for row in rows) else ValueError
        raise kind(f"All methods failed: {'; '.join(f'{row.method}: {row.error}' for row in rows)}")
    constraints = tuple(constraint.name for constraint in problem.constraints)
    return Comparison(problem.metric.name, problem.metric.higher_is_better, reference, constraints, rows)


def summarize(trials: list[Trial], reference: list[Trial], ratio: float) -> Row:
    """Summarize the trials of a method; `ratio` is the number of test rows over that of training rows."""
    method = trials[0].method
    error = next((trial.error for trial in trials if trial.error is not None), None)
    if error is not None:
        return Row(method, error=error)
    values = np.array([trial.value for trial in trials])
    gaps = values - np.array([trial.value for trial in reference])
    other = method != reference[0].method and bool(np.isfinite(gaps).all())
    slacks = np.array([trial.slacks for trial in trials])
    return Row(
        method,
        tuple(values.tolist()),
        float(values.mean()),
        float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None,
        float(gaps.mean()) if other else None,
        corrected_interval(gaps, ratio) if other and len(values) > 1 else None,
        float(np.mean([trial.fit_time for trial in trials])),
        float(np.mean([trial.predict_time for trial in trials])),
        float(slacks.mean(0).min()) if slacks.size else None,
        int((slacks >= 0).all(1).sum()) if slacks.size else None,
    )


def corrected_interval(gaps: NDArray[Any], ratio: float) -> tuple[float, float]:
    """Return the 95 % corrected resampled t interval of the mean of paired differences."""
    k = len(gaps)
    error = math.sqrt(float(gaps.var(ddof=1)) * (1 / k + ratio))
    half = float(student.ppf(0.975, k - 1)) * error
    return float(gaps.mean()) - half, float(gaps.mean()) + half


def _format_mean(row: Row) -> str:
    return f"{row.mean:.3f}" + ("" if row.standard_error is None else f" +/- {row.standard_error:.3f}")
