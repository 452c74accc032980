"""The official CIFAR-10 batches: pickled dictionaries, read without executing anything in them.

A pickle may name any function to be called. The unpickler here knows three names, which CIFAR-10's arrays
use, and gives harmless stand-ins for them; every other name is refused.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Kind:
    """Stands for a NumPy data type: only bytes are let through."""

    def __init__(self, name: Any = "", *_: Any) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of {name!r}, not of bytes")

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like mean nothing for single bytes."""


class _Array:
    """Stands for a NumPy array: remembers the state from which `array` makes one."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        """The arguments say only that an empty array is to be filled."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        _, shape, _, by_column, raw = self.state
        flat: NDArray[np.uint8] = np.frombuffer(raw, dtype=np.uint8)
        pixels: NDArray[np.uint8] = flat.reshape(shape, order="F" if by_column else "C")
        return pixels


class _Bytes:
    """Stands for `codecs.encode`, by which newer Pythons write bytes in the old format."""

    def __new__(cls, text: Any, encoding: Any) -> Any:
        if not isinstance(text, str) or encoding != "latin1":
            raise pickle.UnpicklingError(f"text encoded as {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        """Without this, a file could set attributes of the class."""


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _Bytes,
}


class _Restricted(pickle._Unpickler):
    """Knows the names above and refuses all others.

    The unpickler written in Python keeps its memo in a dictionary; the one in C reserves as much memory as
    a broken file asks for.
    """

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"a call of {module}.{name}, which is not executed") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a reference to something outside the file")


def batch(raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (rows, 3072) and labels of one batch; a ValueError says what is wrong with it."""
    try:
        found = _Restricted(io.BytesIO(raw), encoding="bytes").load()
    # A broken pickle raises whatever its wrong instructions lead to.
    except Exception as error:
        raise ValueError(f"{error}" if isinstance(error, pickle.UnpicklingError) else f"{error!r}") from None
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, no dictionary")
    data, labels = found.get(b"data"), found.get(b"labels")
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise ValueError("no array `data` and list `labels`")
    try:
        pixels = data.array()
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"a broken array ({error})") from None
    if pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise ValueError(f"pixels of shape {pixels.shape}")
    if len(labels) != len(pixels) or not all(type(label) is int for label in labels):
        raise ValueError(f"{len(labels)} labels, or not all whole numbers, for {len(pixels)} images")
    try:
        return pixels, np.array(labels, dtype=np.int64)
    except OverflowError:
        raise ValueError("labels that are far too large") from None
