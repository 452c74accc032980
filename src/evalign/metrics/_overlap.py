"""F-beta, precision and recall, with their cost matrix dM/dC in closed form.

All three divide the true positives of a class by a mean of its sizes: tp / ((1 - s) actual + s predicted),
with s = 1 / (1 + beta^2) for F-beta, 1 for precision and 0 for recall. Most losses train on them, and on so
small a matrix only the number of operations counts, of which autograd would need twice as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evalign._errors import expected
from evalign._torch import Constant, differentiate, divide, needs_autograd, needs_plain_formulas
from evalign.metrics._confusion import MANY, Confusion
from evalign.metrics._counts import Average, CountMetric


class OverlapMetric(CountMetric):
    """True positives divided by a mean size, in which `share` (one, or per class) weights `predicted`."""

    def __init__(self, share: float | Sequence[float], name: str, formula: str, **settings: Any) -> None:
        self._share = share if isinstance(share, float) else Constant(share)
        super().__init__(partial(_overlap, share=self._share), name, formula, **settings)
        shares = (share, share) if isinstance(share, float) else share
        self._cells = _Cells(shares[self.positive], self.positive) if len(shares) == 2 else None

    def _average_of(self, matrix: Tensor, skip_absent: bool, average: Average) -> Tensor:
        plain = partial(super()._average_of, skip_absent=skip_absent, average=average)
        d, value = matrix.shape[-1], None
        if matrix.ndim == 2 and not needs_plain_formulas():
            if d == 2 and average in ("auto", "binary") and self._cells is not None:
                value = _Fraction.apply(matrix, self._cells, plain)  # type: ignore[no-untyped-call]
            elif 2 < d < MANY and average in ("auto", "macro") and skip_absent and type(self._share) is float:
                value = _MeanOverlap.apply(matrix, self._share, plain)  # type: ignore[no-untyped-call]
        return plain(matrix) if value is None else value


class _Cells:
    """The true positives and the mean size of one of two classes, as weights of the cells of the matrix."""

    def __init__(self, share: float, positive: int) -> None:
        tp, actual, predicted = np.zeros((3, 2, 2))
        tp[positive, positive] = actual[positive] = predicted[:, positive] = 1
        size = (1 - share) * actual + share * predicted
        self.tp, self.size, self.both = Constant(tp), Constant(size), Constant([tp, size])


class _Fraction(torch.autograd.Function):
    """M = <A, C> / <B, C>, with gradient (A - M B) / <B, C>."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cells: _Cells, plain: Callable[[Tensor], Tensor]) -> Tensor:
        tp, size = (cells.both.like(matrix) * matrix).sum((-2, -1)).unbind()
        size = size.masked_fill(size == 0, torch.inf)  # as in `divide`
        value = tp / size
        costs = torch.addcmul(cells.tp.like(matrix), cells.size.like(matrix), value, value=-1).div_(size)
        ctx.plain = plain
        ctx.save_for_backward(matrix, costs)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        matrix, costs = ctx.saved_tensors
        if needs_autograd(gradient):
            return differentiate(ctx.plain, matrix, gradient), None, None
        return gradient * costs, None, None


class _MeanOverlap(torch.autograd.Function):
    """The mean of tp_k / size_k over the classes with true mass; dM/dtp_k = 1 / size_k / their number."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, share: float, plain: Callable[[Tensor], Tensor]) -> Tensor:
        tp, actual, predicted = matrix.diagonal(), matrix.sum(-1), matrix.sum(-2)
        size = torch.lerp(actual, predicted, share).masked_fill_(actual == 0, torch.inf)
        overlap = tp / size
        count = actual.count_nonzero().clamp_min(1)
        ctx.share, ctx.plain = share, plain
        ctx.save_for_backward(matrix, overlap, size, count)
        return overlap.sum() / count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        matrix, overlap, size, count = ctx.saved_tensors
        if needs_autograd(gradient):
            return differentiate(ctx.plain, matrix, gradient), None, None
        of_tp = gradient / count / size
        of_size = of_tp * overlap
        return of_tp.diag_embed() - torch.lerp(of_size.unsqueeze(-1), of_size, ctx.share), None, None


def _overlap(c: Confusion, share: float | Constant) -> Tensor:
    if isinstance(share, float):
        return divide(c.tp, torch.lerp(c.actual, c.predicted, share))
    if len(share.values) != c.num_classes:
        raise expected("beta", f"with one value for each of {c.num_classes} classes", len(share.values))
    return divide(c.tp, torch.lerp(c.actual, c.predicted, share.like(c.tp)))
