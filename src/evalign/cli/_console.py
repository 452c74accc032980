"""What is printed: results on standard output, as tables or JSON; remarks on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evalign.cli._main import UsageError


@dataclass(frozen=True)
class Console:
    """Where a command says what it does, and what came of it."""

    as_json: bool = False
    quiet: bool = False

    @property
    def live(self) -> bool:
        """Whether somebody watches the progress."""
        return not self.quiet and sys.stderr.isatty()

    def remark(self, text: str) -> None:
        """Say something on standard error."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def result(self, facts: dict[str, Any]) -> None:
        """Print what came of a command as JSON, if that was asked for."""
        if self.as_json:
            print(json.dumps(facts, indent=1, allow_nan=False))

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
        """Print a table; the first `left` columns are texts, the others numbers."""
        if self.as_json:
            return
        from rich import box
        from rich.console import Console as Rich
        from rich.markup import escape
        from rich.table import Table

        made = Table(
            title=escape(title) if title else None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
        )
        for number, name in enumerate(head):
            made.add_column(escape(name), justify="left" if number < left else "right", overflow="fold")
        for row in rows:
            made.add_row(*(escape(cell) for cell in row))
        Rich(soft_wrap=False, width=None if sys.stdout.isatty() else 120).print(made)

    def say(self, text: str) -> None:
        """Print a line of the result, where it is not JSON."""
        if not self.as_json:
            print(text)


@contextmanager
def usage() -> Iterator[None]:
    """What goes wrong here is the fault of an argument or of a file that was given."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            where = f": {error.filename}" if error.filename else ""
            raise UsageError(f"{error.strerror}{where}") from error
        raise UsageError(str(error)) from error
