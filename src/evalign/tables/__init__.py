"""Tables of mixed columns: reading and writing files, kinds of columns, preparation, labels."""

from evalign.tables._labels import fingerprint, labels
from evalign.tables._model import TableModel, check_target, check_writable
from evalign.tables._preparation import TRUSTED, Preparation
from evalign.tables._read import read, stream
from evalign.tables._schema import Column, Schema
from evalign.tables._write import SUFFIXES, write

__all__ = [
    "SUFFIXES", "TRUSTED", "Column", "Preparation", "Schema", "TableModel", "check_target", "check_writable",
    "fingerprint", "labels", "read", "stream", "write",
]  # fmt: skip
