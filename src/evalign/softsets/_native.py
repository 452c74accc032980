"""The compiled kernel of `native.c`, for tensors on the CPU.

`hatch_build.py` compiles it when evalign is installed. Without it (no compiler, or EVALIGN_NATIVE=0 in the
environment) `_fused.py` computes the same numbers with PyTorch, in several times the time.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from evalign._torch import check_indices

SOURCE = Path(__file__).with_name("native.c")
#: The logits for which another thread pays.
GRAIN = 2**15
#: The status that `native.c` returns.
WRONG_TARGET, NO_MEMORY = 1, 2


def load_kernel(library: Path) -> ctypes.CDLL | None:
    """The kernel, or None if it is not there, switched off, or compiled from another source."""
    try:
        kernel = ctypes.CDLL(str(library))
        kernel.source_checksum.restype = ctypes.c_uint32
        checksum = kernel.source_checksum()
    except (OSError, AttributeError):
        return None
    is_current = checksum == zlib.crc32(SOURCE.read_bytes())
    return kernel if is_current and os.environ.get("EVALIGN_NATIVE") != "0" else None


KERNEL = load_kernel(SOURCE.with_name("libnative.so"))


def is_native(logits: Tensor, targets: Tensor, weight: Tensor) -> bool:
    """Whether the kernel is there and can read the tensors.

    Whoever follows the operations of PyTorch, to trace or count them, would not see the kernel.
    """
    return (
        KERNEL is not None
        and logits.dtype in (torch.float32, torch.float64)
        and weight.dtype == logits.dtype
        and targets.dtype == torch.int64
        and all(is_plain(side) for side in (logits, targets, weight))
        and not torch._C._len_torch_dispatch_stack()
        and not torch.jit.is_tracing()
    )


def is_plain(tensor: Tensor) -> bool:
    """Whether the values are in memory as strides and type say."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )


def confusion(logits: Tensor, targets: Tensor, weight: Tensor, step: Sequence[float]) -> Tensor:
    """The soft confusion matrix (d, d) of logits (n, d) or (N, S, d), with the pieces of the step."""
    d = logits.shape[-1]
    matrix = logits.new_empty(d, d)
    _call("confusion", logits, targets, weight, step, matrix.data_ptr())
    return matrix


def confusion_gradient(
    logits: Tensor, targets: Tensor, weight: Tensor, step: Sequence[float], gradient: Tensor
) -> Tensor:
    """The gradient of the logits, given that of their soft confusion matrix."""
    of_matrix, out = gradient.contiguous(), torch.empty_like(logits)
    last = of_matrix.data_ptr(), _numbers(ctypes.c_int64, _three(out.stride(), 0)), out.data_ptr()
    _call("confusion_gradient", logits, targets, weight, step, *last)
    return out


def _call(
    name: str, logits: Tensor, targets: Tensor, weight: Tensor, step: Sequence[float], *arguments: object
) -> None:
    d = logits.shape[-1]
    targets, weight = targets.reshape(-1).contiguous(), weight.reshape(-1).contiguous()
    threads = min(torch.get_num_threads(), 1 + logits.numel() // GRAIN, 1 + len(targets) // d)
    function = getattr(KERNEL, f"{name}_{'float' if logits.dtype == torch.float32 else 'double'}")
    status = function(
        ctypes.c_void_p(logits.data_ptr()),
        _numbers(ctypes.c_int64, _three(logits.shape, 1)),
        _numbers(ctypes.c_int64, _three(logits.stride(), 0)),
        ctypes.c_void_p(targets.data_ptr()),
        ctypes.c_void_p(weight.data_ptr()),
        _numbers(ctypes.c_double, step),
        ctypes.c_int(threads),
        *(ctypes.c_void_p(one) if isinstance(one, int) else one for one in arguments),
    )
    if status == WRONG_TARGET:
        check_indices("targets", targets, d)
    if status == NO_MEMORY:
        raise MemoryError("Out of memory in the soft confusion matrix.")


def _three(sizes: Sequence[int], leading: int) -> list[int]:
    """Sizes or strides of (N, S, d); of (n, d), with a leading one."""
    return [leading] * (3 - len(sizes)) + list(sizes)


def _numbers(kind: type[ctypes.c_int64] | type[ctypes.c_double], values: Sequence[float]) -> object:
    return (kind * len(values))(*values)
