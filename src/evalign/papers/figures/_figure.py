"""A figure of a paper as data: what is trained for it, its panels, and what the paper claims about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evalign.papers.studies import StudyResults
from evalign.papers.tables import PaperTable


@dataclass(frozen=True)
class Line:
    """A curve, or points in order; repetition 0 is a formula or the median over all repetitions."""

    series: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    repetition: int = 0


@dataclass(frozen=True)
class Panel:
    """A panel of a figure; `log` asks for a logarithmic horizontal axis.

    With `names`, places 1, 2, ... of the horizontal axis stand for things in no order.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log: bool = False
    names: tuple[str, ...] = ()


class Claim(NamedTuple):
    """A claim of a paper about a figure, what our results show, and whether it holds for them.

    None if they cannot tell, since a loss that the claim is about learned nothing.
    """

    paper: str
    here: str
    holds: bool | None


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper. Figures with the same study share its training runs.

    `kind` determines how it is drawn: `"shapes"` (curves), `"convergence"` (curves over epochs),
    `"scatter"` (one point per epoch) or `"gains"` (means with standard errors).
    """

    name: str
    title: str
    citation: str
    kind: str
    study: PaperTable
    panels: Callable[[StudyResults], tuple[Panel, ...]]
    #: The numbers behind the claims, as the lines of a Markdown table.
    numbers: Callable[[StudyResults], list[str]]
    claims: Callable[[StudyResults], list[Claim]]
    notes: tuple[str, ...] = ()


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's coefficient, sum (x - mean x)(y - mean y) / (n s_x s_y); NaN if one of them is constant.

    >>> correlation([0, 1, 2], [5, 3, 1]), correlation([0, 1, 2], [1, 1, 1])
    (-1.0, nan)
    """
    x_centred, y_centred = (np.asarray(values, dtype=float) - np.mean(values) for values in (x, y))
    size = float(np.sqrt((x_centred**2).sum() * (y_centred**2).sum()))
    return float((x_centred * y_centred).sum() / size) if size > 0 else float("nan")
