"""`evalign datasets`: the datasets of the papers, listed or fetched."""

from __future__ import annotations

from dataclasses import dataclass

from evalign._errors import suggest
from evalign.cli._console import Console
from evalign.cli._lists import print_list
from evalign.cli._main import UsageError
from evalign.datasets import NAMES, load


@dataclass(frozen=True, kw_only=True)
class DatasetsOptions:
    """The options of `evalign datasets`."""

    action: str | None
    name: str | None


def run(console: Console, options: DatasetsOptions) -> None:
    """List the datasets, or fetch one."""
    action, name = options.action, options.name
    if action is None:
        print_list(console, "datasets", [(one,) for one in NAMES])
        return
    if action != "fetch" or name is None:
        raise UsageError(f"Expected `fetch NAME`, but got {' '.join(filter(None, (action, name)))}.")
    if name not in NAMES:
        raise UsageError(f"Expected `name` to be a known dataset, but got {name!r}. {suggest(name, NAMES)}")
    data = load(name)
    facts = {"name": name, "rows": len(data.y), "licence": data.licence, "citation": data.citation}
    console.print_json(facts)
    console.print(f"{name}: {len(data.y):,} rows. Licence: {data.licence}. Cite: {data.citation}")
