"""Soft confusion matrices: each row's memberships are added to the row of its true class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evalign._errors import expected
from evalign._torch import check_indices, poison
from evalign.softsets._memberships import soft_assign
from evalign.softsets._steps import Step


def soft_confusion(
    memberships: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None = None
) -> Tensor:
    """C[i, j] = sum of the memberships in j of the rows of true class i, (d, d).

    `targets` are class indices (n,) or soft targets (n, d); `weight` (n,) weights the rows. Memory is
    O(n d + d^2).

    >>> soft_confusion(torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([0, 1]), 2)
    tensor([[0.9000, 0.1000],
            [0.4000, 0.6000]])
    """
    rows, d = _check_rows(memberships, targets, num_classes)
    if weight is not None:
        if weight.shape != (rows,):
            raise expected("weight", f"of shape ({rows},)", f"shape {tuple(weight.shape)}")
        memberships = memberships * weight.unsqueeze(-1)
    if targets.ndim == 2:
        return targets.to(memberships.dtype).mT @ memberships
    return memberships.new_zeros(d, d).index_add(0, targets, memberships)


def plain_confusion(
    logits: Tensor, targets: Tensor, weight: Tensor | None, temperature: float, step: Step | None = None
) -> Tensor:
    """The matrix (d, d) of logits (n, d) or (N, S, d) by plain formulas; NaN if a logit is NaN or +inf."""
    rows = logits.flatten(0, -2)
    memberships = soft_assign(rows.softmax(-1), temperature, step=step)
    return soft_confusion(memberships, targets, rows.shape[1], weight) + poison(rows.amax(-1))


def binary_soft_confusion(
    probabilities: Tensor,
    targets: Tensor,
    thresholds: Tensor | Sequence[float] | float,
    step: Step,
    weight: Tensor | None = None,
) -> Tensor:
    """One 2 x 2 matrix per threshold: probabilities (n,) of class 1 give (thresholds, 2, 2).

    With one column per label, (n, L), the result is (thresholds, L, 2, 2). `targets` are 0 or 1, or in
    between if soft; `weight` has the shape of the probabilities, or (n,).

    >>> from evalign.softsets import HardStep
    >>> p, y = torch.tensor([0.2, 0.6, 0.9]), torch.tensor([0, 0, 1])
    >>> binary_soft_confusion(p, y, [0.5, 0.8], HardStep())
    tensor([[[1., 1.],
             [0., 1.]],
            [[2., 0.],
             [0., 1.]]])

    References:
        Tsoi et al. (2022), Bridging the gap, eq. 6.
    """
    if probabilities.shape != targets.shape or probabilities.ndim not in (1, 2):
        raise expected(
            "targets", f"of shape {tuple(probabilities.shape)}, (n,) or (n, labels)",
            f"shape {tuple(targets.shape)}",
        )  # fmt: skip
    columns = probabilities.movedim(0, -1)
    if isinstance(thresholds, int | float):
        inside = step(columns, float(thresholds)).unsqueeze(0)
    else:
        levels = torch.as_tensor(thresholds, dtype=probabilities.dtype, device=probabilities.device)
        inside = step(columns, levels.view(-1, *[1] * columns.ndim))
    actual = targets.movedim(0, -1).to(inside.dtype)
    actual = torch.stack([1 - actual, actual], -2)
    if weight is not None:
        actual = actual * (weight.mT.unsqueeze(-2) if weight.ndim == 2 else weight)
    return actual @ torch.stack([1 - inside, inside], -1)


def _check_rows(memberships: Tensor, targets: Tensor, num_classes: int) -> tuple[int, int]:
    if memberships.ndim != 2 or memberships.shape[1] != num_classes:
        shape = tuple(memberships.shape)
        raise expected("memberships", f"of shape (n, {num_classes})", f"shape {shape}")
    rows = memberships.shape[0]
    if targets.shape not in ((rows,), (rows, num_classes)):
        shape = tuple(targets.shape)
        raise expected("targets", f"of shape ({rows},) or ({rows}, {num_classes})", f"shape {shape}")
    if targets.ndim == 1:
        check_indices("targets", targets, num_classes)
    return rows, num_classes
