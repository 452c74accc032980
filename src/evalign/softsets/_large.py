"""The soft confusion matrix of many rows on a CPU without the kernel: few passes over memory.

The notation is that of `native.c`. All but the largest are treated alike, class by class if there are few of
them, since the rows are then neighbours in memory; the largest, whose piece of the step differs, is one
number per row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evalign._torch import differentiate, needs_autograd, poison
from evalign.softsets._confusion import plain_confusion
from evalign.softsets._native import find_pieces

#: From this many logits on, the number of passes counts rather than that of operations.
LARGE = 2**14
#: The number of logits processed at once: few enough to stay in the cache.
BLOCK = 2**20
#: Up to this many classes, rows are the last dimension.
FEW = 48


def count_rows(logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float) -> Tensor:
    """The soft confusion matrix (d, d) of logits (n, d) or (N, S, d), as a sum over rows.

    >>> z, y = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
    >>> count_rows(z, y, None, 0.2)
    tensor([[0.7203, 0.0733, 0.2064],
            [0.1822, 0.6357, 0.1822],
            [0.0000, 0.0000, 0.0000]])
    """
    size, start, matrices = max(1, BLOCK // logits.shape[-1]), 0, []
    for image in logits.unbind() if logits.ndim == 3 else [logits]:
        for rows in torch.split(image, size):
            cut = slice(start, start + len(rows))
            own = None if weight is None else weight[cut]
            matrices.append(_Rows.apply(rows, targets[cut], own, temperature))  # type: ignore[no-untyped-call]
            start += len(rows)
    return matrices[0] if len(matrices) == 1 else torch.stack(matrices).sum(0)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float
    ) -> Tensor:
        dim = 0 if logits.shape[1] <= FEW else -1
        _, a, b, s1, s2, _ = find_pieces(temperature)
        x = (logits.t() if dim == 0 else logits).clone(memory_format=torch.contiguous_format)
        top, first = _find_largest(x, dim)
        x.scatter_(dim, first, -torch.inf)
        runner_up, second = _find_largest(x, dim)
        u = (top - runner_up).sigmoid_().mul_(2)
        x.sub_(top - u.log()).exp_()  # 0 in place of the largest
        k = (u - b).clamp_min_(0)
        slope = (x.sum(dim, keepdim=True).add_(u) - b).reciprocal_().mul_(temperature)
        f = x.sub(a).clamp_min_(0).mul_(s2 - s1).add_(x, alpha=s1)
        f.scatter_(dim, first, (u - k).mul_(s2).add_(0.5 - s2).addcmul_(k, slope))
        norm = f.sum(dim, keepdim=True)
        scale = norm.reciprocal() if weight is None else weight.unsqueeze(dim) / norm
        f.mul_(scale)
        d = logits.shape[1]
        matrix = poison(top).expand(d, d).clone().index_add_(1 + dim, targets, f)
        ctx.temperature, ctx.dim = temperature, dim
        ctx.save_for_backward(logits, targets, weight, x, f, first, second, u, k, slope, norm, scale)
        return matrix.t() if dim == 0 else matrix

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        logits, targets, weight, x, f, first, second, u, k, slope, norm, scale = ctx.saved_tensors
        temperature, dim = ctx.temperature, ctx.dim
        if needs_autograd(gradient):
            plain = lambda point: plain_confusion(point, targets, weight, temperature)  # noqa: E731
            return differentiate(plain, logits, gradient), None, None, None
        _, a, _, s1, s2, _ = find_pieces(temperature)
        value = (gradient.t().contiguous() if dim == 0 else gradient).index_select(1 + dim, targets)
        work = value * f
        value.mul_(scale).sub_(work.sum(dim, keepdim=True).div_(norm))  # dL/df
        of_first = value.gather(dim, first)
        work.copy_(x)
        torch.threshold_(work, a, 0.0).mul_(s2 - s1).add_(x, alpha=s1)  # x df/dx
        value.mul_(work)
        of_total = of_first * k * slope * slope * (-1 / temperature)
        value.addcmul_(x, of_total)
        of_first = of_first.mul_(slope.masked_fill(k == 0, s2)).add_(of_total).mul_(u)
        mass = value.sum(dim, keepdim=True).add_(of_first)  # the gradient of -log(threshold)
        half = mass * u * 0.5
        value.scatter_(dim, first, of_first - half)
        value.scatter_add_(dim, second, half - mass)
        return value.t() if dim == 0 else value, None, None, None


def _find_largest(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest value and its index, keeping the dimension; much faster than `torch.max`."""
    value = x.amax(dim, keepdim=True)
    places = torch.arange(x.shape[dim], dtype=x.dtype, device=x.device).unsqueeze(-1 - dim)
    return value, x.clone().eq_(value).mul_(places).amax(dim, keepdim=True).long()
