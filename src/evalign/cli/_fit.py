"""`evalign fit`: a classifier for a metric, chosen, trained and saved with its report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalign._errors import suggest
from evalign.cli._card import card
from evalign.cli._compare import finished_trials, show, summary
from evalign.cli._console import Console, number, running, usage
from evalign.cli._evidence import on_rows_set_aside, origin, set_aside
from evalign.cli._main import UsageError
from evalign.cli._task import Task, methods_of, task_of
from evalign.reports import comparison_facts, page
from evalign.selection import METHODS, AutoClassifier, Comparison, build_methods
from evalign.tables import TableModel, check_target


def run(
    console: Console, data: str, target: str, out: Path, metric: str, positive: str | None,
    constraints: Sequence[str], method: str, methods: str | None, folds: int, repeats: int, jobs: int,
    seed: int,
) -> None:  # fmt: skip
    """Choose, train, save."""
    if method != "auto" and method not in METHODS:
        raise UsageError(
            f"Expected `method` to be auto or a known name, but got {method!r}. {suggest(method, METHODS)}"
        )
    if method != "auto" and methods is not None:
        raise UsageError(f"Expected `methods` only with the method auto, but got it with {method}.")
    names = methods_of(methods) if method == "auto" else [method]
    with usage():
        check_target(out)
        task = task_of(console, data, target, metric, positive, constraints)
        split = set_aside(task, seed)
    with running(), finished_trials(_trials_of(task, out)) as trials:
        comparison = None
        if method == "auto":
            pipeline, comparison, method = _chosen(console, task, names, folds, repeats, jobs, seed, trials)
        else:
            pipeline = _trained(console, task, method, seed)
        models = on_rows_set_aside(console, task, method, "chosen", names, seed, split)
        answer = _answer(method, comparison, models[0])
        facts = {
            **origin(f"{target}: a classifier for {task.metric.name}", answer, seed),
            **task.facts(),
            "comparison": None if comparison is None else comparison_facts(comparison),
            "models": models,
        }
        model = TableModel(
            task.schema, pipeline[0], pipeline[-1], task.labels, _told(task, facts, method, models)
        )
        report = {"report.html": page(facts), "report.json": json.dumps(facts)}
        model.save(out, {**report, "README.md": card(model, facts)})
        trials.unlink(missing_ok=True)
    if comparison is not None:
        show(console, comparison)
    found = {"model": str(out), "method": method, "answer": answer, "value": models[0]["value"]}
    more = {} if comparison is None else summary(comparison)
    console.result({**found, **more, "report": str(out / "report.html"), "warnings": list(task.warnings)})
    console.say(answer)
    console.say(f"Model: {out} (report: {out / 'report.html'})")


def _trials_of(task: Task, out: Path) -> Path:
    """Finished trials stand beside the model until it is whole."""
    there = Path(os.path.abspath(out))  # a name even for . and ..
    return there.with_name(f".{there.name}.{task.problem.identity[:12]}.jsonl")


def _chosen(
    console: Console, task: Task, names: list[str], folds: int, repeats: int, jobs: int, seed: int,
    trials: Path,
) -> tuple[Any, Comparison, str]:  # fmt: skip
    """The pipeline that cross-validation chose, fitted on all rows, with the evidence."""
    model = AutoClassifier(
        methods=names, cv=folds, n_repeats=repeats, trials_file=trials, n_jobs=jobs, random_state=seed,
        verbose=int(console.live),
    ).fit_problem(task.problem)  # fmt: skip
    return model.best_estimator_, model.comparison_, model.best_method_


def _trained(console: Console, task: Task, method: str, seed: int) -> Any:
    """The pipeline of one method, fitted on all rows."""
    console.remark(f"Training {method} on all rows ...")
    return build_methods([method], task.problem)[method](seed).fit(task.X, task.y)


def _answer(method: str, comparison: Comparison | None, found: dict[str, Any]) -> str:
    own = f"{found['metric']} {number(found['value'])} on {found['rows']:,} rows set aside"
    if comparison is None:
        return f"{method}: {own}."
    best, chosen = comparison.row(comparison.best), comparison.row(method)
    if method == best.method:
        return f"{method} has the best mean in cross-validation, {number(chosen.mean)}; {own}."
    return (
        f"{method} was chosen: {number(chosen.mean)} in cross-validation, within one standard error of "
        f"{best.method} ({number(best.mean)}) and simpler; {own}."
    )


def _told(task: Task, facts: dict[str, Any], method: str, models: list[dict[str, Any]]) -> dict[str, Any]:
    """What model.json tells beside the columns."""
    return {
        "metric": task.metric.name,
        "constraints": [one.name for one in task.constraints],
        "method": method,
        "target": task.target,
        "rows": len(task.y),
        "fingerprint": task.fingerprint,
        "seed": facts["seed"],
        "created": facts["created"],
        "versions": facts["versions"],
        "scores": {name: one["value"] for name, one in models[0]["metrics"].items()},
    }
