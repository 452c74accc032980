"""Fixtures of the metric tests: every named metric of a confusion matrix, one after the other."""

import pytest
import torch

from evalign import metrics

SPECIAL = {
    "fbeta": lambda classes: metrics.fbeta(2),
    "cost": lambda classes: metrics.cost(1 - torch.eye(classes)),
}


@pytest.fixture(scope="session", params=sorted(metrics.NAMED.keys() - {"auroc", "average_precision"}))
def make(request):
    """A function from the number of classes to the metric."""
    return SPECIAL.get(request.param, lambda classes: metrics.NAMED[request.param]())


@pytest.fixture(scope="session")
def random_matrix():
    """A function from a shape to a float64 matrix with every cell in [1, 10)."""
    seeded = torch.Generator().manual_seed(0)
    return lambda *shape: 1 + 9 * torch.rand(shape, dtype=torch.float64, generator=seeded.manual_seed(0))
