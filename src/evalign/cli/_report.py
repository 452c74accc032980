"""`evalign report`: the report of a model, written again from its facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalign._errors import expected
from evalign._files import MAX_JSON, read_file
from evalign.cli._console import Console, blame_run, blame_usage
from evalign.cli._paths import check_file
from evalign.reports import Format, Report, write_report
from evalign.tables import TableModel


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `evalign report`."""

    model: Path
    out: Path | None
    form: Format


def run(console: Console, options: ReportOptions) -> None:
    """Read the facts of a model, and write the report."""
    path = options.out or options.model / f"report.{options.form}"
    with blame_usage():
        if path == options.model / "report.json":
            raise expected("out", "to be another file than report.json in the folder", str(path))
        TableModel.load(options.model)
        with blame_usage(report="report.json"):
            report = _read_report(options.model)
        check_file(path)
    with blame_run():
        write_report(report, path, options.form)
    console.print_json({"report": str(path)})
    console.print(f"Report: {path}")


def _read_report(model: Path) -> Report:
    try:
        text = read_file(model / "report.json", MAX_JSON).decode()
    except FileNotFoundError:
        raise expected("model", "with report.json", f"{model} without", "Fit the model again.") from None
    except ValueError as error:
        raise expected("model", "with a readable report.json", f"{model} ({error})") from None
    return Report.from_json(text)
