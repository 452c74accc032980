"""Memberships in many classes: a step at the dynamic threshold, normalised to sum to 1."""

from __future__ import annotations

from torch import Tensor

from evalign._errors import expected
from evalign.softsets._steps import LinearStep, Step


def dynamic_threshold(probabilities: Tensor) -> Tensor:
    """The mean of each row's two largest probabilities: only the argmax lies above it.

    >>> import torch
    >>> dynamic_threshold(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))
    tensor([0.4000, 0.4500])

    References:
        Li et al. (2025), EAST, section 4.1.
    """
    if probabilities.ndim < 1 or probabilities.shape[-1] < 2:
        shape = tuple(probabilities.shape)
        raise expected("probabilities", "of shape (..., d) with d >= 2", f"shape {shape}")
    # Two probabilities sum to at most 1, except through rounding.
    return probabilities.topk(2, dim=-1).values.mean(-1).clamp(max=0.5)


def soft_assign(probabilities: Tensor, temperature: float = 0.2, *, step: Step | None = None) -> Tensor:
    """The membership of each row in each class: H_T(p, tau(p)) divided by its sum over the classes.

    Rows sum to 1 and become one-hot as the temperature goes to 0. `step` replaces the linear step
    with temperature.

    >>> import torch
    >>> soft_assign(torch.tensor([0.5, 0.3, 0.2]), temperature=0.2)
    tensor([0.5417, 0.2917, 0.1667])

    References:
        Li et al. (2025), EAST, eq. 5.
    """
    threshold = dynamic_threshold(probabilities).unsqueeze(-1)
    memberships = (step or LinearStep(temperature=temperature))(probabilities, threshold)
    return memberships / memberships.sum(-1, keepdim=True)
