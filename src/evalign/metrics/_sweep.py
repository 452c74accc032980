"""Every threshold on a score that makes a difference, and the confusion matrix at each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign._typing import Floats


@dataclass(frozen=True)
class Sweep:
    """Every distinct rule "positive if score >= threshold", from none positive to all positive."""

    #: The distinct scores, in descending order.
    levels: Floats
    #: The confusion matrix of each rule, (levels + 1, 2, 2).
    matrices: Tensor

    @cached_property
    def thresholds(self) -> Floats:
        """A threshold in or next to [0, 1] for each rule: above all scores, between neighbours, below all."""
        return thresholds_between(self.levels)

    def at(self, thresholds: Floats) -> Tensor:
        """The confusion matrices (..., 2, 2) at any thresholds."""
        return self.matrices[torch.as_tensor(np.searchsorted(-self.levels, -thresholds, side="right"))]


def sweep_thresholds(scores: Floats, positive: NDArray[Any], weight: Any = None) -> Sweep:
    """Count the confusion matrix of every threshold with one sort, in O(n log n).

    A row may also be positive in part: a number in [0, 1].

    >>> sweep = sweep_thresholds(np.array([0.2, 0.6]), np.array([False, True]))
    >>> sweep.thresholds.tolist(), sweep.at(np.array([0.5]))
    ([0.8, 0.4, 0.1], tensor([[[1., 0.],
             [0., 1.]]], dtype=torch.float64))
    """
    order = np.argsort(scores)[::-1]
    ranked, truth = scores[order], positive[order].astype(np.float64)
    mass = np.ones(len(order)) if weight is None else weight[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    tp, fp = (np.append(0.0, np.cumsum(mass * side)[last]) for side in (truth, 1 - truth))
    cells = np.stack([fp[-1] - fp, fp, tp[-1] - tp, tp], axis=-1)
    return Sweep(ranked[last], torch.from_numpy(cells.reshape(-1, 2, 2)))


def thresholds_between(levels: Floats) -> Floats:
    """Thresholds for descending scores in [0, 1]: above all of them, between neighbours, below all.

    >>> thresholds_between(np.array([1.0, 0.0])).tolist()
    [1.0000000000000002, 0.5, -5e-324]
    """
    high, low = levels[0], levels[-1]
    middle = (levels[:-1] + levels[1:]) / 2
    # Where no number lies between two neighbours, use the upper one.
    middle = np.where(middle > levels[1:], middle, levels[:-1])
    above = max((1 + high) / 2, np.nextafter(high, 2))
    below = low / 2 if low > 0 else np.nextafter(0, -1)
    return np.concatenate([[above], middle, [below]])
