"""What there is: metrics, methods, datasets, tables of the papers."""

from __future__ import annotations

from typing import Any

from evalign._errors import near
from evalign.cli._console import Console, usage
from evalign.cli._main import FAILED, STOPPED, UsageError


def metrics(console: Console) -> None:
    """List the metrics."""
    from evalign.metrics import NAMED

    rows = [(name, _first_sentence(factory)) for name, factory in sorted(NAMED.items())]
    _listed(console, "metrics", ("metric", "what it is"), rows)
    console.say(
        'Also "fbeta(beta=2)", "f1(average=\'macro\')", formulas of tp, fp, fn, tn, and sums of metrics.'
    )


def methods(console: Console) -> None:
    """List the methods, from the simplest to the most elaborate."""
    from evalign.estimators import METHODS

    rows = [(name, method.description) for name, method in METHODS.items()]
    _listed(console, "methods", ("method", "what it is"), rows)


def datasets(console: Console, action: str | None, name: str | None) -> None:
    """List the datasets, or fetch one."""
    from evalign.datasets import NAMES, load

    if action is None:
        _listed(console, "datasets", ("dataset",), [(one,) for one in NAMES])
        return
    if action != "fetch" or name is None:
        raise UsageError(f"Expected `fetch NAME`, but got {action} {name or ''}".strip() + ".")
    if name not in NAMES:
        raise UsageError(f"Expected `name` to be a known dataset, but got {name!r}. {near(name, NAMES)}")
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
) -> int:
    """Run a table of the papers, or list them."""
    from evalign.experiments import TABLES
    from evalign.experiments import reproduce as run
    from evalign.experiments._data import MissingDataError
    from evalign.experiments._reproduce import FOLDER, SCALES, STORAGE, find

    if table is None:
        _listed(
            console, "tables", ("table", "what it is"), [(one.name, one.title) for one in TABLES.values()]
        )
        return 0
    with usage():
        find(table)
    if scale not in SCALES:
        raise UsageError(f"Expected `scale` to be one of {', '.join(SCALES)}, but got {scale!r}.")
    kept = storage or STORAGE
    try:
        made = run(table, scale=scale, jobs=jobs, seed=seed, storage=kept, out=out or FOLDER)
    except KeyboardInterrupt:
        console.remark(f"Stopped. What is done is kept in {kept}; the same command goes on.")
        return STOPPED
    except MissingDataError as error:
        raise ValueError(f"{table}: {error}") from None
    for data, instruction in made.results.missing.items():
        console.remark(f"{table}: without {data}. {instruction}")
    files = [str(file) for file in made.files]
    console.result({"table": table, "files": files, "complete": made.results.complete})
    for file in files:
        console.say(file)
    return 0 if made.results.complete else FAILED


def _listed(console: Console, key: str, head: tuple[str, ...], rows: list[Any]) -> None:
    console.result({key: [dict(zip(head, row, strict=True)) for row in rows]})
    console.table("", head, rows, left=len(head))


def _first_sentence(factory: Any) -> str:
    return " ".join((factory.__doc__ or "").strip().split("\n\n")[0].split())
