"""What there is: metrics, methods, datasets, tables of the papers."""

from __future__ import annotations

from typing import Any

from evalign._errors import expected, suggest
from evalign.cli._console import Console, usage
from evalign.cli._main import RunError, StoppedError, UsageError


def metrics(console: Console) -> None:
    """List the metrics."""
    from evalign.metrics import NAMED

    rows = [(name, _first_sentence(factory)) for name, factory in sorted(NAMED.items())]
    _listed(console, "metrics", rows)
    console.say(
        'Also "fbeta(beta=2)", "f1(average=\'macro\')", formulas of tp, fp, fn, tn, and sums of metrics.\n'
        "auroc judges scores, not decisions: in Python it is a loss, and --metric does not take it."
    )


def methods(console: Console) -> None:
    """List the methods, from the simplest to the most elaborate."""
    from evalign.selection import METHODS

    rows = [(name, method.description) for name, method in METHODS.items()]
    _listed(console, "methods", rows)


def datasets(console: Console, action: str | None, name: str | None) -> None:
    """List the datasets, or fetch one."""
    from evalign.datasets import NAMES, load

    if action is None:
        _listed(console, "datasets", [(one,) for one in NAMES])
        return
    if action != "fetch" or name is None:
        raise UsageError(f"Expected `fetch NAME`, but got {' '.join(filter(None, (action, name)))}.")
    if name not in NAMES:
        raise UsageError(f"Expected `name` to be a known dataset, but got {name!r}. {suggest(name, NAMES)}")
    found = load(name)
    facts = {"name": name, "rows": len(found.y), "licence": found.licence, "citation": found.citation}
    console.result(facts)
    console.say(f"{name}: {facts['rows']:,} rows. Licence: {facts['licence']}. Cite: {facts['citation']}")


def reproduce(
    console: Console,
    table: str | None,
    scale: str,
    jobs: int,
    seed: int,
    storage: str | None,
    out: str | None,
) -> None:
    """Run a table of the papers, or list them."""
    from evalign.papers import FIGURES, FOLDER, SCALES, STORAGE, TABLES, MissingDataError, find
    from evalign.papers import reproduce as run

    if table is None:
        known: dict[str, Any] = {**TABLES, **FIGURES}
        _listed(console, "tables", [(one.name, one.title) for one in known.values()])
        return
    with usage():
        find(table)
        if scale not in SCALES:
            raise expected("scale", f"to be one of {', '.join(SCALES)}", repr(scale))
    try:
        made = run(
            table, scale=scale, jobs=jobs, seed=seed, storage=storage or STORAGE, out=out or FOLDER,
            progress=console.live,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise StoppedError("Stopped. What is done is kept: the same command goes on.") from None
    except MissingDataError as error:
        raise RunError(f"{table}: {error}") from None
    for data, instruction in made.results.missing.items():
        console.remark(f"{table}: without {data}. {instruction}")
    files = [str(file) for file in made.files]
    console.result({"table": table, "files": files, "complete": made.results.complete})
    for file in files:
        console.say(file)
    if not made.results.complete:
        raise RunError(f"{table} is not complete: the same command goes on.")


def _listed(console: Console, what: str, rows: list[Any]) -> None:
    width = len(rows[0])
    console.result({what: [dict(zip(("name", "description"), row, strict=False)) for row in rows]})
    console.table("", (what.rstrip("s"), "what it is")[:width], rows, left=width)


def _first_sentence(factory: Any) -> str:
    return " ".join((factory.__doc__ or "").strip().split("\n\n")[0].split())
