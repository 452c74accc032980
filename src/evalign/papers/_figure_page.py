"""A figure as PNG, its numbers as CSV, and a page in Markdown that shows and reads it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from evalign._files import write_file
from evalign.papers._draw import draw
from evalign.papers._figure import Figure, Panel
from evalign.papers._report import circumstances, unfinished
from evalign.papers._results import Results


def write(figure: Figure, results: Results, folder: Path) -> tuple[Path, ...]:
    """Write the page, the numbers and the picture, each whole or not at all."""
    name = f"{figure.name}-{results.plan.scale}"
    panels = figure.panels(results)
    contents = {
        f"{name}.md": to_markdown(figure, results, f"{name}.png").encode(),
        f"{name}.csv": to_csv(figure, results, panels).encode(),
        f"{name}.png": draw(figure.kind, panels),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        write_file(folder / file, content)
    return tuple(folder / file for file in contents)


def to_markdown(figure: Figure, results: Results, picture: str) -> str:
    """The page of a figure."""
    lines = [f"# {figure.name}: {figure.title}", "", figure.citation, ""]
    lines += [*circumstances(results, figure.name), "", f"![{figure.title}]({picture})", ""]
    lines += ["## Reading", "", *_claims(figure, results), "", "## Numbers", "", *figure.numbers(results), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in (*figure.notes, *unfinished(results))), ""]
    return "\n".join(lines)


def _claims(figure: Figure, results: Results) -> Iterator[str]:
    if not all(cell.curves for cell in results.cells.values()):
        yield "Some runs are not done or failed: see the notes."
        return
    yield "| The paper says | Here | Holds here |"
    yield "|---|---|---|"
    for claim in figure.claims(results):
        yield f"| {claim.paper} | {claim.here} | {'yes' if claim.holds else 'no'} |"


def to_csv(figure: Figure, results: Results, panels: Sequence[Panel]) -> str:
    """Every point that is drawn, and those of the repetitions that are not: a line each."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["figure", "scale", "seed", "panel", "series", "repetition", "point", "x", "y"])
    for panel in panels:
        for line in panel.lines:
            for number, (x, y) in enumerate(zip(line.x, line.y, strict=True), 1):
                writer.writerow(
                    [figure.name, results.plan.scale, results.plan.seed, panel.title, line.series,
                     line.repetition, number, f"{x:.6g}", f"{y:.6g}"]
                )  # fmt: skip
    return stream.getvalue()
