"""A table as Markdown and CSV: our numbers beside the paper's, and how they were computed."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import evalign
from evalign._files import write_file
from evalign.papers.studies import Cell, StudyResults
from evalign.papers.tables import Number, PaperColumn, PaperData, PaperRow

#: Packages whose version may change a number.
PACKAGES = ("torch", "numpy", "scikit-learn", "lightgbm", "optuna")


def write_table(results: StudyResults, folder: Path) -> tuple[Path, Path]:
    """Write both files, each as a whole or not at all."""
    name = f"{results.plan.table.name}-{results.plan.scale}"
    folder.mkdir(parents=True, exist_ok=True)
    markdown, table = folder / f"{name}.md", folder / f"{name}.csv"
    write_file(table, to_csv(results).encode())
    write_file(markdown, to_markdown(results).encode())
    return markdown, table


def to_markdown(results: StudyResults) -> str:
    """Return the table as Markdown, with one section per dataset."""
    table = results.plan.table
    lines = [
        f"# {table.name}: {table.title}",
        "",
        table.citation,
        "",
        *describe_run(results, table.name),
        "",
    ]
    for data in table.data:
        if data.name in results.plan.data:
            lines += [f"## {data.title}", "", *_section(results, data), ""]
            lines += _compare_with_reference(results, data)
    lines += ["## Notes", "", *(f"- {note}" for note in _notes(results)), ""]
    return "\n".join(lines)


def describe_run(results: StudyResults, name: str) -> list[str]:
    """List the circumstances of a table or figure: command, scale, seed, date, machine and versions."""
    plan = results.plan
    versions = ", ".join(f"{package} {_version(package)}" for package in PACKAGES)
    command = f"evalign reproduce {name} --scale {plan.scale} --seed {plan.seed}"
    days = results.days or (datetime.now(timezone.utc).date(),)  # of a figure of formulas: today
    return [
        f"- Command: `{command}`",
        f"- Scale: {_describe_scale(results)}",
        *_describe_outcome(results),
        f"- Seed: {plan.seed}",
        f"- Date: {' to '.join(map(str, dict.fromkeys((days[0], days[-1]))))}",
        f"- Machine: {platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        f"- Versions: Python {platform.python_version()}, evalign {evalign.__version__}, {versions}",
    ]


def _describe_outcome(results: StudyResults) -> Iterator[str]:
    """Describe the splits, how many trainings were cut off, and the time of everything that was run."""
    if not results.cells:
        return
    yield f"- Splits: {results.plan.table.protocol.describe_split()}"
    cut = sum(cell.capped + cell.grid_capped > 0 for cell in results.cells.values())
    verdict = " These are marked; no verdict can be based on them" if cut else ""
    yield f"- Cells at the cap of epochs: {cut} of {len(results.cells)}.{verdict}"
    yield f"- Time: {_format_time(results.seconds)} of one processor"


def _format_time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if seconds >= 100 else f"{seconds:.0f} s"


def _describe_scale(results: StudyResults) -> str:
    plan = results.plan
    if not results.cells:
        return f"{plan.scale}. Nothing is trained"
    scale = plan.table.scale(plan.scale)
    trials = _format_range([scale.count_trials(data) for data in plan.data])
    grid = _format_range([len(plan.settings(data, row)) for data, row in plan.cells()])
    own = [(data, settings) for data, settings in scale.by_data.items() if data in plan.data]
    replaced = set.intersection(*(set(scale.by_data.get(data, {})) for data in plan.data))
    parts = [
        f"{name} {_format_setting(value)}" for name, value in scale.settings.items() if name not in replaced
    ]
    for owner, settings in (*own, *scale.by_row.items()):
        parts += [f"{owner}: {name} {_format_setting(value)}" for name, value in settings.items()]
    text = "; ".join(parts)
    return f"{plan.scale}. Trials per cell: {trials}; settings compared per cell: {grid} ({text})"


def _format_range(counts: Sequence[int]) -> str:
    """The lowest and the highest count, or the one that all are."""
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _format_setting(value: object) -> str:
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, tuple) else str(value)


def _section(results: StudyResults, data: PaperData) -> Iterator[str]:
    columns = results.plan.table.columns
    rows = [row for place, row in results.plan.table.cells() if place == data]
    known = [
        column for column in columns if any(results.paper_number(row, data.name, column) for row in rows)
    ]  # a column without numbers of the paper is one column wide, not three
    heads = [f"{column.name} | paper | difference" if column in known else column.name for column in columns]
    yield f"| Row | {' | '.join(heads)} |"
    yield f"|---|{'---|' * (len(columns) + 2 * len(known))}"
    for row in rows:
        cells = [_format_cell(results, data, row, column, column in known) for column in columns]
        mark = _mark_cap(results, data, row)
        yield f"| {row.name}{' (extra)' if row.extra else ''}{mark} | {' | '.join(cells)} |"


def _compare_with_reference(results: StudyResults, data: PaperData) -> Iterator[str]:
    """The rows of a dataset minus the reference of the table, if there is one."""
    table = results.plan.table
    reference = results.cells.get((data.name, table.reference))
    if reference is None:
        return
    errors = "standard errors" if table.protocol.split_per_trial else "standard errors on this one split"
    yield f"Differences to {table.reference}, paired by trial, with their {errors}:"
    yield ""
    yield f"| Row | {' | '.join(column.name for column in table.columns)} |"
    yield f"|---|{'---|' * len(table.columns)}"
    for place, row in results.plan.cells():
        if place == data and row.name != table.reference:
            cell = results.cells[data.name, row.name]
            numbers = [cell.difference(reference, column.name) for column in table.columns]
            yield f"| {row.name} | {' | '.join(_format_difference(number) for number in numbers)} |"
    yield ""


def _format_difference(number: Number | None) -> str:
    if number is None:
        return ""
    error = "" if math.isnan(number.deviation) else f" ± {number.deviation:.3f}"
    return f"{round(number.mean, 3) + 0.0:+.3f}{error}"  # + 0.0, since -0.0 would be -0.000


def _mark_cap(results: StudyResults, data: PaperData, row: PaperRow) -> str:
    """What of a cell was cut off by the cap of epochs, and at which temperature it was then."""
    cell = results.cells.get((data.name, row.name), Cell())
    trials, settings = len(cell.scores), len(results.plan.settings(data, row))
    parts = [f"{cell.capped} of {trials} trials"] if cell.capped else []
    parts += [f"{cell.grid_capped} of {settings} settings"] if cell.grid_capped else []
    temperature = "" if math.isnan(cell.temperature) else f", T = {cell.temperature:.3f}"
    return f" [at cap: {' and '.join(parts)}{temperature}]" if parts else ""


def _format_cell(
    results: StudyResults, data: PaperData, row: PaperRow, column: PaperColumn, known: bool
) -> str:
    cell = results.cells.get((data.name, row.name))
    own = None if cell is None else cell.number(column.name)
    text = "not run" if cell is None else _format_number(own, 3, results.is_bold(row, data.name, column))
    if not known:
        return text
    paper = results.paper_number(row, data.name, column)
    difference = f"{own.mean - paper.mean:+.3f}" if own and paper else ""
    paper_text = _format_number(paper, results.plan.table.digits, bool(paper and paper.bold))
    return f"{text} | {paper_text} | {difference}"


def _format_number(number: Number | None, digits: int, bold: bool) -> str:
    if number is None:
        return ""
    spread = "" if math.isnan(number.deviation) else f" ± {number.deviation:.{min(digits, 3)}f}"
    text = f"{number.mean:.{digits}f}{spread}"
    return f"**{text}**" if bold else text


def _notes(results: StudyResults) -> Iterator[str]:
    table = results.plan.table
    yield (
        "Means and standard deviations over trials that differ in their initial weights, and in their split "
        "if each has its own. Settings are selected by the validation loss."
    )
    if any(row.extra for row in table.rows):
        yield (
            "Rows marked extra are not in the paper. A rule is fitted on the validation part; rows that make "
            "their own decisions are scored by these in every column, not by a mean over thresholds."
        )
    extra = [column.name for column in table.columns if column.extra]
    if extra:
        yield f"Columns that are not in the paper: {', '.join(extra)}."
    if table.bold is not None:
        yield f"Bold, in the paper and here: {' '.join(table.bold).strip()}."
    yield from table.notes
    yield from list_problems(results)


def list_problems(results: StudyResults) -> Iterator[str]:
    """Yield what is missing, unfinished or failed."""
    for name, instruction in results.missing.items():
        yield f"Left out, since its data is not on this machine: {name}. {instruction}"
    if results.unstarted:
        yield f"Left out, since no row is complete: {', '.join(results.unstarted)}."
    for (data, row), cell in results.cells.items():
        if not cell.done:
            yield f"Not finished: {row} on {data}."
        for error in cell.errors:
            yield f"Failed: {row} on {data}: {error}."


def to_csv(results: StudyResults) -> str:
    """Return the table in long form: one line per dataset, row and column."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["table", "scale", "seed", "dataset", "row", "extra_row", "column", "extra_column", "mean",
         "deviation", "trials", "failed", "paper_mean", "paper_deviation", "paper_bold",
         "difference", "to_reference", "to_reference_error", "epochs", "capped", "temperature", "setting"]
    )  # fmt: skip
    plan = results.plan
    for data, row in plan.cells():
        cell = results.cells[data.name, row.name]
        reference = results.cells.get((data.name, plan.table.reference))
        for column in plan.table.columns:
            own, paper = cell.number(column.name), results.paper_number(row, data.name, column)
            gain = None if reference is None else cell.difference(reference, column.name)
            writer.writerow(
                [plan.table.name, plan.scale, plan.seed, data.name, row.name, row.extra, column.name,
                 column.extra, _format_float(own and own.mean), _format_float(own and own.deviation),
                 len(cell.scores), len(cell.errors), _format_float(paper and paper.mean),
                 _format_float(paper and paper.deviation), "" if paper is None else paper.bold,
                 _format_float(own.mean - paper.mean if own and paper else None),
                 _format_float(gain and gain.mean), _format_float(gain and gain.deviation),
                 _format_float(cell.epochs),
                 cell.capped + cell.grid_capped, _format_float(cell.temperature),
                 json.dumps(dict(cell.setting), sort_keys=True)]
            )  # fmt: skip
    return stream.getvalue()


def _format_float(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
