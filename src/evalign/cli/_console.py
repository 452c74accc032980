"""What is printed: results on standard output, as tables or JSON; remarks on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evalign.cli._main import RunError, UsageError, printable


@dataclass(frozen=True)
class Console:
    """Where a command says what it does, and what came of it."""

    as_json: bool = False
    quiet: bool = False

    @property
    def live(self) -> bool:
        """Whether somebody watches the progress."""
        return not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    def remark(self, text: str) -> None:
        """Say something on standard error."""
        if not self.quiet:
            print(printable(" ".join(text.split())), file=sys.stderr)

    def progress(self, text: str) -> None:
        """Say how far the work is, on a line that whatever comes next is written over."""
        if self.live:
            print(text, end="\r", file=sys.stderr, flush=True)

    def result(self, facts: dict[str, Any]) -> None:
        """Print what came of a command as JSON, if that was asked for."""
        if self.as_json:
            print(json.dumps(facts, indent=1, allow_nan=False))

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
        """Print a table; the first `left` columns are texts, the others numbers."""
        if self.as_json or sys.stdout is None:
            return
        from rich import box
        from rich.console import Console as Rich
        from rich.table import Table
        from rich.text import Text

        made = Table(
            title=Text(printable(title)) if title else None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
        )
        for number, name in enumerate(head):
            justify: Any = "left" if number < left else "right"
            made.add_column(Text(printable(name)), justify=justify, overflow="fold")
        for row in rows:
            made.add_row(*(Text(printable(cell)) for cell in row))
        Rich(width=None if sys.stdout.isatty() else 120).print(made)

    def say(self, text: str) -> None:
        """Print a line of the result, where it is not JSON."""
        if not self.as_json:
            print(printable(text))


def number(value: float | None) -> str:
    """A number as people read it.

    >>> number(0.12345), number(None)
    ('0.123', '-')
    """
    return "-" if value is None else f"{value:.3f}"


@contextmanager
def usage(**names: str) -> Iterator[None]:
    """What goes wrong here is the fault of an argument or of a file that was given.

    Args:
        names: What the command line calls the arguments that an error may name.
    """
    with _told_by(UsageError, names):
        yield


@contextmanager
def running(**names: str) -> Iterator[None]:
    """What goes wrong here is no fault of the arguments: a disk that is full, for instance."""
    with _told_by(RunError, names):
        yield


@contextmanager
def _told_by(kind: type[Exception], names: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        line = str(error)
        if isinstance(error, OSError) and error.strerror:
            line = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        for theirs, ours in names.items():
            line = line.replace(f"Expected `{theirs}`", f"Expected `{ours}`")
        raise kind(line) from error
