"""The uncertainty of the difference between two classifiers on the same rows."""

from __future__ import annotations

import torch
from torch import Tensor

from evalign.metrics._metric import Metric


def paired_error(
    metric: Metric,
    matrix: Tensor,
    targets: Tensor,
    first: Tensor,
    second: Tensor,
    weight: Tensor | None = None,
) -> float:
    """The standard error of M(first) - M(second) for two predictions of the same rows, by the delta method.

    To first order, a row that is predicted differently changes the metric by W[y, first] - W[y, second],
    with W = dM/dC at the mean confusion `matrix` of both; other rows do not change it. For accuracy this is
    the standard error of McNemar's test.

    >>> import torch
    >>> from evalign import metrics
    >>> y, a, b = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 0]), torch.tensor([0, 1, 0, 0])
    >>> middle = torch.tensor([[1.5, 0.5], [1.5, 0.5]])
    >>> round(paired_error(metrics.accuracy(), middle, y, a, b), 4)   # two rows of four
    0.3536

    References:
        McNemar (1947), Note on the sampling error of the difference between correlated proportions.
    """
    if matrix.ndim == 3:  # labels: one matrix each
        point = matrix.detach().clone().requires_grad_()
        with torch.enable_grad():
            (cost,) = torch.autograd.grad(metric.over_labels(point), point, materialize_grads=True)
        place = torch.arange(targets.shape[1], device=targets.device)
        moves = (cost[place, targets, first] - cost[place, targets, second]).sum(1)
    else:
        cost = metric.gradient(matrix)
        moves = cost[targets, first] - cost[targets, second]
    return float((moves if weight is None else moves * weight.to(moves)).square().sum().sqrt())
