"""Training on a metric: annealing, exact big batches, samplers."""

from evalign.training._anneal import Anneal
from evalign.training._exact import ExactStep
from evalign.training._samplers import DistributedStratifiedBatchSampler, StratifiedBatchSampler

__all__ = ["Anneal", "DistributedStratifiedBatchSampler", "ExactStep", "StratifiedBatchSampler"]
