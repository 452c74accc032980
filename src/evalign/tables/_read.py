"""Reading tables from CSV and Parquet files, whole or in chunks."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from evalign._errors import check_integer, expected
from evalign.tables._source import Bytes, Text, named, opened
from evalign.tables._values import TEXT

SEPARATORS = ",;\t|"
#: The start of a file from which the header and the separator are found.
_HEAD = 1 << 20
#: No row of a CSV file may be longer; pyarrow keeps dozens of such blocks in memory.
_BLOCK = 1 << 21


def read(source: Any, *, rows: int | None = None) -> Any:
    r"""Read a table, or its first rows: CSV as text, Parquet with its own types.

    Args:
        source: A path, "-" for standard input, or a binary file. Gz, Parquet, the separator and the
            encoding are found from the content.
        rows: Read no more than so many.

    >>> import io
    >>> read(io.BytesIO(b"age;city\n41;'s-Gravenhage\n;Rome\n")).to_dict("list")
    {'age': ['41', ''], 'city': ["'s-Gravenhage", 'Rome']}
    """
    if rows is not None:
        with closing(stream(source, rows)) as chunks:
            return next(chunks).iloc[:rows]
    with opened(source) as file:
        return _frame(pa.Table.from_batches(list(_batches(file, named(source), 1 << 16))))


def stream(source: Any, rows: int = 50_000) -> Generator[Any, None, None]:
    r"""Read a table in chunks of so many rows, so that files larger than memory can be read.

    The last chunk takes the rest in, and has up to twice as many rows: no chunk is too small to tell
    a column of the wrong type from a wrong value.

    >>> import io
    >>> [len(chunk) for chunk in stream(io.BytesIO(b"a\n1\n2\n3\n4\n5\n"), rows=2)]
    [2, 3]
    """
    check_integer(rows=rows)
    with opened(source) as file:
        held: list[Any] = []
        start = 0
        for batch in _batches(file, named(source), rows):
            held.append(batch)
            while sum(part.num_rows for part in held) >= 2 * rows:
                table = pa.Table.from_batches(held)
                yield _frame(table.slice(0, rows), start)
                held, start = table.slice(rows).to_batches(), start + rows
        yield _frame(pa.Table.from_batches(held), start)


def _frame(table: Any, start: int = 0) -> Any:
    """A pandas table that keeps arrow's types: every chunk has the same, missing values or not."""
    frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    frame.index = pd.RangeIndex(start, start + len(frame))
    return frame


def _batches(file: Any, name: str, rows: int) -> Iterator[Any]:
    """Batches with checked column names, at least one of them with rows."""
    start: Any = Bytes(file)
    magic = start.head(5)
    if magic[:4] == b"PAR1" and magic[4:] not in b",;\t|\r\n":  # a column may have that name
        batches = _parquet(file, name, rows)
    elif magic[:2] == b"\x1f\x8b":
        unpacked: Any = gzip.GzipFile(fileobj=start, mode="rb")
        batches = _csv(Text(unpacked, name))
    else:
        batches = _csv(Text(start, name))
    empty = True
    for batch in batches:
        if batch.num_rows:
            empty = False
            yield batch
    if empty:
        raise expected("source", "with rows", f"only a header in {name}")


def _parquet(file: Any, name: str, rows: int) -> Iterator[Any]:
    if not getattr(file, "seekable", lambda: False)():
        raise expected("source", "to be a file for Parquet", name, "Only CSV can be read from a pipe.")
    file.seek(0)
    try:
        table = pa.parquet.ParquetFile(file, pre_buffer=False)
        # pandas keeps its row numbers there; they are no values of the table.
        kept = [
            field for field in table.schema_arrow.names if not re.fullmatch("__index_level_[0-9]+__", field)
        ]
        names = _checked(kept, name)
        for batch in table.iter_batches(min(rows, 1 << 16), columns=kept):
            yield pa.RecordBatch.from_arrays([_decoded(column) for column in batch.columns], names)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise expected("source", "to be a whole Parquet file", f"{name} ({reason})") from None


def _decoded(column: Any) -> Any:
    """Categories as their values: each part of a file may number them in its own way."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _csv(text: Text) -> Iterator[Any]:
    head = text.head(_HEAD)
    whole = len(head) < _HEAD
    if not head.strip():
        raise expected("source", "to be a table", f"{text.name}, which is empty")
    # Empty lines come before a header; in the first one, Excel tells itself the separator.
    lead = re.match(rb"[\r\n]*(?:(?i:sep)=([,;|\t])[\r\n]+)?", head)
    assert lead is not None
    text.buffer = text.buffer[lead.end() :]
    sample = head[lead.end() :].decode(errors="ignore")
    if not whole and not re.search("[\r\n]", sample):
        raise expected("source", f"with a header below {_HEAD >> 20} MB", f"a longer one in {text.name}")
    separator = lead[1].decode() if lead[1] else found_separator(sample, whole)
    yield from _parsed(text, separator, _checked(next(_records(sample, separator)), text.name))


def _parsed(text: Text, separator: str, names: list[str]) -> Iterator[Any]:
    batch = None
    try:
        reader = pa.csv.open_csv(
            pa.PythonFile(text, mode="r"),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK, column_names=names, skip_rows_after_names=1
            ),
            parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, TEXT), strings_can_be_null=False, check_utf8=False
            ),
        )
        for found in reader:
            batch = found if found.num_rows else batch
            yield found
    except pa.ArrowInvalid as error:
        raise _explained(error, text.name) from None
    if text.quotes % 2 and batch is not None:
        last = [column[-1].as_py() for column in batch.columns]
        if any("\n" in value or "\r" in value for value in last):
            raise expected(
                "source", "with quotes that are closed", f"{text.name} with an open one at the end"
            )


def _explained(error: Exception, name: str) -> ValueError:
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
    if ragged:
        row, wanted, got = ragged.groups()
        return expected(
            "source",
            f"with {wanted} columns in every row",
            f"{got} in row {row} of {name} (its header is row 1)",
        )
    if "straddl" in str(error):
        hint = "Is there a quote that is never closed?"
        return expected("source", f"with rows below {_BLOCK >> 20} MB", f"a longer one in {name}", hint)
    return expected("source", "to be CSV", f"{name} ({str(error).splitlines()[0]})")


def found_separator(sample: str, whole: bool = True) -> str:
    r"""The separator that splits most rows into as many fields as the header has.

    >>> found_separator('a;b;c\n1,5;"x;y";2,0\n')
    ';'
    """

    def standing(separator: str) -> tuple[float, int]:
        sizes = [len(record) for record in _records(sample, separator)]
        rows = sizes[1:] if whole or len(sizes) < 3 else sizes[1:-1]  # the sample cuts its last row
        alike = sum(size == sizes[0] for size in rows) / max(len(rows), 1)
        return (alike if sizes[0] > 1 else alike - 2, sizes[0])

    return max(SEPARATORS, key=standing)


def _records(sample: str, separator: str, most: int = 100) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    try:
        for record, _ in zip((one for one in reader if one), range(most), strict=False):
            yield record
    except csv.Error:  # a field beyond any reason: the reader of the whole file will say so
        return


def _checked(given: list[str], name: str) -> list[str]:
    """Column names without spaces around them; a first one without a name is pandas' row number."""
    names = [one.strip() for one in given]
    if names and not names[0]:
        names[0] = "column 1"
    empty = [str(number) for number, one in enumerate(names, 1) if not one]
    if empty:
        raise expected(
            "source", "with a name for each column", f"none for column {', '.join(empty[:5])} of {name}"
        )
    twice = [repr(one) for one, count in Counter(names).items() if count > 1]
    if twice:
        raise expected("source", "with distinct column names", f"{', '.join(twice[:5])} twice in {name}")
    if not names:
        raise expected("source", "with columns", f"none in {name}")
    return names
