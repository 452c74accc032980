"""The progress of a training run, and its best weights so far."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class Best:
    """The best weights so far, and their score."""

    #: Minus the violation of the constraints (0 if satisfied), then the metric or minus the loss.
    score: tuple[float, float] = (-math.inf, -math.inf)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, score: tuple[float, float], model: nn.Module) -> bool:
        """Keep the model's weights if their score is better."""
        if not score > self.score:
            return False
        self.score, self.weights = score, copy.deepcopy(model.state_dict())
        return True


@dataclass
class Progress:
    """The progress of a run."""

    phase: int = 0
    epoch: int = 0
    stalled: int = 0
    lowest: float = math.inf
    finished: bool = False
    best: Best = field(default_factory=Best)
    #: With `by_metric`, the start of the phase: its score and its predicted classes.
    first: Best = field(default_factory=Best)
