"""Readers of Caltech-256: features of its images, or the images themselves in one folder per class."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from evalign.datasets.reading import (
    INSTALL,
    Content,
    as_labels,
    file_error,
    name_file_in_errors,
    read_arrays,
)

#: The largest photograph of Caltech-256 has a few megabytes; a far larger one is not decoded.
LARGEST_IMAGE = 2**26


def read_caltech256(files: Sequence[Path]) -> Content:
    """Read features: the arrays x, y and class_names. Caltech-256 has no official test part."""
    file = files[0]
    arrays = read_arrays(file, ("x", "y", "class_names"))
    names = tuple(str(name) for name in arrays["class_names"].ravel())
    x, y = arrays["x"], as_labels(file, arrays["y"], len(names))
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.floating) or len(x) != len(y) or not x.shape[1]:
        raise file_error(file, f"with x of {len(y)} rows of numbers", f"{x.dtype} {x.shape}")
    if not np.isfinite(x).all():
        raise file_error(file, "with finite numbers only", "others in x")
    return Content(
        X=x.astype(np.float32),
        y=y,
        feature_names=tuple(f"feature{i}" for i in range(x.shape[1])),
        class_names=names,
    )


def read_caltech256_images(files: Sequence[Path], size: int = 64) -> Content:
    """Read images scaled to `size` x `size` from class folders, a zip file or the official tar archive."""
    try:
        import PIL.Image  # noqa: F401, PLC0415
    except ImportError:
        raise ImportError(f"caltech256_images needs Pillow: {INSTALL}.") from None
    file = files[0]
    walk = _walk_folder if file.is_dir() else _walk_zip if file.suffix == ".zip" else _walk_tar
    images: dict[tuple[str, str], NDArray[np.uint8]] = {}
    with name_file_in_errors(file):
        for path, raw in walk(file):
            kind = _class_of(path)
            if kind is not None:
                images[kind, path.name] = _decode(f"{file}/{path}", raw, size)
    if not images:
        raise file_error(file, "with folders such as 001.ak47 of .jpg images", "none")
    order = sorted(images)  # an archive may have any order
    names = sorted({kind for kind, _ in order})
    return Content(
        X=np.stack([images[key] for key in order]),
        y=np.array([names.index(kind) for kind, _ in order], dtype=np.int64),
        feature_names=("red", "green", "blue"),
        class_names=tuple(names),
    )


def _class_of(path: PurePosixPath) -> str | None:
    """The class folder that contains an image, or None for the stray files of the official archive."""
    if path.suffix.lower() != ".jpg" or path.name.startswith("."):
        return None
    return path.parent.name if re.fullmatch(r"\d{3}\.[\w.-]+", path.parent.name) else None


def _walk_folder(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    for path in sorted(folder.glob("*/*.[jJ][pP][gG]")):
        yield PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes()


def _walk_zip(file: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if _class_of(path) is not None:
                _check_size(file, member.filename, member.file_size)
                try:
                    yield path, archive.read(member)
                except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unknown compression
                    raise file_error(file, "to be a plain zip", error) from None


def _walk_tar(file: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    try:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rb") as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                stream = archive.extractfile(member) if member.isfile() and _class_of(path) else None
                if stream is not None:
                    _check_size(file, member.name, member.size)
                    yield path, stream.read()
            # A tar file ends with empty blocks; tarfile accepts one that just stops.
            raw.seek(archive.offset)
            if raw.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("it stops before its end")
    except tarfile.TarError as error:
        raise file_error(file, "to be a whole tar archive", f"a broken one ({error})") from None


def _check_size(file: Path, member: str, size: int) -> None:
    if size > LARGEST_IMAGE:
        raise file_error(f"{file}/{member}", f"to have at most {LARGEST_IMAGE:,} bytes", f"{size:,}")


def _decode(name: str, raw: bytes, size: int) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(raw), formats=["JPEG"]) as image:
            # Decoding large photographs at a fraction of their size is many times faster.
            image.draft("RGB", (2 * size, 2 * size))
            scaled = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    except UnidentifiedImageError:
        raise file_error(name, "to be a JPEG image", "another file") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise file_error(name, "to be a whole JPEG image", f"a broken one ({error})") from None
    return np.asarray(scaled, dtype=np.uint8)
