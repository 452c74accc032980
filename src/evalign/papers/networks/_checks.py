"""Checks of the shape and type of images."""

from __future__ import annotations

from torch import Tensor

from evalign._errors import expected


def check_images(images: Tensor, channels: int, side: int) -> None:
    """Reject anything but a batch of images with `channels` channels and at least `side` x `side` pixels."""
    shape = tuple(images.shape)
    if images.ndim != 4 or shape[1] != channels:
        raise expected("images", f"of shape (N, {channels}, height, width)", f"shape {shape}")
    if min(shape[2:]) < side:
        raise expected("images", f"of at least {side} x {side} pixels", f"{shape[2]} x {shape[3]}")
    if not images.is_floating_point():
        raise expected("images", "of a floating type", images.dtype)
