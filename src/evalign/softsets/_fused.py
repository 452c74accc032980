"""The soft confusion matrix straight from logits, with its gradient in closed form.

`soft_confusion(soft_assign(softmax(logits)), targets)` written for speed: the same numbers in a
fraction of the time and memory. With p the probabilities and p_1, p_2 the two largest, everything is written
in x = p / (p_1 + p_2), so that the dynamic threshold is 1/2, and in units in which the first slope is 1.
With knots a = 1/2 - 1.25 T and b = 1/2 + 1.25 T, the memberships before normalisation are

    f(x) = x                          for x <= a
           a + steep (x - a)          between a and b,      steep = 2 a (1 - 2 T) / (5 T^2)
           a + steep (b - a) + a y    for x > b,            y = (x - b) / (X - b),   X = sum(x)

Only the largest exceeds 1/2, and x_1 + x_2 = 1. So with q = dL / dlog(x) the gradient of the logits is q, but
for the two largest, through which the threshold moves, x_1 sum(q) and x_2 sum(q) less.

On a CPU the kernel in `native.c` computes all this in one pass over the rows, if it was compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evalign._torch import (
    Constant,
    differentiate,
    is_readable,
    needs_autograd,
    needs_plain_formulas,
    poison,
)
from evalign.softsets import _large, _native
from evalign.softsets._confusion import plain_confusion
from evalign.softsets._steps import MAX_TEMPERATURE, LinearStep, Step, check_temperature

#: Up to this many classes, rows are counted by a product with one-hot targets.
ONE_HOT = 16

_softmax_backward = torch._softmax_backward_data
_sigmoid_backward = torch.ops.aten.sigmoid_backward
_softshrink_backward = torch.ops.aten.softshrink_backward
_hardtanh_backward = torch.ops.aten.hardtanh_backward


def logit_confusion(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    *,
    temperature: float = 0.2,
    step: Step | None = None,
) -> tuple[Tensor, Tensor | float]:
    """The soft confusion matrix (d, d) of logits (n, d) or (N, S, d), with sum 1, and the weight of all rows.

    The same as softmax, `soft_assign` and `soft_confusion`, divided by the weight, but faster for class
    indices (n,) and the linear step. `weight` (n,) weights the rows, or is a mask of those that count.
    Without any weight the matrix is 0. A NaN or +inf among the logits makes the whole matrix NaN.

    >>> z, y = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
    >>> logit_confusion(z, y)
    (tensor([[0.3601, 0.0367, 0.1032],
            [0.0911, 0.3178, 0.0911],
            [0.0000, 0.0000, 0.0000]]), 2)
    """
    check_temperature(temperature)
    needs_plain = step is not None or targets.ndim == 2 or (weight is not None and weight.requires_grad)
    if needs_plain or needs_plain_formulas():
        return _plain(logits, targets, weight, temperature, step)
    return _apply(_Fused, logits, targets, weight, temperature)


def binary_logit_confusion(
    logits: Tensor, targets: Tensor, weight: Tensor | None = None, *, temperature: float = 0.2
) -> tuple[Tensor, Tensor | float]:
    """The soft confusion matrix (2, 2) at threshold 0.5, from one logit per row (n,), as `logit_confusion`.

    `targets` (n,) are 0 or 1, or the probability of class 1.

    >>> binary_logit_confusion(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]))
    (tensor([[0.3886, 0.1114],
            [0.0477, 0.4523]]), 2)
    """
    check_temperature(temperature)
    targets = targets.to(logits.dtype)
    needs_plain = weight is not None and weight.requires_grad
    if needs_plain or needs_plain_formulas():
        return _plain_binary(logits, targets, weight, temperature)
    return _apply(_OneLogit, logits, targets, weight, temperature)


def _apply(
    fused: Any, logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor | float]:
    """The fastest way for logits and targets that are fit for it."""
    if _native.is_native(logits, targets, weight):
        matrix, total = _Native.apply(logits, targets, weight, temperature)  # type: ignore[no-untyped-call]
    elif temperature == MAX_TEMPERATURE:  # the lower piece of the step is empty
        matrix, total = _plain_of(logits)(logits, targets, weight, temperature)
    elif logits.ndim > 1 and logits.numel() >= _large.LARGE and is_readable(logits):
        matrix, total = _count_large(logits, targets, weight, temperature)
    else:
        matrix, total = fused.apply(logits, targets, weight, temperature)
    return matrix, len(targets) if weight is None else total


def _count_large(
    logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor | float]:
    """Many rows on a CPU: of two classes, the difference of the logits is enough."""
    if logits.shape[-1] > 2:
        return _normalise(_large.count_rows(logits, targets, weight, temperature), _total(targets, weight))
    limit = torch.finfo(logits.dtype).max
    margin = (logits[..., 1] - logits[..., 0]).flatten().clamp(-limit, limit)
    labels = targets.to(logits.dtype)
    matrix, total = _OneLogit.apply(margin, labels, weight, temperature)  # type: ignore[no-untyped-call]
    return matrix + poison(logits.amax(-1)), total


def _plain_of(logits: Tensor) -> Any:
    return _plain_binary if logits.ndim == 1 else _plain


def _plain_binary(
    logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor | float]:
    inside = LinearStep(temperature=temperature)(logits.sigmoid(), 0.5)
    matrix = _weigh(targets, weight) @ torch.stack([1 - inside, inside], -1) + poison(logits)
    return _normalise(matrix, _total(targets, weight))


def _weigh(targets: Tensor, weight: Tensor | None) -> Tensor:
    """The weight (2, n) of each row in class 0 and in class 1."""
    actual = torch.stack([1 - targets, targets])
    return actual if weight is None else actual * weight


def _plain(
    logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float, step: Step | None = None
) -> tuple[Tensor, Tensor | float]:
    return _normalise(plain_confusion(logits, targets, weight, temperature, step), _total(targets, weight))


def _total(targets: Tensor, weight: Tensor | None) -> Tensor | float:
    return len(targets) if weight is None else weight.sum()


def _normalise(matrix: Tensor, total: Tensor | float) -> tuple[Tensor, Tensor | float]:
    """The matrix divided by the weight of all rows, if there is any."""
    if isinstance(total, Tensor):
        return matrix / total.clamp_min(torch.finfo(matrix.dtype).tiny), total
    return matrix / max(total, 1), total


def _plain_gradient(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, None, None, None]:
    if gradient is None:
        return None, None, None, None
    logits, targets, weight, *_ = ctx.saved_tensors
    plain = lambda point: _plain_of(point)(point, targets, weight, ctx.temperature)[0]  # noqa: E731
    return differentiate(plain, logits, gradient), None, None, None


class _Native(torch.autograd.Function):
    """The kernel of `native.c`; nothing of the size of the logits is kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float) -> Any:
        matrix, total = _native.confusion(temperature, logits, targets, weight)
        ctx.temperature, ctx.total = temperature, total
        ctx.save_for_backward(logits, targets, weight)
        return matrix, total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        if needs_autograd(gradient) or not _native.is_plain(gradient):
            return _plain_gradient(ctx, gradient)
        of_logits = _native.confusion_gradient(gradient, ctx.total, ctx.temperature, *ctx.saved_tensors)
        return of_logits, None, None, None


class _Fused(torch.autograd.Function):
    """The same with PyTorch, in as few operations as possible: see the top of this file."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float) -> Any:
        rows = logits.flatten(0, -2)
        two = rows.shape[1] == 2
        measured = (_measure_two if two else _measure_many)(rows, temperature)
        actual = _mark(targets, weight, rows)
        matrix = _count(measured[0], targets, weight, actual)
        total = matrix.sum()
        scale = total.clamp_min(torch.finfo(total.dtype).tiny)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, targets, weight, scale, actual, *measured)
        total = total * _unit(temperature) if two and weight is not None else total
        ctx.mark_non_differentiable(total)
        return matrix / scale, total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: Any) -> Any:
        if gradient is None or needs_autograd(gradient):
            return _plain_gradient(ctx, gradient)
        logits, targets, weight, scale, actual, *measured = ctx.saved_tensors
        value = _look_up(gradient / scale, targets, weight, actual)
        differentiate_rows = _differentiate_two if logits.shape[-1] == 2 else _differentiate_many
        of_rows = differentiate_rows(value, ctx.temperature, *measured)
        return of_rows if logits.ndim == 2 else of_rows.view(logits.shape), None, None, None


def _mark(targets: Tensor, weight: Tensor | None, rows: Tensor) -> Tensor | None:
    """The weights (d, n) of the rows in their true class, else 0; None if there are many classes."""
    if rows.shape[1] > ONE_HOT:
        return None
    actual = _identity(rows.shape[1]).like(rows).index_select(1, targets)
    return actual if weight is None else actual.mul_(weight)


def _count(memberships: Tensor, targets: Tensor, weight: Tensor | None, actual: Tensor | None) -> Tensor:
    """The sum (d, d) of the memberships of each true class; `actual` is what `_mark` returned."""
    if actual is not None:
        return actual @ memberships
    d = memberships.shape[1]
    weighted = memberships if weight is None else memberships * weight.unsqueeze(-1)
    return memberships.new_zeros(d, d).index_add_(0, targets, weighted)


def _look_up(costs: Tensor, targets: Tensor, weight: Tensor | None, actual: Tensor | None) -> Tensor:
    """The weighted costs (n, d) of all predictions of a row, by its true class."""
    if actual is not None:
        return actual.t() @ costs
    value = costs.index_select(0, targets)
    return value if weight is None else value.mul_(weight.unsqueeze(-1))


@lru_cache
def _identity(d: int) -> Constant:
    return Constant(np.eye(d))


def _measure_two(logits: Tensor, temperature: float) -> tuple[Tensor, ...]:
    """The memberships of two classes, whose sum is always 1 / `_unit`: there is nothing to normalise."""
    a, b, steep = _knots(temperature)
    p = logits.softmax(-1)
    return torch.add(p, (p - a).clamp_(0, b - a), alpha=steep - 1), p


def _differentiate_two(value: Tensor, temperature: float, _: Tensor, p: Tensor) -> Tensor:
    a, b, steep = _knots(temperature)
    value.add_(_hardtanh_backward(value, p, a, b), alpha=steep - 1)
    return _softmax_backward(value, p, -1, p.dtype)


def _measure_many(logits: Tensor, temperature: float) -> tuple[Tensor, ...]:
    """The memberships, and what their gradient needs; softshrink(x, a) is max(x - a, 0) for x >= 0."""
    a, b, steep = _knots(temperature)
    p = logits.softmax(-1)
    largest, places = p.topk(2)
    pair = largest.sum(-1, keepdim=True)
    x = p.div_(pair)
    y = F.softshrink(x, b)
    f = torch.add(x, F.softshrink(x, a), alpha=steep - 1).add_(y, alpha=-steep)
    k = pair / torch.rsub(pair, 1, alpha=b)  # 1 / (X - b)
    f.add_(y.mul_(k), alpha=a)
    norm = f.sum(-1, keepdim=True)
    return f.div_(norm), norm, x, largest.div_(pair), places, k, y.sum(-1, keepdim=True)


def _differentiate_many(
    value: Tensor, temperature: float, memberships: Tensor, norm: Tensor, x: Tensor, largest: Tensor,
    places: Tensor, k: Tensor, y: Tensor,
) -> Tensor:  # fmt: skip
    a, b, steep = _knots(temperature)
    value.sub_((value * memberships).sum(-1, keepdim=True)).div_(norm)  # dL/df
    above = _softshrink_backward(value, x, b)
    q = torch.add(value, _softshrink_backward(value, x, a), alpha=steep - 1).add_(above, alpha=-steep)
    above.addcmul_(y, above.sum(-1, keepdim=True), value=-1)  # dy = k (dx - y dX)
    q.addcmul_(above, k, value=a).mul_(x)
    of_threshold = largest * q.sum(-1, keepdim=True)
    return q.scatter_add_(-1, places, of_threshold.neg_())


class _OneLogit(torch.autograd.Function):
    """Two classes with one logit per row."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float) -> Any:
        a, b, steep = _knots(temperature)
        actual, p = _weigh(targets, weight), logits.sigmoid()
        inside = torch.add(p, (p - a).clamp_(0, b - a), alpha=steep - 1)
        inside.add_(logits, alpha=0.0)  # NaN if a logit is not finite, which makes the whole matrix NaN
        sizes, positive = actual.sum(-1), actual @ inside
        total = sizes.sum()
        scale = total.clamp_min(torch.finfo(total.dtype).tiny) / _unit(temperature)
        matrix = torch.stack([sizes / _unit(temperature) - positive, positive], -1)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(total)
        ctx.save_for_backward(logits, targets, weight, actual, p, scale)
        return matrix / scale, total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: Any) -> Any:
        if gradient is None or needs_autograd(gradient):
            return _plain_gradient(ctx, gradient)
        *_, actual, p, scale = ctx.saved_tensors
        a, b, steep = _knots(ctx.temperature)
        value = (gradient[:, 1] - gradient[:, 0]).div_(scale) @ actual
        value.add_(_hardtanh_backward(value, p, a, b), alpha=steep - 1)
        return _sigmoid_backward(value, p), None, None, None


def _knots(temperature: float) -> tuple[float, float, float]:
    """The knots a and b, and the slope between them in units of that below a."""
    a, b = 0.5 - 1.25 * temperature, 0.5 + 1.25 * temperature
    return a, b, 2 * a * (1 - 2 * temperature) / (5 * temperature**2)


def _unit(temperature: float) -> float:
    """The membership of the lower knot, T, in units in which it is a."""
    return temperature / _knots(temperature)[0]
