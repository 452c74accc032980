"""More than two classes: one offset per class, added to the log-probabilities before the argmax.

The rules of `fit_rule` weigh every pair of classes. Rules with one number per class have two advantages for a
linear classifier: they are part of its intercepts, so that it remains linear, and they have d - 1 numbers to
fit instead of d (d - 1), which matters where a class has few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.special import softmax

from evalign._typing import Floats, Indices
from evalign.decisions import ROUNDING, Goal, Standing

#: Above this number of classes, the offsets are a multiple of the logarithms of the class shares.
MANY = 16
#: The values tried per offset.
LEVELS = 128
#: A class this far below another is never predicted; further down, its weight would be 0.
LOWEST = -500.0


def fit_offsets(logits: Floats, y: Indices, weight: Floats, goal: Goal, rounds: int = 3) -> Floats:
    """Fit offsets, the largest of them 0, such that argmax(logits + offsets) has the best metric.

    The start is the best multiple of -log(share of the class); then one offset after the other takes its best
    value. Each row counts half by its label and half by its probabilities, which overfits less than labels
    alone; constraints are judged by labels.

    >>> from evalign import metrics
    >>> y = np.repeat([0, 1, 2], [90, 7, 3])
    >>> logits = np.log([0.90, 0.07, 0.03]) + np.eye(3)[y]
    >>> offsets = fit_offsets(logits, y, np.ones(100), Goal(metrics.balanced_accuracy()))
    >>> (logits.argmax(1) == y).mean().item(), ((logits + offsets).argmax(1) == y).mean().item()
    (0.9, 1.0)

    References:
        Menon et al. (2021), Long-tail learning via logit adjustment, for the start.
    """
    search = _Search.of(logits, y, weight, goal)
    share = np.bincount(y, weight, logits.shape[1]) / weight.sum()
    rarity = -np.log(share.clip(0.5 / len(y)))
    starts = np.linspace(0, 1, 11)[:, None] * rarity
    at, standing = search.find_best(lambda counts: _count_starts(logits, starts, counts), np.arange(11.0))
    offsets = starts[at]
    for _ in range(rounds if len(offsets) <= MANY else 0):
        before = standing
        for label in range(len(offsets)):
            offsets, standing = search.improve(offsets, standing, label)
        if not standing.above(before):
            break
    return np.asarray(np.maximum(offsets - offsets.max(), LOWEST))


@dataclass(frozen=True, eq=False)
class _Search:
    """Rows with the counts (n, d) by true class that each adds to the column of its predicted class."""

    logits: Floats
    goal: Goal
    mixed: Floats
    labels: Floats

    @classmethod
    def of(cls, logits: Floats, y: Indices, weight: Floats, goal: Goal) -> _Search:
        labels = np.eye(logits.shape[1])[y] * weight[:, None]
        mixed = (labels + softmax(logits, axis=1) * weight[:, None]) / 2
        return cls(logits, goal, mixed, labels)

    def find_best(self, count: Any, prefer: Floats) -> tuple[int, Standing]:
        """Find the best of the matrices that `count` returns; of equally good ones, the most preferred."""
        _, value = self.goal.evaluate(torch.from_numpy(count(self.mixed)))
        slack = torch.zeros_like(value)
        if self.goal.constraints:
            slack = self.goal.evaluate(torch.from_numpy(count(self.labels)))[0].clamp_max(0.0)
        tied = slack >= slack.max() - ROUNDING
        top = float(value[tied].max())
        tied &= value >= top - 1e-12 * max(1.0, abs(top))
        at = int(np.where(tied.numpy(), prefer, np.inf).argmin())
        return at, Standing(float(slack[at]), float(value[at]))

    def improve(self, offsets: Floats, standing: Standing, label: int) -> tuple[Floats, Standing]:
        """Give one class the offset that is best given those of the others."""
        rivals = self.logits + offsets
        rivals[:, label] = -np.inf
        others = rivals.argmax(1)
        limits = rivals.max(1) - self.logits[:, label]
        levels = _choose_levels(limits)
        first = np.searchsorted(levels, limits)  # the level from which on a row is predicted as `label`

        def count(counts: Floats) -> Floats:
            d = len(offsets)
            cells = first * d + others
            moved = _sum_by_cell(cells, counts, len(levels) * d).reshape(len(levels), d, d)
            moved = moved.swapaxes(1, 2).cumsum(0)
            matrices = moved[-1] - moved  # after the last level, every row is predicted as `label`
            matrices[:, :, label] += moved.sum(2)
            return np.asarray(matrices)

        at, best = self.find_best(count, np.abs(levels - offsets[label]))
        if not best.above(standing):
            return offsets, standing
        changed = offsets.copy()
        changed[label] = levels[at]
        return changed, best


def _choose_levels(limits: Floats) -> Floats:
    """Values below, between and above the limits, or between quantiles of them if there are many."""
    distinct = np.unique(limits)
    if len(distinct) > LEVELS:
        distinct = np.unique(np.quantile(distinct, np.linspace(0, 1, LEVELS)))
    return np.concatenate([distinct[:1] - 1, (distinct[1:] + distinct[:-1]) / 2, distinct[-1:] + 1])


def _count_starts(logits: Floats, starts: Floats, counts: Floats) -> Floats:
    d = logits.shape[1]
    return np.stack([_sum_by_cell((logits + start).argmax(1), counts, d).T for start in starts])


def _sum_by_cell(cells: Indices, counts: Floats, size: int) -> Floats:
    """The sum of the rows of `counts` in each of `size` cells.

    >>> _sum_by_cell(np.array([1, 1]), np.array([[1.0, 2.0], [3.0, 4.0]]), 2).tolist()
    [[0.0, 0.0], [4.0, 6.0]]
    """
    rows = np.arange(len(cells) + 1)
    table = sparse.csr_array((np.ones(len(cells)), cells, rows), shape=(len(cells), size))
    return np.asarray(table.T @ counts)
