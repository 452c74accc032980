"""Run the command and turn what happens into a line of text and an exit status."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

#: The exit statuses of a failed run, of wrong usage, of a violated constraint, of Ctrl-C and of SIGTERM.
FAILED, USAGE, VIOLATED, STOPPED, TERMINATED = 1, 2, 3, 130, 143

#: The most characters of an error message that are printed.
LONGEST = 600

#: The extra that installs a module; those not listed come with `cli`.
EXTRAS = {
    "optuna": "papers", "matplotlib": "papers", "pooch": "data", "platformdirs": "data", "PIL": "data",
    "fastapi": "serve", "starlette": "serve", "uvicorn": "serve", "onnx": "onnx", "onnxruntime": "onnx",
}  # fmt: skip

#: The command that runs, for the report.
command_line: list[str] = []


class UsageError(Exception):
    """A wrong argument, or a file that cannot be used."""


class RunError(Exception):
    """A failure that is not the fault of the arguments."""


class StoppedError(Exception):
    """Ctrl-C, with a message about what is left of the work."""


class EscapedError(Exception):
    """An error that typer would otherwise catch and word itself."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `evalign` with these arguments, or those of the process, and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command_line[:] = ["evalign", *words]
    signals: list[int] = []
    try:
        with _catch_sigterm(signals):
            return _run(words)
    except (KeyboardInterrupt, StoppedError) as error:
        return _stop(str(error), signals)
    except BrokenPipeError:  # the reader of the output has closed it
        return FAILED
    except Exception as error:
        if _is_from_interrupt(error):
            return _stop("", signals)
        if "--debug" in words:
            raise
        return _print_error(*_describe(error))
    finally:
        _flush_stdout()


@contextmanager
def _catch_sigterm(signals: list[int]) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, and record it; only the first one, so that it can clean up."""

    def stop(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        signals.append(number)
        threading.excepthook = lambda _: None  # joblib's thread may find its jobs gone
        raise KeyboardInterrupt

    is_ours = threading.current_thread() is threading.main_thread()
    is_ours = is_ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_from_interrupt(error: BaseException | None) -> bool:
    """Whether an error is one of cleaning up after Ctrl-C or SIGTERM, such as joblib's at its start."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _stop(message: str, signals: list[int]) -> int:
    _end_workers()
    return _print_error(message or "Stopped.", TERMINATED if signals else STOPPED)


def _end_workers() -> None:
    """End joblib's worker processes, which would wait for further work for minutes."""
    executor = getattr(sys.modules.get("joblib.externals.loky.reusable_executor"), "_executor", None)
    if executor is None:
        return
    from multiprocessing import active_children

    with suppress(RuntimeError):  # it has processes, but its thread was not started yet
        executor.shutdown(wait=True, kill_workers=True)
    for process in active_children():
        process.terminate()


def _run(words: list[str]) -> int:
    from evalign.cli._app import build_command

    _buffer_stdout()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a name is not an error
    try:
        status = build_command()(words, prog_name="evalign", standalone_mode=False)
    except EscapedError as escaped:
        raise escaped.error from None
    if status == STOPPED:  # how typer reports Ctrl-C before a command runs
        raise KeyboardInterrupt
    if sys.stdout is not None:
        sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _buffer_stdout() -> None:
    """Buffer lines of standard output if Python does not (PYTHONUNBUFFERED): it ignores short writes."""
    # A caller that put a stream of its own in place keeps it.
    stdout: Any = sys.stdout
    standard: Any = sys.__stdout__
    if stdout is standard and isinstance(getattr(stdout, "buffer", None), io.RawIOBase):
        encoding = stdout.encoding
        buffer = io.BufferedWriter(stdout.detach())
        sys.stdout = io.TextIOWrapper(buffer, encoding, line_buffering=True)


def _describe(error: Exception) -> tuple[str, int]:
    """The message of an error on one line, and the exit status."""
    line = str(error) or type(error).__name__
    if isinstance(error, UsageError | RunError):
        return line, USAGE if isinstance(error, UsageError) else FAILED
    if type(error).__name__ == "Abort":  # how older versions of typer report Ctrl-C
        return "Stopped.", STOPPED
    if hasattr(error, "format_message"):  # a wrong command line
        line = error.format_message().strip()
        return f"{line.rstrip('.')}. See --help." if line else "", getattr(error, "exit_code", USAGE)
    if isinstance(error, OSError):
        line = describe_os_error(error)
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRAS.get(str(error.name).split(".")[0], "cli")
        line = f"This command needs {error.name}: pip install 'evalign[{extra}]'."
    if isinstance(error, ValueError | OSError | ImportError):
        return line, FAILED
    if isinstance(error, MemoryError):
        return f"Out of memory. {error}".strip(), FAILED
    return f"{type(error).__name__}: {line} (--debug shows where)", FAILED


def describe_os_error(error: OSError) -> str:
    """The message of the operating system with the name of the file, without the error number."""
    if not error.strerror:
        return str(error) or type(error).__name__
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _print_error(line: str, status: int) -> int:
    if line and sys.stderr is not None:
        line = as_printable(" ".join(line.split()))
        with suppress(OSError):
            print(f"evalign: {line if len(line) <= LONGEST else line[:LONGEST] + ' ...'}", file=sys.stderr)
    return status


def as_printable(text: str) -> str:
    r"""The text with control characters escaped, so that a terminal does not obey them.

    >>> as_printable("a\x1b[31mb\n")
    'a\\x1b[31mb\n'
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _flush_stdout() -> None:
    """Flush standard output, or discard it if it is closed, so that Python does not complain at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
