"""The data of the papers: `load` reads it, `prepare` splits and scales it for training."""

from evalign.papers.data._load import NAMES, load
from evalign.papers.data._parts import (
    MissingDataError,
    Parts,
    class_index,
    fingerprint,
    prepare,
    prepare_photos,
)
from evalign.papers.data._synthetic import SYNTHETIC, Synthetic

__all__ = [
    "NAMES", "SYNTHETIC", "MissingDataError", "Parts", "Synthetic", "class_index", "fingerprint", "load",
    "prepare", "prepare_photos",
]  # fmt: skip
