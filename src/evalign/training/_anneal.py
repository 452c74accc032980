"""Cool a loss during training: from a smooth loss to the metric itself."""

from __future__ import annotations

import math
from typing import Any, Protocol

from evalign._errors import check_integer, expected
from evalign.softsets import check_temperature
from evalign.training._monitor import MODES


class HasTemperature(Protocol):
    """`MetricLoss`, or anything else with a temperature that can be set."""

    temperature: float


class Anneal:
    """Lower the temperature of a loss whenever validation stalls, and decide when to stop.

    T_k = start * decay^k, but not below `floor`. The loss is cooled when `patience` steps in a row have not
    improved the validation loss (or metric) at the current temperature. `done` becomes True when `rounds`
    temperatures in a row have not improved the best value so far, or when the lowest temperature has stalled.
    Call `step` once per epoch, as with `ReduceLROnPlateau`.

    Args:
        loss: The loss whose `temperature` is set.
        start: The first temperature, in (0, 0.4].
        decay: The factor by which each cooling lowers the temperature, in (0, 1).
        patience: Steps without improvement before the loss is cooled.
        rounds: Temperatures without improvement before training is done.
        floor: The lowest temperature.
        tolerance: How much better a value must be to count as an improvement.
        mode: "min" if lower values are better, as with a loss; "max" for metrics such as F1.

    >>> from evalign import MetricLoss
    >>> loss = MetricLoss("f1")
    >>> anneal = Anneal(loss, decay=0.5, patience=2, rounds=1)
    >>> for value in (0.5, 0.4, 0.4, 0.4, 0.41, 0.42, 0.43):
    ...     anneal.step(value)
    >>> loss.temperature, anneal.best, anneal.done
    (0.1, 0.4, True)

    References:
        Li et al. (2025), EAST, section 4.3.
    """

    def __init__(
        self,
        loss: HasTemperature,
        start: float = 0.2,
        decay: float = 0.9,
        patience: int = 5,
        rounds: int = 5,
        floor: float = 0.01,
        tolerance: float = 1e-4,
        mode: str = "min",
    ) -> None:
        if not 0 < decay < 1:
            raise expected("decay", "in (0, 1)", decay)
        check_integer(patience=patience, rounds=rounds)
        if not 0 < floor <= check_temperature(start):
            raise expected("floor", f"in (0, start={start}]", floor)
        if not 0 <= tolerance < math.inf:
            raise expected("tolerance", "to be a number >= 0", tolerance)
        if mode not in MODES:
            raise expected("mode", "to be 'min' or 'max'", repr(mode))
        self.loss = loss
        self.mode = mode
        self.start, self.decay, self.floor, self.tolerance = start, decay, floor, tolerance
        self.patience, self.rounds = patience, rounds
        self._worst = math.inf if mode == "min" else -math.inf
        #: The best value so far.
        self.best = self._worst
        #: Whether the last value was the best so far: the moment to save a checkpoint.
        self.improved = False
        #: Whether training should stop.
        self.done = False
        #: (temperature, value) of every step.
        self.history: list[tuple[float, float]] = []
        self._here = self._worst  # the best at this temperature
        self._waited = 0
        self._barren = 0  # temperatures in a row without improvement
        self._fruitful = False  # whether this temperature brought an improvement
        loss.temperature = start

    @classmethod
    def east(
        cls,
        loss: HasTemperature,
        decay: float = 0.9,
        patience: int = 50,
        floor: float = 0.02,
        mode: str = "min",
    ) -> Anneal:
        """The schedule of EAST: T_0 = 0.2, r = 0.9 (or 0.8), 50 epochs of patience.

        The paper specifies neither when training ends nor a lowest temperature: here it ends after three
        temperatures in a row without improvement, or when T = 0.02 has stalled. The strategy `"east"` and
        the tables of `evalign reproduce` use this schedule.

        >>> from evalign import MetricLoss
        >>> Anneal.east(MetricLoss("f1"), decay=0.8).patience
        50
        """
        return cls(loss, start=0.2, decay=decay, patience=patience, rounds=3, floor=floor, mode=mode)

    @property
    def temperature(self) -> float:
        """The current temperature."""
        return self.loss.temperature

    def step(self, value: float) -> None:
        """Record a validation loss or metric, and cool if it has stalled. A NaN is not an improvement."""
        value = float(value)
        self.history.append((self.temperature, value))
        self._fruitful = self._fruitful or self._gain(value, self.best) > self.tolerance
        self.improved = self._gain(value, self.best) > 0
        if self.improved:
            self.best = value
        if self._gain(value, self._here) > self.tolerance:
            self._here, self._waited = value, 0
        else:
            self._waited += 1
        if self._waited >= self.patience and not self.done:
            self._cool()

    def _gain(self, value: float, reference: float) -> float:
        """By how much a value is better than another."""
        return reference - value if self.mode == "min" else value - reference

    def _cool(self) -> None:
        self._barren = 0 if self._fruitful else self._barren + 1
        self._fruitful, self._waited, self._here = False, 0, self._worst
        self.done = self._barren >= self.rounds or self.temperature <= self.floor
        if not self.done:
            self.loss.temperature = max(self.floor, self.temperature * self.decay)

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, including the temperature, as plain numbers and lists."""
        keys = ("best", "improved", "done", "_here", "_waited", "_barren", "_fruitful")
        state: dict[str, Any] = {key: getattr(self, key) for key in keys}
        return {**state, "history": [list(pair) for pair in self.history], "temperature": self.temperature}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        missing = sorted(self.state_dict().keys() ^ state.keys())
        if missing:
            raise expected("state", "of an `Anneal`", f"other keys: {', '.join(map(str, missing))}")
        self.loss.temperature = state["temperature"]
        self.history = [(pair[0], pair[1]) for pair in state["history"]]
        for key in state.keys() - {"temperature", "history"}:
            setattr(self, key, state[key])

    def __repr__(self) -> str:
        return f"Anneal(temperature={self.temperature:g}, best={self.best:g}, done={self.done})"
