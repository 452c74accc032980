"""One slope and one offset per class that turn scores into log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from evalign._typing import Floats

#: The slopes that are tried.
SLOPES = 0.02, 50.0

#: Probabilities below this have the logarithm of this.
SMALLEST = 1e-9


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

    def calibrate(self, probabilities: Floats) -> Floats:
        """The probabilities (n, d) whose logarithms are scaled.

        >>> Scaling(1.0, np.log([1.0, 3.0])).calibrate(np.array([[0.5, 0.5]])).round(2).tolist()
        [[0.25, 0.75]]
        """
        return np.asarray(softmax(self.apply(logarithms(probabilities)), axis=1))


def logarithms(probabilities: Floats) -> Floats:
    """The logarithms of probabilities, finite for 0, too."""
    return np.asarray(np.log(probabilities.clip(SMALLEST)))


def fit_scaling(scores: Floats, y: Any, weight: Floats | None = None) -> Scaling:
    """Fit the slope in [0.02, 50] and the offsets, shrunk towards 0, with the lowest cross-entropy.

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 20000)
    >>> scaling = fit_scaling(4 * (generator.normal(size=20000) + 2 * y - 1) + 1, y)
    >>> round(scaling.slope, 1), (scaling.offsets[1] - scaling.offsets[0]).round(1).item()
    (0.5, -0.5)
    """
    table = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    weight = np.ones(len(table)) if weight is None else np.asarray(weight, dtype=np.float64)
    return fit_scalings(table, np.asarray(y), weight[None])[0]


def fit_scalings(
    scores: Floats, y: Any, weights: Floats, start: Scaling | None = None, steps: int = 50
) -> list[Scaling]:
    """Fit one scaling of scores (n, d) for each row of weights (F, n), by Newton's method on all at once."""
    (sets, rows), d = weights.shape, scores.shape[1]
    share = weights / weights.sum(1, keepdims=True)
    ridge = 1 / (weights > 0).sum(1)
    truth = np.zeros((rows, d))
    truth[np.arange(rows), y] = 1.0
    # The parameters of each set: the slope, then the offsets.
    first = Scaling(1.0, np.zeros(d)) if start is None else start
    line = np.tile(np.append(first.slope, first.offsets), (sets, 1))

    def entropy(line: Floats) -> tuple[Floats, Floats]:
        logs = line[:, :1, None] * scores + line[:, None, 1:]
        logs -= logs.max(2, keepdims=True)
        logs -= np.log(np.exp(logs).sum(2, keepdims=True))
        value = -(share * logs[:, np.arange(rows), y]).sum(1) + ridge * np.square(line[:, 1:]).sum(1) / 2
        return value, logs

    value, logs = entropy(line)
    for _ in range(steps):
        step = -_newton_step(np.exp(logs), scores, truth, share, ridge, line)
        size = np.ones((sets, 1))
        for _ in range(30):
            trial = line + size * step
            trial[:, 0] = trial[:, 0].clip(*SLOPES)
            newest, trial_logs = entropy(trial)
            worse = newest > value + 1e-15
            if not worse.any():
                break
            size[worse] /= 2
        better = newest < value
        moved = np.abs(trial - line)[better].max(initial=0.0)
        line[better], value[better], logs[better] = trial[better], newest[better], trial_logs[better]
        if moved < 1e-6:
            break
    return [Scaling(float(one[0]), one[1:]) for one in line]


def _newton_step(
    p: Floats, scores: Floats, truth: Floats, share: Floats, ridge: Floats, line: Floats
) -> Floats:
    """The inverse Hessian of the cross-entropy times its gradient, for each set."""
    sets, _, d = p.shape
    gap = (p - truth) * share[:, :, None]
    gradient = np.empty((sets, d + 1))
    gradient[:, 0] = (gap * scores).sum((1, 2))
    gradient[:, 1:] = gap.sum(1) + ridge[:, None] * line[:, 1:]
    mass = p * share[:, :, None]
    moment = mass * (scores - (p * scores).sum(2, keepdims=True))
    hessian = np.zeros((sets, d + 1, d + 1))
    hessian[:, 0, 0] = (moment * scores).sum((1, 2)) + 1e-12
    hessian[:, 0, 1:] = hessian[:, 1:, 0] = moment.sum(1)
    hessian[:, 1:, 1:] = -mass.swapaxes(1, 2) @ p
    places = np.arange(1, d + 1)
    hessian[:, places, places] += mass.sum(1) + ridge[:, None]
    # A slope at the end of its range that would leave it stays there.
    low, high = SLOPES
    stuck = ((line[:, 0] <= low) & (gradient[:, 0] > 0)) | ((line[:, 0] >= high) & (gradient[:, 0] < 0))
    hessian[stuck, 0, 1:] = hessian[stuck, 1:, 0] = gradient[stuck, 0] = 0.0
    hessian[stuck, 0, 0] = 1.0
    return np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0])
