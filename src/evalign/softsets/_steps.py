"""Steps: to what degree a probability counts as above a threshold."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from evalign._errors import expected

_Pieces = tuple[Tensor | float, Tensor | float, Tensor | float, Tensor | float, Tensor | float]

#: The largest temperature: above it, the outer pieces of the linear step would have negative length.
MAX_TEMPERATURE = 0.4


class Step(Protocol):
    """Maps probabilities and a threshold to memberships in [0, 1]."""

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        """The membership of each probability, rising around the threshold."""
        ...


class HardStep:
    """H(p, tau) = 1 if p >= tau else 0: what a classifier does in use.

    >>> HardStep()(torch.tensor([0.2, 0.5, 0.9]), 0.5)
    tensor([0., 1., 1.])
    """

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        return (probabilities >= threshold).to(probabilities.dtype)

    def __repr__(self) -> str:
        return "HardStep()"


class LinearStep:
    """The five-point linear step: a steep piece around the threshold and two flat ones outside.

    With tau_m = min(tau, 1 - tau), lo = tau - tau_m / 2 and hi = tau + tau_m / 2 it rises from 0 at 0
    to delta at lo, through 0.5 at tau, to 1 - delta at hi and to 1 at 1. With `temperature` T instead
    of `delta`, delta = T and tau_m = 5 T min(tau, 1 - tau): T -> 0 is the hard step, T = 0.2 is
    delta = 0.2. At T = 0.4 the piece on the shorter side of the threshold is empty, so the step starts at
    0.4 (or ends at 0.6); just below T = 0.4 that piece is very steep.

    >>> step = LinearStep()
    >>> step(torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]), 0.5)
    tensor([0.0000, 0.2000, 0.5000, 0.8000, 1.0000])
    >>> LinearStep(temperature=0.01)(torch.tensor([0.4, 0.6]), 0.5)
    tensor([0.0082, 0.9918])

    References:
        Tsoi et al. (2022), Bridging the gap, eq. 5; Li et al. (2025), EAST, eq. 4.
    """

    def __init__(self, delta: float | None = None, *, temperature: float | None = None) -> None:
        if delta is not None and temperature is not None:
            raise expected("delta", "or `temperature`, not both", f"{delta} and {temperature}")
        self.delta, self.temperature = delta, temperature
        if temperature is not None:
            self._edge, self._width = check_temperature(temperature), 5 * temperature
        else:
            self._edge, self._width = 0.2 if delta is None else delta, 1.0
            if not 0 < self._edge < 0.5:
                raise expected("delta", "in (0, 0.5)", delta)

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        lo, hi, low, steep, high = self._pieces(threshold)
        middle = (probabilities - threshold) * steep + 0.5
        above = (probabilities - hi) * high + (1 - self._edge)
        return torch.where(
            probabilities < lo, probabilities * low, torch.where(probabilities > hi, above, middle)
        )

    def slopes(self, threshold: Tensor | float) -> tuple[Tensor | float, Tensor | float, Tensor | float]:
        """The slopes m1, m2, m3 of the three pieces; the largest is the Lipschitz constant.

        >>> [round(slope, 3) for slope in LinearStep(0.1).slopes(0.2)]
        [1.0, 4.0, 0.143]
        """
        return self._pieces(threshold)[2:]

    def _pieces(self, threshold: Tensor | float) -> _Pieces:
        span = self._width * _smaller(threshold, 1 - threshold)
        lo, hi = threshold - span / 2, threshold + span / 2
        return lo, hi, _slope(self._edge, lo), (1 - 2 * self._edge) / span, _slope(self._edge, 1 - hi)

    def __repr__(self) -> str:
        if self.temperature is not None:
            return f"LinearStep(temperature={self.temperature})"
        return f"LinearStep(delta={self._edge})"


class SigmoidStep:
    """1 / (1 + exp(-k (p - tau))): smooth, but neither 0 at 0 nor 1 at 1.

    >>> SigmoidStep(k=10)(torch.tensor([0.0, 0.5, 1.0]), 0.5)
    tensor([0.0067, 0.5000, 0.9933])
    """

    def __init__(self, k: float = 10.0) -> None:
        if not 0 < k < float("inf"):
            raise expected("k", "to be a positive number", k)
        self.k = k

    def __call__(self, probabilities: Tensor, threshold: Tensor | float) -> Tensor:
        return torch.sigmoid(self.k * (probabilities - threshold))

    def __repr__(self) -> str:
        return f"SigmoidStep(k={self.k})"


def check_temperature(temperature: float) -> float:
    """Return a temperature in (0, 0.4], or raise an error."""
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise expected("temperature", "to be a number in (0, 0.4]", repr(temperature))
    if not 0 < temperature <= MAX_TEMPERATURE:
        raise expected("temperature", "in (0, 0.4]", temperature)
    return float(temperature)


def _smaller(a: Tensor | float, b: Tensor | float) -> Tensor | float:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.minimum(a, b)
    return min(a, b)


def _slope(rise: float, run: Tensor | float) -> Tensor | float:
    """The slope of an outer piece; 0 if the piece is empty, as at temperature 0.4."""
    if isinstance(run, Tensor):
        empty = run <= 0
        return (rise / run.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)
    return rise / run if run > 0 else 0.0
