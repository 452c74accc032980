"""`evalign reproduce`: the tables and figures of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalign import papers
from evalign._errors import expected
from evalign.cli._console import Console, blame_usage
from evalign.cli._lists import print_list
from evalign.cli._main import RunError, StoppedError


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """The options of `evalign reproduce`."""

    table: str | None
    scale: str
    jobs: int
    seed: int
    storage: str | None
    out: str | None
    data: list[str]
    partial: bool


def run(console: Console, options: ReproduceOptions) -> None:
    """Run a table or figure of the papers, or list them."""
    table = options.table
    if table is None:
        known: dict[str, Any] = {**papers.TABLES, **papers.FIGURES}
        print_list(console, "tables", [(one.name, one.title) for one in known.values()])
        return
    with blame_usage():
        target = papers.find(table)
        scales = target.study.scales if isinstance(target, papers.PaperFigure) else target.scales
        if options.scale not in scales:
            raise expected("scale", f"to be one of {', '.join(scales)} for {table}", repr(options.scale))
        papers.check_datasets(target, options.data)
    try:
        reproduction = papers.reproduce(
            table, scale=options.scale, jobs=options.jobs, seed=options.seed,
            storage=options.storage or papers.STORAGE, out=options.out or papers.FOLDER,
            data=options.data, partial=options.partial, progress=not console.quiet,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise StoppedError("Stopped. Finished trials are kept: the same command resumes.") from None
    except papers.MissingDataError as error:
        raise RunError(f"{table}: {error}") from None
    results = reproduction.results
    for data, instruction in results.missing.items():
        console.remark(f"{table}: without {data}. {instruction}")
    files = [str(file) for file in reproduction.files]
    console.print_json({"table": table, "files": files, "complete": results.complete})
    for file in files:
        console.print(file)
    if not files and options.partial:
        raise RunError(f"{table}: nothing is done yet.")
    if not files:
        raise RunError(f"{table} is not complete: the same command resumes.")
