"""`evalign fit`: a classifier for a metric, chosen, trained and saved with its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalign import AlignedClassifier
from evalign._errors import near
from evalign.cli._card import card
from evalign.cli._compare import identity, show, summary
from evalign.cli._console import Console, usage
from evalign.cli._evidence import on_rows_set_aside, origin
from evalign.cli._main import UsageError
from evalign.cli._task import Task, methods_of, task_of
from evalign.estimators import METHODS
from evalign.estimators._comparison import Comparison
from evalign.estimators._methods import makers
from evalign.estimators._trials import Problem
from evalign.reports import comparison_facts, page
from evalign.tables import TableModel
from evalign.tables._model import check_target


def run(
    console: Console, data: str, target: str, out: Path, metric: str, positive: str | None,
    constraints: Sequence[str], method: str, methods: str | None, folds: int, jobs: int, seed: int,
) -> None:  # fmt: skip
    """Choose, train, save."""
    if method != "auto" and method not in METHODS:
        raise UsageError(
            f"Expected `method` to be auto or a known name, but got {method!r}. {near(method, METHODS)}"
        )
    names = methods_of(methods) if method == "auto" else [method]
    with usage():
        check_target(out)
        task = task_of(console, data, target, metric, positive, constraints)
    pipeline, comparison, method = _trained(console, task, method, names, folds, jobs, seed, out)
    models = on_rows_set_aside(console, task, method, "chosen", names, seed)
    answer = _answer(method, comparison, models[0])
    facts = {
        **origin(f"{target}: a classifier for {task.metric.name}", answer, seed),
        **task.facts(),
        "comparison": None if comparison is None else comparison_facts(comparison),
        "models": models,
    }
    told = _facts(task, facts, method, models)
    model = TableModel(task.schema, pipeline[0], pipeline[-1], task.labels, told)
    texts = {"report.html": page(facts), "report.json": json.dumps(facts), "README.md": card(model, facts)}
    model.save(out, texts)
    _trials_of(task, out).unlink(missing_ok=True)
    if comparison is not None:
        show(console, comparison)
    found = {"model": str(out), "method": method, "answer": answer, "value": models[0]["value"]}
    more = {} if comparison is None else summary(comparison)
    console.result({**found, **more, "warnings": list(task.warnings)})
    console.say(answer)
    console.say(f"Model: {out} (report: {out / 'report.html'})")


def _trained(
    console: Console, task: Task, method: str, names: list[str], folds: int, jobs: int, seed: int, out: Path
) -> tuple[Any, Comparison | None, str]:
    """The pipeline fitted on all rows, the comparison if one was made, and the method."""
    if method != "auto":
        problem = Problem.checked(task.X, task.y, task.metric, task.constraints, task.preparation())
        console.remark(f"Training {method} ...")
        return makers([method], problem)[method](seed).fit(task.X, task.y), None, method
    model = AlignedClassifier(
        task.metric, task.constraints, methods=names, cv=folds, n_jobs=jobs, random_state=seed,
        verbose=int(console.live), prepare=task.preparation(), results=_trials_of(task, out),
    ).fit(task.X, task.y)  # fmt: skip
    return model.best_estimator_, model.comparison_, model.best_method_


def _trials_of(task: Task, out: Path) -> Path:
    """Finished trials stand beside the model until it is whole, so that a stopped run goes on."""
    return out.with_name(f".{out.name}.{identity(task)}.jsonl")


def _answer(method: str, comparison: Comparison | None, found: dict[str, Any]) -> str:
    own = f"{found['metric']} {found['value']:.3f} on {found['rows']} rows set aside"
    if comparison is None:
        return f"{method}: {own}."
    best, chosen = comparison.row(comparison.best), comparison.row(method)
    assert best.mean is not None
    assert chosen.mean is not None
    if method == best.method:
        return f"{method} has the best mean in cross-validation, {chosen.mean:.3f}; {own}."
    return (
        f"{method} was chosen: {chosen.mean:.3f} in cross-validation, within one standard error of "
        f"{best.method} ({best.mean:.3f}) and simpler; {own}."
    )


def _facts(task: Task, facts: dict[str, Any], method: str, models: list[dict[str, Any]]) -> dict[str, Any]:
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
