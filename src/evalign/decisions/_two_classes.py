"""Two classes: the best threshold on the probability of the second, among all that make a difference."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalign._typing import Floats
from evalign.decisions._goal import Goal
from evalign.metrics import sweep_thresholds


def best_threshold(
    scores: Floats, positive: NDArray[np.bool_], weight: Floats, goal: Goal
) -> tuple[float, Tensor]:
    """Find the best threshold and its confusion matrix; of equally good ones, the closest to 0.5.

    >>> from evalign import metrics
    >>> scores, positive = np.array([0.1, 0.3, 0.4, 0.8]), np.array([False, False, True, True])
    >>> best_threshold(scores, positive, np.ones(4), Goal(metrics.f1()))[0]
    0.35
    """
    sweep = sweep_thresholds(scores, positive, weight)
    prefer = torch.from_numpy(np.abs(sweep.thresholds - 0.5))
    at = goal.best(sweep.matrices, prefer)
    return float(sweep.thresholds[at]), sweep.matrices[at]
