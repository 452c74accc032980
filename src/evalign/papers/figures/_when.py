"""A figure of our own: the gain of training on the metric over cross-entropy with a fitted rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evalign.decisions import fit_rule
from evalign.estimators import mlp
from evalign.metrics import f1
from evalign.papers.data import SYNTHETIC, Synthetic
from evalign.papers.figures._figure import Claim, Line, Panel, PaperFigure
from evalign.papers.studies import StudyResults
from evalign.papers.tables import OTHER_METRICS, WHEN

RULE = "CE + rule"
GAIN = "gain over CE + rule"
#: The hidden units of the networks, from the smallest to the largest.
HIDDEN: dict[str, tuple[int, ...]] = {
    "linear": (), "8": (8,), "32-16": (32, 16), "512-256-128": (512, 256, 128)
}  # fmt: skip
#: Title, horizontal axis, whether it is logarithmic, and the level of each place, after the network.
FACTORS: tuple[tuple[str, str, bool, dict[float, str]], ...] = (
    ("Imbalance", "share of the positives", True,
     {0.01: ", share 0.01", 0.03: ", share 0.03", 0.1: "", 0.3: ", share 0.3"}),
    ("Rows", "rows for training and validation", True,
     {500: ", rows 500", 1500: ", rows 1500", 4000: "", 12000: ", rows 12000"}),
    ("Wrong labels", "share of wrong labels", False,
     {0: "", 0.1: ", noise 0.1", 0.2: ", noise 0.2", 0.3: ", noise 0.3"}),
    ("Classes", "number of classes", False,
     {2: "", 3: ", classes 3", 6: ", classes 6", 12: ", classes 12"}),
)  # fmt: skip


class Gains(NamedTuple):
    """The differences of paired trials."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean; NaN for fewer than two trials."""
        count = len(self.values)
        return float(np.std(self.values, ddof=1) / math.sqrt(count)) if count > 1 else math.nan

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def measure_gain(results: StudyResults, level: str, row: str, base: str = RULE, column: str = "F1") -> Gains:
    """Return the differences between two rows, trial by trial: they share rows, split and seed."""
    new, old = (results.cells[f"synthetic {level}", name].scores for name in (row, base))
    pairs = zip(new, old, strict=False)  # of a study that is not complete
    return Gains(tuple(one[column] - other[column] for one, other in pairs))


def gains(results: StudyResults) -> tuple[Panel, ...]:
    """One panel per factor."""
    weights = {name: sum(p.numel() for p in mlp(6, 2, sizes).parameters()) for name, sizes in HIDDEN.items()}
    bends = {0.0: "linear, bend 0", 0.5: "linear, bend 0.5", 1.0: "linear", 2.0: "linear, bend 2"}
    capacity = {float(weights[name]): name for name in HIDDEN}
    panels = [
        Panel("Capacity", "weights of the network", GAIN, _lines(results, capacity), log=True),
        Panel("Misspecification of a linear model", "size of the quadratic part", GAIN,
              _lines(results, bends, " linear")),
    ]  # fmt: skip
    for title, label, log, places in FACTORS:
        lines: list[Line] = []
        for network in ("linear", "32-16"):
            levels = {x: network + change for x, change in places.items()}
            lines += _lines(results, levels, f" {network}")
        if title == "Wrong labels":
            levels = {x: f"linear{change}" for x, change in places.items()}
            lines += _lines(results, levels, " linear", ("surrogate, q = 0", "surrogate, q = 0.7"))
        panels.append(Panel(title, label, GAIN, tuple(lines), log))
    return (*panels, _metrics_panel(results))


def _lines(
    results: StudyResults,
    levels: dict[float, str],
    suffix: str = "",
    rows: Sequence[str] = ("aligned", "EAST"),
) -> tuple[Line, ...]:
    """The mean gain of each row by level, and that of each trial."""
    lines = []
    for row in rows:
        found = [measure_gain(results, level, row) for level in levels.values()]
        series = f"{row},{suffix}" if suffix else row
        lines += _as_lines(series, tuple(levels), found)
    return tuple(lines)


def _as_lines(series: str, x: tuple[float, ...], found: Sequence[Gains]) -> list[Line]:
    trials = min(len(gain.values) for gain in found)
    mean = Line(series, x, tuple(gain.mean for gain in found))
    each = [Line(series, x, tuple(gain.values[i] for gain in found), i + 1) for i in range(trials)]
    return [mean, *each]


def _metrics_panel(results: StudyResults) -> Panel:
    lines: list[Line] = []
    names = ("F1", *OTHER_METRICS)
    for network in ("linear", "32-16"):
        found = [
            measure_gain(results, network, "aligned")
            if name == "F1"
            else measure_gain(results, network, f"aligned, {name}", f"{RULE}, {name}", name)
            for name in names
        ]
        lines += _as_lines(f"aligned, {network}", tuple(range(1, len(names) + 1)), found)
    return Panel("Metric", "", GAIN, tuple(lines), names=names)


@lru_cache(maxsize=64)
def find_best_possible(spec: Synthetic) -> float:
    """The F1 on a test part of the best rule for the true probabilities."""
    data = spec.draw("best", 1)
    p, y = spec.probabilities(data.X)[data.official_test], data.y[data.official_test]
    rule = fit_rule(p, y, f1(), classes=range(spec.classes))
    return float(f1().score(y, rule.predict(p)))


def gain_numbers(results: StudyResults) -> list[str]:
    """One line per level: scores, and gains with their standard errors."""
    table = [
        "| Data and network | best possible | CE | CE + rule | EAST - (CE + rule) | aligned - (CE + rule) |",
        "|---|---|---|---|---|---|",
    ]
    for data in results.plan.table.data:
        cells = {name: results.cells[data.name, name].number("F1") for name in ("CE", RULE)}
        scores = " | ".join("" if one is None else f"{one.mean:.3f}" for one in cells.values())
        found = " | ".join(str(measure_gain(results, data.title, row)) for row in ("EAST", "aligned"))
        table.append(
            f"| {data.title} | {find_best_possible(SYNTHETIC[data.name]):.3f} | {scores} | {found} |"
        )
    return table


def gain_claims(results: StudyResults) -> list[Claim]:
    """What theory leads one to expect, and what was measured."""
    small, rich = (measure_gain(results, level, "aligned") for level in ("linear", "512-256-128"))
    right = measure_gain(results, "linear, bend 0", "aligned")
    losses = [
        Gains(tuple(a - b for a, b in zip(*(
            [one["F1"] for one in results.cells[f"synthetic linear{change}", f"surrogate, q = {q}"].scores]
            for change in (", noise 0.3", "")), strict=False)))
        for q in (0, 0.7)
    ]  # fmt: skip
    return [
        Claim("A model that cannot represent the probabilities gains from training on the metric",
              f"linear, quadratic data: {small}", small.mean > 2 * small.error),
        Claim("A model that can represent them gains nothing over a fitted rule",
              f"linear, linear data: {right}", right.mean < max(0.01, 2 * right.error)),
        Claim("A rich network gains little", f"512-256-128: {rich}", rich.mean < max(0.01, 2 * rich.error)),
        Claim("Lee et al.: the surrogate with q > 0 suffers less from wrong labels than with q = 0",
              f"F1 lost with 30 % wrong labels: {losses[0]} with q = 0, {losses[1]} with q = 0.7",
              losses[1].mean > losses[0].mean),
    ]  # fmt: skip


FIGURE = PaperFigure(
    "when-it-pays", "when training on the metric pays", WHEN.citation, "gains", WHEN,
    gains, gain_numbers, gain_claims,
    (
        "Six normal features; P(y | x) = softmax(1.5 (x W + bend (x^2 - 1) V) + b). If nothing else is said: "
        "two classes, 10 % positives, 4,000 rows for training and validation (80/20), bend = 1, no wrong "
        "labels. The test part has 20,000 new rows with true labels; every trial draws new rows.",
        "The rule is fitted on the validation part. 'best possible' is the best rule for the true "
        "probabilities, on the test rows of the first trial. Gains are means of paired differences with "
        "their standard errors.",
        "'EAST' trains on the metric from random weights, annealed; 'aligned' trains on cross-entropy first, "
        "then on the metric anchored by cross-entropy. Both decide by the largest probability, without any "
        "rule.",
        "With more than two classes F1 is the mean over classes, and the rarest class has a share of 0.2 "
        "divided by their number.",
    ),
)  # fmt: skip
