"""Tables by name: which there are, where their files come from, and whom to cite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evalign._errors import expected, suggest
from evalign.datasets import _tables
from evalign.datasets._dataset import Dataset
from evalign.datasets._places import Source, find
from evalign.datasets.reading import Content

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_PARTY = (
    "Zen, Lepri, Ricci and Lanz (2010), Space speaks: towards socially and personality aware visual "
    "surveillance."
)
_PARTY_OBTAIN = "Its authors (Zen et al. 2010, Fondazione Bruno Kessler) give it out for research."


@dataclass(frozen=True)
class Entry:
    """How a dataset is read, and from where; without a source it comes with the package."""

    read: Callable[..., Content]
    citation: str
    licence: str
    source: Source | None = None

    def load(self, name: str, download: bool, **options: Any) -> Dataset:
        """Find the files, read them, and put the citation beside them."""
        paths = find(name, self.source, download) if self.source else ()
        content = self.read(paths, **options) if self.source else self.read(**options)
        return Dataset(
            name=name,
            X=content.X,
            y=content.y,
            feature_names=content.feature_names,
            class_names=content.class_names,
            citation=self.citation,
            licence=self.licence,
            source=", ".join(path.name for path in paths) or "bundled",
            official_test=content.official_test,
            strata=content.strata,
        )


_ENTRIES = {
    "mammography": Entry(
        _tables.mammography,
        "Woods et al. (1993), Comparative evaluation of pattern recognition techniques for "
        "detection of microcalcifications in mammography.",
        "none stated",
    ),
    "adult": Entry(
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
    "creditcard": Entry(
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
    "cocktailparty": Entry(
        _tables.cocktailparty,
        _PARTY,
        "research and academic use only",
        Source("cocktailparty", (("cp_binary.csv",),), _PARTY_OBTAIN),
    ),
}

NAMES = tuple(_ENTRIES)


def load(name: str, *, download: bool = True) -> Dataset:
    """Load a table by name, prepared as in the papers; `evalign.datasets.NAMES` lists them.

    Files are looked for in the folder that the environment variable EVALIGN_DATA names, then in the
    user's cache, then at their public address if they have one and `download` allows it. `mammography`
    comes with the package.

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if not isinstance(name, str) or name not in _ENTRIES:
        raise expected("name", "to be a known dataset", repr(name), suggest(str(name), NAMES))
    return _ENTRIES[name].load(name, download)
