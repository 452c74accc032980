"""What CatBoost needs beyond an objective: it never passes all rows at once, and many classes row by row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

#: The rows of a round if scores are not equal at the start of training, so that its end cannot be seen.
DEFAULT_ROUND = 20_000
#: The most single rows that are added to the confusion matrix at a time.
ROWS_AT_A_TIME = 200


@dataclass(frozen=True)
class Total:
    """The soft confusion matrix of rows as a weighted sum, and the number of the rows."""

    matrix: Tensor
    rows: int

    @property
    def shares(self) -> Tensor:
        """The matrix with sum 1."""
        return self.matrix / self.matrix.sum().clamp_min(torch.finfo(self.matrix.dtype).tiny)

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row."""
        return float(self.matrix.sum()) / self.rows or 1.0


class Rounds:
    """The soft confusion matrix of all rows, from the blocks in which CatBoost passes them.

    The metric is a function of all rows, but CatBoost passes blocks of about a thousand, from several
    threads, and each row several times per round. The last complete round gives the matrix of all rows, as
    it was one tree ago. The first round is the one in which all scores are equal, which shows how many rows
    a round has; until it ends, the rows so far are used. Equal scores later on are a new `fit`.

    >>> rounds, right, wrong = Rounds(), Total(torch.eye(2), rows=2), Total(torch.eye(2).flip(0), rows=1)
    >>> for block, equal in [(right, True), (right, True), (wrong, False), (wrong, False), (right, False)]:
    ...     rounds.add(block, equal)
    >>> rounds.total.matrix.tolist(), rounds.total.rows          # the last three blocks are a round
    ([[1.0, 2.0], [2.0, 1.0]], 4)
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """Forget all rows."""
        self.is_first, self.rows = True, DEFAULT_ROUND
        self.current: Total | None = None
        self.last: Total | None = None

    @property
    def total(self) -> Total | None:
        """The last complete round, or the rows so far if there is none."""
        return self.current if self.last is None else self.last

    def add(self, block: Total, equal_scores: bool) -> None:
        """Add a block of rows, which may complete a round."""
        if equal_scores and not self.is_first:
            self.start()
        if self.is_first and not equal_scores:
            self.is_first = False
            self.rows = self.rows if self.current is None else self.current.rows
            self.last, self.current = self.current, None
        if self.current is None:
            self.current = block
        else:
            self.current = Total(self.current.matrix + block.matrix, self.current.rows + block.rows)
        if not self.is_first and self.current.rows >= self.rows:
            self.last, self.current = self.current, None


@dataclass(frozen=True)
class RowPrices:
    """The cost matrix, what is at stake for each class, and its scale, as Python's numbers."""

    cost: list[list[float]]
    stakes: list[float]
    scale: float


class SingleRows:
    """Rounds of single rows: the prices for the next row, and the rows that wait to be added."""

    def __init__(self, rounds: Rounds, price: Callable[[Total], RowPrices]) -> None:
        self.rounds, self.price = rounds, price
        self._start(0)

    def _start(self, classes: int) -> None:
        self.rounds.start()
        self.prices: RowPrices | None = None
        self.priced: Total | None = None
        self._clear(classes)

    def _clear(self, classes: int) -> None:
        self.matrix = [[0.0] * classes for _ in range(classes)]
        self.rows, self.equal_scores = 0, True

    def get_prices(self, classes: int, equal_scores: bool) -> RowPrices:
        """The prices for a row, from the last complete round."""
        if len(self.matrix) != classes or (equal_scores and not (self.equal_scores and self.rounds.is_first)):
            self._start(classes)
        so_far = 0 if self.rounds.current is None else self.rounds.current.rows
        room = max(10, so_far) if self.rounds.is_first else self.rounds.rows - so_far
        if self.rows >= min(ROWS_AT_A_TIME, room) or self.equal_scores != equal_scores:
            self._flush(classes)
        total = self.rounds.total
        if total is None:  # the memberships of equal scores are equal, and nothing is known about the classes
            total = Total(torch.full((classes, classes), classes**-2.0, dtype=torch.float64), 1)
        if self.prices is None or total is not self.priced:
            self.prices, self.priced = self.price(total), total
        return self.prices

    def add(self, label: int, memberships: Sequence[float], weight: float, equal_scores: bool) -> None:
        """Add a row to those that wait."""
        row = self.matrix[label]
        for column, one in enumerate(memberships):
            row[column] += weight * one
        self.rows += 1
        self.equal_scores = equal_scores

    def _flush(self, classes: int) -> None:
        if self.rows:
            self.rounds.add(
                Total(torch.tensor(self.matrix, dtype=torch.float64), self.rows), self.equal_scores
            )
        self._clear(classes)


def differentiate_memberships(
    logits: Sequence[float], costs: Sequence[float], temperature: float
) -> tuple[list[float], list[float]]:
    """The memberships g of one row, and the gradient of costs . g with respect to its logits.

    In plain Python, since a call of PyTorch takes longer than a row of a few classes. The formulas, in which
    the dynamic threshold is 1, are those of `evalign.softsets.logit_confusion`.

    >>> memberships, gradient = differentiate_memberships([2.0, 0.0, 1.0], [1.0, 0.0, 0.0], 0.2)
    >>> [round(one, 3) for one in memberships], [round(one, 3) for one in gradient]
    ([0.72, 0.073, 0.206], [0.257, -0.053, -0.204])
    """
    low, high = 1 - 2.5 * temperature, 1 + 2.5 * temperature
    steep = (1 - 2 * temperature) / (5 * temperature)
    flat, floor = (temperature / low, 0.0) if low > 0 else (steep, temperature)
    columns = range(len(logits))
    first = max(columns, key=logits.__getitem__)
    second = max((j for j in columns if j != first), key=logits.__getitem__)
    top = 2 / (1 + exp(logits[second] - logits[first]))
    x = [top * exp(one - logits[first]) for one in logits]
    above = max(top - high, 0.0)
    slope = 0.0 if floor else temperature / (sum(x) - high)
    g = [flat * one + (steep - flat) * max(one - low, 0.0) + floor for one in x]
    g[first] = steep * (top - above) + 0.5 - steep + above * slope
    norm = sum(g)
    g = [one / norm for one in g]
    value = sum(cost * one for cost, one in zip(costs, g, strict=True))
    by_step = [(cost - value) / norm for cost in costs]
    by_total = -by_step[first] * above * slope * slope / temperature
    gradient = [
        one * (by * (steep if one > low else flat) + by_total) for one, by in zip(x, by_step, strict=True)
    ]
    gradient[first] = top * (by_step[first] * (slope if above > 0 else steep) + by_total)
    mass = sum(gradient)
    gradient[first] -= mass * top / 2
    gradient[second] += mass * (top / 2 - 1)
    return g, gradient
