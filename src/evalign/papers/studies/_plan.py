"""Which points a table needs: first the grid of every cell, then trials at the best setting."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalign.papers.tables import PaperData, PaperRow, PaperTable, grid_settings
from evalign.papers.training import Outcome, Point, is_stackable


@dataclass(frozen=True)
class StudyPlan:
    """A table at a scale with a seed, for the datasets that are available."""

    table: PaperTable
    scale: str
    seed: int
    data: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the study: each scale and each seed has its own."""
        return f"{self.table.name} {self.scale} seed {self.seed}"

    def cells(self) -> Iterator[tuple[PaperData, PaperRow]]:
        """Yield the cells that are run: their data is available, and the scale does not skip them."""
        for data, row in self.table.cells():
            if self._has_cell(data, row):
                yield data, row

    def _has_cell(self, data: PaperData, row: PaperRow) -> bool:
        skipped = self.table.scale(self.scale).skips(data.name, row.name)
        return data.name in self.data and row.applies_to(data) and not skipped

    def settings(self, data: PaperData, row: PaperRow) -> list[dict[str, Any]]:
        """Return the settings of a cell that are compared."""
        return grid_settings(self.table, self.scale, data, row)

    @cached_property
    def families(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The rows of a dataset that are scores of the same networks, for each cell."""
        families = {}
        for data, row in self.cells():
            settings = self.settings(data, row)
            families[data.name, row.name] = tuple(
                other.name
                for other in self.table.rows
                if other.is_trained_as(row)
                and self._has_cell(data, other)
                and self.settings(data, other) == settings
            )
        return families

    def grid_points(self, data: PaperData, row: PaperRow) -> list[Point]:
        """Return one point per setting of a cell, or none if there is only one setting."""
        row = self._tuned_row(data, row)
        settings = self.settings(data, row)
        rows, seeds = self.families[data.name, row.name][:1], (self.seed * 1000,)
        network = str(settings[0].get("network", data.network))
        cheaper = self.table.scale(self.scale).grid.items()
        replaced = {name: value for name, value in cheaper if row.uses(name, network)}
        points = [Point("grid", data.name, rows, {**setting, **replaced}, seeds) for setting in settings]
        return points if len(points) > 1 else []

    def _tuned_row(self, data: PaperData, row: PaperRow) -> PaperRow:
        """The row whose settings are compared to choose those of a row: usually itself."""
        if not row.tuned_as:
            return row
        return next(other for place, other in self.cells() if place == data and other.method == row.tuned_as)

    def trial_points(self, data: PaperData, row: PaperRow, setting: Mapping[str, Any]) -> list[Point]:
        """Return the trials of a cell: one point for all if they can be trained at once, else one each."""
        count = self.table.scale(self.scale).count_trials(data.name)
        seeds = [self.seed * 1000 + 1 + number for number in range(count)]
        together = is_stackable(row, str(setting.get("network", data.network)))
        groups = [tuple(seeds)] if together else [(seed,) for seed in seeds]
        rows = self.families[data.name, row.name]
        return [Point("trial", data.name, rows, setting, group) for group in groups]

    def best_setting(
        self, data: PaperData, row: PaperRow, done: Mapping[str, Outcome | None]
    ) -> Mapping[str, Any] | None:
        """Return the setting with the lowest validation loss; None if the grid is not done, or all failed."""
        points = self.grid_points(data, row)
        if not points:
            return self.settings(data, row)[0]
        if any(point.key not in done for point in points):
            return None
        losses = [_loss(done[point.key]) for point in points]
        best = min(range(len(points)), key=losses.__getitem__)
        return self.settings(data, self._tuned_row(data, row))[best] if losses[best] < math.inf else None

    def runnable_points(self, done: Mapping[str, Outcome | None]) -> list[Point]:
        """Return all points that can be run, given those that are done (None: failed)."""
        points: dict[str, Point] = {}
        for data, row in self._trained_cells():
            setting = self.best_setting(data, row, done)
            trials = [] if setting is None else self.trial_points(data, row, setting)
            points |= {point.key: point for point in (*self.grid_points(data, row), *trials)}
        return list(points.values())

    def count_points(self, done: Collection[str]) -> tuple[int, int]:
        """Return how many points are done, and how many there will be in total."""
        total, grid = 0, set()
        for data, row in self._trained_cells():
            grid |= {point.key for point in self.grid_points(data, row)}
            total += len(self.trial_points(data, row, self.settings(data, row)[0]))
        trials = tuple(f"trial | {name} | " for name in self.data)  # a study may have more data than this one
        n_done = sum(key.startswith(trials) for key in done) + sum(key in grid for key in done)
        return n_done, total + len(grid)

    def _trained_cells(self) -> Iterator[tuple[PaperData, PaperRow]]:
        """Yield one cell of each family."""
        for data, row in self.cells():
            if self.families[data.name, row.name][0] == row.name:
                yield data, row


def _loss(outcome: Outcome | None) -> float:
    return math.inf if outcome is None else outcome.valid_loss
