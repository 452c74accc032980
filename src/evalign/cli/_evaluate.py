"""`evalign evaluate`: what a model does on rows whose class is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evalign._errors import expected
from evalign.cli._compare import folder
from evalign.cli._console import Console, usage
from evalign.cli._evidence import Named, origin
from evalign.cli._task import check_column, quietly_read
from evalign.decisions import DecisionRule
from evalign.reports import evidence, write
from evalign.tables import TableModel, labels

#: What is printed for machines; the report holds the rest.
KEPT = ("rows", "classes", "metric", "value", "metrics", "constraints", "matrix", "per_class")


def run(
    console: Console, model: Path, data: str, target: str | None, threshold: float | None, out: Path | None
) -> None:
    """Judge, print, and write a report if a folder was given."""
    with usage():
        found = TableModel.load(model)
        column = target or found.facts["target"]
        if data != "-" and not Path(data).exists():
            raise ValueError(f"There is no file {data}.")
        table, said = quietly_read(data)
        check_column(column, table)
        y = labels(table[column])
        strange = sorted(set(y.tolist()) - set(found.labels))
        if strange:
            raise expected("target", f"with the classes {', '.join(found.labels)}", strange[0])
        X = found.prepared(table)
        classifier = found.classifier if threshold is None else _decided(found, threshold)
        made = None if out is None else folder(out)
    named = Named(classifier, found.labels)
    facts = evidence(
        found.facts["method"], named, X, y, found.metric, found.constraints, role="model",
        description=f"decided by the threshold {threshold}" if threshold is not None else "",
    )  # fmt: skip
    for remark in said:
        console.remark(f"Note: {remark}")
    _show(console, facts)
    report = None
    if made is not None:
        answer = f"{facts['metric']} {facts['value']:.3f} on {len(y):,} rows."
        report = made / "report.html"
        write({**origin(f"{column}: judged on {Path(data).name}", answer, found.facts["seed"]),
               **_task_facts(found, data, column, y), "models": [facts]}, report)  # fmt: skip
        console.say(f"Report: {report}")
    kept = {name: facts[name] for name in KEPT}
    calibration = facts["calibration"] or {}
    kept["calibration_error"] = (calibration.get("before") or {}).get("error")
    kept["threshold"] = threshold
    console.result({**kept, "report": None if report is None else str(report)})


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


def _task_facts(model: TableModel, data: str, column: str, y: Any) -> dict[str, Any]:
    counts = {label: int((y == label).sum()) for label in model.labels}
    return {
        "task": {
            "file": Path(data).name, "target": column, "metric": model.metric.name,
            "higher_is_better": model.metric.higher_is_better,
            "constraints": [one.name for one in model.constraints], "classes": list(model.labels),
            "positive": model.labels[1] if len(model.labels) == 2 else None,
        },
        "data": {"rows": len(y), "columns": [], "class_counts": counts, "warnings": []},
    }  # fmt: skip


def _show(console: Console, facts: dict[str, Any]) -> None:
    rows = [
        [name, f"{one['value']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}"]
        for name, one in facts["metrics"].items()
    ]
    console.table(f"{facts['rows']:,} rows", ["metric", "value", "95 % interval"], rows)
    for name, one in facts["constraints"].items():
        console.say(f"{name}: {'kept' if one['satisfied'] else 'not kept'}, {one['value']:.3f}")
    if len(facts["classes"]) <= 20:
        head = ["true \\ predicted", *facts["classes"]]
        matrix = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(facts["classes"], facts["matrix"], strict=True)
        ]
        console.table("Confusion matrix", head, matrix)
    if facts["calibration"]:
        console.say(f"Expected calibration error: {facts['calibration']['before']['error']:.3f}")
