"""How probabilities become memberships and a soft confusion matrix."""

from evalign.softsets._batch_size import BatchSizeAdvice, batch_size_advice
from evalign.softsets._confusion import binary_soft_confusion, hard_confusion, soft_confusion
from evalign.softsets._memberships import dynamic_threshold, soft_assign
from evalign.softsets._steps import HardStep, LinearStep, SigmoidStep, Step

__all__ = [
    "BatchSizeAdvice", "HardStep", "LinearStep", "SigmoidStep", "Step", "batch_size_advice",
    "binary_soft_confusion", "dynamic_threshold", "hard_confusion",
    "soft_assign", "soft_confusion",
]  # fmt: skip
