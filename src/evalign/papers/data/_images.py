"""Readers of images of ten classes: CIFAR-10 and Fashion-MNIST, in the forms in which they are published."""

from __future__ import annotations

import gzip
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Indices
from evalign.datasets.reading import (
    Content,
    as_labels,
    check_row_count,
    file_error,
    name_file_in_errors,
    read_arrays,
    read_bytes,
)
from evalign.papers.data._batches import read_batch

#: Images and their labels.
_Part = tuple[NDArray[Any], Indices]

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
#: The number of rows of each official file of Fashion-MNIST, and of a batch of CIFAR-10.
ROWS = {
    "train-images-idx3-ubyte": 60000, "train-labels-idx1-ubyte": 60000,
    "t10k-images-idx3-ubyte": 10000, "t10k-labels-idx1-ubyte": 10000,
}  # fmt: skip
BATCH_ROWS = 10000
#: A batch of CIFAR-10 has 31 MB; a far larger file is not read.
LARGEST_BATCH = 2**26


def read_cifar10(files: Sequence[Path]) -> Content:
    """Read CIFAR-10 from the official folder, the official archive or an .npz file of the same images."""
    file = files[0]
    if file.suffix == ".npz":
        train, test = _read_cifar_npz(file)
    else:
        *batches, test = _read_cifar_folder(file) if file.is_dir() else _read_cifar_archive(file)
        train = np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])
    return _join(train, test, ("red", "green", "blue"), CIFAR10)


def read_fashion_mnist(files: Sequence[Path]) -> Content:
    """Read the four idx files: images and labels for training, images and labels for testing."""
    train, test = (_read_fashion_part(*pair) for pair in (files[:2], files[2:]))
    return _join(train, test, ("grey",), FASHION)


def _read_fashion_part(images: Path, labels: Path) -> _Part:
    x, y = _read_idx(images, 3), as_labels(labels, _read_idx(labels, 1), len(FASHION))
    if x.shape[1:] != (28, 28) or len(x) != len(y):
        raise file_error(images, f"with {len(y)} images of 28x28", x.shape)
    return x[..., None], y


def _join(train: _Part, test: _Part, channels: tuple[str, ...], classes: tuple[str, ...]) -> Content:
    (x, y), (x_test, y_test) = train, test
    return Content(
        X=np.concatenate([x, x_test]),
        y=np.concatenate([y, y_test]),
        feature_names=channels,
        class_names=classes,
        official_test=np.arange(len(y), len(y) + len(y_test), dtype=np.int64),
    )


def _read_cifar_npz(file: Path) -> list[_Part]:
    arrays = read_arrays(file, ("x_train", "y_train", "x_test", "y_test", "class_names"))
    if tuple(arrays["class_names"].tolist()) != CIFAR10:
        raise file_error(file, "with the class names of CIFAR-10", arrays["class_names"].tolist())
    parts = []
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], as_labels(file, arrays[f"y_{part}"], len(CIFAR10))
        if x.dtype != np.uint8 or x.shape != (len(y), 32, 32, 3):
            raise file_error(file, f"with x_{part} uint8 ({len(y)}, 32, 32, 3)", f"{x.dtype} {x.shape}")
        parts.append((x, y))
    return parts


#: The last one is the test part.
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def _read_cifar_folder(folder: Path) -> list[_Part]:
    batches = []
    for name in _BATCHES:
        if not (folder / name).is_file():
            raise file_error(folder, f"with {', '.join(_BATCHES)}", f"no {name}")
        if (folder / name).stat().st_size > LARGEST_BATCH:
            raise file_error(folder / name, "to be a batch of 10,000 small images", "a far larger file")
        batches.append(_read_cifar_batch(folder / name, read_bytes(folder / name)))
    return batches


def _read_cifar_archive(file: Path) -> list[_Part]:
    """Read the batches from the archive, without extracting anything to the disk."""
    batches: dict[str, _Part] = {}
    with name_file_in_errors(file):
        try:
            with gzip.open(file) as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
                for member in archive:
                    folder, _, name = member.name.rpartition("/")
                    stream = archive.extractfile(member) if name in _BATCHES else None
                    if stream is None or folder != "cifar-10-batches-py" or member.size > LARGEST_BATCH:
                        continue
                    batches[name] = _read_cifar_batch(file / name, stream.read())
                while raw.read(2**20):  # the checksum is at the very end
                    pass
        except tarfile.TarError as error:
            raise file_error(file, "to be a whole .tar.gz archive", f"a broken one ({error})") from None
    missing = [name for name in _BATCHES if name not in batches]
    if missing:
        raise file_error(file, f"with {', '.join(_BATCHES)}", f"no {', '.join(missing)}")
    return [batches[name] for name in _BATCHES]


def _read_cifar_batch(file: Path, raw: bytes) -> _Part:
    try:
        pixels, y = read_batch(raw)
    except ValueError as error:
        raise file_error(file, "to be a batch of CIFAR-10", error) from None
    if len(y) != BATCH_ROWS:
        raise file_error(file, f"to have {BATCH_ROWS:,} images", f"{len(y):,}")
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), as_labels(file, y, len(CIFAR10))


def _read_idx(file: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an array of bytes in the idx format: a magic number, the shape, the values."""
    raw, start = read_bytes(file), 4 + 4 * dimensions
    if len(raw) < start or raw[:4] != bytes([0, 0, 8, dimensions]):
        wanted = f"to be an idx file of bytes in {dimensions} dimensions"
        raise file_error(file, wanted, f"the first bytes {raw[:4].hex(' ') or 'missing'}")
    shape = struct.unpack(f">{dimensions}I", raw[4:start])
    size = int(np.prod(shape, dtype=object))
    if len(raw) - start != size:
        raise file_error(file, f"with the {size:,} values that its header announces", f"{len(raw) - start:,}")
    check_row_count(file, shape[0], ROWS)
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
