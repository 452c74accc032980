"""The reproduction of the papers, which the command `evalign reproduce` runs; see `reproduce`.

The packages in here, each built on those before it: `tables` (the papers' tables as data), `data` (datasets,
images and graphs), `networks` (the papers' networks), `training` (one point is trained and scored), `studies`
(all points of a table, run by workers) and `figures` (the papers' figures).
"""

from evalign.papers._reproduce import FOLDER, STORAGE, Reproduction, check_datasets, find, reproduce
from evalign.papers.data import MissingDataError
from evalign.papers.figures import FIGURES, PaperFigure
from evalign.papers.tables import TABLES

__all__ = [
    "FIGURES", "FOLDER", "STORAGE", "TABLES", "MissingDataError", "PaperFigure", "Reproduction",
    "check_datasets", "find", "reproduce",
]  # fmt: skip
