"""What is seen of a running fit: the member, the fold, the best score so far and the time left."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from evalign._progress import format_seconds
from evalign.selection.folds import LATE, FoldModel, Schedule
from evalign.selection.mixture import Judged
from evalign.selection.problem import Problem


class FitProgress:
    """A bar on a terminal; elsewhere a line for each member that is complete."""

    def __init__(self, problem: Problem, schedule: Schedule, visible: bool) -> None:
        self.problem, self.schedule, self.visible = problem, schedule, visible
        self.live = visible and sys.stderr is not None and sys.stderr.isatty()
        self.best: tuple[float, str] | None = None
        self.ended: set[str] = set()
        self.bar = tqdm(
            total=schedule.count_models(), disable=not self.live, leave=False, dynamic_ncols=True,
            mininterval=0,  # updates come once per model, so that each of them may be shown
            bar_format="{bar:10}| {n_fmt} of {total_fmt} models [{elapsed}] {desc}",
        )  # fmt: skip

    def __enter__(self) -> FitProgress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.close()

    def show(self, result: FoldModel, own: dict[int, FoldModel], judged: Judged | None) -> None:
        """Show that a fold is finished, and what its member does if that is complete."""
        if not self.visible:
            return
        line = None
        if result.error is not None and result.member not in self.ended:
            self.ended.add(result.member)
            line = f"{result.member} {'was stopped' if result.error == LATE else 'failed'}: {result.error}"
        elif judged is not None:
            value = float(judged.values.mean())
            sign = self.problem.metric.sign
            if self.best is None or sign * value > sign * self.best[0]:
                self.best = value, result.member
            seconds = sum(one.fit_time + one.predict_time for one in own.values())
            score = f"{self.problem.metric.name} {value:.3f}"
            took = f"{seconds:.1f} s for {len(own)} models"
            line = ", ".join([f"{result.member}: {score}", took, *self._tell_time()])
        if line and not self.live:
            print(line, file=sys.stderr, flush=True)
        parts = [f"{result.member} fold {result.fold + 1} of {self.schedule.n_folds}"]
        if self.best is not None:
            parts.insert(0, f"best {self.problem.metric.name} {self.best[0]:.3f} ({self.best[1]})")
        self.bar.total = self.schedule.count_models()
        # A narrow terminal cuts off the end.
        self.bar.set_description_str(", ".join([*self._tell_time(), *parts]), refresh=False)
        self.bar.update()

    def _tell_time(self) -> list[str]:
        left = self.schedule.estimate_left()
        return [] if left is None else [f"about {format_seconds(left)} left"]
