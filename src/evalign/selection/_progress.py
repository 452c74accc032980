"""What is seen of a running fit: the member, the fold, the best score so far and the time left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm  # type: ignore[import-untyped]

from evalign.decisions import fit_rule
from evalign.estimators import Split
from evalign.selection.folds import Clock, FoldModel
from evalign.selection.mixture import fit_calibrator
from evalign.selection.problem import Problem


class Progress:
    """A bar on a terminal; elsewhere a line for each member that is complete."""

    def __init__(self, problem: Problem, total: int, clock: Clock, visible: bool) -> None:
        self.problem, self.clock, self.visible = problem, clock, visible
        self.live = visible and sys.stderr is not None and sys.stderr.isatty()
        self.best: tuple[float, str] | None = None
        self.bar = tqdm(
            total=total, disable=not self.live, leave=False,
            bar_format="{l_bar}{bar:20}| {n_fmt} of {total_fmt} models [{elapsed}] {desc}",
        )  # fmt: skip

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.close()

    def show(self, result: FoldModel, own: dict[int, FoldModel], splits: Sequence[Split]) -> None:
        """Show that a fold is finished, and the score of its member if that is complete."""
        if not self.visible:
            return
        line = None
        if result.error is not None:
            line = f"{result.member} failed: {result.error}"
        elif len(own) == len(splits):
            value = self._judge([own[fold] for fold in range(len(splits))], splits)
            sign = self.problem.metric.sign
            if self.best is None or sign * value > sign * self.best[0]:
                self.best = value, result.member
            seconds = sum(one.fit_time + one.predict_time for one in own.values())
            score = f"{self.problem.metric.name} {value:.3f}"
            line = f"{result.member}: {score}, {seconds:.1f} s for {len(own)} models"
        if line and not self.live:
            print(line, file=sys.stderr, flush=True)
        text = f"{result.member} fold {result.fold + 1}"
        if self.best is not None:
            text += f", best {self.best[0]:.3f} ({self.best[1]})"
        if self.clock.limit is not None:
            text += f", {max(0, round(self.clock.left))} s left"
        self.bar.set_description_str(text, refresh=False)
        self.bar.update()

    def _judge(self, models: list[FoldModel], splits: Sequence[Split]) -> float:
        """The metric of a member under its rule on the held-out rows, which flatters a little."""
        rows = np.concatenate([held_out for _, held_out in splits])
        problem, y = self.problem, self.problem.y[rows]
        weight = None if problem.sample_weight is None else problem.sample_weight[rows]
        scores = np.concatenate([one.scores for one in models])
        indices = y if problem.is_multilabel else np.searchsorted(problem.classes, y)
        p = fit_calibrator(scores, indices, weight).apply(scores)
        names = None if problem.is_multilabel else list(problem.classes)
        return fit_rule(p, y, problem.metric, problem.constraints, weight, classes=names).value
