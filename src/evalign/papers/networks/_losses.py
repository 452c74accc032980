"""The binary metric loss of many trials at once: the same numbers as `MetricLoss` gives trial by trial.

The trials stand where else labels stand. The sum over rows is one matrix product for all thresholds, and
the linear step has its gradient in closed form, its slope.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from evalign.losses import MetricLoss, as_batch
from evalign.softsets import LinearStep, Step


def soft_set_losses(loss: MetricLoss, logits: Tensor, targets: Tensor) -> Tensor | None:
    """The losses (K,) of logits (K, N) or (K, N, 1), or None where rows have weights or many classes.

    >>> logits, targets = torch.tensor([[2.0, -1.0, 0.5]]), torch.tensor([[1, 0, 1]])
    >>> soft_set_losses(MetricLoss("f1"), logits, targets), MetricLoss("f1")(logits[0], targets[0])
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
    levels = (0.5,) if loss._levels is None else tuple(loss._levels.tolist())
    step = loss.step or LinearStep(temperature=loss.temperature)
    matrix = _matrices(rows.logits.mT, rows.targets.mT, levels, step)
    values = loss.metric.over_labels(matrix.unsqueeze(2), keep_absent=False)
    values = values.reshape(len(matrix), -1).mean(-1)
    return 1 - values if loss.metric.higher_is_better else values


def _matrices(logits: Tensor, targets: Tensor, levels: tuple[float, ...], step: Step) -> Tensor:
    """The soft confusion matrices (K, thresholds, 2, 2), each with sum 1; NaN if a logit is not finite."""
    probabilities = logits.sigmoid().unsqueeze(1)
    if type(step) is LinearStep:
        pieces = _pieces(step.delta, step.temperature, levels, logits.dtype, logits.device)
        inside: Tensor = _LinearStep.apply(probabilities, *pieces)  # type: ignore[no-untyped-call]
    else:
        inside = step(probabilities, logits.new_tensor(levels).unsqueeze(-1))
    actual = torch.stack([1 - targets, targets], -1) / targets.shape[1]
    found = inside @ actual + 0 * logits.detach().sum(-1)[:, None, None]
    return torch.stack([actual.sum(1, keepdim=True) - found, found], -1)


@lru_cache(maxsize=16)
def _pieces(
    delta: float | None,
    temperature: float | None,
    levels: tuple[float, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Any, ...]:
    """Thresholds (T, 1), knots, slopes and the height of the upper knot: many small operations, done once."""
    with torch.inference_mode(False):  # what is kept must serve gradients too
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
