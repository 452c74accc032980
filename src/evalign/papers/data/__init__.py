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

__all__ = [
    "NAMES", "MissingDataError", "Parts", "class_index", "fingerprint", "load", "prepare", "prepare_photos",
]  # fmt: skip
