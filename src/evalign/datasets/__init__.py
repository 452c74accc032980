"""Public tables by name, prepared as in the papers; see `load`. Mammography comes with the package."""

from evalign.datasets._dataset import Dataset, Split, normalise, standardise
from evalign.datasets._load import NAMES, load

__all__ = ["NAMES", "Dataset", "Split", "load", "normalise", "standardise"]
