"""`evalign metrics` and `evalign methods`: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalign.cli._console import Console


def list_metrics(console: Console) -> None:
    """List the metrics."""
    from evalign.metrics import NAMED

    print_list(console, "metrics", [(name, _first_sentence(NAMED[name])) for name in sorted(NAMED)])
    console.print(
        'Also "fbeta(beta=2)", "f1(average=\'macro\')", formulas of tp, fp, fn, tn, and sums of metrics.\n'
        "auroc and average_precision measure scores, not decisions: in Python they are losses, and --metric\n"
        "does not accept them."
    )


def list_methods(console: Console) -> None:
    """List the methods, from the simplest to the most elaborate."""
    from evalign.selection import METHODS

    print_list(console, "methods", [(name, method.description) for name, method in METHODS.items()])


def print_list(console: Console, kind: str, rows: Sequence[tuple[str, ...]]) -> None:
    """Print names, or names and descriptions, as a table or as JSON."""
    width = len(rows[0])
    console.print_json({kind: [dict(zip(("name", "description"), row, strict=False)) for row in rows]})
    console.print_table("", (kind.rstrip("s"), "description")[:width], rows, words=width)


def _first_sentence(factory: Any) -> str:
    return " ".join((factory.__doc__ or "").strip().split("\n\n")[0].split())
