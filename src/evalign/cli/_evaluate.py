"""`evalign evaluate`: what a model does on rows whose class is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evalign._errors import expected
from evalign.cli._console import Console, number, running, usage
from evalign.cli._evidence import Named, origin
from evalign.cli._folder import check_folder
from evalign.cli._task import check_column, file_name, quietly_read
from evalign.decisions import DecisionRule
from evalign.reports import evidence, write
from evalign.tables import TableModel, as_labels, fingerprint

#: What is printed for machines; the report holds the rest.
KEPT = ("rows", "classes", "metric", "value", "metrics", "constraints", "matrix", "per_class")


def run(
    console: Console, model: Path, data: str, target: str | None, threshold: float | None, out: Path | None
) -> None:
    """Judge, print, and write a report if a folder was given."""
    with usage():
        if out is not None:
            check_folder(out)
        found = TableModel.load(model)
        classifier = found.classifier if threshold is None else _decided(found, threshold)
        column = target or found.facts["target"]
        table, said = quietly_read(data)
        check_column(column, table)
        y = as_labels(table[column], known=found.labels)
        X = found.prepared(table)
    if fingerprint(table) == found.facts.get("fingerprint"):
        said = (*said, "The model was trained on these very rows, which flatters it.")
    for remark in said:
        console.remark(f"Note: {remark}")
    decided = "" if threshold is None else f"decided by the threshold {threshold:g}"
    facts = evidence(
        found.facts["method"], Named(classifier, found.labels), X, y, found.metric, found.constraints,
        role="model", description=decided,
    )  # fmt: skip
    _show(console, facts)
    report = None
    if out is not None:
        report = out / "report.html"
        answer = f"{facts['metric']} {number(facts['value'])} on {len(y):,} rows."
        title = f"{column}: judged on {file_name(data)}"
        told = {**origin(title, answer, found.facts["seed"]), **_asked(found, data, column, y, said)}
        with running(path="out"):
            out.mkdir(parents=True, exist_ok=True)
            write({**told, "models": [facts]}, report)
        console.say(f"Report: {report}")
    calibration = facts["calibration"]
    kept = {name: facts[name] for name in KEPT} | {
        "calibration_error": calibration["before"]["error"] if calibration else None,
        "threshold": threshold,
        "report": None if report is None else str(report),
        "warnings": list(said),
    }
    console.result(kept)


class _Decided:
    """A classifier of two classes with a rule of the user's own."""

    def __init__(self, classifier: Any, rule: DecisionRule) -> None:
        self.classifier, self.rule_ = classifier, rule

    def predict(self, X: Any) -> Any:
        return self.rule_.predict(self.predict_proba(X))

    def predict_proba(self, X: Any) -> Any:
        return self.classifier.predict_proba(X)


def _decided(model: TableModel, threshold: float) -> _Decided:
    if len(model.labels) != 2:
        raise expected("threshold", "only with two classes", f"a model of {len(model.labels)}")
    if not 0 <= threshold <= 1:
        raise expected("threshold", "in [0, 1]", threshold)
    weights = np.diag([threshold, 1 - threshold])
    rule = DecisionRule(np.array([0, 1]), weights, np.array([threshold]), model.metric.name, 0.0)
    return _Decided(model.classifier, rule)


def _asked(model: TableModel, data: str, column: str, y: Any, said: tuple[str, ...]) -> dict[str, Any]:
    counts = {label: int((y == label).sum()) for label in model.labels}
    return {
        "task": {
            "file": file_name(data), "target": column, "metric": model.metric.name,
            "higher_is_better": model.metric.higher_is_better,
            "constraints": [one.name for one in model.constraints], "classes": list(model.labels),
            "positive": model.labels[1] if len(model.labels) == 2 else None,
        },
        "data": {"rows": len(y), "columns": [], "class_counts": counts, "warnings": list(said)},
    }  # fmt: skip


def _show(console: Console, facts: dict[str, Any]) -> None:
    rows = [
        [name, number(one["value"]), f"{number(one['low'])} to {number(one['high'])}"]
        for name, one in facts["metrics"].items()
    ]
    console.table(f"{facts['rows']:,} rows", ["metric", "value", "95 % interval"], rows)
    for name, one in facts["constraints"].items():
        console.say(f"{name}: {'kept' if one['satisfied'] else 'not kept'}, {number(one['value'])}")
    if len(facts["classes"]) <= 20:
        head = ["true \\ predicted", *facts["classes"]]
        matrix = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(facts["classes"], facts["matrix"], strict=True)
        ]
        console.table("Confusion matrix", head, matrix)
    if facts["calibration"]:
        console.say(f"Expected calibration error: {number(facts['calibration']['before']['error'])}")
