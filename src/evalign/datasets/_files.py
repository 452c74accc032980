"""Reading files: each is read and checked as a whole, or rejected with what is wrong with it."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Indices


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a dataset's files, read and prepared."""

    X: NDArray[Any]
    y: Indices
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    official_test: Indices | None = None
    strata: Indices | None = None


def file_error(file: Path | str, wanted: str, got: object) -> ValueError:
    """Build the error for a file that is not what it should be."""
    return ValueError(f"Expected the file {file} {wanted}, but got {got}. Replace it with a good copy.")


@contextmanager
def name_file_in_errors(file: Path) -> Iterator[None]:
    """Turn whatever a broken or unreadable file raises into one error that names the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise file_error(file, "to be text", f"other bytes ({error.reason} at {error.start})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise file_error(file, "to be whole", f"a broken or truncated one ({error})") from None
    except OSError as error:
        raise file_error(file, "to be readable", error.strerror or error) from None


def read_bytes(file: Path) -> bytes:
    """Return all bytes of a file, decompressed if its name ends in .gz."""
    with name_file_in_errors(file):
        raw = file.read_bytes()
        return gzip.decompress(raw) if file.suffix == ".gz" else raw


@contextmanager
def open_text(file: Path) -> Iterator[TextIO]:
    """Open a text file for reading, decompressing it on the fly if its name ends in .gz."""
    with name_file_in_errors(file), file.open("rb") as raw:
        binary = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
        with io.TextIOWrapper(binary, encoding="utf-8") as stream:
            yield stream


def check_row_count(file: Path, count: int, official: Mapping[str, int]) -> None:
    """Reject a file with another number of rows than the official file of this name, e.g. a truncated one."""
    wanted = official[file.name.removesuffix(".gz")]
    if count != wanted:
        raise file_error(file, f"to have {wanted:,} rows", f"{count:,}")


def read_arrays(file: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an .npz file, without ever unpickling."""
    with name_file_in_errors(file):
        try:
            with file.open("rb") as raw, np.load(raw, allow_pickle=False) as archive:
                missing = [name for name in names if name not in archive.files]
                if missing:
                    raise file_error(file, f"with the arrays {', '.join(names)}", f"no {', '.join(missing)}")
                return {name: archive[name] for name in names}
        except (AttributeError, TypeError):  # a single .npy array has no names
            raise file_error(file, "to be an .npz file", "a single array") from None
        except ValueError as error:
            if "Expected the file" in str(error):
                raise
            raise file_error(file, "to be an .npz file of plain arrays", f"another ({error})") from None


def as_labels(file: Path, y: NDArray[Any], classes: int) -> Indices:
    """Return the class indices read from a file as int64, or reject values outside 0..classes - 1."""
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise file_error(file, "with a list of whole numbers as labels", f"{y.dtype} of shape {y.shape}")
    if not len(y):
        raise file_error(file, "with rows", "none")
    if y.min() < 0 or y.max() >= classes:
        raise file_error(file, f"with labels from 0 to {classes - 1}", f"{y.min()} to {y.max()}")
    return y.astype(np.int64)
