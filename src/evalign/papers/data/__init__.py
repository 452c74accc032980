"""The data of the papers: tables, images and graphs; see `load`."""

from evalign.papers.data._load import NAMES, load

__all__ = ["NAMES", "load"]
