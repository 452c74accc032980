"""Reading the first sheet of an Excel file."""

from __future__ import annotations

import importlib
import warnings
import zipfile
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from evalign._errors import expected
from evalign.tables._text_batches import to_text_batch

#: The largest content of a file: it is a compressed archive.
_MAX_BYTES = 1 << 30


def is_excel(file: Any) -> bool:
    """Whether an archive is an Excel file."""
    try:
        with zipfile.ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def read_excel(file: Any, name: str, rows: int) -> Generator[tuple[list[str], Any], None, None]:
    """Read the first sheet, batch by batch, with the names in its first row that is not empty."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install 'evalign[excel]'.") from None
    with zipfile.ZipFile(file) as archive:
        if sum(info.file_size for info in archive.infolist()) > _MAX_BYTES:
            raise expected("source", "below 1 GB when unpacked", name)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and the like
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        except Exception as error:  # of many kinds: the file contains XML
            raise expected("source", "to be a complete Excel file", f"{name} ({error})"[:200]) from None
        if not book.worksheets:
            raise expected("source", "with a sheet", f"none in {name}")
        lines = _find_lines(book.worksheets[0].iter_rows(values_only=True))
        header = next(lines, None)
        if header is None:
            raise expected("source", "to be a table", f"{name}, whose first sheet is empty")
        width = max(number for number, value in enumerate(header, 1) if value is not None)
        names = ["" if value is None else str(value) for value in header[:width]]
        while part := list(islice(lines, rows)):
            if any(value is not None for line in part for value in line[width:]):
                raise expected("source", f"with {width} columns in every row", f"more in {name}")
            yield names, to_text_batch([(*line, *[None] * width)[:width] for line in part], names)
        book.close()


def _find_lines(lines: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The lines that are not empty."""
    return (line for line in lines if any(value is not None for value in line))
