"""The papers' protocols: networks, data, grids, trials, tables and figures; see `reproduce`."""

from evalign.papers._data import MissingDataError
from evalign.papers._figure import Figure
from evalign.papers._reproduce import FOLDER, SCALES, STORAGE, Reproduction, find, reproduce
from evalign.papers._table import Column, Data, Number, Row, Scale, Table
from evalign.papers._tables import FIGURES, TABLES

__all__ = [
    "FIGURES", "FOLDER", "SCALES", "STORAGE", "TABLES", "Column", "Data", "Figure", "MissingDataError",
    "Number", "Reproduction", "Row", "Scale", "Table", "find", "reproduce",
]  # fmt: skip
