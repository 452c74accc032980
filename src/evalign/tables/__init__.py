"""Tables of mixed columns: files, kinds of columns, preparation, labels, and the model folder."""

from evalign.tables._columns import Column
from evalign.tables._labels import as_labels, fingerprint
from evalign.tables._model import TableModel, check_target, check_writable
from evalign.tables._preparation import Preparation
from evalign.tables._read import read, stream
from evalign.tables._schema import Schema
from evalign.tables._write import SUFFIXES, write

__all__ = [
    "SUFFIXES", "Column", "Preparation", "Schema", "TableModel", "as_labels", "check_target",
    "check_writable", "fingerprint", "read", "stream", "write",
]  # fmt: skip
