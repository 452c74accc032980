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
from typing import Any

import torch
from torch import Tensor, nn

from evalign._torch import check_indices

SOURCE = Path(__file__).with_name("native.c")
#: The logits for which another thread pays.
GRAIN = 2**15
#: The status that `native.c` returns.
WRONG_TARGET, NO_MEMORY = 1, 2

_Pointer, _Sizes, _Step = ctypes.c_void_p, ctypes.c_int64 * 3, ctypes.c_double * 6
#: Logits with their shape and strides, targets, weights, step, threads, and the matrix.
_MATRIX = (_Pointer, _Sizes, _Sizes, _Pointer, _Pointer, _Step, ctypes.c_int, _Pointer)
_ARGUMENTS = {"confusion": _MATRIX, "confusion_gradient": (*_MATRIX, _Sizes, _Pointer)}
_TYPES = {torch.float32: "float", torch.float64: "double"}


def load_kernel(library: Path) -> dict[tuple[str, torch.dtype], Any] | None:
    """The functions of the kernel; None if it is not there, switched off, or compiled from another source."""
    if os.environ.get("EVALIGN_NATIVE") == "0":
        return None
    try:
        kernel = ctypes.CDLL(str(library))
        kernel.source_checksum.restype = ctypes.c_uint32
        if kernel.source_checksum() != zlib.crc32(SOURCE.read_bytes()):
            return None
    except (OSError, AttributeError):
        return None
    functions = {}
    for name, arguments in _ARGUMENTS.items():
        for dtype, suffix in _TYPES.items():
            functions[name, dtype] = kernel[f"{name}_{suffix}"]
            functions[name, dtype].argtypes = arguments
    return functions


KERNEL = load_kernel(SOURCE.with_name("libnative.so"))


def is_native(logits: Tensor, targets: Tensor, weight: Tensor) -> bool:
    """Whether the kernel is there and can read the tensors.

    Whoever follows the operations of PyTorch, to trace or count them, would not see the kernel.
    """
    return (
        KERNEL is not None
        and logits.dtype in _TYPES
        and logits.ndim in (2, 3)
        and logits.shape[-1] >= 2
        and targets.shape == weight.shape == (logits.shape[:-1].numel(),)
        and weight.dtype == logits.dtype
        and targets.dtype == torch.int64
        and is_plain(logits)
        and is_plain(targets)
        and is_plain(weight)
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
    )


def is_plain(tensor: Tensor) -> bool:
    """Whether the values are in this computer's memory, as their strides and type say."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )


def confusion(step: Sequence[float], logits: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """The soft confusion matrix (d, d) of logits (n, d) or (N, S, d), with the pieces of the step."""
    d = logits.shape[-1]
    matrix = logits.new_empty(d, d)
    _call("confusion", step, (logits, targets, weight), matrix)
    return matrix


def confusion_gradient(
    gradient: Tensor, step: Sequence[float], logits: Tensor, targets: Tensor, weight: Tensor
) -> Tensor:
    """The gradient of the logits, given that of their soft confusion matrix."""
    out = torch.empty_like(logits)
    strides = _as_three(out.stride(), 0)
    of_matrix = gradient.contiguous()
    _call("confusion_gradient", step, (logits, targets, weight), of_matrix, strides, out.data_ptr())
    return out


def _call(
    name: str, step: Sequence[float], rows: tuple[Tensor, Tensor, Tensor], matrix: Tensor, *out: Any
) -> None:
    assert KERNEL is not None
    logits, targets, weight = rows[0], rows[1].contiguous(), rows[2].contiguous()
    n, d = len(targets), logits.shape[-1]
    threads = min(torch.get_num_threads(), 1 + n * d // GRAIN, 1 + n // d)
    status = KERNEL[name, logits.dtype](
        logits.data_ptr(), _as_three(logits.shape, 1), _as_three(logits.stride(), 0), targets.data_ptr(),
        weight.data_ptr(), _Step(*step), threads, matrix.data_ptr(), *out,
    )  # fmt: skip
    if status == WRONG_TARGET:
        check_indices("targets", targets, d)
    if status == NO_MEMORY:
        raise MemoryError("Out of memory in the soft confusion matrix.")


def _as_three(sizes: Sequence[int], leading: int) -> ctypes.Array[ctypes.c_int64]:
    """Sizes or strides of (N, S, d); those of (n, d) get a leading one."""
    return _Sizes(*sizes) if len(sizes) == 3 else _Sizes(leading, *sizes)
