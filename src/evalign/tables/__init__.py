"""Tables of mixed columns: files, kinds of columns, preparation, labels, and the model folder."""

from evalign.tables._checksums import read_private_key
from evalign.tables._columns import Column
from evalign.tables._drift import Counts, Drift, Profile
from evalign.tables._labels import as_labels, drop_unlabelled, fingerprint
from evalign.tables._model import TableModel, check_target, check_writable
from evalign.tables._preparation import Preparation
from evalign.tables._read import read, read_objects, read_text, stream
from evalign.tables._schema import Schema
from evalign.tables._source import hide_password, is_address
from evalign.tables._write import SUFFIXES, explain_errors, write

__all__ = [
    "SUFFIXES", "Column", "Counts", "Drift", "Preparation", "Profile", "Schema", "TableModel", "as_labels",
    "check_target", "check_writable", "drop_unlabelled", "explain_errors", "fingerprint", "hide_password",
    "is_address", "read", "read_objects", "read_private_key", "read_text", "stream", "write",
]  # fmt: skip
