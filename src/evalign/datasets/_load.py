"""Datasets by name: which there are, where their files come from, and whom to cite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evalign._errors import expected, is_whole, near, shown
from evalign.datasets import _caltech, _images, _party, _tables
from evalign.datasets._dataset import Dataset
from evalign.datasets._places import Source, find
from evalign.datasets._read import Content

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_ZALANDO = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_PARTY = (
    "Zen, Lepri, Ricci and Lanz (2010), Space speaks: towards socially and personality aware visual "
    "surveillance."
)
_PARTY_OBTAIN = "Its authors (Zen et al. 2010, Fondazione Bruno Kessler) give it out for research."
_RESEARCH = "research and academic use only"
_GRIFFIN = "Griffin, Holub and Perona (2007), Caltech-256 object category dataset."


@dataclass(frozen=True)
class _Entry:
    """How a dataset is read, and from where; without a source it comes with the package."""

    read: Callable[..., Content]
    citation: str
    licence: str
    source: Source | None = None


_ENTRIES = {
    "mammography": _Entry(
        _tables.mammography,
        "Woods et al. (1993), Comparative evaluation of pattern recognition techniques for "
        "detection of microcalcifications in mammography.",
        "none stated",
    ),
    "adult": _Entry(
        _tables.adult,
        "Becker and Kohavi (1996), Adult. UCI Machine Learning Repository.",
        "CC BY 4.0",
        Source(
            "adult",
            (("adult.data", "adult.test"),),
            f"They are at {_UCI}.",
            {
                "adult.data": (
                    f"{_UCI}adult.data",
                    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                ),
                "adult.test": (
                    f"{_UCI}adult.test",
                    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                ),
            },
        ),
    ),
    "creditcard": _Entry(
        _tables.creditcard,
        "Dal Pozzolo, Caelen, Johnson and Bontempi (2015), Calibrating probability with undersampling for "
        "unbalanced classification.",
        "ODbL 1.0 / DbCL 1.0",
        Source(
            "creditcard",
            (("creditcard.csv",),),
            "It is at https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud, behind a login.",
        ),
    ),
    "cocktailparty": _Entry(
        _tables.cocktailparty,
        _PARTY,
        _RESEARCH,
        Source("cocktailparty", (("cp_binary.csv",),), _PARTY_OBTAIN),
    ),
    "cocktailparty_graph": _Entry(
        _party.cocktailparty_graph,
        _PARTY,
        _RESEARCH,
        Source("cocktailparty", (("tracking_hp.log", "grouping.ref"),), _PARTY_OBTAIN),
    ),
    "cifar10": _Entry(
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
    "fashion_mnist": _Entry(
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
    "caltech256": _Entry(
        _caltech.caltech256,
        _GRIFFIN,
        "CC BY 4.0",
        Source(
            "caltech256",
            (("caltech256_clip_vitb32.npz",),),
            "It holds the arrays x (image features of CLIP ViT-B/32), y and class_names.",
        ),
    ),
    "caltech256_images": _Entry(
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

NAMES = (*_ENTRIES, *_TASKS)


def load(name: str, *, size: int | None = None, download: bool = True) -> Dataset:
    """Load a dataset by name, prepared as in the papers; `evalign.datasets.NAMES` lists them.

    Files are looked for in the folder that the environment variable EVALIGN_DATA names, then in the
    user's cache, then at their public address if they have one and `download` allows it. `size` is the
    height and width of `caltech256_images` (64). `mammography` comes with the package.

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if not isinstance(name, str) or name not in NAMES:
        raise expected("name", "to be a known dataset", repr(name), near(str(name), NAMES))
    if name in _TASKS:
        return _task(name, load(_TASKS[name][0], size=size, download=download))
    entry = _ENTRIES[name]
    read: Callable[..., Any] = entry.read
    if size is not None:
        read = partial(read, size=_checked(name, size))
    paths = find(name, entry.source, download) if entry.source else ()
    content: Content = read(paths) if entry.source else read()
    return Dataset(
        name=name,
        X=content.X,
        y=content.y,
        feature_names=content.feature_names,
        class_names=content.class_names,
        citation=entry.citation,
        licence=entry.licence,
        source=", ".join(path.name for path in paths) or "bundled",
        official_test=content.official_test,
        strata=content.strata,
    )


def _checked(name: str, size: int) -> int:
    if name != "caltech256_images":
        raise expected("size", f"only with caltech256_images, not with {name}", shown(size))
    if not is_whole(size) or size > 1024:
        raise expected("size", "to be a whole number from 1 to 1024", shown(size))
    return size


def _task(name: str, data: Dataset) -> Dataset:
    _, positive, meaning = _TASKS[name]
    y = np.isin(data.y, positive).astype(np.int64)
    return replace(data, name=name, y=y, class_names=("rest", meaning))
