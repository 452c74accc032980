"""The tables of the papers as data, Tsoi et al. (2022 and 2024) and Li et al. (2025), and two of our own."""

from evalign.papers.tables import _btg, _east, _east_supplement, _fbeta, _own
from evalign.papers.tables._own import LEVELS, OTHER_METRICS, WHEN
from evalign.papers.tables._table import (
    ESTIMATORS,
    Number,
    PaperColumn,
    PaperData,
    PaperRow,
    PaperTable,
    Protocol,
    Scale,
    grid_settings,
)

#: All tables by name.
TABLES: dict[str, PaperTable] = {
    table.name: table
    for table in (*_btg.TABLES, *_fbeta.TABLES, _east.TABLE_1, *_east_supplement.TABLES, _own.ABLATION)
}

__all__ = [
    "ESTIMATORS", "LEVELS", "OTHER_METRICS", "TABLES", "WHEN", "Number", "PaperColumn", "PaperData",
    "PaperRow", "PaperTable", "Protocol", "Scale", "grid_settings",
]  # fmt: skip
