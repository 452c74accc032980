"""The confusion matrix and its counts, one class against the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evalign._errors import expected
from evalign._torch import divide, needs_plain_formulas


def root(value: Tensor) -> Tensor:
    """Square root; 0 with gradient 0 where the value is 0 or, through rounding, negative.

    >>> root(torch.tensor([4.0, 0.0]))
    tensor([2., 0.])
    """
    empty = value <= 0
    return value.masked_fill(empty, 1.0).sqrt().masked_fill(empty, 0.0)


def divide_by_root(numerator: Tensor, square: Tensor) -> Tensor:
    """Divide by a square root; 0 with gradient 0 where the square is 0 or, through rounding, negative.

    >>> divide_by_root(torch.tensor([1.0, 1.0]), torch.tensor([4.0, 0.0]))
    tensor([0.5000, 0.0000])
    """
    return numerator / square.masked_fill(square <= 0, torch.inf).sqrt()


#: From this many classes on, the gradients of the three margins are added by hand.
MANY = 64


def margins(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonal, the row sums and the column sums.

    >>> margins(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 4.]), tensor([3., 7.]), tensor([4., 6.]))
    """
    if matrix.shape[-1] < MANY or needs_plain_formulas():
        return matrix.diagonal(dim1=-2, dim2=-1), matrix.sum(-1), matrix.sum(-2)
    joined: tuple[Tensor, Tensor, Tensor] = _Margins.apply(matrix)  # type: ignore[no-untyped-call]
    return joined


class _Margins(torch.autograd.Function):
    """The margins with one gradient matrix instead of three, which dominate the cost for many classes."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return matrix.diagonal(dim1=-2, dim2=-1).clone(), matrix.sum(-1), matrix.sum(-2)

    @staticmethod
    def backward(ctx: Any, tp: Tensor, actual: Tensor, predicted: Tensor) -> Tensor:
        gradient = actual.unsqueeze(-1) + predicted.unsqueeze(-2)
        gradient.diagonal(dim1=-2, dim2=-1).add_(tp)
        return gradient


class Confusion:
    """A confusion matrix and its counts: C[i, j] is the weight of true class i predicted as j.

    For a matrix of shape (..., d, d) the counts have shape (..., d), one value per class against the
    rest, and `total` has shape (..., 1), so that they combine in one formula. With `skip_absent`, classes
    without true mass are left out of averages even if they have predicted mass.

    >>> c = Confusion(torch.tensor([[50.0, 10.0], [5.0, 35.0]]))
    >>> c.tp, c.fp, c.fn, c.tn
    (tensor([50., 35.]), tensor([ 5., 10.]), tensor([10.,  5.]), tensor([35., 50.]))
    """

    def __init__(self, matrix: Tensor, *, skip_absent: bool = False) -> None:
        self.matrix = matrix
        self.skip_absent = skip_absent
        self.tp, self.actual, self.predicted = margins(matrix)
        self._rows = self.actual
        self._total: Tensor | None = None

    @property
    def total(self) -> Tensor:
        """The weight of all rows."""
        if self._total is None:
            self._total = self._rows.sum(-1, keepdim=True)
        return self._total

    @property
    def num_classes(self) -> int:
        """The number of classes d."""
        return int(self.matrix.shape[-1])

    @property
    def fp(self) -> Tensor:
        """Predicted as the class, but of another class."""
        return self.predicted - self.tp

    @property
    def fn(self) -> Tensor:
        """Of the class, but predicted as another class."""
        return self.actual - self.tp

    @property
    def tn(self) -> Tensor:
        """Neither of the class nor predicted as it."""
        return self.total - self.actual - self.predicted + self.tp

    @property
    def precision(self) -> Tensor:
        """The share of a class's predictions that are right: tp / (tp + fp)."""
        return divide(self.tp, self.predicted)

    @property
    def recall(self) -> Tensor:
        """The share of a class's rows that are found: tp / (tp + fn)."""
        return divide(self.tp, self.actual)

    @property
    def present(self) -> Tensor:
        """Which classes are averaged: those with true or predicted mass, or only those with true mass."""
        return self.actual != 0 if self.skip_absent else (self.actual + self.predicted) != 0

    def pooled(self) -> Confusion:
        """The counts summed over all classes, for `average="micro"`."""
        tp, fp, fn = (count.sum(-1) for count in (self.tp, self.fp, self.fn))
        tn = (self.tn * self.present).sum(-1)
        pooled = Confusion(torch.stack([torch.stack([tn, fp], -1), torch.stack([fn, tp], -1)], -2))
        pooled.tp, pooled.actual, pooled.predicted = (
            count[..., 1:] for count in (pooled.tp, pooled.actual, pooled.predicted)
        )
        return pooled


def as_matrix(matrix: Any) -> Tensor:
    """Check a confusion matrix (..., d, d), given as a tensor, array or list; at least float32."""
    tensor = torch.as_tensor(matrix)
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        raise expected("matrix", "of shape (..., d, d) with d >= 2", f"shape {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        return tensor.double()
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
