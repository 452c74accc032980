"""What networks refuse: sizes that are none, and inputs of the wrong shape or type."""

from __future__ import annotations

import numbers
from typing import Any

from torch import Tensor

from evalign._errors import expected, shown


def is_size(value: Any) -> bool:
    """Whether a value is an integer >= 1, NumPy's included; True is not.

    >>> is_size(3), is_size(0), is_size(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1


def check_sizes(**sizes: Any) -> None:
    """Refuse arguments that are not integers >= 1.

    >>> check_sizes(features=0)
    Traceback (most recent call last):
    ValueError: Expected `features` to be an integer >= 1, but got 0.
    """
    for name, value in sizes.items():
        if not is_size(value):
            raise expected(name, "to be an integer >= 1", shown(value))


def check_images(images: Tensor, channels: int, side: int) -> None:
    """Refuse what is not a batch of images with so many channels and sides of at least so many pixels."""
    shape = tuple(images.shape)
    if images.ndim != 4 or shape[1] != channels:
        raise expected("images", f"of shape (N, {channels}, height, width)", f"shape {shape}")
    if min(shape[2:]) < side:
        raise expected("images", f"of at least {side} x {side} pixels", f"{shape[2]} x {shape[3]}")
    if not images.is_floating_point():
        raise expected("images", "of a floating type", images.dtype)
