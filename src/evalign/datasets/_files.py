"""Files are read whole and checked, or refused with what is wrong with them."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from evalign.datasets._dataset import Rows

#: How many rows the official files have: a file that was cut short is not always noticed otherwise.
ROWS = {
    "adult.data": 32561,
    "adult.test": 16281,
    "creditcard.csv": 284807,
    "cp_binary.csv": 4800,
    "grouping.ref": 320,
    "tracking_hp.log": 24875,
    "train-images-idx3-ubyte": 60000,
    "train-labels-idx1-ubyte": 60000,
    "t10k-images-idx3-ubyte": 10000,
    "t10k-labels-idx1-ubyte": 10000,
    "cifar10 batch": 10000,
}


@dataclass(frozen=True, eq=False)
class Content:
    """What a file holds, once read and prepared."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    official_test: Rows | None = None
    strata: NDArray[np.int64] | None = None


def refused(file: Path | str, wanted: str, got: object) -> ValueError:
    """Build the error for a file that is not what it should be."""
    return ValueError(f"Expected the file {file} {wanted}, but got {got}. Replace it with a good copy.")


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn what a broken or unreadable file raises into one error that names it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise refused(file, "to be text", f"other bytes ({error.reason} at {error.start})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise refused(file, "to be whole", f"a broken or truncated one ({error})") from None
    except OSError as error:
        raise refused(file, "to be readable", error.strerror or error) from None


def content(file: Path) -> bytes:
    """All bytes of a file, unpacked if its name ends in .gz."""
    with readable(file):
        raw = file.read_bytes()
        return gzip.decompress(raw) if file.suffix == ".gz" else raw


@contextmanager
def lines(file: Path) -> Iterator[TextIO]:
    """A text file opened to read, unpacked on the way if its name ends in .gz."""
    with readable(file), file.open("rb") as raw:
        packed = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
        with io.TextIOWrapper(packed, encoding="utf-8") as stream:
            yield stream


def counted(file: Path, rows: int) -> None:
    """Refuse a file that has not as many rows as the official one."""
    wanted = ROWS[file.name.removesuffix(".gz")]
    if rows != wanted:
        raise refused(file, f"to have {wanted:,} rows", f"{rows:,}")


def arrays(file: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The named arrays of an .npz file, without ever unpickling."""
    with readable(file):
        try:
            with file.open("rb") as raw, np.load(raw, allow_pickle=False) as packed:
                missing = [name for name in names if name not in packed.files]
                if missing:
                    raise refused(file, f"with the arrays {', '.join(names)}", f"no {', '.join(missing)}")
                return {name: packed[name] for name in names}
        except (AttributeError, TypeError):  # a single .npy array has no names
            raise refused(file, "to be an .npz file", "a single array") from None
        except ValueError as error:
            if "Expected the file" in str(error):
                raise
            raise refused(file, "to be an .npz file of plain arrays", f"another ({error})") from None


def labels(file: Path, y: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Class indices of a file, all within the classes."""
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise refused(file, "with a list of whole numbers as labels", f"{y.dtype} of shape {y.shape}")
    if not len(y):
        raise refused(file, "with rows", "none")
    if y.min() < 0 or y.max() >= classes:
        raise refused(file, f"with labels from 0 to {classes - 1}", f"{y.min()} to {y.max()}")
    return y.astype(np.int64)
