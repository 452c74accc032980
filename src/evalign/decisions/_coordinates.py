"""Coordinate ascent on the weights W: each entry is set to its best value, found by one sort of the rows.

A row is predicted as class j as soon as the number added to its score for j exceeds a limit. Sorted by
that limit, the rows switch one after another, and the confusion matrix after each switch is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions._fixed_point import normalise
from evalign.decisions._goal import Goal, Standing
from evalign.metrics import hard_confusion

#: Up to this many classes, every entry of W is searched; above, only the diagonal and whole columns.
FEW = 5

#: Above this many classes, matrices are large and only a few are evaluated per entry.
MANY = 20

#: The steps evaluated then, as shares of the way to where the cost matrix points.
STEPS = np.array([0.0, 0.05, 0.15, 0.4, 1.0])

#: The search ends when a round improves the metric by less than this share.
GAIN = 1e-6


def sum_cells(cells: Indices, weight: Floats, size: int) -> Floats:
    """The total weight in each of `size` cells.

    >>> sum_cells(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3).tolist()
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
        """Evaluate weights, scaled to [0, 1]."""
        weights = normalise(weights)
        return cls.by_scores(weights, data.p @ weights, data, goal)

    @classmethod
    def by_scores(cls, weights: Floats, scores: Floats, data: RuleData, goal: Goal) -> Candidate:
        """Evaluate weights whose scores p W are known."""
        matrix = data.confusion(scores.argmax(1))
        return cls(weights, matrix, goal.standing(torch.from_numpy(matrix)))


def ascend(start: Candidate, data: RuleData, goal: Goal, rounds: int = 10) -> Candidate:
    """Set one entry of W after the other to its best value, until none helps."""
    best, moves = start, list(_moves(data.d, lean=goal.confidence is not None))
    state = _State.of(data.p @ best.weights, best, goal)
    idle = 0  # moves in a row that did not help: after all of them, nothing will
    for _ in range(rounds):
        before = best.standing
        for row, column in moves:
            if idle == len(moves):
                break
            idle += 1
            change = _best_change(state, row, column, best, data, goal)
            if change is None:
                continue
            weights, scores = best.weights.copy(), state.scores.copy()
            weights[slice(None) if row is None else row, column] += change
            scores[:, column] = data.p @ weights[:, column]
            other = Candidate.by_scores(weights, scores, data, goal)
            # Evaluate again, since a row exactly at its limit may fall on either side.
            if other.standing.above(best.standing):
                best, state, idle = other, _State.of(scores, other, goal), 0
        if best.standing.feasible and before.feasible:
            if not best.standing.value > before.value + GAIN * abs(before.value):
                break
        elif not best.standing.above(before):
            break
    return Candidate.of(best.weights, data, goal)


def _moves(d: int, lean: bool) -> Iterator[tuple[int | None, int]]:
    """The entries (row, column) and whole columns (None, column) to search; fewer with `lean`.

    A rule that is to satisfy its constraints on new rows must not have too many free parameters.
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
    #: The cost matrix, if it guides the search.
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
class _Switches:
    """Rows in the order in which they switch to a class: their cells of C before and after."""

    before: Indices
    after: Indices
    weight: Floats
    #: The number of rows switched at present, and the matrix when none has switched.
    now: int
    base: Floats

    def matrices(self, cuts: Indices, low: int, base: Floats) -> Floats:
        """The matrices (as rows of d * d cells) at increasing numbers of switched rows, starting at `low`."""
        size, high = base.size, int(cuts[-1])
        step = np.repeat(np.arange(len(cuts)), np.diff(cuts, prepend=low)) * size
        part, count = slice(low, high), len(cuts) * size
        gained = sum_cells(step + self.after[part], self.weight[part], count)
        lost = sum_cells(step + self.before[part], self.weight[part], count)
        table = (gained - lost).reshape(len(cuts), size)
        table[0] += base
        table = np.cumsum(table, axis=0)
        # Clear rounding errors in empty cells: 1e-17 / 1e-17 would look like perfect precision.
        table[np.abs(table) < 1e-12 * self.weight.sum()] = 0.0
        return table


def _best_change(
    state: _State, row: int | None, column: int, best: Candidate, data: RuleData, goal: Goal
) -> float | None:
    """The best number to add to an entry of W, or to a whole column; None if none helps."""
    mine = state.first == column
    rival = np.where(mine, state.second, state.first)
    limits = np.where(mine, state.next_best, state.highest) - state.scores[:, column]
    start = data.y * data.d
    # When no row has switched, rows of the class fall back to their second best.
    switched = np.flatnonzero(mine)
    if row is None:
        order = np.argsort(limits)
    else:
        slope = data.p[:, row]
        moves = np.flatnonzero(slope > 1e-12)
        limits = limits / slope.clip(1e-12)
        order = moves[np.argsort(limits[moves])]
        switched = switched[slope[switched] > 1e-12]
    if len(order) == 0:
        return None
    origin, weight, size = start[switched], data.weight[switched], data.d**2
    base = best.matrix.reshape(-1) - sum_cells(origin + column, weight, size)
    base += sum_cells(origin + rival[switched], weight, size)
    limits, before, after = limits[order], (start + rival)[order], start[order] + column
    switches = _Switches(before, after, data.weight[order], int(np.searchsorted(limits, 0.0)), base)
    if state.worth is None:
        rank = _search(switches, data.d, goal)
    else:
        rank = _shortlist(switches, data.d, goal, state.worth)
    if rank == switches.now:
        return None
    width = max(1e-3, float(limits[-1] - limits[0]))
    low = limits[rank - 1] if rank else limits[0] - width
    high = limits[rank] if rank < len(limits) else limits[-1] + width
    return float(low + high) / 2


def _search(switches: _Switches, d: int, goal: Goal) -> int:
    """The best number of switched rows: a coarse grid, then finer ones around the best."""
    low, high, base = 0, len(switches.weight), switches.base
    count = max(16, min(1000 if len(switches.weight) <= 1000 else 256, 200_000 // d**2))
    while True:
        if high - low <= count:
            cuts = np.arange(low, high + 1)
        else:
            cuts = np.unique(np.linspace(low, high, count + 1).astype(np.int64))
        table = switches.matrices(cuts, low, base)
        prefer = torch.from_numpy(np.abs(cuts - switches.now).astype(np.float64))
        at = goal.best(torch.from_numpy(table.reshape(-1, d, d)), prefer)
        if len(cuts) == high - low + 1:
            return int(cuts[at])
        left, right = max(at - 1, 0), min(at + 1, len(cuts) - 1)
        low, high, base = int(cuts[left]), int(cuts[right]), table[left]


def _shortlist(switches: _Switches, d: int, goal: Goal, worth: Floats) -> int:
    """The best of a few numbers of switched rows: steps towards the one the cost matrix favours."""
    gains = np.append(0.0, np.cumsum((worth[switches.after] - worth[switches.before]) * switches.weight))
    top = int(np.nan_to_num(gains, nan=-np.inf).argmax())
    steps = switches.now + (top - switches.now) * STEPS
    cuts = np.unique(steps.astype(np.int64).clip(0, len(switches.weight)))
    table = switches.matrices(cuts, 0, switches.base)
    prefer = torch.from_numpy(np.abs(cuts - switches.now).astype(np.float64))
    return int(cuts[goal.best(torch.from_numpy(table.reshape(-1, d, d)), prefer)])
