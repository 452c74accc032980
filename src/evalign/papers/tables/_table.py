"""A table of a paper as data: what is trained on what, how it is scored, and what the paper reports."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Names and values of settings; a tuple is a list of values to search.
Settings = Mapping[str, Any]

#: Methods that are not networks: of a scale's settings they use only the number of rows.
ESTIMATORS = ("booster", "forest", "ccs")


class Number(NamedTuple):
    """A number reported by a paper: mean, standard deviation, and whether it is set in bold."""

    mean: float
    deviation: float
    bold: bool = False


@dataclass(frozen=True)
class PaperData:
    """A dataset of a table: its name in `evalign.papers.data`, its heading, and its network."""

    name: str
    title: str
    network: str = "mlp"


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: a loss (or an estimator) by name, with its settings.

    With `rule`, decisions are made by a rule fitted on the validation part. `extra` marks rows that are
    not in the paper. `data` names the datasets the row applies to; None means all of them.
    """

    name: str
    method: str
    settings: Settings = field(default_factory=dict)
    rule: bool = False
    extra: bool = False
    data: tuple[str, ...] | None = None

    def uses(self, setting: str, network: str) -> bool:
        """Whether a setting of the scale has any effect on this row with this network."""
        if self.method in ESTIMATORS:
            return setting == "rows"
        if setting == "decay":
            return self.method == "metric" and "step" not in self.settings
        return setting != "dropout" or network == "mlp"


@dataclass(frozen=True)
class PaperColumn:
    """A column of a table: a metric as text, and what it is computed from.

    `source` is one of

    - `"decisions"`: the predicted classes;
    - `"thresholds"`: the mean over the thresholds 0.1, 0.2, ..., 0.9, for two classes;
    - `"scores"`: the probabilities, for the area under the ROC curve;
    - `"time"` or `"pace"`: seconds of training, in total or per epoch;
    - `"running epochs"`: a curve with one value per epoch, from the outputs of the network on the training
      part while it is being trained;
    - `"train epochs"`, `"valid epochs"` or `"test epochs"`: the same after each epoch.

    For curves the metric `"loss"` is the row's own loss. With `class_name` the metric is that of this
    class against the rest.
    """

    name: str
    metric: str
    source: str = "decisions"
    class_name: str = ""
    extra: bool = False


@dataclass(frozen=True)
class Scale:
    """How much is computed: trials per cell, and the settings of all cells, of a dataset or of a row."""

    trials: int
    settings: Settings
    by_data: Mapping[str, Settings] = field(default_factory=dict)
    by_row: Mapping[str, Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper."""

    name: str
    title: str
    citation: str
    data: tuple[PaperData, ...]
    rows: tuple[PaperRow, ...]
    columns: tuple[PaperColumn, ...]
    full: Scale
    small: Scale
    #: The metric for which rules are fitted, and on which boosters and "aligned" networks are trained.
    metric: str = "f1"
    #: (row, dataset, column) -> what the paper reports.
    numbers: Mapping[tuple[str, str, str], Number] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Which numbers are bold: ("at least", row), ("above", row) or ("best", "").
    bold: tuple[str, str] | None = None
    #: Decimals of the paper's means.
    digits: int = 3

    def scale(self, name: str) -> Scale:
        """Return the scale `"small"` or `"full"`."""
        return self.small if name == "small" else self.full

    @property
    def has_curves(self) -> bool:
        """Whether its networks are scored in every epoch, not only once they are trained."""
        return any(column.source.endswith(" epochs") for column in self.columns)

    def cells(self) -> Iterator[tuple[PaperData, PaperRow]]:
        """Yield every dataset with every row that is trained on it, dataset by dataset."""
        for data in self.data:
            for row in self.rows:
                if row.data is None or data.name in row.data:
                    yield data, row

    def find_cell(self, data: str, row: str) -> tuple[PaperData, PaperRow]:
        """Return a dataset and a row of this table by their names."""
        return next(cell for cell in self.cells() if (cell[0].name, cell[1].name) == (data, row))

    def identity(self, scale: str, seed: int) -> str:
        """A hash of the work: of what is computed, not of titles, notes or the paper's numbers."""
        parts = [
            [dataclasses.asdict(data) for data in self.data],
            [dataclasses.asdict(row) for row in self.rows],
            [dataclasses.asdict(column) for column in self.columns],
            dataclasses.asdict(self.scale(scale)),
            [self.metric, scale, seed],
        ]
        text = json.dumps(parts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def grid_settings(table: PaperTable, scale: str, data: PaperData, row: PaperRow) -> list[dict[str, Any]]:
    """Return the settings of a cell, one dictionary per point of its grid.

    Settings of the scale are overridden by those of the dataset, and these by those of the row. A setting
    that has no effect on the row is left out.

    >>> grid = Scale(1, {"learning_rate": (0.1, 0.01), "decay": (0.8, 0.9), "max_epochs": 5})
    >>> row = PaperRow("CE", "ce")
    >>> table = PaperTable("t", "", "", (PaperData("d", "D"),), (row,), (), grid, grid)
    >>> grid_settings(table, "full", table.data[0], row)
    [{'learning_rate': 0.1, 'max_epochs': 5}, {'learning_rate': 0.01, 'max_epochs': 5}]
    """
    spec = table.scale(scale)
    merged = {**spec.settings, **spec.by_data.get(data.name, {}), **spec.by_row.get(row.name, {})}
    network = merged.get("network", data.network)
    effective = {name: value for name, value in merged.items() if row.uses(name, network)}
    values = [value if isinstance(value, tuple) else (value,) for value in effective.values()]
    return [dict(zip(effective, point, strict=True)) for point in itertools.product(*values)]


def parse_numbers(
    data: Sequence[str], columns: Sequence[str], text: str
) -> dict[tuple[str, str, str], Number]:
    """Parse a paper's numbers: one line per row, `name | mean deviation | ...`, a star marks bold.

    >>> parse_numbers(["A", "B"], ["F1"], "CE | 0.5 0.01 | *0.75 0.02")
    {('CE', 'A', 'F1'): Number(mean=0.5, deviation=0.01, bold=False),
     ('CE', 'B', 'F1'): Number(mean=0.75, deviation=0.02, bold=True)}
    """
    numbers = {}
    places = [(name, column) for name in data for column in columns]
    for line in text.strip().splitlines():
        row, *cells = (part.strip() for part in line.split("|"))
        for (name, column), cell in zip(places, cells, strict=True):
            mean, deviation = cell.lstrip("*").split()
            numbers[row, name, column] = Number(float(mean), float(deviation), cell.startswith("*"))
    return numbers
