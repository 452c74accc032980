"""One number of the weights W after another is set to its best value, found by one sort of the rows.

A row is predicted as class j as soon as the number added to its score for j passes a limit. Sorted by
that limit, the rows pass one after another, and the confusion matrix after each is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions._goal import Goal, Standing
from evalign.metrics import hard_confusion

#: Up to so many classes, every entry of W is searched; above, the diagonal and the columns as a whole.
FEW = 5

#: Above so many classes, matrices are large and few of them are judged for a number.
MANY = 20

#: The steps that are judged then, as shares of the way to where the cost matrix points.
STEPS = np.array([0.0, 0.05, 0.15, 0.4, 1.0])

#: Rounds end once one improves the metric by less than this share.
GAIN = 1e-6


def counted(cells: Indices, weight: Floats, size: int) -> Floats:
    """The weight in each of `size` cells.

    >>> counted(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3).tolist()
    [1.0, 0.0, 5.0]
    """
    return np.bincount(cells, weight, size).astype(np.float64, copy=False)


@dataclass(frozen=True)
class RuleData:
    """The rows a rule is fitted on: probabilities (n, d), class indices, weights."""

    p: Floats
    y: Indices
    weight: Floats

    @property
    def d(self) -> int:
        """The number of classes."""
        return int(self.p.shape[1])

    def confusion(self, predicted: Indices) -> Floats:
        """The confusion matrix of predicted classes."""
        guess, truth, weight = (torch.from_numpy(side) for side in (predicted, self.y, self.weight))
        return np.asarray(hard_confusion(guess, truth, self.d, weight).numpy())


@dataclass(frozen=True)
class Candidate:
    """Weights, the confusion matrix of their rule, and how good it is."""

    weights: Floats
    matrix: Floats
    standing: Standing

    @classmethod
    def of(cls, weights: Floats, data: RuleData, goal: Goal) -> Candidate:
        """Judge weights; the same rule is given by weights from 0 to 1 with a 0 in each row."""
        shifted = weights - weights.min(1, keepdims=True)
        weights = shifted / max(float(shifted.max()), 1e-300)
        return cls.by_scores(weights, data.p @ weights, data, goal)

    @classmethod
    def by_scores(cls, weights: Floats, scores: Floats, data: RuleData, goal: Goal) -> Candidate:
        """Judge weights whose scores p W are known."""
        matrix = data.confusion(scores.argmax(1))
        return cls(weights, matrix, goal.standing(torch.from_numpy(matrix)))


def ascend(start: Candidate, data: RuleData, goal: Goal, rounds: int = 10) -> Candidate:
    """Set one number of W after the other to its best value, until none helps."""
    best, moves = start, list(_moves(data.d, lean=goal.confidence is not None))
    state = _State.of(data.p @ best.weights, best, goal)
    for _ in range(rounds):
        before = best.standing
        for row, column in moves:
            change = _best_change(state, row, column, best, data, goal)
            if change is None:
                continue
            weights, scores = best.weights.copy(), state.scores.copy()
            weights[slice(None) if row is None else row, column] += change
            scores[:, column] = data.p @ weights[:, column]
            other = Candidate.by_scores(weights, scores, data, goal)
            # Judged again: a row at its limit may fall on either side.
            if other.standing.above(best.standing):
                best, state = other, _State.of(scores, other, goal)
        if best.standing.feasible and before.feasible:
            if not best.standing.value > before.value + GAIN * abs(before.value):
                break
        elif not best.standing.above(before):
            break
    return Candidate.of(best.weights, data, goal)


def _moves(d: int, lean: bool) -> Iterator[tuple[int | None, int]]:
    """The entries to search, (row, column), and whole columns, (None, column); `lean` ones are fewer.

    A rule that shall keep its constraints on new rows must not be fitted by too many numbers.
    """
    for column in range(d):
        yield None, column
        for row in range(d):
            if row == column or (d <= FEW and not lean):
                yield row, column


@dataclass(frozen=True)
class _State:
    """The scores of all rows under some weights, and the two best classes of each."""

    scores: Floats
    first: Indices
    second: Indices
    highest: Floats
    next_best: Floats
    #: The cost matrix, where it guides the search.
    worth: Floats | None

    @classmethod
    def of(cls, scores: Floats, now: Candidate, goal: Goal) -> _State:
        """The state at some scores."""
        worth = None
        if len(now.matrix) > MANY:
            gradient = goal.metric.gradient(torch.from_numpy(now.matrix))
            worth = goal.metric.sign * gradient.numpy().reshape(-1)
        rows = np.arange(len(scores))
        first = scores.argmax(1)
        highest = scores[rows, first]
        others = scores.copy()
        others[rows, first] = -np.inf
        second = others.argmax(1)
        return cls(scores, first, second, highest, others[rows, second], worth)


@dataclass(frozen=True)
class _Passage:
    """Rows in the order in which they pass to a class: their cells of C before and after."""

    before: Indices
    after: Indices
    weight: Floats
    #: How many have passed now, and the matrix when none has.
    now: int
    base: Floats

    def matrices(self, cuts: Indices, low: int, base: Floats) -> Floats:
        """The matrices (as rows of d * d cells) at rising numbers of passed rows, from that at `low`."""
        size, high = base.size, int(cuts[-1])
        step = np.repeat(np.arange(len(cuts)), np.diff(cuts, prepend=low)) * size
        part, count = slice(low, high), len(cuts) * size
        gained = counted(step + self.after[part], self.weight[part], count)
        lost = counted(step + self.before[part], self.weight[part], count)
        table = (gained - lost).reshape(len(cuts), size)
        table[0] += base
        table = np.cumsum(table, axis=0)
        # What rounding leaves of an empty cell is no count: 1e-17 / 1e-17 would pass for perfect precision.
        table[np.abs(table) < 1e-12 * self.weight.sum()] = 0.0
        return table


def _best_change(
    state: _State, row: int | None, column: int, best: Candidate, data: RuleData, goal: Goal
) -> float | None:
    """The best number to add to an entry of W, or to a column as a whole; None if none helps."""
    mine = state.first == column
    rival = np.where(mine, state.second, state.first)
    limits = np.where(mine, state.next_best, state.highest) - state.scores[:, column]
    start = data.y * data.d
    # When no row has passed, those of the class go to their second best.
    passed = np.flatnonzero(mine)
    if row is None:
        order = np.argsort(limits)
    else:
        slope = data.p[:, row]
        moves = np.flatnonzero(slope > 1e-12)
        limits = limits / slope.clip(1e-12)
        order = moves[np.argsort(limits[moves])]
        passed = passed[slope[passed] > 1e-12]
    if len(order) == 0:
        return None
    gone, weight, size = start[passed], data.weight[passed], data.d**2
    base = best.matrix.reshape(-1) - counted(gone + column, weight, size)
    base += counted(gone + rival[passed], weight, size)
    limits, before, after = limits[order], (start + rival)[order], start[order] + column
    way = _Passage(before, after, data.weight[order], int(np.searchsorted(limits, 0.0)), base)
    rank = _look(way, data.d, goal) if state.worth is None else _shortlist(way, data.d, goal, state.worth)
    if rank == way.now:
        return None
    width = max(1e-3, float(limits[-1] - limits[0]))
    low = limits[rank - 1] if rank else limits[0] - width
    high = limits[rank] if rank < len(limits) else limits[-1] + width
    return float(low + high) / 2


def _look(way: _Passage, d: int, goal: Goal) -> int:
    """The best number of passed rows: a coarse look, then finer ones around the best."""
    low, high, base = 0, len(way.weight), way.base
    count = max(16, min(1000 if len(way.weight) <= 1000 else 256, 200_000 // d**2))
    while True:
        cuts = np.unique(np.linspace(low, high, min(high - low, count) + 1).astype(np.int64))
        table = way.matrices(cuts, low, base)
        prefer = torch.from_numpy(np.abs(cuts - way.now).astype(np.float64))
        at = goal.best(torch.from_numpy(table.reshape(-1, d, d)), prefer)
        if len(cuts) == high - low + 1:
            return int(cuts[at])
        left, right = max(at - 1, 0), min(at + 1, len(cuts) - 1)
        low, high, base = int(cuts[left]), int(cuts[right]), table[left]


def _shortlist(way: _Passage, d: int, goal: Goal, worth: Floats) -> int:
    """The best of a few numbers of passed rows: steps towards the one that the cost matrix prefers."""
    gains = np.append(0.0, np.cumsum((worth[way.after] - worth[way.before]) * way.weight))
    top = int(np.nan_to_num(gains, nan=-np.inf).argmax())
    steps = way.now + (top - way.now) * STEPS
    cuts = np.unique(steps.astype(np.int64).clip(0, len(way.weight)))
    table = way.matrices(cuts, 0, way.base)
    prefer = torch.from_numpy(np.abs(cuts - way.now).astype(np.float64))
    return int(cuts[goal.best(torch.from_numpy(table.reshape(-1, d, d)), prefer)])
