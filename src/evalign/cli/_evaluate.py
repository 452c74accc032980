"""`evalign evaluate`: what a model does on rows whose class is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalign.cli._console import Console, blame_run, blame_usage, format_number
from evalign.cli._evidence import NamedClassifier, build_report
from evalign.cli._main import VIOLATED
from evalign.cli._paths import check_folder
from evalign.cli._splits import find_by
from evalign.cli._task import check_column, describe_task, read_table, strip_path
from evalign.reports import (
    DataFacts,
    Format,
    GroupsFacts,
    ModelEvidence,
    Report,
    as_plain,
    describe_benefit,
    evidence,
    measure_benefit,
    measure_groups,
    write_report,
)
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
    form: Format
    by: str | None
    verify: Path | None
    query: str | None


def run(console: Console, options: EvaluateOptions) -> int:
    """Evaluate, print, write a report if there is a folder for it, and return the exit status."""
    with blame_usage(table="data"):
        if options.out is not None:
            check_folder(options.out)
        model = TableModel.load(options.model, options.verify)
        if options.threshold is not None:
            model = model.with_threshold(options.threshold)
        target = options.target or model.facts["target"]
        table, notes = read_table(options.data, options.query)
        check_column(target, table)
        by = find_by(table, options.by, None, target)
        y = as_labels(table[target], known=model.labels)
        X = model.prepare(table)
    if fingerprint(table) == model.facts.get("fingerprint"):
        notes += ("The model was trained on exactly these rows, which makes it look better than it is.",)
    console.warn(notes)
    decides = "" if options.threshold is None else f"decides by the threshold {options.threshold:g}"
    classifier = NamedClassifier(model.classifier, model.labels)
    result = evidence(
        model.facts["method"], classifier, X, y, model.metric, model.constraints, role="model",
        description=decides,
    )  # fmt: skip
    groups = None
    if by is not None:
        groups = measure_groups(by[0], by[1], classifier, X, y, model.metric, positive=result.positive)
    _print_evidence(console, result, groups)
    page = None
    if options.out is not None:
        benefit = measure_benefit("the model", classifier, [], X, y, model.metric, positive=result.positive)
        counts = {label: int((y == label).sum()) for label in model.labels}
        first, *others = describe_benefit(benefit)
        report = build_report(
            f"{target}: evaluated on {strip_path(options.data)}", first, model.facts["seed"],
            remarks=(*others, f"{result.metric} {format_number(result.value)} on {result.rows:,} rows."),
            task=describe_task(options.data, target, model.metric, model.constraints, model.labels),
            data=DataFacts(rows=len(y), class_counts=counts, warnings=notes), benefit=benefit,
            models=(result,), groups=groups,
        )  # fmt: skip
        page = _write_report(options, report)
        console.print(f"Report: {page}")
    console.print_json(
        {name: as_plain(getattr(result, name)) for name in PRINTED}
        | {
            "calibration_error": None if result.calibration is None else result.calibration.before.error,
            "threshold": options.threshold,
            "groups": None if groups is None else as_plain(groups),
            "report": None if page is None else str(page),
            "warnings": list(notes),
        }
    )
    return 0 if all(one.satisfied for one in result.constraints.values()) else VIOLATED


def _write_report(options: EvaluateOptions, report: Report) -> Path:
    """Write the report into its folder, and return its path."""
    assert options.out is not None
    path = options.out / f"report.{options.form}"
    with blame_run(path="out"):
        options.out.mkdir(parents=True, exist_ok=True)
        write_report(report, path, options.form)
    return path


def _print_evidence(console: Console, result: ModelEvidence, groups: GroupsFacts | None) -> None:
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
    if groups is not None:
        found = [
            [
                one.name, f"{one.rows:,}", f"{one.cases:,}", format_number(one.found),
                format_number(one.metric.value),
                f"{format_number(one.metric.low)} to {format_number(one.metric.high)}",
            ]
            for one in groups.groups
        ]  # fmt: skip
        head = [groups.column, "rows", groups.class_, "found", groups.metric, "95 % interval"]
        console.print_table(f"By {groups.column}", head, found)
    if result.calibration is not None:
        error = format_number(result.calibration.before.error)
        console.print(f"Expected calibration error: {error}")
