"""Run the command and turn what happens into a line of text and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

#: A failed run, wrong usage, Ctrl-C.
FAILED, USAGE, STOPPED = 1, 2, 130

#: An error is a line, not a page.
LONGEST = 600

#: The command that runs, as a report tells it.
command: list[str] = []


class UsageError(Exception):
    """What the user asked for cannot be done: a wrong argument or a wrong file."""


class RunError(Exception):
    """What the user asked for went wrong on the way."""


class StoppedError(Exception):
    """Ctrl-C, and what is left of the work."""


class EscapedError(Exception):
    """Something that typer would make an exit of its own, with words of its own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `evalign` with the arguments given, or those of the process; 0 if all went well."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command[:] = ["evalign", *given]
    try:
        try:
            return _run(given)
        except EscapedError as escaped:
            raise escaped.error from None
    except (KeyboardInterrupt, StoppedError) as error:
        return _tell(str(error) or "Stopped.", STOPPED)
    except BrokenPipeError:  # whoever read the output has seen enough
        return FAILED
    except Exception as error:
        if "--debug" in given:
            raise
        return _tell(*_told(error))
    finally:
        _settle()


def _run(given: list[str]) -> int:
    from evalign.cli._app import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # names that the terminal cannot show are no failure
    status = app(given, prog_name="evalign", standalone_mode=False)
    if status == STOPPED:  # typer's own word for Ctrl-C before a command runs
        raise KeyboardInterrupt
    if sys.stdout is not None:
        sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _told(error: Exception) -> tuple[str, int]:
    """An error as a line, and the exit status."""
    line = str(error) or type(error).__name__
    if isinstance(error, UsageError | RunError):
        return line, USAGE if isinstance(error, UsageError) else FAILED
    if type(error).__name__ == "Abort":  # what older ones of typer make of Ctrl-C
        return "Stopped.", STOPPED
    if hasattr(error, "format_message"):  # a wrong command line
        line = error.format_message().strip()
        return f"{line.rstrip('.')}. See --help." if line else "", getattr(error, "exit_code", USAGE)
    if isinstance(error, OSError) and error.strerror:
        line = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError):
        extra = "papers" if error.name in ("optuna", "tqdm") else "cli"
        line = f"This needs {error.name}: pip install 'evalign[{extra}]'."
    if isinstance(error, ValueError | OSError | ImportError):
        return line, FAILED
    if isinstance(error, MemoryError):
        return f"The memory is full. {error}".strip(), FAILED
    return f"{type(error).__name__}: {line} (--debug shows where)", FAILED


def _tell(line: str, status: int) -> int:
    if line and sys.stderr is not None:
        line = printable(" ".join(line.split()))
        with suppress(OSError):
            print(f"evalign: {line if len(line) <= LONGEST else line[:LONGEST] + ' ...'}", file=sys.stderr)
    return status


def printable(text: str) -> str:
    r"""The text with nothing in it that a terminal would obey.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\n'
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def _settle() -> None:
    """Leave nothing in standard output that Python would complain about when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
