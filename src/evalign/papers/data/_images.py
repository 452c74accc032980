"""Images of ten classes: CIFAR-10 and Fashion-MNIST, in the forms in which they are given out."""

from __future__ import annotations

import gzip
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign.datasets.reading import ROWS, Content, arrays, content, counted, labels, readable, refused
from evalign.papers.data._batches import batch

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
#: A batch of CIFAR-10 has 31 MB; a far larger one is not unpacked.
LARGEST_BATCH = 2**26


def cifar10(files: Sequence[Path]) -> Content:
    """Read the official folder, the official archive or an .npz of the same images."""
    file = files[0]
    if file.suffix == ".npz":
        parts = _cifar_npz(file)
    else:
        batches = _cifar_folder(file) if file.is_dir() else _cifar_archive(file)
        parts = [_merged(batches[:-1]), batches[-1]]
    return _parts(parts, ("red", "green", "blue"), CIFAR10)


def fashion_mnist(files: Sequence[Path]) -> Content:
    """Read the four idx files: images and labels to train, images and labels to test."""
    parts = []
    for pixels, classes in (files[:2], files[2:]):
        images, y = _idx(pixels, 3), labels(classes, _idx(classes, 1), len(FASHION))
        if images.shape[1:] != (28, 28) or len(images) != len(y):
            raise refused(pixels, f"with {len(y)} images of 28x28", images.shape)
        parts.append((images[..., None], y))
    return _parts(parts, ("grey",), FASHION)


def _parts(
    parts: Sequence[tuple[NDArray[Any], NDArray[Any]]], channels: tuple[str, ...], classes: tuple[str, ...]
) -> Content:
    (x, y), (x_test, y_test) = parts
    return Content(
        X=np.concatenate([x, x_test]),
        y=np.concatenate([y, y_test]),
        feature_names=channels,
        class_names=classes,
        official_test=np.arange(len(y), len(y) + len(y_test), dtype=np.int64),
    )


def _merged(batches: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _cifar_npz(file: Path) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    found = arrays(file, ("x_train", "y_train", "x_test", "y_test", "class_names"))
    if tuple(found["class_names"].tolist()) != CIFAR10:
        raise refused(file, "with the class names of CIFAR-10", found["class_names"].tolist())
    parts = []
    for part in ("train", "test"):
        x, y = found[f"x_{part}"], labels(file, found[f"y_{part}"], len(CIFAR10))
        if x.dtype != np.uint8 or x.shape != (len(y), 32, 32, 3):
            raise refused(file, f"with x_{part} uint8 ({len(y)}, 32, 32, 3)", f"{x.dtype} {x.shape}")
        parts.append((x, y))
    return parts


#: The last one is the test part.
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def _cifar_folder(folder: Path) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    found = []
    for name in _BATCHES:
        if not (folder / name).is_file():
            raise refused(folder, f"with {', '.join(_BATCHES)}", f"no {name}")
        if (folder / name).stat().st_size > LARGEST_BATCH:
            raise refused(folder / name, "to be a batch of 10,000 small images", "a far larger file")
        found.append(_cifar_batch(folder / name, content(folder / name)))
    return found


def _cifar_archive(file: Path) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Read the batches from the archive; nothing is unpacked to the disk."""
    found: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
    with readable(file):
        try:
            with gzip.open(file) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
                for member in archive:
                    folder, _, name = member.name.rpartition("/")
                    stream = archive.extractfile(member) if name in _BATCHES else None
                    if stream is None or folder != "cifar-10-batches-py" or member.size > LARGEST_BATCH:
                        continue
                    found[name] = _cifar_batch(file / name, stream.read())
                while unpacked.read(2**20):  # the checksum stands at the very end
                    pass
        except tarfile.TarError as error:
            raise refused(file, "to be a whole .tar.gz archive", f"a broken one ({error})") from None
    missing = [name for name in _BATCHES if name not in found]
    if missing:
        raise refused(file, f"with {', '.join(_BATCHES)}", f"no {', '.join(missing)}")
    return [found[name] for name in _BATCHES]


def _cifar_batch(file: Path, raw: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        pixels, y = batch(raw)
    except ValueError as error:
        raise refused(file, "to be a batch of CIFAR-10", error) from None
    if len(y) != ROWS["cifar10 batch"]:
        raise refused(file, f"to have {ROWS['cifar10 batch']:,} images", f"{len(y):,}")
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels(file, y, len(CIFAR10))


def _idx(file: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes in the idx format: a magic number, the shape, the values."""
    raw, start = content(file), 4 + 4 * dimensions
    if len(raw) < start or raw[:4] != bytes([0, 0, 8, dimensions]):
        wanted = f"to be an idx file of bytes in {dimensions} dimensions"
        raise refused(file, wanted, f"the first bytes {raw[:4].hex(' ') or 'missing'}")
    shape = struct.unpack(f">{dimensions}I", raw[4:start])
    size = int(np.prod(shape, dtype=object))
    if len(raw) - start != size:
        raise refused(file, f"with {size:,} values as its header says", f"{len(raw) - start:,}")
    counted(file, shape[0])
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
