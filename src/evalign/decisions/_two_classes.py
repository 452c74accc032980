"""Two classes: the best threshold on the probability of the second, among all that differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign.decisions._goal import Goal

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sweep:
    """Every rule "positive if score >= threshold" that differs, from none positive to all."""

    #: The distinct scores, falling.
    levels: Floats
    #: One more than scores: above all of them, between neighbours, below all.
    thresholds: Floats
    #: The confusion matrix at each threshold.
    matrices: Tensor

    def at(self, thresholds: Floats) -> Tensor:
        """The confusion matrices (..., 2, 2) at any thresholds."""
        return self.matrices[torch.as_tensor(np.searchsorted(-self.levels, -thresholds, side="right"))]


def best_threshold(scores: Floats, positive: NDArray[np.bool_], weight: Floats, goal: Goal) -> float:
    """The best threshold by one sort and one sweep; of equally good ones, the nearest to 0.5.

    >>> from evalign import metrics
    >>> scores, positive = np.array([0.1, 0.3, 0.4, 0.8]), np.array([False, False, True, True])
    >>> best_threshold(scores, positive, np.ones(4), Goal(metrics.f1()))
    0.35
    """
    found = sweep(scores, positive, weight)
    prefer = torch.from_numpy(np.abs(found.thresholds - 0.5))
    return float(found.thresholds[goal.best(found.matrices, prefer)])


def sweep(scores: Floats, positive: NDArray[np.bool_], weight: Floats) -> Sweep:
    """All thresholds and their confusion matrices, in O(n log n).

    >>> sweep(np.array([0.2, 0.6]), np.array([False, True]), np.ones(2)).thresholds.tolist()
    [0.8, 0.4, 0.1]
    """
    order = np.argsort(scores)[::-1]
    ranked, truth, mass = scores[order], positive[order], weight[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    tp, fp = (np.append(0.0, np.cumsum(mass * side)[last]) for side in (truth, ~truth))
    cells = np.stack([fp[-1] - fp, fp, tp[-1] - tp, tp], axis=-1)
    return Sweep(ranked[last], between(ranked[last]), torch.from_numpy(cells.reshape(-1, 2, 2)))


def between(levels: Floats) -> Floats:
    """Thresholds for falling scores in [0, 1]: above all of them, between neighbours, below all.

    >>> between(np.array([1.0, 0.0])).tolist()
    [1.0000000000000002, 0.5, -5e-324]
    """
    high, low = levels[0], levels[-1]
    middle = (levels[:-1] + levels[1:]) / 2
    # Where no number lies between two neighbours, the upper one serves.
    middle = np.where(middle > levels[1:], middle, levels[:-1])
    above = max((1 + high) / 2, np.nextafter(high, 2))
    below = low / 2 if low > 0 else np.nextafter(0, -1)
    return np.concatenate([[above], middle, [below]])
