"""A table as Markdown and as CSV: our numbers beside the paper's, and how they came about."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
import os
import platform
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import evalign
from evalign._files import write_file
from evalign.papers._results import Results
from evalign.papers._table import Column, Data, Number, Row, choices

#: Whose versions may change a number.
PACKAGES = ("torch", "numpy", "scikit-learn", "lightgbm", "optuna")


def write(results: Results, folder: Path) -> tuple[Path, Path]:
    """Write both files, each whole or not at all."""
    name = f"{results.plan.table.name}-{results.plan.scale}"
    folder.mkdir(parents=True, exist_ok=True)
    markdown, table = folder / f"{name}.md", folder / f"{name}.csv"
    write_file(table, to_csv(results).encode())
    write_file(markdown, to_markdown(results).encode())
    return markdown, table


def to_markdown(results: Results) -> str:
    """The table as Markdown, a part for each dataset."""
    table = results.plan.table
    lines = [
        f"# {table.name}: {table.title}",
        "",
        table.citation,
        "",
        *circumstances(results, table.name),
        "",
    ]
    for data in table.data:
        if data.name in results.plan.data:
            lines += [f"## {data.title}", "", *_part(results, data), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in _notes(results)), ""]
    return "\n".join(lines)


def circumstances(results: Results, name: str) -> list[str]:
    """How a table or a figure of a name came about."""
    plan = results.plan
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    command = f"python -m evalign.papers {name} --scale {plan.scale} --seed {plan.seed}"
    today = datetime.now(timezone.utc).date()
    return [
        f"- Command: `{command}`",
        f"- Scale: {_scale(results)}",
        f"- Seed: {plan.seed}",
        f"- Date: {today}",
        f"- Machine: {platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        f"- Versions: Python {platform.python_version()}, evalign {evalign.__version__}, {versions}",
    ]


def _scale(results: Results) -> str:
    plan = results.plan
    if not results.cells:
        return f"{plan.scale}. Nothing is trained"
    sizes = [len(choices(plan.table, plan.scale, data, row)) for data, row in plan.cells()]
    grid = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else f"{max(sizes)}"
    given = plan.table.scale(plan.scale)
    parts = [f"{name} {_searched(value)}" for name, value in given.settings.items()]
    for of, settings in (*given.by_data.items(), *given.by_row.items()):
        parts += [f"{of}: {name} {_searched(value)}" for name, value in settings.items()]
    text = "; ".join(parts)
    return f"{plan.scale}. {plan.trials} trials a cell, settings searched for a cell: {grid} ({text})"


def _searched(value: object) -> str:
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, tuple) else str(value)


def _part(results: Results, data: Data) -> Iterator[str]:
    columns = results.plan.table.columns
    rows = [row for row in results.plan.table.rows if (data.name, row.name) in results.cells]
    known = [
        column for column in columns if any(results.paper(row, data.name, column) for row in rows)
    ]  # what the paper has no numbers of takes one column, not three
    heads = [f"{column.name} | paper | difference" if column in known else column.name for column in columns]
    yield f"| Row | {' | '.join(heads)} |"
    yield f"|---|{'---|' * (len(columns) + 2 * len(known))}"
    for row in rows:
        cells = [_cell(results, data, row, column, column in known) for column in columns]
        yield f"| {row.name}{' (extra)' if row.extra else ''} | {' | '.join(cells)} |"


def _cell(results: Results, data: Data, row: Row, column: Column, known: bool) -> str:
    own = results.cells[data.name, row.name].number(column.name)
    text = _shown(own, 3, results.bold(row, data.name, column))
    if not known:
        return text
    paper = results.paper(row, data.name, column)
    apart = f"{own.mean - paper.mean:+.3f}" if own and paper else ""
    return f"{text} | {_shown(paper, results.plan.table.digits, bool(paper and paper.bold))} | {apart}"


def _shown(number: Number | None, digits: int, bold: bool) -> str:
    if number is None:
        return ""
    spread = "" if math.isnan(number.deviation) else f" ± {number.deviation:.{min(digits, 3)}f}"
    text = f"{number.mean:.{digits}f}{spread}"
    return f"**{text}**" if bold else text


def _notes(results: Results) -> Iterator[str]:
    table = results.plan.table
    yield (
        "Means and deviations over trials that differ in their initial weights; one stratified split for "
        "all, drawn with the seed above. Settings are chosen by the validation loss."
    )
    if any(row.extra for row in table.rows):
        yield (
            "Rows marked extra are not in the paper. A rule is fitted on the validation part; a row with its "
            "own decisions is judged by them in every column, not by a mean over thresholds."
        )
    extra = [column.name for column in table.columns if column.extra]
    if extra:
        yield f"Columns that the paper lacks: {', '.join(extra)}."
    if table.bold is not None:
        yield f"Bold, in the paper and here: {' '.join(table.bold).strip()}."
    yield from table.notes
    yield from unfinished(results)


def unfinished(results: Results) -> Iterator[str]:
    """What is missing, not done or failed."""
    for name, instruction in results.missing.items():
        yield f"Left out, since its data is not on the machine: {name}. {instruction}"
    for (data, row), cell in results.cells.items():
        if not cell.done:
            yield f"Not finished: {row} on {data}."
        for error in cell.errors:
            yield f"Failed: {row} on {data}: {error}."


def to_csv(results: Results) -> str:
    """The table in long form: a line for each dataset, row and column."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["table", "scale", "seed", "dataset", "row", "extra_row", "column", "extra_column", "mean",
         "deviation", "trials", "failed", "paper_mean", "paper_deviation", "paper_bold",
         "difference", "epochs", "setting"]
    )  # fmt: skip
    plan = results.plan
    for data, row in plan.cells():
        cell = results.cells[data.name, row.name]
        for column in plan.table.columns:
            own, paper = cell.number(column.name), results.paper(row, data.name, column)
            writer.writerow(
                [plan.table.name, plan.scale, plan.seed, data.name, row.name, row.extra, column.name,
                 column.extra, _plain(own and own.mean), _plain(own and own.deviation), len(cell.scores),
                 len(cell.errors), _plain(paper and paper.mean), _plain(paper and paper.deviation),
                 "" if paper is None else paper.bold,
                 _plain(own.mean - paper.mean if own and paper else None), _plain(cell.epochs),
                 json.dumps(dict(cell.setting), sort_keys=True)]
            )  # fmt: skip
    return stream.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
