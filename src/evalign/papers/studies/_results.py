"""What came of a study, cell by cell, beside what the paper reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalign.papers._plan import Plan
from evalign.papers._queue import Standing
from evalign.papers._table import Column, Number, Row


@dataclass(frozen=True)
class Cell:
    """The trials of a row on a dataset: their scores, the setting chosen, and what failed."""

    scores: list[dict[str, float]] = field(default_factory=list)
    setting: Mapping[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    epochs: float = math.nan
    done: bool = True
    curves: list[dict[str, list[float]]] = field(default_factory=list)

    def number(self, column: str) -> Number | None:
        """Mean and deviation over the trials; None if there are none."""
        values = [one[column] for one in self.scores]
        if not values:
            return None
        return Number(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)


@dataclass(frozen=True)
class Results:
    """All cells of a table, by dataset and row."""

    plan: Plan
    cells: dict[tuple[str, str], Cell]
    missing: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether every cell is done, of the data that is there."""
        return all(cell.done for cell in self.cells.values())

    def paper(self, row: Row, data: str, column: Column) -> Number | None:
        """What the paper reports."""
        return self.plan.table.published.get((row.name, data, column.name))

    def bold(self, row: Row, data: str, column: Column) -> bool:
        """Whether our number earns the bold of the paper's rule."""
        rule, own = self.plan.table.bold, self.cells[data, row.name].number(column.name)
        if rule is None or own is None or column.extra:
            return False
        sense, other = rule
        if sense == "best":
            rivals = [
                self.cells[data, one.name] for one in self.plan.table.rows if (data, one.name) in self.cells
            ]
            return own.mean >= max(n.mean for n in (cell.number(column.name) for cell in rivals) if n)
        base = self.cells[data, other].number(column.name) if (data, other) in self.cells else None
        if base is None or row.name == other:
            return False
        return own.mean >= base.mean if sense == "at least" else own.mean > base.mean


def collect(plan: Plan, standing: Standing, missing: dict[str, str]) -> Results:
    """The cells of a study as far as it is done."""
    cells = {}
    for data, row in plan.cells():
        setting = plan.best(data, row, standing.done)
        grid = plan.grid(data, row)
        runs = [] if setting is None else plan.runs(data, row, setting)
        outcomes = [standing.done.get(point.key) for point in runs]
        found = [outcome for outcome in outcomes if outcome is not None]
        epochs = [count for outcome in found for count in outcome.epochs]
        ended = all(point.key in standing.done for point in (*grid, *runs))
        cells[data.name, row.name] = Cell(
            [scores for outcome in found for scores in outcome.scores],
            setting or {},
            [standing.errors[point.key] for point in (*grid, *runs) if point.key in standing.errors],
            float(np.mean(epochs)) if epochs else math.nan,
            ended and (bool(runs) or bool(grid)),
            [curves for outcome in found for curves in outcome.curves],
        )
    return Results(plan, cells, missing)
