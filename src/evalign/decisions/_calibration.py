"""Calibration: temperature scaling and the expected calibration error."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

from evalign._errors import expected


def fit_temperature(logits: Tensor, targets: Tensor, weight: Tensor | None = None) -> float:
    """Fit the number by which to divide logits (n, d) for the lowest cross-entropy.

    It changes no decision, only the confidence of the probabilities.

    >>> _ = torch.manual_seed(0)
    >>> y = torch.randint(0, 2, (5000,))
    >>> fair = torch.stack([torch.zeros(5000), 2 * (torch.randn(5000) + y) - 1], 1) / 2
    >>> round(fit_temperature(8 * fair, y) / fit_temperature(fair, y), 3)
    8.0

    References:
        Guo et al. (2017), On calibration of modern neural networks.
    """
    logits, targets = torch.as_tensor(logits), torch.as_tensor(targets)
    if logits.ndim != 2 or targets.shape != logits.shape[:1] or len(targets) == 0:
        raise expected("logits", "of shape (n, d) with n targets", f"{tuple(logits.shape)}")
    if not logits.isfinite().all():
        raise expected("logits", "without NaN or infinity", "at least one")
    if targets.min() < 0 or targets.max() >= logits.shape[1]:
        raise expected("targets", f"in 0 ... {logits.shape[1] - 1}", f"{targets.min()} ... {targets.max()}")
    scores, shares = logits.detach().double(), torch.ones(len(targets)).double()
    if weight is not None:
        shares = weight.detach().double()
    shares = (shares / shares.sum()).to(scores.device)

    def entropy(log_temperature: float) -> float:
        terms = F.cross_entropy(scores / math.exp(log_temperature), targets, reduction="none")
        return float((terms * shares).sum())

    best = minimize_scalar(
        entropy, bounds=(math.log(0.02), math.log(50.0)), method="bounded", options={"xatol": 1e-6}
    )
    return math.exp(float(best.x))


def expected_calibration_error(
    probabilities: Tensor, targets: Tensor, weight: Tensor | None = None, bins: int = 15
) -> float:
    """The gap between confidence and accuracy: the mean of |accuracy - confidence| over bins.

    Rows are sorted into `bins` equal bins of their largest probability.

    >>> expected_calibration_error(torch.tensor([[0.2, 0.8], [0.2, 0.8]]), torch.tensor([1, 0]))
    0.3000...

    References:
        Guo et al. (2017), On calibration of modern neural networks.
    """
    if probabilities.ndim != 2 or targets.shape != probabilities.shape[:1] or len(targets) == 0:
        raise expected("probabilities", "of shape (n, d) with n targets", f"{tuple(probabilities.shape)}")
    confidence, predicted = probabilities.detach().double().max(-1)
    shares = torch.ones_like(confidence) if weight is None else weight.to(confidence)
    gaps = ((predicted == targets).double() - confidence) * shares / shares.sum()
    rows = (confidence * bins).long().clamp(max=bins - 1)
    return float(torch.zeros(bins).double().to(gaps.device).index_add(0, rows, gaps).abs().sum())
