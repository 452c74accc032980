"""A deadline for work that does not look at the clock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class OutOfTime(BaseException):
    """The time is over. Like Ctrl-C, it is not an error that a library would handle."""


@contextmanager
def stop_after(seconds: float | None) -> Iterator[None]:
    """Raise `OutOfTime` in what takes longer, and again every second until it has ended.

    There is no deadline where there are no signals for it: in other threads than the main one, on Windows,
    and in programs that use this signal themselves.

    >>> try:
    ...     with stop_after(0.01):
    ...         threading.Event().wait()
    ... except OutOfTime:
    ...     print("stopped")
    stopped
    """
    is_ours = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    is_ours = is_ours and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    if seconds is None or not is_ours:
        yield
        return

    is_over = False

    def stop(*_: object) -> None:
        nonlocal is_over
        is_over = True
        raise OutOfTime

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 1.0)
    try:
        yield
    except KeyboardInterrupt:  # CatBoost raises it instead of whatever a signal raises
        if is_over:
            raise OutOfTime from None
        raise
    finally:
        with suppress(OutOfTime):  # it may come while it is cancelled
            cancel()
        cancel()
