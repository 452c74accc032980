"""The papers' protocols: grids, trials, tables and figures, run by as many workers as wanted."""

from evalign.experiments._figure import Figure
from evalign.experiments._reproduce import Reproduction, reproduce
from evalign.experiments._table import Column, Data, Number, Row, Scale, Table
from evalign.experiments._tables import FIGURES, TABLES

__all__ = [
    "FIGURES", "TABLES", "Column", "Data", "Figure", "Number", "Reproduction", "Row", "Scale", "Table",
    "reproduce",
]  # fmt: skip
