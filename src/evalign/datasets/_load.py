"""Tables by name: how each is read, where its files come from, and whom to cite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evalign._errors import expected, suggest
from evalign.datasets import _tables
from evalign.datasets._dataset import Dataset
from evalign.datasets._files import Content
from evalign.datasets._source import Source, find_files

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"


@dataclass(frozen=True)
class Entry:
    """A dataset that can be loaded: the function that reads its files, and where they come from.

    The function takes the paths of the files, or no paths if the data comes with the package.
    """

    read: Callable[..., Content]
    source: Source

    def load(self, name: str, download: bool, **options: Any) -> Dataset:
        """Find the files and read them."""
        paths = find_files(name, self.source, download) if self.source.forms else ()
        content = self.read(paths, **options) if paths else self.read(**options)
        return Dataset(
            name=name,
            X=content.X,
            y=content.y,
            feature_names=content.feature_names,
            class_names=content.class_names,
            citation=self.source.citation,
            licence=self.source.licence,
            source=", ".join(path.name for path in paths) or "bundled",
            official_test=content.official_test,
            strata=content.strata,
        )


_MAMMOGRAPHY = Source(
    citation="Woods et al. (1993), Comparative evaluation of pattern recognition techniques for detection of "
    "microcalcifications in mammography.",
    licence="none stated",
)
_ADULT = Source(
    citation="Becker and Kohavi (1996), Adult. UCI Machine Learning Repository.",
    licence="CC BY 4.0",
    folder="adult",
    forms=(("adult.data", "adult.test"),),
    obtain=f"They are at {_UCI}.",
    remote={
        "adult.data": (
            f"{_UCI}adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        "adult.test": (
            f"{_UCI}adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ),
    },
)
_CREDITCARD = Source(
    citation="Dal Pozzolo, Caelen, Johnson and Bontempi (2015), Calibrating probability with undersampling "
    "for unbalanced classification.",
    licence="ODbL 1.0 / DbCL 1.0",
    folder="creditcard",
    forms=(("creditcard.csv",),),
    obtain="It is at https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud, behind a login.",
)
_COCKTAILPARTY = Source(
    citation="Zen, Lepri, Ricci and Lanz (2010), Space speaks: towards socially and personality aware visual "
    "surveillance.",
    licence="research and academic use only",
    folder="cocktailparty",
    forms=(("cp_binary.csv",),),
    obtain="Its authors (Zen et al. 2010, Fondazione Bruno Kessler) provide it for research.",
)

ENTRIES = {
    "mammography": Entry(_tables.read_mammography, _MAMMOGRAPHY),
    "adult": Entry(_tables.read_adult, _ADULT),
    "creditcard": Entry(_tables.read_creditcard, _CREDITCARD),
    "cocktailparty": Entry(_tables.read_cocktailparty, _COCKTAILPARTY),
}

NAMES = tuple(ENTRIES)


def load(name: str, *, download: bool = True) -> Dataset:
    """Load a table by name, prepared as in the papers; `evalign.datasets.NAMES` lists the names.

    Files are looked up in the folder named by the environment variable EVALIGN_DATA and in the user's
    cache; if they are in neither, they are downloaded from their public address, if they have one and
    `download` allows it. `mammography` comes with the package.

    >>> data = load("mammography")
    >>> data.X.shape, int(data.y.sum())
    ((11183, 6), 260)
    """
    if not isinstance(name, str) or name not in ENTRIES:
        raise expected("name", "to be a known dataset", repr(name), suggest(str(name), NAMES))
    return ENTRIES[name].load(name, download)
