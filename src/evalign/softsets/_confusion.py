"""From memberships to a confusion matrix: each row's memberships are added to its true class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evalign._errors import expected
from evalign.softsets._steps import Step


def soft_confusion(
    memberships: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None = None
) -> Tensor:
    """C[i, j] = sum of the memberships in j of the rows of true class i, (d, d).

    `targets` are class indices (n,) or soft targets (n, d); `weight` (n,) weighs the rows. Memory is
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


def binary_soft_confusion(
    probabilities: Tensor,
    targets: Tensor,
    thresholds: Tensor | Sequence[float] | float,
    step: Step,
    weight: Tensor | None = None,
) -> Tensor:
    """One 2 x 2 matrix for each threshold: (n,) probabilities of class 1 give (thresholds, 2, 2).

    With one column a label, (n, L), the result is (thresholds, L, 2, 2). `targets` are 0/1, or in
    between for soft ones; `weight` has the shape of the probabilities, or (n,).

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


def hard_confusion(
    predicted: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None = None
) -> Tensor:
    """The ordinary confusion matrix (d, d) of predicted and true class indices.

    >>> hard_confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), 2)
    tensor([[1., 1.],
            [0., 1.]])
    """
    if predicted.shape != targets.shape or predicted.is_floating_point():
        raise expected(
            "predicted", f"to be class indices of shape {tuple(targets.shape)}",
            f"{predicted.dtype} of shape {tuple(predicted.shape)}",
        )  # fmt: skip
    _check_indices("predicted", predicted, num_classes)
    _check_indices("targets", targets, num_classes)
    cells = (targets.long() * num_classes + predicted.long()).flatten()
    weights = torch.ones(cells.shape, device=cells.device) if weight is None else weight.flatten()
    return torch.bincount(cells, weights, num_classes**2).view(num_classes, num_classes).to(weights.dtype)


def _check_rows(memberships: Tensor, targets: Tensor, num_classes: int) -> tuple[int, int]:
    if memberships.ndim != 2 or memberships.shape[1] != num_classes:
        shape = tuple(memberships.shape)
        raise expected("memberships", f"of shape (n, {num_classes})", f"shape {shape}")
    rows = memberships.shape[0]
    if targets.shape not in ((rows,), (rows, num_classes)):
        shape = tuple(targets.shape)
        raise expected("targets", f"of shape ({rows},) or ({rows}, {num_classes})", f"shape {shape}")
    if targets.ndim == 1:
        _check_indices("targets", targets, num_classes)
    return rows, num_classes


def _check_indices(argument: str, indices: Tensor, num_classes: int) -> None:
    if indices.is_floating_point() or indices.dtype == torch.bool:
        raise expected(argument, "to be class indices of an integer type", indices.dtype)
    check_range(argument, indices, 0, num_classes - 1)


def check_range(argument: str, values: Tensor, low: float, high: float, hint: str = "") -> None:
    """Refuse values outside [low, high], wherever they can be read without waiting for a device.

    Under `torch.compile` and for values batched by `vmap` nothing is checked; on an accelerator the
    check runs there and stops the program later.
    """
    if values.device.type != "cpu" and values.numel() > 0 and not torch.compiler.is_compiling():
        torch._assert_async(((values >= low) & (values <= high)).all())
    found = value_range(values)
    if found is not None and not (found[0] >= low and found[1] <= high):
        wrong = found[1] if found[0] >= low else found[0]
        raise expected(argument, f"in {low}..{high}", wrong, hint)


def value_range(values: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest value, or None where they cannot be read at once."""
    if values.device.type != "cpu" or values.numel() == 0 or torch.compiler.is_compiling():
        return None
    try:
        smallest, largest = values.aminmax()
        return smallest.item(), largest.item()
    except RuntimeError:  # batched by vmap: the values cannot be read
        return None
