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
class Protocol:
    """What a paper does at every scale: its optimiser, how it splits the data, and how it scales images.

    The optimiser is AdamW, which is Adam if `weight_decay` is 0. With `split_per_trial` every trial has a
    split of its own, drawn with its seed. With `official_test` the test part is the official one, if there
    is one. With `unit_variance` the channels of images are centred and scaled to unit variance; otherwise
    pixels are mapped to [-1, 1].
    """

    weight_decay: float = 0.01
    split_per_trial: bool = False
    official_test: bool = True
    unit_variance: bool = False

    def describe_split(self) -> str:
        """Describe the splits in a few words."""
        number = "a new one for each trial" if self.split_per_trial else "one for all trials"
        test = "the official test part where there is one" if self.official_test else "64/16/20 of all rows"
        return f"{number}, stratified, {test}"


#: What tables say of rows with the setting `{"stop": "metric"}`.
STOPPED_NOTE = (
    "Rows 'stopped by F1' are trained as long as the log-loss or F1 of the validation part improves, and "
    "keep the weights with the best F1: the log-loss of images rises after a few epochs, while decisions "
    "still improve."
)


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: a loss (or an estimator) by name, with its settings.

    With `rule`, decisions are made by a rule fitted on the validation part. With `raw`, the thresholds of
    columns over thresholds are applied to the output of the network, not to its probability. `extra` marks
    rows that are not in the paper. `data` names the datasets the row applies to; None means all of them.
    With `tuned_as` the row compares no settings: it takes those of the first row with this method.
    """

    name: str
    method: str
    settings: Settings = field(default_factory=dict)
    rule: bool = False
    extra: bool = False
    data: tuple[str, ...] | None = None
    raw: bool = False
    tuned_as: str = ""

    def applies_to(self, data: PaperData) -> bool:
        """Whether the row is trained on a dataset."""
        return self.data is None or data.name in self.data

    def is_trained_as(self, other: PaperRow) -> bool:
        """Whether both rows are scores of the same networks, which differ only in how they decide.

        >>> ce, rule = PaperRow("CE", "ce"), PaperRow("CE + rule", "ce", {"metric": "mcc"}, rule=True)
        >>> ce.is_trained_as(rule), ce.is_trained_as(PaperRow("Dice", "dice"))
        (True, False)
        """
        if self == other:
            return True
        sides = [
            {name: value for name, value in row.settings.items() if name not in ("metric", "betas")}
            for row in (self, other)
        ]
        return self.method == other.method == "ce" and sides[0] == sides[1]

    def uses(self, setting: str, network: str) -> bool:
        """Whether a setting of the scale has any effect on this row with this network."""
        if self.method in ESTIMATORS:
            return setting == "rows"
        if setting in ("decay", "floor"):
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
    """How much is computed: trials per cell, and the settings of all cells, of a dataset or of a row.

    The settings of a dataset may include `trials`, if it has another number of them.
    `skip` contains the cells that are not run, as pairs of a dataset (`""`: all of them) and a row. `grid`
    replaces settings while settings are compared, to save time.
    """

    trials: int
    settings: Settings
    by_data: Mapping[str, Settings] = field(default_factory=dict)
    by_row: Mapping[str, Settings] = field(default_factory=dict)
    skip: tuple[tuple[str, str], ...] = ()
    grid: Settings = field(default_factory=dict)

    def count_trials(self, data: str) -> int:
        """How many times each cell of a dataset is trained at its best setting."""
        return int(self.by_data.get(data, {}).get("trials", self.trials))

    def skips(self, data: str, row: str) -> bool:
        """Whether a cell is not run."""
        return (data, row) in self.skip or ("", row) in self.skip


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
    #: What two processors do in a night; None where `full` takes no longer.
    medium: Scale | None = None
    protocol: Protocol = Protocol()
    #: The metric for which rules are fitted, and on which boosters and "aligned" networks are trained.
    metric: str = "f1"
    #: (row, dataset, column) -> what the paper reports.
    numbers: Mapping[tuple[str, str, str], Number] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Which numbers are bold: ("at least", row), ("above", row) or ("best", "").
    bold: tuple[str, str] | None = None
    #: The row with which all others are compared, trial by trial, in a table of their own.
    reference: str = ""
    #: Decimals of the paper's means.
    digits: int = 3

    @property
    def scales(self) -> dict[str, Scale]:
        """The scales of this table by name, from the quickest to the paper's own."""
        scales = {"small": self.small, "medium": self.medium, "full": self.full}
        return {name: scale for name, scale in scales.items() if scale is not None}

    def scale(self, name: str) -> Scale:
        """Return a scale by name."""
        return self.scales[name]

    @property
    def has_curves(self) -> bool:
        """Whether its networks are scored in every epoch, not only once they are trained."""
        return any(column.source.endswith(" epochs") for column in self.columns)

    def cells(self) -> Iterator[tuple[PaperData, PaperRow]]:
        """Yield every dataset with every row that is trained on it, dataset by dataset."""
        for data in self.data:
            for row in self.rows:
                if row.applies_to(data):
                    yield data, row

    def find_cells(self, data: str, rows: Sequence[str]) -> tuple[PaperData, list[PaperRow]]:
        """Return a dataset and rows of this table by their names."""
        known = {row.name: row for row in self.rows}
        return next(one for one in self.data if one.name == data), [known[name] for name in rows]

    def identity(self, scale: str, seed: int) -> str:
        """A hash of the work: of what is computed, not of titles, notes or the paper's numbers."""
        work = {name: value for name, value in vars(self.scale(scale)).items() if name != "skip"}
        known = [data.name for data in self.data]
        work["by_data"] = {name: value for name, value in work["by_data"].items() if name in known}
        parts = [
            [dataclasses.asdict(data) for data in self.data],
            [_drop_empty(dataclasses.asdict(row), "tuned_as") for row in self.rows],
            [dataclasses.asdict(column) for column in self.columns],
            _drop_empty(work, "grid"),
            dataclasses.asdict(self.protocol),
            [self.metric, scale, seed],
        ]
        text = json.dumps(parts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _drop_empty(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave a field out while it is empty: studies that were begun before there was such a field resume."""
    return {key: value for key, value in fields.items() if key != name or value}


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
    effective = {
        name: value for name, value in merged.items() if name != "trials" and row.uses(name, network)
    }
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
