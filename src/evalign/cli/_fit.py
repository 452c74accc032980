"""`evalign fit`: a classifier for a metric, selected, trained and saved with its report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalign._errors import suggest
from evalign.cli._compare import keep_trials, print_comparison, summarize
from evalign.cli._console import Console, blame_run, blame_usage, format_number
from evalign.cli._evidence import build_report, evaluate_methods
from evalign.cli._main import UsageError
from evalign.cli._task import TableTask, TaskOptions, parse_methods, read_task
from evalign.reports import ComparisonFacts, ModelEvidence, Report, render_card, render_page
from evalign.selection import METHODS, AutoClassifier, Comparison, build_methods
from evalign.tables import TableModel, check_target


@dataclass(frozen=True, kw_only=True)
class FitOptions(TaskOptions):
    """The options of `evalign fit`."""

    method: str
    folds: int
    out: Path


@dataclass(frozen=True)
class Choice:
    """A pipeline fitted on all rows, its method, and the comparison that selected it, if any did."""

    method: str
    pipeline: Any
    comparison: Comparison | None = None


def run(console: Console, options: FitOptions) -> None:
    """Select a method, train it, evaluate it and save the model."""
    names = _check_methods(options)
    with blame_usage():
        check_target(options.out)
        task = read_task(console, options)
        split = task.hold_out(options.seed)
    trials = _find_trials_file(task, options.out)
    with blame_run(), keep_trials(trials):
        choice = _train(console, task, names, trials, options)
        models = evaluate_methods(console, task, choice.method, "chosen", names, options.seed, split)
        comparison = choice.comparison
        report = build_report(
            f"{task.target}: a classifier for {task.problem.metric.name}", _answer(choice, models[0]),
            options.seed, task=task.task_facts, data=task.data_facts, models=models,
            comparison=None if comparison is None else ComparisonFacts.from_comparison(comparison),
        )  # fmt: skip
        _save(task, choice, report, options.out)
        trials.unlink(missing_ok=True)
    if comparison is not None:
        print_comparison(console, comparison)
    page = options.out / "report.html"
    console.print_json(
        {
            "model": str(options.out), "method": choice.method, "answer": report.answer,
            "value": models[0].value, **({} if comparison is None else summarize(comparison)),
            "report": str(page), "warnings": list(task.warnings),
        }
    )  # fmt: skip
    console.print(str(report.answer))
    console.print(f"Model: {options.out} (report: {page})")


def _check_methods(options: FitOptions) -> list[str]:
    """The names of the methods to select from."""
    method = options.method
    if method == "auto":
        return parse_methods(options.methods)
    if method not in METHODS:
        raise UsageError(
            f"Expected `method` to be auto or a known name, but got {method!r}. {suggest(method, METHODS)}"
        )
    if options.methods is not None:
        raise UsageError(f"Expected `methods` only with the method auto, but got it with {method}.")
    return [method]


def _find_trials_file(task: TableTask, out: Path) -> Path:
    """The file of finished trials, beside the model until it is complete."""
    target = Path(os.path.abspath(out))  # a name even for . and ..
    return target.with_name(f".{target.name}.{task.problem.identity[:12]}.jsonl")


def _train(console: Console, task: TableTask, names: list[str], trials: Path, options: FitOptions) -> Choice:
    """Select a method by cross-validation, unless one is given, and fit it on all rows."""
    problem = task.problem
    if options.method != "auto":
        console.remark(f"Training {options.method} on all rows ...")
        pipeline = build_methods(names, problem)[options.method](options.seed)
        return Choice(options.method, pipeline.fit(problem.X, problem.y))
    model = AutoClassifier(
        methods=names, cv=options.folds, n_repeats=options.repeats, trials_file=trials, n_jobs=options.jobs,
        random_state=options.seed, verbose=int(console.is_live),
    ).fit_problem(problem)  # fmt: skip
    return Choice(model.best_method_, model.best_estimator_, model.comparison_)


def _answer(choice: Choice, model: ModelEvidence) -> str:
    score = f"{model.metric} {format_number(model.value)} on {model.rows:,} held-out rows"
    if choice.comparison is None:
        return f"{choice.method}: {score}."
    best, own = (choice.comparison.row(name) for name in (choice.comparison.best, choice.method))
    if own.method == best.method:
        return f"{own.method} has the best mean in cross-validation, {format_number(own.mean)}; {score}."
    return (
        f"{own.method} was chosen: {format_number(own.mean)} in cross-validation, within one standard error "
        f"of {best.method} ({format_number(best.mean)}) and simpler; {score}."
    )


def _save(task: TableTask, choice: Choice, report: Report, out: Path) -> None:
    """Write the model folder with its report and its card."""
    facts = {
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
    classifier = choice.pipeline[-1]
    thresholds = getattr(getattr(classifier, "rule_", None), "thresholds", None)
    model = TableModel(task.schema, choice.pipeline[0], classifier, task.labels, facts)
    extra = {
        "report.html": render_page(report),
        "report.json": report.to_json(),
        "README.md": render_card(report, None if thresholds is None else float(thresholds[0])),
    }
    model.save(out, extra)
