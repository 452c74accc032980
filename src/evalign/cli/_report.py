"""`evalign report`: the page of a model, rendered again from its facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalign._errors import expected
from evalign._files import MAX_JSON, read_file
from evalign.cli._console import Console, blame_run, blame_usage
from evalign.cli._paths import check_file
from evalign.reports import Report, write_page
from evalign.tables import TableModel


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `evalign report`."""

    model: Path
    out: Path | None


def run(console: Console, options: ReportOptions) -> None:
    """Read the facts of a model, and write the page."""
    path = options.out or options.model / "report.html"
    with blame_usage():
        TableModel.load(options.model)
        with blame_usage(report="report.json"):
            report = _read_report(options.model)
        check_file(path)
    with blame_run():
        write_page(report, path)
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
