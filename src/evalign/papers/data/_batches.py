"""The official CIFAR-10 batches: pickled dictionaries, read without executing anything in them.

A pickle may name any function to be called. The unpickler here knows only the names that the arrays of
CIFAR-10 use, and substitutes harmless stand-ins for them; every other name is rejected.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Indices


class _Kind:
    """A stand-in for a NumPy data type: only bytes are accepted."""

    def __init__(self, name: Any = "", *_: Any) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of {name!r}, not of bytes")

    def __setstate__(self, state: Any) -> None:
        """Ignore the state: byte order and the like mean nothing for single bytes."""


class _Array:
    """A stand-in for a NumPy array: stores the state from which `array` builds one."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments, which only describe an empty array to be filled."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        _, shape, _, by_column, raw = self.state
        flat: NDArray[np.uint8] = np.frombuffer(raw, dtype=np.uint8)
        pixels: NDArray[np.uint8] = flat.reshape(shape, order="F" if by_column else "C")
        return pixels


class _Bytes:
    """A stand-in for `codecs.encode`, with which newer versions of Python write bytes in the old format."""

    def __new__(cls, text: Any, encoding: Any) -> Any:
        if not isinstance(text, str) or encoding != "latin1":
            raise pickle.UnpicklingError(f"text encoded as {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        """Ignore the state: without this method, a file could set attributes of the class."""


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _Bytes,
}


class _Restricted(pickle._Unpickler):
    """An unpickler that knows the names above and rejects all others.

    This is the unpickler written in Python, which keeps its memo in a dictionary; the one written in C
    allocates as much memory as a broken file asks for.
    """

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"a call of {module}.{name}, which is not executed") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a reference to something outside the file")


def read_batch(raw: bytes) -> tuple[NDArray[np.uint8], Indices]:
    """Return the pixels (rows, 3072) and labels of a batch; a ValueError states what is wrong with it."""
    try:
        content = _Restricted(io.BytesIO(raw), encoding="bytes").load()
    # A broken pickle raises whatever its wrong instructions lead to.
    except Exception as error:
        raise ValueError(f"{error}" if isinstance(error, pickle.UnpicklingError) else f"{error!r}") from None
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__} instead of a dictionary")
    data, labels = content.get(b"data"), content.get(b"labels")
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise ValueError("a dictionary without an array `data` and a list `labels`")
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
