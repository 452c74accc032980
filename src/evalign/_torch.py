"""Arithmetic and checks of tensors that all packages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from evalign._errors import expected


def needs_plain_formulas() -> bool:
    """Whether hand-written gradients must give way to plain formulas.

    `torch.compile` fuses plain formulas better, and `torch.func` (vmap, jvp, hessian) can only transform
    those.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def needs_autograd(gradient: Tensor) -> bool:
    """Whether a hand-written gradient is differentiated again, or batched, as by a vectorised jacobian."""
    is_batched = torch._C._functorch.is_legacy_batchedtensor(gradient)
    return torch.is_grad_enabled() or needs_plain_formulas() or is_batched


def differentiate(function: Callable[[Tensor], Tensor], point: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of a plain formula by autograd, given that of its value; it can be differentiated again.

    >>> differentiate(torch.square, torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([6.])
    """
    again = torch.is_grad_enabled() and point.requires_grad
    with torch.enable_grad():
        start = point if again else point.detach().requires_grad_()
        value = function(start)
    (of_point,) = torch.autograd.grad(value, start, gradient, create_graph=again)
    return of_point


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Let PyTorch use this number of threads; None changes nothing.

    >>> with use_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


def is_autocast(device: torch.device) -> bool:
    """Whether `torch.autocast` is on for a device; tensors on `meta` have none."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


class Constant:
    """Numbers of a formula, copied to each device once instead of in every step.

    They are real wherever they are made, also under `torch.device("meta")`, where models are built before
    they are loaded, and no copy for tensors of another kind, as those of `FakeTensorMode`, is kept.

    >>> weights = Constant([1.0, 2.0])
    >>> weights.like(torch.zeros(1)) is weights.like(torch.ones(3))
    True
    """

    def __init__(self, values: Any) -> None:
        self.values: list[Any] = np.array(values, dtype=np.float64).tolist()
        self._copies: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def like(self, other: Tensor) -> Tensor:
        """The numbers on the device and in the type of another tensor."""
        if torch.compiler.is_compiling() or type(other) is not Tensor:
            return torch.tensor(self.values, device=other.device, dtype=other.dtype)
        key = other.device, other.dtype
        if key not in self._copies:
            with torch.inference_mode(False):  # such a copy could not be used in training
                self._copies[key] = torch.tensor(self.values, device=other.device, dtype=other.dtype)
        return self._copies[key]


def as_number(number: Tensor | float, like: Tensor) -> Tensor:
    """A number on the device and in the type of a tensor.

    >>> as_number(0.1, torch.zeros(2, dtype=torch.float64))
    tensor(0.1000, dtype=torch.float64)
    """
    return torch.as_tensor(number, dtype=like.dtype, device=like.device)


def world_size() -> int:
    """The number of processes that train together; 1 without an initialised `torch.distributed` group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sum_over_processes(
    kind: Sequence[int] | None, values: Tensor | None
) -> tuple[list[int] | None, Tensor | None]:
    """The sum of the values (n,) of all processes, and their kind: at most eight numbers that must agree.

    A process without rows passes None. If kinds differ, every process raises the error, so that none waits
    for the others.
    """
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    header = torch.full((9,), -1, dtype=torch.long, device=device)
    if kind is not None and values is not None:
        header[: len(kind) + 1] = torch.tensor([values.numel(), *kind])
    lowest = torch.full_like(header, torch.iinfo(torch.long).max) if kind is None else header.clone()
    dist.all_reduce(header, dist.ReduceOp.MAX)
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    size, *joint = header.tolist()
    if size < 0:
        return None, None
    if not header.equal(lowest):
        raise ValueError("Expected all processes to count the same classes or labels, but they differ.")
    own = torch.zeros(size, dtype=torch.float64) if values is None else values.detach()
    total = own.to(device, copy=True)
    dist.all_reduce(total)
    return [number for number in joint if number >= 0], total.to(own.device)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; where the denominator is 0 the result is 0, with gradient 0.

    This is the one place that decides 0/0, as scikit-learn's `zero_division=0` does. NaN stays NaN.

    >>> divide(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]))
    tensor([0.5000, 0.0000])
    """
    return numerator / denominator.masked_fill(denominator == 0, torch.inf)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean over the last dimension; 0 where all weights are 0.

    >>> weighted_mean(torch.tensor([1.0, 0.0, 0.5]), torch.tensor([True, False, True]))
    tensor(0.7500)
    """
    kept = weights.to(values.dtype)
    return divide((values * kept).sum(-1), kept.sum(-1))


def poison(logits: Tensor) -> Tensor:
    """0, or NaN if any logit is not finite.

    >>> poison(torch.tensor([1.0, 2.0])), poison(torch.tensor([1.0, torch.inf]))
    (tensor(0.), tensor(nan))
    """
    return logits.detach().sum() * 0


def check_indices(argument: str, indices: Tensor, num_classes: int) -> None:
    """Refuse anything but class indices in 0..num_classes - 1."""
    if indices.is_floating_point() or indices.dtype == torch.bool:
        raise expected(argument, "to be class indices of an integer type", indices.dtype)
    check_range(argument, indices, 0, num_classes - 1)


def is_readable(values: Tensor) -> bool:
    """Whether values can be read without waiting for a device."""
    return values.device.type == "cpu"


def check_range(
    argument: str, values: Tensor, low: float, high: float, hint: str = "", wanted: str = ""
) -> None:
    """Refuse values outside [low, high] wherever they can be read without waiting for a device.

    Nothing is checked under `torch.compile` or for values batched by `vmap`. On an accelerator the check
    runs there and stops the program later.
    """
    on_device = not is_readable(values) and not values.is_meta
    if on_device and values.numel() > 0 and not torch.compiler.is_compiling():
        torch._assert_async((values.clamp(low, high) == values).all())
    extremes = value_range(values)
    if extremes is not None and not (extremes[0] >= low and extremes[1] <= high):
        wrong = extremes[1] if extremes[0] >= low else extremes[0]
        raise expected(argument, wanted or f"in {low}..{high}", wrong, hint)


def value_range(values: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest value, or None if they cannot be read without waiting."""
    if not is_readable(values) or values.numel() == 0 or torch.compiler.is_compiling():
        return None
    try:
        smallest, largest = values.aminmax()
        return smallest.item(), largest.item()
    except RuntimeError:  # values batched by vmap cannot be read
        return None
