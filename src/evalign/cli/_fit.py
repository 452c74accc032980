"""`evalign fit`: a classifier for a metric, mixed, trained and saved with its report."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from evalign._errors import expected, suggest
from evalign._typing import Indices
from evalign.cli._compare import keep_trials, print_comparison, summarize
from evalign.cli._console import Console, blame_run, blame_usage, format_number
from evalign.cli._evidence import (
    build_report,
    collect_evidence,
    describe_answer,
    describe_members,
    describe_violations,
    evaluate_methods,
    measure_more,
)
from evalign.cli._main import VIOLATED, UsageError
from evalign.cli._task import TableTask, TaskOptions, parse_methods, read_task
from evalign.decisions import DecisionRule
from evalign.estimators import Split
from evalign.reports import (
    ComparisonFacts,
    ModelEvidence,
    Report,
    as_plain,
    describe_benefit,
    render_card,
    render_page,
)
from evalign.selection import (
    KNOWN,
    METHODS,
    AutoClassifier,
    Clock,
    Comparison,
    as_seconds,
    build_methods,
    list_members,
)
from evalign.tables import Profile, TableModel, check_target, explain_errors, read_private_key

#: The share of the time limit that is kept for the report; without one, of the time that was spent.
REPORT_SHARE = 0.12
#: With fewer seconds than this, members are fitted in this process: to start others takes seconds.
SHORT_LIMIT = 20.0


@dataclass(frozen=True, kw_only=True)
class FitOptions(TaskOptions):
    """The options of `evalign fit`; `begun` is when the command was, by `perf_counter`."""

    method: str
    folds: int
    time_limit: str | None
    begun: float
    out: Path
    sign: Path | None


@dataclass(frozen=True)
class Choice:
    """A fitted preparation and classifier, and what they are called."""

    method: str
    preparation: Any
    classifier: Any

    @property
    def auto(self) -> AutoClassifier | None:
        """The classifier if it is an ensemble, which has its evidence with it."""
        return self.classifier if isinstance(self.classifier, AutoClassifier) else None

    @property
    def comparison(self) -> Comparison | None:
        """The comparison of the members of an ensemble."""
        return None if self.auto is None else self.auto.comparison_


def run(console: Console, options: FitOptions) -> int:
    """Select a method, train it, evaluate it, save the model, and return the exit status."""
    names = _check_methods(options)
    with blame_usage():
        check_target(options.out)
        key = None if options.sign is None else read_private_key(options.sign)
        task = read_task(console, options)
        split = task.hold_out(options.seed)
        if options.method != "auto" and task.problem.groups is not None:
            _check_groups(task.problem.groups, split)
    trials = _find_trials_file(task, options.out)
    with blame_run(), keep_trials(trials):
        clock = Clock(as_seconds(options.time_limit), options.begun)
        choice = _train(console, task, names, trials, options, clock)
        if choice.auto is None:
            found = evaluate_methods(console, task, choice.method, "chosen", names, options.seed, split)
        else:
            found = collect_evidence(task, choice.auto, choice.preparation)
            console.warn(f"{name} was left out: {why}." for name, why in choice.auto.left_out_.items())
        seconds = _allot(clock.spent, clock.limit)
        comparison, models = choice.comparison, found.models
        first, *others = describe_benefit(found.benefit)
        report = build_report(
            f"{task.target}: a classifier for {task.problem.metric.name}",
            " ".join([first, *describe_violations(models[0])]), options.seed,
            remarks=(*others, _summarize(choice, models[0])), benefit=found.benefit,
            task=task.task_facts, data=task.data_facts, models=models,
            comparison=None if comparison is None else ComparisonFacts.from_comparison(comparison),
            members=() if choice.auto is None else describe_members(choice.auto),
            **measure_more(console, task, found, split, options.seed, seconds),
        )  # fmt: skip
        _save(task, choice, found.rule, report, options.out, key)
        shutil.rmtree(trials, ignore_errors=True)
    if comparison is not None:
        print_comparison(console, comparison)
    page = options.out / "report.html"
    console.print_json(
        {
            "model": str(options.out), "method": choice.method, "answer": report.answer,
            "remarks": list(report.remarks), "value": models[0].value,
            "constraints": as_plain(models[0].constraints),
            **({} if comparison is None else summarize(comparison)),
            "report": str(page), "warnings": list(task.warnings),
        }
    )  # fmt: skip
    for text in (str(report.answer), *report.remarks):
        console.print(text)
    console.print(f"Model: {options.out} (report: {page})")
    return VIOLATED if describe_violations(models[0]) else 0


def _allot(spent: float, limit: float | None) -> float:
    """The seconds that the parts of the report for data scientists may take.

    >>> _allot(100.0, None), _allot(2.0, None), _allot(38.0, 40.0), _allot(45.0, 40.0)
    (12.0, 3.0, 2.0, 0.5)
    """
    seconds = min(max(REPORT_SHARE * spent, 3.0), 60.0)
    return seconds if limit is None else max(min(seconds, limit - spent), 0.5)


def _check_methods(options: FitOptions) -> list[str]:
    """The names of the methods to select from."""
    method = options.method
    with blame_usage():
        as_seconds(options.time_limit)
    if method == "auto":
        return parse_methods(options.methods, KNOWN if options.methods is not None else list_members())
    if method not in METHODS:
        raise UsageError(
            f"Expected `method` to be auto or a known name, but got {method!r}. {suggest(method, METHODS)}"
        )
    if options.time_limit is not None:
        raise UsageError(f"Expected `time_limit` only with the method auto, but got it with {method}.")
    if options.methods is not None:
        raise UsageError(f"Expected `methods` only with the method auto, but got it with {method}.")
    return [method]


def _check_groups(groups: Indices, split: Split) -> None:
    """Refuse groups of which none is left to validate by, once others are held out for the report."""
    if len(np.unique(groups[split[0]])) < 2:
        wanted = "with at least three values for one method: to train on, to validate by and to judge by"
        raise expected("group", wanted, len(np.unique(groups)))


def _find_trials_file(task: TableTask, out: Path) -> Path:
    """The folder of finished models, beside the model until it is complete."""
    target = Path(os.path.abspath(out))  # a name even for . and ..
    return target.with_name(f".{target.name}.{task.problem.identity[:12]}.folds")


def _train(
    console: Console, task: TableTask, names: list[str], trials: Path, options: FitOptions, clock: Clock
) -> Choice:
    """Fit an ensemble, or the method that is given, on all rows."""
    problem = task.problem
    if options.method != "auto":
        console.remark(f"Training {options.method} on all rows ...")
        pipeline = build_methods(names, problem)[options.method](options.seed)
        preparation, *means, classifier = problem.fit(pipeline)
        for one in means:
            preparation.attach(one)
        return Choice(options.method, preparation, classifier)
    # It does not look at the classes, so that held-out rows stay held out.
    preparation = clone(problem.preprocessor).fit(problem.X)
    X = preparation.transform(problem.X)
    limit = None if clock.limit is None else max(clock.left - REPORT_SHARE * clock.limit, 1.0)
    jobs = 1 if clock.limit is not None and clock.limit < SHORT_LIMIT else options.jobs
    model = AutoClassifier(
        problem.metric, problem.constraints, methods=names,
        cv=task.draw_windows(options.folds) or options.folds,
        time_limit=limit, checkpoint=trials, n_jobs=jobs, random_state=options.seed,
        verbose=int(not console.quiet),
    )  # fmt: skip
    model.fit_problem(replace(problem, X=X, preprocessor=None))
    return Choice(describe_answer(model), preparation, model)


def _summarize(choice: Choice, model: ModelEvidence) -> str:
    """What was chosen, and how good it is by the metric."""
    score = f"{model.metric} {format_number(model.value)} on {model.rows:,} held-out rows"
    if choice.auto is None:
        return f"{choice.method}: {score}."
    comparison = choice.auto.comparison_
    row = comparison.row(choice.auto.answer_)
    if len(comparison.rows) == 1:
        return f"{choice.method} is all that was tried: {score}."
    if choice.method == comparison.reference:
        return f"{choice.method} is not improved by mixing: {score}."
    gap = row.difference or 0.0
    gain = f"{abs(gap):.3f} {'above' if gap >= 0 else 'below'} {comparison.reference}"
    mean = format_number(row.mean)
    return f"{choice.method}: {mean} in cross-validation, {gain}, the best member; {score}."


def _save(
    task: TableTask, choice: Choice, rule: DecisionRule | None, report: Report, out: Path, key: Any
) -> None:
    """Write the model folder with its report and its card."""
    facts: dict[str, Any] = {
        "metric": task.problem.metric.name,
        "constraints": [one.name for one in task.problem.constraints],
        "method": choice.method,
        "target": task.target,
        "rows": len(task.problem.y),
        "fingerprint": task.fingerprint,
        "seed": report.seed,
        "created": report.created,
        "versions": report.versions,
        "scores": {name: one.value for name, one in report.models[0].metrics.items()},
    }
    facts["profile"] = _profile(task, report.models[0]).to_json()
    if rule is not None and choice.auto is None:
        # The rule that is saved is the one that was evaluated: the report shows what the model does.
        choice.classifier.rule_ = rule
    thresholds = None if rule is None else rule.thresholds
    model = TableModel(task.schema, choice.preparation, choice.classifier, task.labels, facts)
    extra = {
        "report.html": render_page(report),
        "report.json": report.to_json(),
        "README.md": render_card(report, None if thresholds is None else float(thresholds[0])),
    }
    with blame_run(target="out"), explain_errors(str(out)):
        model.save(out, extra, key)


def _profile(task: TableTask, model: ModelEvidence) -> Profile:
    """What the rows look like, and how often each class is predicted for held-out rows."""
    predicted = zip(model.classes, map(sum, zip(*model.matrix, strict=True)), strict=True)
    shares = {name: count / model.rows for name, count in predicted}
    return Profile.measure(task.schema, task.problem.X, shares)
