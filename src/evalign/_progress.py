"""How far long work is: a bar on a terminal; elsewhere, as in the log of a job, a line now and then."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

#: Seconds between two lines. Work that takes less is done without any.
PAUSE = 60.0


def format_seconds(seconds: float) -> str:
    """A time as people say it.

    >>> format_seconds(8.4), format_seconds(75), format_seconds(7500)
    ('8 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """The number of units that are done, shown on standard error.

    Args:
        name: What is done.
        unit: What is counted, such as "trials".
        total: How many there are in the end.
        done: How many were done before.
        lines: Whether lines are printed where there is no terminal.
        visible: Whether anything is shown at all.
    """

    def __init__(
        self, name: str, unit: str, total: int, *, done: int = 0, lines: bool = True, visible: bool = True
    ) -> None:
        on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.name, self.unit, self.total, self.first, self.done = name, unit, total, done, done
        self.lines = visible and lines and sys.stderr is not None and not on_terminal
        self.start = self.shown = monotonic()
        self.bar = tqdm(
            total=total, initial=done, desc=name, disable=not (visible and on_terminal), file=sys.stderr,
            bar_format=f"{{l_bar}}{{bar:20}}| {{n_fmt}} of {{total_fmt}} {unit} [{{elapsed}}<{{remaining}}]",
        )  # fmt: skip

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.close()

    def update(self, done: int) -> None:
        """Show that this many units are done."""
        self.bar.update(done - self.done)
        changed, self.done = done != self.done, done
        now = monotonic()
        if self.lines and changed and (now - self.shown >= PAUSE or self._ends(done)):
            self.shown = now
            print(self._describe(now - self.start), file=sys.stderr, flush=True)

    def _ends(self, done: int) -> bool:
        """Whether this is the end of work that had lines before."""
        return done == self.total and self.shown > self.start

    def _describe(self, seconds: float) -> str:
        parts = [f"{self.name}: {self.done} of {self.total} {self.unit}", format_seconds(seconds)]
        if self.first < self.done < self.total:
            left = seconds * (self.total - self.done) / (self.done - self.first)
            parts.append(f"about {format_seconds(left)} left")
        return ", ".join(parts)
