"""The papers' data by name: the tables of `evalign.datasets`, and images and graphs beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evalign import datasets
from evalign._errors import expected, is_integer, show, suggest
from evalign.datasets import Dataset, Entry, Source
from evalign.papers.data import _caltech, _images, _party

_ZALANDO = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_PARTY = (
    "Zen, Lepri, Ricci and Lanz (2010), Space speaks: towards socially and personality aware visual "
    "surveillance."
)
_PARTY_OBTAIN = "Its authors (Zen et al. 2010, Fondazione Bruno Kessler) give it out for research."
_RESEARCH = "research and academic use only"
_GRIFFIN = "Griffin, Holub and Perona (2007), Caltech-256 object category dataset."

_ENTRIES = {
    "cocktailparty_graph": Entry(
        _party.cocktailparty_graph,
        _PARTY,
        _RESEARCH,
        Source("cocktailparty", (("tracking_hp.log", "grouping.ref"),), _PARTY_OBTAIN),
    ),
    "cifar10": Entry(
        _images.cifar10,
        "Krizhevsky (2009), Learning multiple layers of features from tiny images.",
        "none stated",
        Source(
            "cifar10",
            (("cifar-10-batches-py",), ("cifar-10-python.tar.gz",), ("cifar10_subset_10k_2k.npz",)),
            f"The archive is at {_TORONTO}cifar-10-python.tar.gz.",
            {
                "cifar-10-python.tar.gz": (
                    f"{_TORONTO}cifar-10-python.tar.gz",
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                )
            },
        ),
    ),
    "fashion_mnist": Entry(
        _images.fashion_mnist,
        "Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine "
        "learning algorithms.",
        "MIT",
        Source(
            "fashion_mnist",
            (
                (
                    "train-images-idx3-ubyte",
                    "train-labels-idx1-ubyte",
                    "t10k-images-idx3-ubyte",
                    "t10k-labels-idx1-ubyte",
                ),
            ),
            f"They are at {_ZALANDO}.",
            {
                f"{file}.gz": (f"{_ZALANDO}{file}.gz", sha256)
                for file, sha256 in (
                    (
                        "train-images-idx3-ubyte",
                        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    ),
                    (
                        "train-labels-idx1-ubyte",
                        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    ),
                    (
                        "t10k-images-idx3-ubyte",
                        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    ),
                    (
                        "t10k-labels-idx1-ubyte",
                        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    ),
                )
            },
        ),
    ),
    "caltech256": Entry(
        _caltech.caltech256,
        _GRIFFIN,
        "CC BY 4.0",
        Source(
            "caltech256",
            (("caltech256_clip_vitb32.npz",),),
            "It holds the arrays x (image features of CLIP ViT-B/32), y and class_names.",
        ),
    ),
    "caltech256_images": Entry(
        _caltech.caltech256_images,
        _GRIFFIN,
        "CC BY 4.0",
        Source(
            "caltech256",
            (
                ("256_ObjectCategories",),
                ("256_ObjectCategories.tar",),
                ("256_ObjectCategories.zip",),
                ("caltech256_10class_128px.zip",),
            ),
            "The archive is at https://data.caltech.edu/records/nyy15-4j048.",
        ),
    ),
}

#: Some classes against the rest: which data, which classes are positive, and what they are together.
_TASKS: dict[str, tuple[str, tuple[int, ...], str]] = {
    "cifar10_transportation": ("cifar10", (0, 1, 8, 9), "transportation"),
    "cifar10_frog": ("cifar10", (6,), "frog"),
    "cifar10_airplane": ("cifar10", (0,), "airplane"),
    "fashion_mnist_tshirt": ("fashion_mnist", (0,), "T-shirt/top"),
}

NAMES = (*datasets.NAMES, *_ENTRIES, *_TASKS)


def load(name: str, *, size: int | None = None, download: bool = True) -> Dataset:
    """Load a dataset of the papers by name, as `evalign.datasets.load` does for tables.

    `size` is the height and width of `caltech256_images` (64).

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if not isinstance(name, str) or name not in NAMES:
        raise expected("name", "to be a known dataset", repr(name), suggest(str(name), NAMES))
    if name in _TASKS:
        return _task(name, load(_TASKS[name][0], size=size, download=download))
    options: dict[str, Any] = {} if size is None else {"size": _checked(name, size)}
    if name in _ENTRIES:
        return _ENTRIES[name].load(name, download, **options)
    return datasets.load(name, download=download)


def _checked(name: str, size: int) -> int:
    if name != "caltech256_images":
        raise expected("size", f"only with caltech256_images, not with {name}", show(size))
    if not is_integer(size) or size > 1024:
        raise expected("size", "to be a whole number from 1 to 1024", show(size))
    return size


def _task(name: str, data: Dataset) -> Dataset:
    _, positive, meaning = _TASKS[name]
    y = np.isin(data.y, positive).astype(np.int64)
    return replace(data, name=name, y=y, class_names=("rest", meaning))
