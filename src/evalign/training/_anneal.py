"""Cool a loss during training: from a smooth loss to the metric itself."""

from __future__ import annotations

import math
from typing import Any, Protocol

from evalign._errors import check_integer, expected
from evalign.softsets import check_temperature


class HasTemperature(Protocol):
    """`MetricLoss`, or anything else with a temperature that can be set."""

    temperature: float


class Anneal:
    """Lower the temperature of a loss whenever its validation loss stalls, and decide when to stop.

    T_k = start * decay^k, but not below `floor`. The loss is cooled when `patience` steps in a row have not
    lowered the validation loss at the current temperature. `done` becomes True when `rounds` temperatures
    in a row have not lowered the best validation loss so far, or when the lowest temperature has stalled.
    Call `step` once per epoch, as with `ReduceLROnPlateau`.

    Args:
        loss: The loss whose `temperature` is set.
        start: The first temperature, in (0, 0.4].
        decay: The factor by which each cooling lowers the temperature, in (0, 1).
        patience: Steps without improvement before the loss is cooled.
        rounds: Temperatures without improvement before training is done.
        floor: The lowest temperature.
        tolerance: How much lower a loss must be to count as an improvement.

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
    ) -> None:
        if not 0 < decay < 1:
            raise expected("decay", "in (0, 1)", decay)
        check_integer(patience=patience, rounds=rounds)
        if not 0 < floor <= check_temperature(start):
            raise expected("floor", f"in (0, start={start}]", floor)
        if not 0 <= tolerance < math.inf:
            raise expected("tolerance", "to be a number >= 0", tolerance)
        self.loss = loss
        self.start, self.decay, self.floor, self.tolerance = start, decay, floor, tolerance
        self.patience, self.rounds = patience, rounds
        #: The lowest validation loss so far.
        self.best = math.inf
        #: Whether the last value was the lowest so far: the moment to save a checkpoint.
        self.improved = False
        #: Whether training should stop.
        self.done = False
        #: (temperature, validation loss) of every step.
        self.history: list[tuple[float, float]] = []
        self._here = math.inf  # the lowest at this temperature
        self._waited = 0
        self._barren = 0  # temperatures in a row without improvement
        self._fruitful = False  # whether this temperature brought an improvement
        loss.temperature = start

    @classmethod
    def east(cls, loss: HasTemperature, decay: float = 0.9) -> Anneal:
        """The values of the paper: T_0 = 0.2, r = 0.9 (or 0.8), 50 epochs of patience.

        >>> from evalign import MetricLoss
        >>> Anneal.east(MetricLoss("f1"), decay=0.8).patience
        50
        """
        return cls(loss, start=0.2, decay=decay, patience=50, rounds=5, floor=0.001)

    @property
    def temperature(self) -> float:
        """The current temperature."""
        return self.loss.temperature

    def step(self, validation_loss: float) -> None:
        """Record a validation loss, and cool if it has stalled. A NaN does not count as an improvement."""
        value = float(validation_loss)
        self.history.append((self.temperature, value))
        self._fruitful = self._fruitful or value < self.best - self.tolerance
        self.improved = value < self.best
        if self.improved:
            self.best = value
        if value < self._here - self.tolerance:
            self._here, self._waited = value, 0
        else:
            self._waited += 1
        if self._waited >= self.patience and not self.done:
            self._cool()

    def _cool(self) -> None:
        self._barren = 0 if self._fruitful else self._barren + 1
        self._fruitful, self._waited, self._here = False, 0, math.inf
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
