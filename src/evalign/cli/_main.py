"""Run the command and turn what happens into a line of text and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

#: A failed run, wrong usage, Ctrl-C.
FAILED, USAGE, STOPPED = 1, 2, 130


class UsageError(Exception):
    """What the user asked for cannot be done: a wrong argument or a wrong file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `evalign` with the arguments given, or those of the process; 0 if all went well."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        from evalign.cli._app import app, click_error
    except ImportError as error:
        return _tell(f"The command needs {error.name}: pip install 'evalign[cli]'.", FAILED)
    try:
        status = app(given, prog_name="evalign", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return _tell("Stopped.", STOPPED)
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            raise
        return _tell(*_told(error, click_error))


def _told(error: Exception, click_error: Any) -> tuple[str, int]:
    """An error as one line, and the exit status."""
    if isinstance(error, click_error):
        hint = "" if error.exit_code != USAGE else " See --help."
        return f"{error.format_message()}{hint}", error.exit_code
    if type(error).__name__ == "Abort":
        return "Stopped.", STOPPED
    if type(error).__name__ == "Exit":
        return "", getattr(error, "exit_code", 0)
    line = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UsageError):
        return line, USAGE
    if isinstance(error, OSError) and error.strerror:
        line = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, ValueError | OSError | ImportError | MemoryError):
        return line, FAILED
    return f"{type(error).__name__}: {line} (--debug shows where)", FAILED


def _tell(line: str, status: int) -> int:
    if line:
        print(f"evalign: {line}", file=sys.stderr)
    return status
