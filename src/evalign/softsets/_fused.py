"""The soft confusion matrix straight from logits, with its gradient in closed form.

`soft_confusion(soft_assign(softmax(logits)), targets)` written for speed: the same numbers in a
fraction of the time and memory. Everything is scaled so that the dynamic threshold tau is 1: with p the
probabilities, x = p / tau and X = sum(x) = 1 / tau. The memberships before normalisation are

    f(x) = s1 x                       for x <= a = 1 - 2.5 T,   s1 = T / a
           T + s2 (x - a)             between a and b,          s2 = (1 - 2 T) / (5 T)
           1 - T + s3 (x - b)         for x > b = 1 + 2.5 T,    s3 = T / (X - b)

Only the largest exceeds 1, and x_1 + x_2 = 2. So with q = dL / dlog(x) the gradient of the logits is q, less
(x_1 sum(q) / 2, x_2 sum(q) / 2) for the two largest, through which the threshold moves.

On a CPU the kernel in `native.c` computes all this in one pass over the rows, if it was compiled.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evalign._torch import needs_plain_formulas, poison
from evalign.softsets import _native
from evalign.softsets._confusion import soft_confusion
from evalign.softsets._memberships import soft_assign
from evalign.softsets._steps import LinearStep, Step, check_temperature


def logit_confusion(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor,
    *,
    temperature: float = 0.2,
    step: Step | None = None,
) -> Tensor:
    """The soft confusion matrix (d, d) of logits (n, d) or (N, S, d), targets and row weights (n,).

    The same as softmax, `soft_assign` and `soft_confusion`, but faster for class indices (n,) and the
    linear step. A NaN or +inf among the logits makes the whole matrix NaN.

    >>> z, y = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
    >>> logit_confusion(z, y, torch.ones(2))
    tensor([[0.7203, 0.0733, 0.2064],
            [0.1822, 0.6357, 0.1822],
            [0.0000, 0.0000, 0.0000]])
    """
    check_temperature(temperature)
    if step or targets.ndim == 2 or weight.requires_grad or needs_plain_formulas():
        return _plain(logits, targets, weight, temperature, step)
    matrix: Tensor
    if _native.is_native(logits, targets, weight):
        matrix = _Native.apply(logits, targets, weight, temperature)  # type: ignore[no-untyped-call]
        return matrix
    function = _Two if logits.shape[-1] == 2 else _Many
    matrix = function.apply(logits.flatten(0, -2), targets, weight, temperature)  # type: ignore[no-untyped-call]
    return matrix


def binary_logit_confusion(
    logits: Tensor, targets: Tensor, weight: Tensor, *, temperature: float = 0.2
) -> Tensor:
    """The soft confusion matrix (2, 2) at threshold 0.5, from one logit per row (n,).

    `targets` (n,) are 0 or 1, or the probability of class 1.

    >>> binary_logit_confusion(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]), torch.ones(2))
    tensor([[0.7773, 0.2227],
            [0.0954, 0.9046]])
    """
    positive = targets * weight
    actual = torch.stack([weight - positive, positive])
    if weight.requires_grad or needs_plain_formulas():
        inside = LinearStep(temperature=temperature)(logits.sigmoid(), 0.5)
        return actual @ torch.stack([1 - inside, inside], -1) + poison(logits)
    matrix: Tensor = _OneLogit.apply(logits, actual, temperature)  # type: ignore[no-untyped-call]
    return matrix


def _plain(
    logits: Tensor, targets: Tensor, weight: Tensor, temperature: float, step: Step | None = None
) -> Tensor:
    rows = logits.flatten(0, -2)
    memberships = soft_assign(rows.softmax(-1), temperature, step=step)
    matrix = soft_confusion(memberships, targets, rows.shape[1], weight)
    return matrix + poison(rows.amax(-1))


def _needs_autograd(gradient: Tensor) -> bool:
    """Whether the gradient is differentiated again, or batched, as by `jacobian(..., vectorize=True)`."""
    is_batched = torch._C._functorch.is_legacy_batchedtensor(gradient)
    return torch.is_grad_enabled() or needs_plain_formulas() or is_batched


def _plain_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
    """The gradient by autograd."""
    logits, targets, weight, *_ = ctx.saved_tensors
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        point = logits if again else logits.detach().requires_grad_()
        matrix = _plain(point, targets, weight, ctx.temperature)
    (of_logits,) = torch.autograd.grad(matrix, point, gradient, create_graph=again)
    return of_logits, None, None, None


class _Native(torch.autograd.Function):
    """The kernel of `native.c`; nothing of the size of the logits is kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> Tensor:
        ctx.temperature = temperature
        ctx.save_for_backward(logits, targets, weight)
        return _native.confusion(_pieces(temperature), logits, targets, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if _needs_autograd(gradient) or not _native.is_plain(gradient):
            return _plain_gradient(ctx, gradient)
        of_logits = _native.confusion_gradient(gradient, _pieces(ctx.temperature), *ctx.saved_tensors)
        return of_logits, None, None, None


class _Many(torch.autograd.Function):
    """More than two classes: see the top of this file."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> Any:
        _, a, b, s1, s2, floor = _pieces(temperature)
        p = logits.softmax(-1)
        top, places = p.topk(2)
        tau = top.mean(-1, keepdim=True)
        x = p.div_(tau)
        g = (x - a).clamp_(0, b - a).mul_(s2 - s1).add_(x, alpha=s1)
        if floor:
            s3 = torch.full_like(tau, s2)
            g.add_(floor)
        else:
            s3 = tau.reciprocal_().sub_(b).reciprocal_().mul_(temperature)
            g.addcmul_((x - b).clamp_(min=0), s3 - s1)
        norm = g.sum(-1, keepdim=True)
        scale = weight.unsqueeze(-1) / norm
        g.mul_(scale)
        ctx.temperature = temperature
        ctx.save_for_backward(logits, targets, weight, x, places, g, norm, scale, s3)
        return _add_up(targets, g)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if _needs_autograd(gradient):
            return _plain_gradient(ctx, gradient)
        _, targets, _, x, places, g, norm, scale, s3 = ctx.saved_tensors
        temperature, a, b, s1, s2, floor = _pieces(ctx.temperature)
        value = gradient.index_select(0, targets)
        mean = (value * g).sum(-1, keepdim=True).div_(norm)
        value.mul_(scale).sub_(mean)  # dL/df
        if not floor:
            above = (x - b).clamp_(min=0).mul_(value).sum(-1, keepdim=True)
            of_total = above.mul_(s3 * s3).mul_(-1 / temperature)
        value.mul_(torch.where(x > b, s3, torch.where(x > a, s2, s1)))
        q = (value if floor else value.add_(of_total)).mul_(x)
        of_tau = x.gather(-1, places).mul_(q.sum(-1, keepdim=True).mul_(-0.5))
        return q.scatter_add_(-1, places, of_tau), None, None, None


class _Two(torch.autograd.Function):
    """Two classes: the threshold is always 0.5, and the memberships already sum to 1."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> Tensor:
        p = logits.softmax(-1)
        ctx.temperature = temperature
        ctx.save_for_backward(logits, targets, weight, p)
        return _add_up(targets, _step_at_half(p, temperature).mul_(weight.unsqueeze(-1)))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if _needs_autograd(gradient):
            return _plain_gradient(ctx, gradient)
        _, targets, weight, p = ctx.saved_tensors
        of_p = gradient.index_select(0, targets).mul_(weight.unsqueeze(-1))
        q = of_p.mul_(_slope_at_half(p, ctx.temperature)).mul_(p)
        return q.addcmul(p, q.sum(-1, keepdim=True), value=-1), None, None, None


class _OneLogit(torch.autograd.Function):
    """Two classes with one logit per row; `actual` (2, n) is the weight of each row in each true class."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, actual: Tensor, temperature: float) -> Tensor:
        p = logits.sigmoid()
        ctx.save_for_backward(logits, actual, p)
        ctx.temperature = temperature
        inside = _step_at_half(p, temperature)
        inside.add_(logits, alpha=0.0)  # NaN if a logit is not finite, which makes the whole matrix NaN
        positive = actual @ inside
        return torch.stack([actual.sum(-1) - positive, positive], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        logits, actual, p = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, use differentiable operations
            p = logits.sigmoid()
        of_inside = actual.t() @ (gradient[:, 1] - gradient[:, 0])
        return of_inside * _slope_at_half(p, ctx.temperature) * (p - p * p), None, None


def _add_up(targets: Tensor, memberships: Tensor) -> Tensor:
    """The matrix of weighted memberships; NaN anywhere is NaN everywhere."""
    d = memberships.shape[1]
    matrix = memberships.new_zeros(d, d).index_add_(0, targets, memberships)
    return matrix.add_(matrix.sum(), alpha=0.0)


def _pieces(temperature: float) -> tuple[float, float, float, float, float, float]:
    """T, knots a and b, slopes s1 and s2, and the value at 0, which is 0 except at temperature 0.4."""
    a, b = 1 - 2.5 * temperature, 1 + 2.5 * temperature
    s2 = (1 - 2 * temperature) / (5 * temperature)
    s1, floor = (temperature / a, 0.0) if a > 0 else (s2, temperature)
    return temperature, a, b, s1, s2, floor


def _step_at_half(p: Tensor, temperature: float) -> Tensor:
    """The linear step at threshold 0.5, whose outer pieces have the same slope."""
    _, a, b, s1, s2, floor = _pieces(temperature)
    inside = (p - a / 2).clamp_(0, (b - a) / 2).mul_(2 * (s2 - s1)).add_(p, alpha=2 * s1)
    return inside.add_(floor) if floor else inside


def _slope_at_half(p: Tensor, temperature: float) -> Tensor:
    """The derivative of the linear step at threshold 0.5."""
    _, _, _, s1, s2, _ = _pieces(temperature)
    return torch.where((p - 0.5).abs_() < 1.25 * temperature, 2 * s2, 2 * s1).to(p.dtype)
