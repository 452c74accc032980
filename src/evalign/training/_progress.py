"""Where a training run stands, and the best weights it has seen."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class Best:
    """The best weights so far, and what they scored."""

    #: Minus the miss of the constraints (0 where they are kept), then the metric or minus the loss.
    score: tuple[float, float] = (-math.inf, -math.inf)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, score: tuple[float, float], model: nn.Module) -> bool:
        """Take the model's weights if they are better."""
        if not score > self.score:
            return False
        self.score, self.weights = score, copy.deepcopy(model.state_dict())
        return True


@dataclass
class Progress:
    """Where a run stands."""

    phase: int = 0
    epoch: int = 0
    stalled: int = 0
    lowest: float = math.inf
    finished: bool = False
    best: Best = field(default_factory=Best)
    #: With `by_metric`, where the phase began: its score and the classes it predicted.
    first: Best = field(default_factory=Best)
