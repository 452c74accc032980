"""Training on a metric: annealing, exact big batches, samplers, and the training loop."""

from evalign.training._anneal import Anneal
from evalign.training._checkpoint import Checkpoint, take_prefix
from evalign.training._exact import ExactStep
from evalign.training._fit import Fit, Phase, TrainingData, evaluate, predict_logits
from evalign.training._samplers import DistributedStratifiedBatchSampler, StratifiedBatchSampler

__all__ = [
    "Anneal", "Checkpoint", "DistributedStratifiedBatchSampler", "ExactStep", "Fit", "Phase",
    "StratifiedBatchSampler", "TrainingData", "evaluate", "predict_logits", "take_prefix",
]  # fmt: skip
