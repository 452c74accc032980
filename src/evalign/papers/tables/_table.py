"""A table of a paper as data: what is trained on what, how it is judged, and what the paper reports."""

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

#: Methods that are no networks: of the settings of a scale they heed the number of rows alone.
ESTIMATORS = ("booster", "forest", "ccs")


class Number(NamedTuple):
    """A number of a paper: mean, deviation, and whether it is set in bold."""

    mean: float
    deviation: float
    bold: bool = False


@dataclass(frozen=True)
class Data:
    """A dataset of a table: its name in `evalign.datasets`, its heading, and the network for it."""

    name: str
    title: str
    network: str = "mlp"


@dataclass(frozen=True)
class Row:
    """A row of a table: a loss (or an estimator) by name, with its settings.

    `rule` decides by a rule fitted on the validation part; `extra` marks what the paper lacks; `data`
    names the datasets it is for, None for all.
    """

    name: str
    method: str
    settings: Settings = field(default_factory=dict)
    rule: bool = False
    extra: bool = False
    data: tuple[str, ...] | None = None

    def heeds(self, setting: str, network: str) -> bool:
        """Whether a setting of the scale changes anything for this row and this network."""
        if self.method in ESTIMATORS:
            return setting == "rows"
        if setting == "decay":
            return self.method == "metric" and "step" not in self.settings
        return setting != "dropout" or network == "mlp"


@dataclass(frozen=True)
class Column:
    """A column of a table: a metric as text, and what of the model it judges.

    `of` is `"decisions"` (predicted classes), `"thresholds"` (the mean over 0.1, 0.2, ..., 0.9 for two
    classes), `"scores"` (probabilities, for the area under the ROC curve), `"time"` (seconds of
    training), `"pace"` (seconds an epoch), or a curve, one value for every epoch: `"running epochs"`
    (what the network says of the training part while it is trained), or after it `"train epochs"`,
    `"valid epochs"` or `"test epochs"`; there the metric `"loss"` is the row's own loss. With `of_class`,
    the name of a class, the metric is that of this class against the rest.
    """

    name: str
    metric: str
    of: str = "decisions"
    of_class: str = ""
    extra: bool = False


@dataclass(frozen=True)
class Scale:
    """How much is computed: trials of each cell, and settings (tuples are searched) of all, or of some."""

    trials: int
    settings: Settings
    by_data: Mapping[str, Settings] = field(default_factory=dict)
    by_row: Mapping[str, Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of a paper."""

    name: str
    title: str
    citation: str
    data: tuple[Data, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    full: Scale
    small: Scale
    #: What rules are fitted for and boosters and "aligned" networks are trained on.
    metric: str = "f1"
    #: (row, dataset, column) -> what the paper reports.
    published: Mapping[tuple[str, str, str], Number] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: What is set in bold: ("at least", row), ("above", row) or ("best", "").
    bold: tuple[str, str] | None = None
    #: Decimals of the paper's means.
    digits: int = 3

    def scale(self, name: str) -> Scale:
        """The scale of a name."""
        return self.small if name == "small" else self.full

    @property
    def followed(self) -> bool:
        """Whether its networks are judged after every epoch, not when they are trained."""
        return any(column.of.endswith(" epochs") for column in self.columns)

    def cells(self) -> Iterator[tuple[Data, Row]]:
        """Every dataset with every row that is trained on it, dataset by dataset."""
        for data in self.data:
            for row in self.rows:
                if row.data is None or data.name in row.data:
                    yield data, row

    def identity(self, scale: str, seed: int) -> str:
        """The same for the same work: what is computed, not how it is named or what a paper reports."""
        parts = [
            [dataclasses.asdict(data) for data in self.data],
            [dataclasses.asdict(row) for row in self.rows],
            [dataclasses.asdict(column) for column in self.columns],
            dataclasses.asdict(self.scale(scale)),
            [self.metric, scale, seed],
        ]
        text = json.dumps(parts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def choices(table: Table, scale: str, data: Data, row: Row) -> list[dict[str, Any]]:
    """The settings of a cell, one dictionary for each point of its grid.

    Later ones win: those of the scale, of the dataset, of the row. What a row does not heed is not
    searched over.

    >>> grid = Scale(1, {"lr": (0.1, 0.01), "decay": (0.8, 0.9), "max_epochs": 5})
    >>> row = Row("CE", "ce")
    >>> table = Table("t", "", "", (Data("d", "D"),), (row,), (), grid, grid)
    >>> choices(table, "full", table.data[0], row)
    [{'lr': 0.1, 'max_epochs': 5}, {'lr': 0.01, 'max_epochs': 5}]
    """
    given = table.scale(scale)
    merged = {**given.settings, **given.by_data.get(data.name, {}), **given.by_row.get(row.name, {})}
    network = merged.get("network", data.network)
    heeded = {name: value for name, value in merged.items() if row.heeds(name, network)}
    values = [value if isinstance(value, tuple) else (value,) for value in heeded.values()]
    return [dict(zip(heeded, point, strict=True)) for point in itertools.product(*values)]


def numbers(data: Sequence[str], columns: Sequence[str], text: str) -> dict[tuple[str, str, str], Number]:
    """Read published numbers: a line a row, `name | mean deviation | ...`, a star before what is bold.

    >>> numbers(["A", "B"], ["F1"], "CE | 0.5 0.01 | *0.75 0.02")
    {('CE', 'A', 'F1'): Number(mean=0.5, deviation=0.01, bold=False),
     ('CE', 'B', 'F1'): Number(mean=0.75, deviation=0.02, bold=True)}
    """
    found = {}
    places = [(name, column) for name in data for column in columns]
    for line in text.strip().splitlines():
        row, *cells = (part.strip() for part in line.split("|"))
        for (name, column), cell in zip(places, cells, strict=True):
            mean, deviation = cell.lstrip("*").split()
            found[row, name, column] = Number(float(mean), float(deviation), cell.startswith("*"))
    return found
