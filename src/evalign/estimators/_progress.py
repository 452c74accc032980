"""A progress bar per phase of training, on standard error."""

from __future__ import annotations

from tqdm import tqdm  # type: ignore[import-untyped]


class ProgressBar:
    """One bar at a time: a new one for every phase, which ends the line of the one before."""

    def __init__(self, unit: str) -> None:
        self.unit, self.phase = unit, ""
        self.bar: tqdm | None = None

    def show(self, phase: str, done: int, total: int, text: str) -> None:
        """Show that `done` of at most `total` steps of a phase are complete."""
        if self.bar is None or phase != self.phase or done <= self.bar.n:
            self.close()
            self.phase, self.bar = phase, tqdm(desc=phase, initial=done - 1, total=total, unit=self.unit)
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        """End the line of the last bar."""
        if self.bar is not None:
            self.bar.close()
        self.bar = None
