"""All tables and figures by name."""

from __future__ import annotations

from evalign.experiments import _btg, _east, _east_supplement, _fbeta, _lee
from evalign.experiments._figure import Figure
from evalign.experiments._table import Table

TABLES: dict[str, Table] = {
    table.name: table for table in (*_btg.TABLES, *_fbeta.TABLES, _east.TABLE_1, *_east_supplement.TABLES)
}
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _lee.FIGURES}
