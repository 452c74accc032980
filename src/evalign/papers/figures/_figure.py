"""A figure of a paper as data: what is trained for it, its panels, and what the paper sees in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evalign.papers._results import Results
from evalign.papers._table import Table


@dataclass(frozen=True)
class Line:
    """A curve, or points in their order; repetition 0 is a formula or the median of all repetitions."""

    series: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    repetition: int = 0


@dataclass(frozen=True)
class Panel:
    """A panel of a figure."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]


class Claim(NamedTuple):
    """What a paper says of a figure, what is seen here, and whether it holds here."""

    paper: str
    here: str
    holds: bool


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. Figures with the same study share its training runs.

    `kind` says how it is drawn: `"shapes"` (curves), `"convergence"` (curves over epochs) or `"scatter"`
    (a point for every epoch).
    """

    name: str
    title: str
    citation: str
    kind: str
    study: Table
    panels: Callable[[Results], tuple[Panel, ...]]
    #: The numbers behind the claims as lines of a Markdown table.
    numbers: Callable[[Results], list[str]]
    claims: Callable[[Results], list[Claim]]
    notes: tuple[str, ...] = ()


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's coefficient: sum (x - mean x)(y - mean y) / (n s_x s_y); NaN if one of them never varies.

    >>> correlation([0, 1, 2], [5, 3, 1]), correlation([0, 1, 2], [1, 1, 1])
    (-1.0, nan)
    """
    apart = [np.asarray(values, dtype=float) - np.mean(values) for values in (x, y)]
    size = float(np.sqrt((apart[0] ** 2).sum() * (apart[1] ** 2).sum()))
    return float((apart[0] * apart[1]).sum() / size) if size > 0 else float("nan")
