"""What a reader of a dataset's files is built from; `evalign.papers.data` reads images and graphs with it."""

from evalign.datasets._files import (
    Content,
    as_labels,
    check_row_count,
    file_error,
    name_file_in_errors,
    open_text,
    read_arrays,
    read_bytes,
)
from evalign.datasets._load import ENTRIES, Entry
from evalign.datasets._source import INSTALL, Source

__all__ = [
    "ENTRIES", "INSTALL", "Content", "Entry", "Source", "as_labels", "check_row_count", "file_error",
    "name_file_in_errors", "open_text", "read_arrays", "read_bytes",
]  # fmt: skip
