"""The papers' protocols: grids, trials and tables, run by as many workers as wanted."""

from evalign.experiments._reproduce import Reproduction, reproduce
from evalign.experiments._table import Column, Data, Number, Row, Scale, Table
from evalign.experiments._tables import TABLES

__all__ = ["TABLES", "Column", "Data", "Number", "Reproduction", "Row", "Scale", "Table", "reproduce"]
