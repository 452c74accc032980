"""What networks refuse: inputs of the wrong shape or type."""

from __future__ import annotations

from torch import Tensor

from evalign._errors import expected


def check_images(images: Tensor, channels: int, side: int) -> None:
    """Refuse what is not a batch of images with so many channels and sides of at least so many pixels."""
    shape = tuple(images.shape)
    if images.ndim != 4 or shape[1] != channels:
        raise expected("images", f"of shape (N, {channels}, height, width)", f"shape {shape}")
    if min(shape[2:]) < side:
        raise expected("images", f"of at least {side} x {side} pixels", f"{shape[2]} x {shape[3]}")
    if not images.is_floating_point():
        raise expected("images", "of a floating type", images.dtype)
