"""The papers' data by name: the tables of `evalign.datasets`, and images and graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evalign._errors import expected, is_integer, show, suggest
from evalign.datasets import Dataset
from evalign.datasets.reading import ENTRIES, Entry, Source
from evalign.papers.data import _caltech, _images, _party
from evalign.papers.data._synthetic import SYNTHETIC

_ZALANDO = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"

_CIFAR10 = Source(
    citation="Krizhevsky (2009), Learning multiple layers of features from tiny images.",
    licence="none stated",
    folder="cifar10",
    forms=(("cifar-10-batches-py",), ("cifar-10-python.tar.gz",), ("cifar10_subset_10k_2k.npz",)),
    obtain=f"The archive is at {_TORONTO}cifar-10-python.tar.gz.",
    remote={
        "cifar-10-python.tar.gz": (
            f"{_TORONTO}cifar-10-python.tar.gz",
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        )
    },
)

#: The sha256 of the compressed files.
_FASHION_FILES = {
    "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
_FASHION_MNIST = Source(
    citation="Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine "
    "learning algorithms.",
    licence="MIT",
    folder="fashion_mnist",
    forms=(tuple(_FASHION_FILES),),
    obtain=f"They are at {_ZALANDO}.",
    remote={f"{file}.gz": (f"{_ZALANDO}{file}.gz", sha256) for file, sha256 in _FASHION_FILES.items()},
)

_CALTECH256 = Source(
    citation="Griffin, Holub and Perona (2007), Caltech-256 object category dataset.",
    licence="CC BY 4.0",
    folder="caltech256",
    forms=(("caltech256_clip_vitb32.npz",),),
    obtain="It contains the arrays x (image features of CLIP ViT-B/32), y and class_names.",
)
_CALTECH256_IMAGES = replace(
    _CALTECH256,
    forms=(
        ("256_ObjectCategories",),
        ("256_ObjectCategories.tar",),
        ("256_ObjectCategories.zip",),
        ("caltech256_10class_128px.zip",),
    ),
    obtain="The archive is at https://data.caltech.edu/records/nyy15-4j048.",
)

_COCKTAILPARTY = replace(ENTRIES["cocktailparty"].source, forms=(("tracking_hp.log", "grouping.ref"),))

_ENTRIES = {
    **ENTRIES,
    "cocktailparty_graph": Entry(_party.read_cocktailparty_graph, _COCKTAILPARTY),
    "cifar10": Entry(_images.read_cifar10, _CIFAR10),
    "fashion_mnist": Entry(_images.read_fashion_mnist, _FASHION_MNIST),
    "caltech256": Entry(_caltech.read_caltech256, _CALTECH256),
    "caltech256_images": Entry(_caltech.read_caltech256_images, _CALTECH256_IMAGES),
}

#: Some classes against the rest: the dataset, the positive classes, and a name for them together.
_BINARY: dict[str, tuple[str, tuple[int, ...], str]] = {
    "cifar10_transportation": ("cifar10", (0, 1, 8, 9), "transportation"),
    "cifar10_frog": ("cifar10", (6,), "frog"),
    "cifar10_airplane": ("cifar10", (0,), "airplane"),
    "fashion_mnist_tshirt": ("fashion_mnist", (0,), "T-shirt/top"),
}

NAMES = (*_ENTRIES, *_BINARY, *SYNTHETIC)


def load(name: str, *, size: int | None = None, download: bool = True, seed: int = 0) -> Dataset:
    """Load a dataset of the papers by name, as `evalign.datasets.load` does for tables.

    `size` is the height and width of `caltech256_images`, 64 by default. `seed` draws the rows of made-up
    data, whose names begin with "synthetic".

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if not isinstance(name, str) or name not in NAMES:
        raise expected("name", "to be a known dataset", repr(name), suggest(str(name), NAMES))
    if name in SYNTHETIC:
        return SYNTHETIC[name].draw(name, seed)
    if name in _BINARY:
        return _as_binary(name, load(_BINARY[name][0], size=size, download=download))
    options: dict[str, Any] = {}
    if size is not None:
        _check_size(name, size)
        options["size"] = size
    return _ENTRIES[name].load(name, download, **options)


def _check_size(name: str, size: int) -> None:
    if name != "caltech256_images":
        raise expected("size", f"only with caltech256_images, not with {name}", show(size))
    if not is_integer(size) or size > 1024:
        raise expected("size", "to be a whole number from 1 to 1024", show(size))


def _as_binary(name: str, data: Dataset) -> Dataset:
    _, positive, meaning = _BINARY[name]
    y = np.isin(data.y, positive).astype(np.int64)
    return replace(data, name=name, y=y, class_names=("rest", meaning))
