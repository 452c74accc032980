"""Loaders of data. For now: the mammography data, which comes with the package."""

from evalign.datasets._load import Dataset, load

__all__ = ["Dataset", "load"]
