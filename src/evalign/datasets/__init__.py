"""Public tables by name, prepared as in the papers; see `load`. Mammography comes with the package."""

from evalign.datasets._dataset import Dataset, Split, normalise, standardise
from evalign.datasets._load import NAMES, Entry, load
from evalign.datasets._places import INSTALL, Source

__all__ = ["INSTALL", "NAMES", "Dataset", "Entry", "Source", "Split", "load", "normalise", "standardise"]
