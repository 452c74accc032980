"""The compiled kernel of `native.c`, for tensors on the CPU.

`hatch_build.py` compiles it when evalign is installed. Without it (no compiler, or EVALIGN_NATIVE=0 in the
environment) `_fused.py` computes the same numbers with PyTorch, in several times the time.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evalign._torch import check_indices

SOURCE = Path(__file__).with_name("native.c")
#: The logits for which another thread pays.
GRAIN = 2**15
#: The status that `native.c` returns.
WRONG_TARGET, NO_MEMORY = 1, 2

_TYPES = (torch.float32, torch.float64)


class _Job(ctypes.Structure):
    """What `native.c` is asked for; see there."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("logits", "labels", "weight", "gradient", "targets", "out")),
        *((name, ctypes.c_int64) for name in ("rows", "inner", "classes")),
        *((name, ctypes.c_int64 * 3) for name in ("stride", "out_stride")),
        ("step", ctypes.c_double * 6),
        ("total", ctypes.c_double),
        *((name, ctypes.c_int64) for name in ("is_double", "threads")),
        ("matrix", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("start", "stop", "status")),
    )


def load_kernel(library: Path) -> Any:
    """The function of the kernel; None if it is not there, switched off, or compiled from another source."""
    if os.environ.get("EVALIGN_NATIVE") == "0":
        return None
    try:
        kernel = ctypes.CDLL(str(library))
        kernel.source_checksum.restype = ctypes.c_uint32
        if kernel.source_checksum() != zlib.crc32(SOURCE.read_bytes()):
            return None
    except (OSError, AttributeError):
        return None
    return kernel.confusion


KERNEL = load_kernel(SOURCE.with_name("libnative.so"))


def is_native(logits: Tensor, targets: Tensor, weight: Tensor | None) -> bool:
    """Whether the kernel is there and can read logits (n,), (n, d) or (N, S, d), targets and weights.

    Whoever follows the operations of PyTorch, to trace or count them, would not see the kernel.
    """
    rows = logits.shape if logits.ndim == 1 else logits.shape[:-1]
    return (
        KERNEL is not None
        and logits.dtype in _TYPES
        and 1 <= logits.ndim <= 3
        and (logits.ndim == 1 or logits.shape[-1] >= 2)
        and targets.shape == (rows.numel(),)
        and targets.dtype == (logits.dtype if logits.ndim == 1 else torch.int64)
        and is_plain(logits)
        and is_plain(targets)
        and (weight is None or _is_weight(weight, logits, targets))
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
    )


def _is_weight(weight: Tensor, logits: Tensor, targets: Tensor) -> bool:
    return weight.shape == targets.shape and weight.dtype in (logits.dtype, torch.bool) and is_plain(weight)


def is_plain(tensor: Tensor) -> bool:
    """Whether the values are in this computer's memory, as their strides and type say."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )


def confusion(
    temperature: float, logits: Tensor, targets: Tensor, weight: Tensor | None
) -> tuple[Tensor, float]:
    """The soft confusion matrix (d, d) with sum 1, and the weight of all rows.

    Logits are (n, d) or (N, S, d) with class indices (n,), or (n,) with labels (n,).
    """
    d = 2 if logits.ndim == 1 else logits.shape[-1]
    matrix = logits.new_empty(d, d)
    return matrix, _call(temperature, logits, targets, weight, matrix)


def confusion_gradient(
    gradient: Tensor,
    total: float,
    temperature: float,
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """The gradient of the logits, given that of the matrix and the weight of all rows."""
    out = torch.empty_like(logits)
    if total == 0:
        return out.zero_()
    _call(temperature, logits, targets, weight, out, gradient.contiguous(), total)
    return out


def _call(
    temperature: float,
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
    out: Tensor,
    gradient: Tensor | None = None,
    total: float = 0.0,
) -> float:
    """Run the kernel, and return the weight of all rows."""
    targets = targets.contiguous()
    weight = None if weight is None else weight.to(logits.dtype).contiguous()
    n, labels = len(targets), logits.ndim == 1
    d = 2 if labels else logits.shape[-1]
    job = _Job(
        logits.data_ptr(), targets.data_ptr() if labels else None,
        None if weight is None else weight.data_ptr(), None if gradient is None else gradient.data_ptr(),
        None if labels else targets.data_ptr(), out.data_ptr(), n, n if logits.ndim < 3 else logits.shape[1],
        d, _as_three(logits), _as_three(out), find_pieces(temperature), total, logits.dtype == torch.float64,
        min(torch.get_num_threads(), 1 + n * d // GRAIN, 1 + n // d),
    )  # fmt: skip
    status = KERNEL(ctypes.byref(job))
    if status == WRONG_TARGET:
        check_indices("targets", targets, d)
    if status == NO_MEMORY:
        raise MemoryError("Out of memory in the soft confusion matrix.")
    return float(job.total)


def _as_three(values: Tensor) -> tuple[int, ...]:
    """The strides of (N, S, d); what (n, d) and (n,) do not have is 0."""
    strides = values.stride()
    return strides if len(strides) == 3 else (0, *strides, 0)[:3]


@lru_cache
def find_pieces(temperature: float) -> tuple[float, ...]:
    """T, knots a and b, slopes s1 and s2, and the value at 0, which is 0 except at temperature 0.4."""
    a, b = 1 - 2.5 * temperature, 1 + 2.5 * temperature
    s2 = (1 - 2 * temperature) / (5 * temperature)
    s1, floor = (temperature / a, 0.0) if a > 0 else (s2, temperature)
    return temperature, a, b, s1, s2, floor
