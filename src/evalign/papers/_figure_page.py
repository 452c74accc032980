"""A figure as PNG, its numbers as CSV, and a page in Markdown that shows and discusses it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from evalign._files import write_file
from evalign.papers._table_page import describe_run, list_problems
from evalign.papers.figures import Panel, PaperFigure, draw
from evalign.papers.studies import StudyResults


def write_figure(figure: PaperFigure, results: StudyResults, folder: Path) -> tuple[Path, ...]:
    """Write the page, the numbers and the picture, each as a whole or not at all."""
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


def to_markdown(figure: PaperFigure, results: StudyResults, picture: str) -> str:
    """Return the page of a figure."""
    lines = [f"# {figure.name}: {figure.title}", "", figure.citation, ""]
    lines += [*describe_run(results, figure.name), "", f"![{figure.title}]({picture})", ""]
    lines += ["## Claims", "", *_claims(figure, results), "", "## Numbers", "", *figure.numbers(results), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in (*figure.notes, *list_problems(results))), ""]
    return "\n".join(lines)


def _claims(figure: PaperFigure, results: StudyResults) -> Iterator[str]:
    if not all(cell.scores for cell in results.cells.values()):
        yield "Some runs are unfinished or failed: see the notes."
        return
    yield "| Claim | Here | Holds here |"
    yield "|---|---|---|"
    for claim in figure.claims(results):
        verdict = "cannot be judged" if claim.holds is None else "yes" if claim.holds else "no"
        yield f"| {claim.paper} | {claim.here} | {verdict} |"


def to_csv(figure: PaperFigure, results: StudyResults, panels: Sequence[Panel]) -> str:
    """Return every point of all repetitions, drawn or not, one per line."""
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
