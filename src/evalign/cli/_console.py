"""What is printed: results on standard output, as tables or JSON; remarks on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evalign.cli._main import RunError, UsageError, as_printable, describe_os_error


@dataclass(frozen=True)
class Console:
    """Where a command prints its results and its remarks."""

    as_json: bool = False
    quiet: bool = False

    @property
    def is_live(self) -> bool:
        """Whether standard error is a terminal, on which progress is shown."""
        return not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    def remark(self, text: str) -> None:
        """Print a line on standard error."""
        if not self.quiet:
            print(as_printable(" ".join(text.split())), file=sys.stderr)

    def warn(self, messages: Iterable[str]) -> None:
        """Print each message as a note on standard error."""
        for message in messages:
            self.remark(f"Note: {message}")

    def progress(self, unit: str) -> Any:
        """A progress bar on standard error, or nothing if it is not a terminal."""
        from tqdm import tqdm  # type: ignore[import-untyped]

        # Updates come once per chunk, so that each of them may be shown.
        return tqdm(unit=f" {unit}", disable=not self.is_live, leave=False, mininterval=0)

    def print_json(self, facts: dict[str, Any]) -> None:
        """Print the result as JSON, if that was asked for."""
        if self.as_json:
            print(json.dumps(facts, indent=1, allow_nan=False))

    def print(self, text: str) -> None:
        """Print a line of the result, unless it is JSON."""
        if not self.as_json:
            print(as_printable(text))

    def print_table(
        self, title: str, head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1
    ) -> None:
        """Print a table, unless the result is JSON; all columns but the first `words` are numbers."""
        if self.as_json or sys.stdout is None:
            return
        from rich import box
        from rich.console import Console as Rich
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(as_printable(title)) if title else None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
        )
        for number, name in enumerate(head):
            justify: Any = "left" if number < words else "right"
            table.add_column(Text(as_printable(name)), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(Text(as_printable(cell)) for cell in row))
        Rich(width=None if sys.stdout.isatty() else 120).print(table)


def format_number(value: float | None) -> str:
    """A number with three digits, or a dash.

    >>> format_number(0.12345), format_number(None), format_number(1e30)
    ('0.123', '-', '1.000e+30')
    """
    if value is None:
        return "-"
    return f"{value:.3e}" if abs(value) >= 1e12 else f"{value:.3f}"


@contextmanager
def blame_usage(**names: str) -> Iterator[None]:
    """Turn errors into `UsageError`: an argument, or a file that it names, is wrong.

    Args:
        names: The command line's names of the arguments that an error may name.
    """
    with _translate(UsageError, names):
        yield


@contextmanager
def blame_run(**names: str) -> Iterator[None]:
    """Turn errors into `RunError`: the arguments are right, but for instance the disk is full."""
    with _translate(RunError, names):
        yield


@contextmanager
def _translate(kind: type[Exception], names: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        line = describe_os_error(error) if isinstance(error, OSError) else str(error)
        for theirs, ours in names.items():
            line = line.replace(f"Expected `{theirs}`", f"Expected `{ours}`")
        raise kind(line) from error
