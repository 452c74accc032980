"""All tables and figures by name."""

from __future__ import annotations

from evalign.papers import _btg, _east, _east_supplement, _fbeta, _lee
from evalign.papers._figure import Figure
from evalign.papers._table import Table

TABLES: dict[str, Table] = {
    table.name: table for table in (*_btg.TABLES, *_fbeta.TABLES, _east.TABLE_1, *_east_supplement.TABLES)
}
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _lee.FIGURES}
