"""The soft confusion matrix straight from logits, with its gradient in closed form.

`soft_confusion(soft_assign(softmax(logits)), targets)` written for speed: the same numbers in a
fraction of the time and memory. Everything is scaled so that the dynamic threshold is 1. With e =
exp(logit), e_1 >= e_2 the two largest, and x = 2 e / (e_1 + e_2), the probabilities are x times the
threshold. The memberships before normalisation are, for all but the largest,

    f(x) = s1 x                        for x <= a = 1 - 2.5 T,   s1 = T / a
           s1 a + s2 (x - a)           above,                    s2 = (1 - 2 T) / (5 T)

and with u = x_1, X = sum(x), b = 1 + 2.5 T, the largest is s2 (min(u, b) - 1) + 1/2 + k T / (X - b),
k = max(u - b, 0). No softmax is needed, and since x_2 = 2 - u, the chain rule through the threshold
only shifts gradient between the two largest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evalign._torch import needs_plain_formulas, poison
from evalign.softsets._confusion import soft_confusion
from evalign.softsets._memberships import soft_assign
from evalign.softsets._steps import LinearStep, Step, check_temperature

#: Up to this many classes, rows are the last dimension, which vectorises better.
FEW = 48
#: The number of logits processed at once on a CPU: few enough to stay in its cache.
BLOCK = 2**20


def logit_confusion(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor,
    *,
    temperature: float = 0.2,
    step: Step | None = None,
) -> Tensor:
    """The soft confusion matrix (d, d) of logits (n, d), targets and row weights (n,).

    The same as softmax, `soft_assign` and `soft_confusion`, but faster for class indices (n,) and the
    linear step. A NaN or +inf among the logits makes the whole matrix NaN.

    >>> z, y = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
    >>> logit_confusion(z, y, torch.ones(2)).sum(1)
    tensor([1., 1., 0.])
    """
    check_temperature(temperature)
    rows, d = logits.shape
    if step or targets.ndim == 2 or weight.requires_grad or needs_plain_formulas():
        return _plain(logits, targets, weight, temperature, step)
    if d == 2:
        return binary_logit_confusion(logits, targets, weight, temperature=temperature)
    block = max(1, BLOCK // d) if logits.device.type == "cpu" else rows
    if rows <= block:
        return _many(logits, targets, weight, temperature)
    parts = zip(*(torch.split(side, block) for side in (logits, targets, weight)), strict=True)
    return torch.stack([_many(z, y, w, temperature) for z, y, w in parts]).sum(0)


def binary_logit_confusion(
    logits: Tensor, targets: Tensor, weight: Tensor, *, temperature: float = 0.2
) -> Tensor:
    """The soft confusion matrix (2, 2) at threshold 0.5, from one logit per row (n,) or two (n, 2).

    `targets` (n,) are 0 or 1, or the probability of class 1.

    >>> binary_logit_confusion(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]), torch.ones(2))
    tensor([[0.7773, 0.2227],
            [0.0954, 0.9046]])
    """
    positive = targets * weight
    actual = torch.stack([weight - positive, positive])
    if weight.requires_grad or needs_plain_formulas():
        margin = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
        inside = LinearStep(temperature=temperature)(margin.sigmoid(), 0.5)
        return actual @ torch.stack([1 - inside, inside], -1) + poison(margin)
    matrix: Tensor = _Two.apply(logits, actual, temperature)  # type: ignore[no-untyped-call]
    return matrix


def _plain(
    logits: Tensor, targets: Tensor, weight: Tensor, temperature: float, step: Step | None = None
) -> Tensor:
    memberships = soft_assign(logits.softmax(-1), temperature, step=step)
    matrix = soft_confusion(memberships, targets, logits.shape[1], weight)
    return matrix + poison(logits.amax(-1))


def _many(logits: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> Tensor:
    matrix: Tensor = _Many.apply(logits, targets, weight, temperature)  # type: ignore[no-untyped-call]
    return matrix


class _Two(torch.autograd.Function):
    """Two classes: the threshold is always 0.5, and one probability is enough."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, actual: Tensor, temperature: float) -> Tensor:
        margin = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
        p = margin.sigmoid()
        flat, steep = _slopes(temperature)
        near = p.clamp(0.5 - 1.25 * temperature, 0.5 + 1.25 * temperature)
        inside = (near * (steep - flat)).add_(p, alpha=flat).add_(0.5 - 0.5 * steep)
        inside.add_(margin, alpha=0.0)  # NaN if a margin is not finite, which makes the whole matrix NaN
        ctx.save_for_backward(logits, actual, p, near)
        ctx.temperature = temperature
        positive = actual @ inside
        return torch.stack([actual.sum(-1) - positive, positive], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        logits, actual, p, near = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, use differentiable operations
            p = (logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]).sigmoid()
        flat, steep = _slopes(ctx.temperature)
        slope = (p == near).to(p.dtype).mul_(steep - flat).add_(flat)
        of_margin = (gradient[:, 1] - gradient[:, 0]) @ actual * slope * (p - p * p)
        if logits.ndim == 2:
            of_margin = torch.stack([-of_margin, of_margin], -1)
        return of_margin, None, None


def _slopes(temperature: float) -> tuple[float, float]:
    """The slopes of the linear step at threshold 0.5, outside its knots and between them."""
    outside = 0.5 - 1.25 * temperature
    return temperature / outside if outside > 0 else 0.0, (1 - 2 * temperature) / (2.5 * temperature)


class _Many(torch.autograd.Function):
    """More than two classes: see the top of this file."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> Any:
        few = logits.shape[-1] <= FEW
        dim = 0 if few else -1
        a, b, s1, s2, floor = _pieces(temperature)
        x = (logits.t() if few else logits).clone(memory_format=torch.contiguous_format)
        top, first = _max(x, dim)
        x.scatter_(dim, first, -torch.inf)
        runner_up, second = _max(x, dim)
        u = (top - runner_up).sigmoid_().mul_(2)
        x.sub_(top - u.log()).exp_()  # 0 in place of the largest
        total = x.sum(dim, keepdim=True).add_(u)
        k = (u - b).clamp_min_(0)
        slope = (total - b).reciprocal_().mul_(temperature) if floor == 0 else torch.zeros_like(u)
        largest = (u - k).mul_(s2).add_(0.5 - s2).addcmul_(k, slope)
        g = x.sub(a).clamp_min_(0).mul_(s2 - s1).add_(x, alpha=s1)
        if floor:
            g.add_(floor)
        g.scatter_(dim, first, largest)
        norm = g.sum(dim, keepdim=True)
        scale = weight.unsqueeze(dim) / norm
        g.mul_(scale)
        d = logits.shape[-1]
        matrix = poison(top).expand(d, d).clone().index_add_(1 + dim, targets, g)
        matrix = matrix.t() if few else matrix
        ctx.temperature = temperature
        ctx.save_for_backward(logits, targets, weight, x, g, first, second, u, k, slope, norm, scale)
        return matrix

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        logits, targets, weight, x, g, first, second, u, k, slope, norm, scale = ctx.saved_tensors
        temperature = ctx.temperature
        if torch.is_grad_enabled():  # for a second derivative, use the plain formula
            matrix = _plain(logits, targets, weight, temperature)
            grads = torch.autograd.grad(matrix, logits, gradient, create_graph=True)
            return grads[0], None, None, None
        few = logits.shape[-1] <= FEW
        dim = 0 if few else -1
        a, _, s1, s2, _ = _pieces(temperature)
        value = (gradient.t().contiguous() if few else gradient).index_select(1 + dim, targets)
        work = value * g
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
        return value.t() if few else value, None, None, None


def _pieces(temperature: float) -> tuple[float, float, float, float, float]:
    """Knots a and b, slopes s1 and s2, and the value at 0, which is 0 except at temperature 0.4."""
    a, b = 1 - 2.5 * temperature, 1 + 2.5 * temperature
    s2 = (1 - 2 * temperature) / (5 * temperature)
    return (a, b, temperature / a, s2, 0.0) if a > 0 else (a, b, s2, s2, temperature)


def _max(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest value and its index, keeping the dimension; much faster than `torch.max`."""
    value = x.amax(dim, keepdim=True)
    places = torch.arange(x.shape[dim], dtype=x.dtype, device=x.device).unsqueeze(-1 - dim)
    return value, x.clone().eq_(value).mul_(places).amax(dim, keepdim=True).long()
