"""How probabilities become memberships and a soft confusion matrix."""

from evalign.softsets._batch_size import BatchSizeAdvice, batch_size_advice
from evalign.softsets._confusion import binary_soft_confusion, soft_confusion
from evalign.softsets._fused import binary_logit_confusion, logit_confusion
from evalign.softsets._memberships import dynamic_threshold, soft_assign
from evalign.softsets._steps import HardStep, LinearStep, SigmoidStep, Step, check_temperature

__all__ = [
    "BatchSizeAdvice", "HardStep", "LinearStep", "SigmoidStep", "Step", "batch_size_advice",
    "binary_logit_confusion", "binary_soft_confusion", "check_temperature", "dynamic_threshold",
    "logit_confusion", "soft_assign", "soft_confusion",
]  # fmt: skip
