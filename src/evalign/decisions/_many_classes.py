"""More than two classes: the weights W whose rule argmax_j sum_i p_i W_ij is best.

Three steps. Starts: argmax, classes weighed by rarity, one threshold a class. Fixed point: the best
rule is argmax of p W with W = dM/dC at its own confusion matrix, so W is taken there again and again,
also averaged as Frank and Wolfe do. Coordinates: one entry of W at a time is set to its best value,
found exactly by sorting the rows by the value at which their prediction changes.

References:
    Narasimhan et al. (2015), Consistent multiclass algorithms for complex performance measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evalign.decisions._goal import Goal, Standing
from evalign.decisions._two_classes import best_threshold

#: Up to so many classes, every entry of W is searched; above, the diagonal and the columns as a whole.
FEW = 5


@dataclass(frozen=True)
class Data:
    """The rows a rule is fitted on: probabilities (n, d), class indices, weights."""

    p: Tensor
    y: Tensor
    weight: Tensor

    @property
    def d(self) -> int:
        """The number of classes."""
        return self.p.shape[1]

    def confusion(self, predicted: Tensor) -> Tensor:
        """The confusion matrix of predicted classes."""
        cells = torch.bincount(self.y * self.d + predicted, self.weight, self.d * self.d)
        return cells.reshape(self.d, self.d)


@dataclass(frozen=True)
class Candidate:
    """Weights and how good they are."""

    weights: Tensor
    standing: Standing


def best_weights(data: Data, goal: Goal, seed: int) -> Tensor:
    """The best weights found; never worse on these rows than argmax or one threshold a class."""
    found = [_candidate(weights, data, goal) for weights in _starts(data, goal)]
    for start in list(found):
        found.extend(_fixed_point(start, data, goal))
    starts = _distinct(found)[:3] + _drawn(data, goal, seed)
    return _top([_coordinates(start, data, goal) for start in starts]).weights


def predict(p: Tensor, weights: Tensor) -> Tensor:
    """The class with the largest sum_i p_i W_ij; the first of equals."""
    return (p @ weights).argmax(-1)


def _drawn(data: Data, goal: Goal, seed: int, kept: int = 8) -> list[Candidate]:
    """The best of random weights: many where they cost little, on few rows, where a search gets stuck."""
    count = int(min(4096, 2e7 // (len(data.y) * data.d**2)))
    if count < 256:
        return []
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(count, data.d, data.d, generator=generator, dtype=torch.float64).square()
    predicted = (data.p @ weights).argmax(-1)
    cells = torch.zeros(count, data.d * data.d, dtype=torch.float64)
    cells.scatter_add_(1, data.y * data.d + predicted, data.weight.expand(count, -1))
    slack, value = goal.judge(cells.reshape(-1, data.d, data.d))
    order = torch.where(slack >= 0, value, slack.clamp_max(0) - 1e6).argsort(descending=True)
    return [_candidate(weights[at], data, goal) for at in order[:kept].tolist()]


def _candidate(weights: Tensor, data: Data, goal: Goal) -> Candidate:
    weights = _scaled(weights)
    return Candidate(weights, goal.standing(data.confusion(predict(data.p, weights))))


def _top(candidates: list[Candidate]) -> Candidate:
    """The best; the first of equals."""
    best = candidates[0]
    for other in candidates[1:]:
        best = other if other.standing.above(best.standing) else best
    return best


def _distinct(candidates: list[Candidate]) -> list[Candidate]:
    """The best of each standing, from the best down."""
    key = {(c.standing.feasible, c.standing.value, c.standing.slack): c for c in reversed(candidates)}
    return sorted(
        key.values(),
        key=lambda c: (c.standing.feasible, c.standing.value if c.standing.feasible else c.standing.slack),
        reverse=True,
    )


def _scaled(weights: Tensor) -> Tensor:
    """The same rule with a largest weight of 1 and a smallest of 0 in each row, where it can be."""
    shifted = weights - weights.min(1, keepdim=True).values
    return shifted / shifted.max().clamp_min(1e-300)


def _starts(data: Data, goal: Goal) -> Iterator[Tensor]:
    """Argmax, rarity, and one threshold a class, as a quotient and as a difference."""
    eye = torch.eye(data.d, dtype=torch.float64)
    share = torch.bincount(data.y, data.weight, data.d) / data.weight.sum()
    yield eye
    yield torch.diag(1 / share.clamp_min(1e-6))
    thresholds = torch.tensor([_one_against_the_rest(data, goal, j) for j in range(data.d)])
    yield torch.diag(1 / thresholds.double().clamp(1e-6, 1))
    yield eye - thresholds.double()


def _one_against_the_rest(data: Data, goal: Goal, j: int) -> float:
    from evalign import metrics

    side = data.p[:, j].numpy(), (data.y == j).numpy(), data.weight.numpy()
    try:
        return best_threshold(*side, Goal(goal.metric))
    except (ValueError, RuntimeError, IndexError):  # the metric is one of d classes only
        return best_threshold(*side, Goal(metrics.f1()))


def _fixed_point(start: Candidate, data: Data, goal: Goal, steps: int = 8) -> Iterator[Candidate]:
    """W = dM/dC at the matrix of the rule of W, plainly and with averaged matrices."""
    for pressure in (0.0, 1.0, 10.0) if goal.constraints else (0.0,):
        for averaged in (False, True):
            matrix = data.confusion(predict(data.p, start.weights))
            for step in range(steps):
                weights = _gradient(goal, matrix, pressure)
                if not weights.isfinite().all() or not weights.any():
                    break
                yield _candidate(weights, data, goal)
                newest = data.confusion(predict(data.p, weights))
                if torch.equal(newest, matrix):
                    break
                matrix = torch.lerp(matrix, newest, 2.0 / (step + 3)) if averaged else newest


def _gradient(goal: Goal, matrix: Tensor, pressure: float) -> Tensor:
    """The cost matrix of the metric, plus `pressure` times that of each missed constraint."""
    sign = 1.0 if goal.metric.higher_is_better else -1.0
    weights = sign * goal.metric.gradient(matrix)
    for constraint in goal.constraints:
        if pressure:
            side = 1.0 if constraint.sense == ">=" else -1.0
            weights = weights + pressure * side * constraint.metric.gradient(matrix)
    return weights


def _coordinates(start: Candidate, data: Data, goal: Goal, rounds: int = 10) -> Candidate:
    """Set one number of W after the other to its best value, until none helps."""
    best = start
    moves = list(_moves(data.d))
    for _ in range(rounds):
        before = best
        state = _State.of(data, best.weights)
        for row, column in moves:
            weights = state.moved(row, column, data, goal)
            if weights is None:
                continue
            other = _candidate(weights, data, goal)
            if other.standing.above(best.standing):
                best = other
                state = _State.of(data, weights)
        if best is before:
            break
    return best


def _moves(d: int) -> Iterator[tuple[int | None, int]]:
    """The entries to search, (row, column), and whole columns, (None, column)."""
    for column in range(d):
        yield None, column
        for row in range(d):
            if row == column or d <= FEW:
                yield row, column


@dataclass(frozen=True)
class _State:
    """The scores of all rows under some weights, and the two best classes of each."""

    weights: Tensor
    scores: Tensor
    values: Tensor
    classes: Tensor

    @classmethod
    def of(cls, data: Data, weights: Tensor) -> _State:
        """The state under weights."""
        scores = data.p @ weights
        values, classes = scores.topk(2)
        return cls(weights, scores, values, classes)

    def moved(self, row: int | None, column: int, data: Data, goal: Goal) -> Tensor | None:
        """The weights with the best change of one entry, or of a column as a whole."""
        slope = torch.ones(len(data.y), dtype=torch.float64) if row is None else data.p[:, row]
        mine = self.classes[:, 0] == column
        rival = torch.where(mine, self.classes[:, 1], self.classes[:, 0])
        gap = torch.where(mine, self.values[:, 1], self.values[:, 0]) - self.scores[:, column]
        moves = slope > 1e-12
        change = _best_change(gap[moves] / slope[moves], moves, rival, mine, column, data, goal)
        if change is None:
            return None
        weights = self.weights.clone()
        weights[slice(None) if row is None else row, column] += change
        return weights


def _best_change(
    limits: Tensor, moves: Tensor, rival: Tensor, mine: Tensor, column: int, data: Data, goal: Goal
) -> float | None:
    """The best number to add, where each row is predicted as `column` above its limit.

    A coarse look at quantiles of the limits, then a fine one between the best two.
    """
    if len(limits) == 0:
        return None
    y, weight = data.y[moves], data.weight[moves]
    fixed = data.confusion(torch.where(moves, rival, torch.where(mine, column, rival)))
    order = limits.argsort()
    limits, y, rivals, weight = limits[order], y[order], rival[moves][order], weight[order]
    cells = torch.stack([y * data.d + rivals, y * data.d + column])

    def look(low: int, high: int, base: Tensor) -> tuple[int, Tensor]:
        """The best number of rows in [low, high] that are moved, and the matrices' base there."""
        count = int(max(8, min(256, 4_000_000 // data.d**2)))
        cuts = np.unique(np.linspace(low, high, min(high - low, count) + 1).astype(int))
        steps = torch.zeros(len(cuts), data.d * data.d, dtype=torch.float64)
        place = torch.from_numpy(np.searchsorted(cuts, np.arange(low, high), side="right"))
        for sign, side in ((-1.0, cells[0]), (1.0, cells[1])):
            steps.index_put_((place, side[low:high]), sign * weight[low:high], accumulate=True)
        matrices = base.reshape(1, -1) + steps.cumsum(0)
        now = int((limits < 0).sum())
        prefer = torch.from_numpy(np.abs(cuts - now).astype(float))
        at = goal.best(matrices.reshape(-1, data.d, data.d), prefer)
        if len(cuts) == high - low + 1:
            return int(cuts[at]), matrices[at]
        left, right = max(at - 1, 0), min(at + 1, len(cuts) - 1)
        return look(int(cuts[left]), int(cuts[right]), matrices[left])

    rank, _ = look(0, len(limits), fixed.reshape(-1))
    width = max(1e-3, float(limits[-1] - limits[0]))
    low = float(limits[rank - 1]) if rank else float(limits[0]) - width
    high = float(limits[rank]) if rank < len(limits) else float(limits[-1]) + width
    return (low + high) / 2
