"""Which points a table needs: first the grid of every cell, then trials at the best setting."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalign.papers._table import Data, Row, Table, choices
from evalign.papers._training import stackable
from evalign.papers._units import Outcome, Point


@dataclass(frozen=True)
class Plan:
    """A table at a scale with a seed, for the datasets that are there."""

    table: Table
    scale: str
    seed: int
    data: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the study: each scale and each seed has its own."""
        return f"{self.table.name} {self.scale} seed {self.seed}"

    @property
    def trials(self) -> int:
        """How often each cell is trained at its best setting."""
        return self.table.scale(self.scale).trials

    def cells(self) -> Iterator[tuple[Data, Row]]:
        """The cells whose data is there."""
        for data, row in self.table.cells():
            if data.name in self.data:
                yield data, row

    def grid(self, data: Data, row: Row) -> list[Point]:
        """A point for every setting of a cell; none if there is but one."""
        found = choices(self.table, self.scale, data, row)
        first = (self.seed * 1000,)
        return [Point("grid", data.name, row.name, one, first) for one in found] if len(found) > 1 else []

    def runs(self, data: Data, row: Row, setting: Mapping[str, Any]) -> list[Point]:
        """The trials of a cell: one point for all where they can be trained at once, else one each."""
        seeds = [self.seed * 1000 + 1 + number for number in range(self.trials)]
        together = stackable(row, str(setting.get("network", data.network)))
        groups = [tuple(seeds)] if together else [(seed,) for seed in seeds]
        return [Point("trial", data.name, row.name, setting, group) for group in groups]

    def best(self, data: Data, row: Row, done: Mapping[str, Outcome | None]) -> Mapping[str, Any] | None:
        """The setting with the lowest validation loss; None while the grid is not done, or if all failed."""
        points = self.grid(data, row)
        if not points:
            return choices(self.table, self.scale, data, row)[0]
        if any(point.key not in done for point in points):
            return None
        losses = [_loss(done[point.key]) for point in points]
        at = min(range(len(points)), key=losses.__getitem__)
        return points[at].setting if losses[at] < math.inf else None

    def needed(self, done: Mapping[str, Outcome | None]) -> list[Point]:
        """All points that can be run by now, given those that are done (None: failed)."""
        points = []
        for data, row in self.cells():
            points += self.grid(data, row)
            setting = self.best(data, row, done)
            points += [] if setting is None else self.runs(data, row, setting)
        return points

    def progress(self, done: Collection[str]) -> tuple[int, int]:
        """How many points are done, and how many there will be."""
        total = finished = 0
        kept = dict.fromkeys(done)
        for data, row in self.cells():
            grid = self.grid(data, row)
            total += len(grid) + len(self.runs(data, row, choices(self.table, self.scale, data, row)[0]))
            finished += sum(point.key in kept for point in grid)
        trials = sum(key.startswith("trial") for key in kept)
        return finished + trials, total


def _loss(outcome: Outcome | None) -> float:
    return math.inf if outcome is None else outcome.valid_loss
