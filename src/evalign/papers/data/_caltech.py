"""Caltech-256: features of its images, or the images themselves in folders by class."""

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

from evalign.datasets import INSTALL
from evalign.datasets.reading import Content, arrays, labels, readable, refused

#: The largest photograph of Caltech-256 has a few megabytes; a far larger one is not decoded.
LARGEST_IMAGE = 2**26


def caltech256(files: Sequence[Path]) -> Content:
    """Read features: the arrays x, y and class_names. Caltech-256 has no official test part."""
    file = files[0]
    found = arrays(file, ("x", "y", "class_names"))
    names = tuple(str(name) for name in found["class_names"].ravel())
    x, y = found["x"], labels(file, found["y"], len(names))
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.floating) or len(x) != len(y) or not x.shape[1]:
        raise refused(file, f"with x of {len(y)} rows of numbers", f"{x.dtype} {x.shape}")
    if not np.isfinite(x).all():
        raise refused(file, "with finite numbers only", "others in x")
    return Content(
        X=x.astype(np.float32),
        y=y,
        feature_names=tuple(f"feature{i}" for i in range(x.shape[1])),
        class_names=names,
    )


def caltech256_images(files: Sequence[Path], size: int = 64) -> Content:
    """Read images scaled to `size` x `size` from class folders, a zip or the official tar of them."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ImportError(f"caltech256_images needs Pillow: {INSTALL}.") from None
    file = files[0]
    walk = _folder if file.is_dir() else _zip if file.suffix == ".zip" else _tar
    images: dict[tuple[str, str], NDArray[np.uint8]] = {}
    with readable(file):
        for path, raw in walk(file):
            kind = _class_of(path)
            if kind is not None:
                images[kind, path.name] = _decoded(f"{file}/{path}", raw, size)
    if not images:
        raise refused(file, "with folders such as 001.ak47 of .jpg images", "none")
    order = sorted(images)  # an archive may have any order
    names = sorted({kind for kind, _ in order})
    return Content(
        X=np.stack([images[key] for key in order]),
        y=np.array([names.index(kind) for kind, _ in order], dtype=np.int64),
        feature_names=("red", "green", "blue"),
        class_names=tuple(names),
    )


def _class_of(path: PurePosixPath) -> str | None:
    """The class folder right above an image; the official archive has stray files elsewhere."""
    if path.suffix.lower() != ".jpg" or path.name.startswith("."):
        return None
    return path.parent.name if re.fullmatch(r"\d{3}\.[\w.-]+", path.parent.name) else None


def _folder(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    for path in sorted(folder.glob("*/*.[jJ][pP][gG]")):
        yield PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes()


def _zip(file: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if _class_of(path) is not None:
                _check_size(file, member.filename, member.file_size)
                try:
                    yield path, archive.read(member)
                except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in an odd way
                    raise refused(file, "to be a plain zip", error) from None


def _tar(file: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    try:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rb") as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                stream = archive.extractfile(member) if member.isfile() and _class_of(path) else None
                if stream is not None:
                    _check_size(file, member.name, member.size)
                    yield path, stream.read()
            # A tar file ends with empty blocks; tarfile does not mind if it just stops.
            raw.seek(archive.offset)
            if raw.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("it stops before its end")
    except tarfile.TarError as error:
        raise refused(file, "to be a whole tar archive", f"a broken one ({error})") from None


def _check_size(file: Path, member: str, size: int) -> None:
    if size > LARGEST_IMAGE:
        raise refused(f"{file}/{member}", f"to have at most {LARGEST_IMAGE:,} bytes", f"{size:,}")


def _decoded(name: str, raw: bytes, size: int) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(raw), formats=["JPEG"]) as image:
            # Large photographs are decoded at a fraction of their size: many times faster.
            image.draft("RGB", (2 * size, 2 * size))
            scaled = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    except UnidentifiedImageError:
        raise refused(name, "to be a JPEG image", "another file") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise refused(name, "to be a whole JPEG image", f"a broken one ({error})") from None
    return np.asarray(scaled, dtype=np.uint8)
