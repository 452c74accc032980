"""The loss of each trial of a stack of networks.

For `MetricLoss` on two classes there is a fast path with the same numbers as the loss gives trial by trial:
trials take the place of labels, the sum over rows is one matrix product for all thresholds, and the gradient
of the linear step is its slope, in closed form.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from evalign._errors import expected
from evalign.losses import AdversarialLoss, MetricLoss, WMWLoss
from evalign.metrics import as_batch
from evalign.softsets import LinearStep, Step

#: Losses with control flow that depends on values, which `torch.func.vmap` cannot batch.
_ONE_BY_ONE = (AdversarialLoss, WMWLoss)


def trial_losses(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each trial, (K,), from stacked logits (K, N, ...); backpropagate their sum.

    `targets` have the shape (N,) if all trials share them, else (K, N, ...). The loss must depend on its
    arguments only: a `MetricLoss` with memory or constraints is rejected.

    >>> from evalign.losses import MetricLoss
    >>> logits = torch.tensor([[2.0, -1.0, 0.5], [-2.0, 1.0, 0.5]])
    >>> trial_losses(MetricLoss("f1"), logits, torch.tensor([1, 0, 1]))
    tensor([0.1778, 0.5782])
    """
    if logits.ndim < 2:
        raise expected("logits", "of shape (trials, N, ...)", f"shape {tuple(logits.shape)}")
    trials, count = logits.shape[:2]
    if targets.shape[:2] != (trials, count) and targets.shape != (count,):
        wanted = f"of shape ({count},) or ({trials}, {count}, ...)"
        raise expected("targets", wanted, f"shape {tuple(targets.shape)}")
    if targets.ndim == 1:
        targets = targets.expand(trials, -1)
    if isinstance(loss, MetricLoss):
        if loss.memory or loss.constraints:
            raise expected("loss", "without memory and constraints, since trials cannot share them", loss)
        losses = _soft_set_losses(loss, logits, targets)
        if losses is not None:
            return losses
    if isinstance(loss, _ONE_BY_ONE):
        return torch.stack([loss(*pair) for pair in zip(logits, targets, strict=True)])
    # A copy, since a loss may store what it saw last, and no batched tensor may leave vmap that way.
    values: Tensor = torch.func.vmap(copy.copy(loss))(logits, targets)
    return values


def _soft_set_losses(loss: MetricLoss, logits: Tensor, targets: Tensor) -> Tensor | None:
    """The losses (K,) of logits (K, N) or (K, N, 1); None where rows have weights or there are more classes.

    >>> logits, targets = torch.tensor([[2.0, -1.0, 0.5]]), torch.tensor([[1, 0, 1]])
    >>> _soft_set_losses(MetricLoss("f1"), logits, targets), MetricLoss("f1")(logits[0], targets[0])
    (tensor([0.1778]), tensor(0.1778))
    """
    if targets.ndim != 2 or logits.shape not in (targets.shape, (*targets.shape, 1)) or loss.anchor:
        return None
    if loss.task not in ("auto", "binary") or loss.class_weight is not None:
        return None
    columns = logits.reshape(targets.shape).mT
    rows = as_batch(columns, targets.mT, task="multilabel", ignore_index=loss.ignore_index)
    if rows.weight is not None:
        return None
    levels = (0.5,) if loss._levels is None else tuple(loss._levels.values)
    step = loss.step or LinearStep(temperature=loss.temperature)
    matrix = _confusion_matrices(rows.logits.mT, rows.targets.mT, levels, step)
    values = loss.metric.over_labels(matrix.unsqueeze(2), skip_absent=True)
    values = values.reshape(len(matrix), -1).mean(-1)
    return 1 - values if loss.metric.higher_is_better else values


def _confusion_matrices(logits: Tensor, targets: Tensor, levels: tuple[float, ...], step: Step) -> Tensor:
    """The soft confusion matrices (K, thresholds, 2, 2), each with sum 1; NaN if a logit is not finite."""
    probabilities = logits.sigmoid().unsqueeze(1)
    if type(step) is LinearStep:
        pieces = _linear_pieces(step.delta, step.temperature, levels, logits.dtype, logits.device)
        memberships: Tensor = _LinearStep.apply(probabilities, *pieces)  # type: ignore[no-untyped-call]
    else:
        memberships = step(probabilities, logits.new_tensor(levels).unsqueeze(-1))
    actual = torch.stack([1 - targets, targets], -1) / targets.shape[1]
    positive = memberships @ actual + 0 * logits.detach().sum(-1)[:, None, None]
    return torch.stack([actual.sum(1, keepdim=True) - positive, positive], -1)


@lru_cache(maxsize=16)
def _linear_pieces(
    delta: float | None,
    temperature: float | None,
    levels: tuple[float, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Any, ...]:
    """Thresholds (T, 1), knots, slopes and the value at the upper knot: many small operations, cached."""
    with torch.inference_mode(False):  # cached tensors must also work where gradients are needed
        step = LinearStep(delta, temperature=temperature)
        column = torch.tensor(levels, dtype=dtype, device=device).unsqueeze(-1)
        return (column, *step._pieces(column), 1 - step._edge)


class _LinearStep(torch.autograd.Function):
    """`LinearStep` of probabilities (K, 1, N) at thresholds (T, 1)."""

    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, levels: Tensor, *pieces: Any) -> Tensor:
        lo, hi, low, steep, high, top = pieces
        below, above = probabilities < lo, probabilities > hi
        ctx.save_for_backward(below, above, low, steep, high)
        middle = (probabilities - levels).mul_(steep).add_(0.5)
        upper = (probabilities - hi).mul_(high).add_(top)
        return torch.where(below, probabilities * low, torch.where(above, upper, middle))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        below, above, low, steep, high = ctx.saved_tensors
        slope = torch.where(below, low, torch.where(above, high, steep))
        return slope.mul_(gradient).sum(1, keepdim=True), *[None] * 7
