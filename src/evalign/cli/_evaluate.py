"""`evalign evaluate`: what a model does on rows whose class is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalign.cli._console import Console, blame_run, blame_usage, format_number
from evalign.cli._evidence import NamedClassifier, build_report
from evalign.cli._main import VIOLATED
from evalign.cli._paths import check_folder
from evalign.cli._task import check_column, describe_task, read_table, strip_path
from evalign.reports import DataFacts, ModelEvidence, as_plain, evidence, write_page
from evalign.tables import TableModel, as_labels, fingerprint

#: What --json prints of the evidence; the report contains the rest.
PRINTED = ("rows", "classes", "metric", "value", "metrics", "constraints", "matrix", "per_class")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """The options of `evalign evaluate`."""

    model: Path
    data: str
    target: str | None
    threshold: float | None
    out: Path | None
    verify: Path | None
    query: str | None


def run(console: Console, options: EvaluateOptions) -> int:
    """Evaluate, print, write a report if there is a folder for it, and return the exit status."""
    with blame_usage():
        if options.out is not None:
            check_folder(options.out)
        model = TableModel.load(options.model, options.verify)
        if options.threshold is not None:
            model = model.with_threshold(options.threshold)
        target = options.target or model.facts["target"]
        table, notes = read_table(options.data, options.query)
        check_column(target, table)
        y = as_labels(table[target], known=model.labels)
        X = model.prepare(table)
    if fingerprint(table) == model.facts.get("fingerprint"):
        notes += ("The model was trained on exactly these rows, which makes it look better than it is.",)
    console.warn(notes)
    decides = "" if options.threshold is None else f"decides by the threshold {options.threshold:g}"
    result = evidence(
        model.facts["method"], NamedClassifier(model.classifier, model.labels), X, y, model.metric,
        model.constraints, role="model", description=decides,
    )  # fmt: skip
    _print_evidence(console, result)
    page = None
    if options.out is not None:
        counts = {label: int((y == label).sum()) for label in model.labels}
        data = DataFacts(rows=len(y), class_counts=counts, warnings=notes)
        page = _write_report(options.out, options.data, target, model, data, result)
        console.print(f"Report: {page}")
    console.print_json(
        {name: as_plain(getattr(result, name)) for name in PRINTED}
        | {
            "calibration_error": None if result.calibration is None else result.calibration.before.error,
            "threshold": options.threshold,
            "report": None if page is None else str(page),
            "warnings": list(notes),
        }
    )
    return 0 if all(one.satisfied for one in result.constraints.values()) else VIOLATED


def _write_report(
    out: Path, file: str, target: str, model: TableModel, data: DataFacts, result: ModelEvidence
) -> Path:
    report = build_report(
        f"{target}: evaluated on {strip_path(file)}",
        f"{result.metric} {format_number(result.value)} on {result.rows:,} rows.",
        model.facts["seed"],
        task=describe_task(file, target, model.metric, model.constraints, model.labels),
        data=data,
        models=(result,),
    )
    with blame_run(path="out"):
        out.mkdir(parents=True, exist_ok=True)
        write_page(report, out / "report.html")
    return out / "report.html"


def _print_evidence(console: Console, result: ModelEvidence) -> None:
    rows = [
        [name, format_number(one.value), f"{format_number(one.low)} to {format_number(one.high)}"]
        for name, one in result.metrics.items()
    ]
    console.print_table(f"{result.rows:,} rows", ["metric", "value", "95 % interval"], rows)
    for name, one in result.constraints.items():
        status = "satisfied" if one.satisfied else "violated"
        console.print(f"{name}: {status}, {format_number(one.value)}")
    if len(result.classes) <= 20:
        matrix = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(result.classes, result.matrix, strict=True)
        ]
        console.print_table("Confusion matrix", ["true \\ predicted", *result.classes], matrix)
    if result.calibration is not None:
        error = format_number(result.calibration.before.error)
        console.print(f"Expected calibration error: {error}")
