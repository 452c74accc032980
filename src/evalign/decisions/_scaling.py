"""One slope and one offset per class that turn scores into log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from evalign._typing import Floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scores (n, d), or (n,) for two classes, become slope * scores + offsets."""

    slope: float
    offsets: Floats

    def apply(self, scores: Floats) -> Floats:
        """The log-probability of each class, up to a constant per row.

        >>> Scaling(2.0, np.array([0.0, 1.0])).apply(np.array([0.5])).tolist()
        [2.0]
        """
        if scores.ndim == 1:
            return np.asarray(self.slope * scores + (self.offsets[1] - self.offsets[0]))
        return np.asarray(self.slope * scores + self.offsets)


def fit_scaling(scores: Floats, y: Any, weight: Floats | None = None) -> Scaling:
    """Fit the slope in [0.02, 50] and the offsets, shrunk towards 0, with the lowest cross-entropy.

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 20000)
    >>> scaling = fit_scaling(4 * (generator.normal(size=20000) + 2 * y - 1) + 1, y)
    >>> round(scaling.slope, 1), (scaling.offsets[1] - scaling.offsets[0]).round(1).item()
    (0.5, -0.5)
    """
    table = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    rows, d = table.shape
    share = np.ones(rows) if weight is None else np.asarray(weight, dtype=np.float64)
    share = share / share.sum()
    truth = np.zeros((rows, d))
    truth[np.arange(rows), y] = 1.0

    def entropy(line: Floats) -> tuple[float, Floats]:
        slope, offsets = np.exp(line[0]), line[1:]
        logs = log_softmax(slope * table + offsets, axis=1)
        gap = (np.exp(logs) - truth) * share[:, None]
        value = -(share @ logs[np.arange(rows), y]) + offsets @ offsets / (2 * rows)
        gradient = np.append(slope * (gap * table).sum(), gap.sum(0) + offsets / rows)
        return float(value), gradient

    bounds = [(np.log(0.02), np.log(50.0))] + [(-50.0, 50.0)] * d
    best = minimize(entropy, np.zeros(d + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Scaling(float(np.exp(best[0])), best[1:])
