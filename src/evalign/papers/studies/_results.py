"""The results of a study, cell by cell, beside the numbers of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from evalign.papers.studies._plan import StudyPlan
from evalign.papers.studies._queue import StudyProgress
from evalign.papers.tables import Number, PaperColumn, PaperRow


@dataclass(frozen=True)
class Cell:
    """The trials of a row on a dataset: their scores, the selected setting, and the errors.

    `capped` counts the trials whose training was cut off by the maximum of epochs, `grid_capped` the
    settings; `temperature` is the mean of the last temperatures of annealed trials.
    """

    scores: list[dict[str, float]] = field(default_factory=list)
    setting: Mapping[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    epochs: float = math.nan
    done: bool = True
    curves: list[dict[str, list[float]]] = field(default_factory=list)
    capped: int = 0
    grid_capped: int = 0
    temperature: float = math.nan

    def number(self, column: str) -> Number | None:
        """Return the mean and standard deviation over the trials; None if there are no trials."""
        return _summarise([scores[column] for scores in self.scores])

    def difference(self, reference: Cell, column: str) -> Number | None:
        """Return the mean difference to another cell, paired by trial, and its standard error.

        None while trials are missing on either side: those that are left need not be pairs.
        """
        sides = (self, reference)
        if any(cell.errors or not cell.done for cell in sides) or len(self.scores) != len(reference.scores):
            return None
        pairs = zip(self.scores, reference.scores, strict=True)
        number = _summarise([own[column] - other[column] for own, other in pairs])
        return number and number._replace(deviation=number.deviation / math.sqrt(len(self.scores)))


def _summarise(values: Sequence[float]) -> Number | None:
    if not values:
        return None
    return Number(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)


@dataclass(frozen=True)
class StudyResults:
    """All cells of a table, by dataset and row; `missing` explains how to obtain data that is missing."""

    plan: StudyPlan
    cells: dict[tuple[str, str], Cell]
    missing: dict[str, str]
    #: The processor time of all points of these cells.
    seconds: float = 0.0
    #: The days on which these points were completed, in order.
    days: tuple[date, ...] = ()
    #: Datasets that were left out, since no cell of theirs is done.
    unstarted: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every cell whose data is available is done."""
        return not self.unstarted and all(cell.done for cell in self.cells.values())

    def paper_number(self, row: PaperRow, data: str, column: PaperColumn) -> Number | None:
        """Return the number that the paper reports, if any."""
        return self.plan.table.numbers.get((row.name, data, column.name))

    def is_bold(self, row: PaperRow, data: str, column: PaperColumn) -> bool:
        """Whether our number is bold by the rule of the paper."""
        rule, own = self.plan.table.bold, self._number(data, row.name, column)
        if rule is None or own is None or column.extra:
            return False
        relation, other = rule
        if relation == "best":
            numbers = [self._number(data, row.name, column) for row in self.plan.table.rows]
            return own.mean >= max(number.mean for number in numbers if number)
        base = self._number(data, other, column)
        if base is None or row.name == other:
            return False
        return own.mean >= base.mean if relation == "at least" else own.mean > base.mean

    def _number(self, data: str, row: str, column: PaperColumn) -> Number | None:
        cell = self.cells.get((data, row))
        return None if cell is None else cell.number(column.name)


def collect_results(plan: StudyPlan, progress: StudyProgress, missing: dict[str, str]) -> StudyResults:
    """Collect the cells of a study, as far as it is done."""
    cells = {}
    seconds: dict[str, float] = {}
    for data, row in plan.cells():
        setting = plan.best_setting(data, row, progress.done)
        grid = plan.grid_points(data, row)
        trials = [] if setting is None else plan.trial_points(data, row, setting)
        outcomes = [outcome for point in trials if (outcome := progress.done.get(point.key)) is not None]
        epochs = [count for outcome in outcomes for count in outcome.epochs]
        coldest = [value for outcome in outcomes for value in outcome.temperatures]
        compared = [outcome for point in grid if (outcome := progress.done.get(point.key)) is not None]
        points = (*grid, *trials)
        for point in points:
            outcome = progress.done.get(point.key)
            seconds[point.key] = 0.0 if outcome is None else outcome.seconds
        cells[data.name, row.name] = Cell(
            [scores.get(row.name, {}) for outcome in outcomes for scores in outcome.scores],
            setting or {},
            [progress.errors[point.key] for point in points if point.key in progress.errors],
            float(np.mean(epochs)) if epochs else math.nan,
            bool(points) and all(point.key in progress.done for point in points),
            [curves for outcome in outcomes for curves in outcome.curves],
            sum(cut for outcome in outcomes for cut in outcome.capped),
            sum(cut for outcome in compared for cut in outcome.capped),
            float(np.mean(coldest)) if coldest else math.nan,
        )
    days = {day for key, day in progress.days.items() if key in seconds}
    return StudyResults(plan, cells, missing, sum(seconds.values()), tuple(sorted(days)))


def collect_started(plan: StudyPlan, progress: StudyProgress, missing: dict[str, str]) -> StudyResults:
    """Collect the cells of a study without the datasets of which no cell is done."""
    cells = collect_results(plan, progress, missing).cells
    started = {data for (data, _), cell in cells.items() if cell.done}
    kept = replace(plan, data=tuple(name for name in plan.data if name in started))
    unstarted = tuple(name for name in plan.data if name not in started)
    return replace(collect_results(kept, progress, missing), unstarted=unstarted)
