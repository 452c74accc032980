"""Reading tables from files, addresses and databases, whole or in chunks."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from evalign._errors import check_integer, expected
from evalign.tables._excel import is_excel, read_excel
from evalign.tables._json_lines import read_json_lines, to_batch
from evalign.tables._source import PeekableBytes, Utf8Text, describe_source, is_address, open_source
from evalign.tables._sql import read_sql
from evalign.tables._values import TEXT

SEPARATORS = ",;\t|"
#: The number of bytes at the start of a file in which the header and the separator are detected.
_HEAD = 1 << 20
#: The number of bytes that are parsed at once, and the largest number that a row may have.
_BLOCK = 1 << 21


def read(source: Any, query: str | None = None) -> Any:
    r"""Read a table as a pandas DataFrame: text as text, Parquet and Feather with their own types.

    Args:
        source: A path, "-" for standard input, a binary file, an address such as https:// or s3:// (extra
            `remote`), or that of a database. Gz, Parquet, Feather, JSON lines, Excel, the separator and the
            encoding are detected from the content.
        query: What to read from a database, in SQL; the source is its address for SQLAlchemy (extra `sql`).

    >>> read(io.BytesIO(b"age;city\n41;'s-Gravenhage\n;Rome\n")).to_dict("list")
    {'age': ['41', ''], 'city': ["'s-Gravenhage", 'Rome']}
    """
    with _open_batches(source, 1 << 16, query) as batches:
        return _to_frame(pa.Table.from_batches(list(batches)))


def stream(source: Any, rows: int = 50_000, query: str | None = None) -> Generator[Any, None, None]:
    r"""Read a table in chunks of this many rows, so that files larger than memory can be read.

    The last chunk includes the remaining rows, fewer than twice this many: a small chunk could not
    distinguish a column of the wrong type from a few wrong values.

    >>> [len(chunk) for chunk in stream(io.BytesIO(b"a\n1\n2\n3\n4\n5\n"), rows=2)]
    [2, 3]
    """
    check_integer(rows=rows)
    with _open_batches(source, rows, query) as batches:
        pending: list[Any] = []
        start = 0
        for batch in batches:
            pending.append(batch)
            while sum(part.num_rows for part in pending) >= 2 * rows:
                table = pa.Table.from_batches(pending)
                yield _to_frame(table.slice(0, rows), start)
                pending, start = table.slice(rows).to_batches(), start + rows
        yield _to_frame(pa.Table.from_batches(pending), start)


def read_text(content: bytes, name: str = "the text") -> Any:
    r"""Read CSV or JSON lines from bytes; nothing is unpacked, so that few bytes cannot become many.

    >>> read_text(b"age,city\n41,Rome\n").to_dict("list")
    {'age': ['41'], 'city': ['Rome']}
    """
    with closing(_read_text(Utf8Text(io.BytesIO(content), name))) as batches:
        return _to_frame(pa.Table.from_batches(list(_check_batches(batches, name))))


def read_objects(objects: Sequence[dict[str, Any]], name: str = "the objects") -> Any:
    """Read rows that `json.loads` parsed as JSON lines are read: with numbers as text.

    >>> read_objects([{"age": "41", "member": True}, {"age": None}]).to_dict("list")
    {'age': ['41', ''], 'member': ['true', '']}
    """
    names = dict.fromkeys(column for one in objects for column in one)
    return _to_frame(pa.Table.from_batches([to_batch(objects, names, name)]))


@contextmanager
def _open_batches(source: Any, rows: int, query: str | None) -> Iterator[Iterator[Any]]:
    """Open a file or a query, and yield batches with checked column names, at least one with rows."""
    name = describe_source(source)
    if query is None:
        with open_source(source) as file, closing(_read_file(file, name, rows)) as batches:
            yield _check_batches(batches, name)
        return
    if not is_address(source):
        raise expected("source", "to be the address of a database with a query", name)
    with closing(read_sql(source, query, rows)) as parts:
        yield _check_batches(_rename(parts, name), name)


def _check_batches(batches: Iterator[Any], name: str) -> Iterator[Any]:
    is_empty = True
    for batch in batches:
        if batch.num_rows:
            is_empty = False
            yield batch
    if is_empty:
        raise expected("source", "with rows", f"only a header in {name}")


def _rename(parts: Iterator[tuple[list[str], Any]], name: str) -> Generator[Any, None, None]:
    """Batches with checked names; those of a database or a spreadsheet may be anything."""
    for names, batch in parts:
        yield pa.RecordBatch.from_arrays(batch.columns, _clean_names(names, name))


def _to_frame(table: Any, start: int = 0) -> Any:
    """Convert to a pandas table with arrow's types, which do not depend on missing values in a chunk."""
    frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    frame.index = pd.RangeIndex(start, start + len(frame))
    return frame


def _read_file(file: Any, name: str, rows: int) -> Generator[Any, None, None]:
    """Batches of a file of any format, which its first bytes reveal."""
    start: Any = PeekableBytes(file)
    magic = start.peek(6)
    if magic[:4] == b"PAR1" and magic[4:5] not in b",;\t|\r\n":  # a column may have this name
        return _read_arrow(_rewind(file, "Parquet", name), name, rows, _open_parquet)
    if magic == b"ARROW1":
        return _read_arrow(_rewind(file, "Feather", name), name, rows, _open_feather)
    if magic[:4] == b"PK\x03\x04" and _is_seekable(file) and is_excel(file):
        return _rename(read_excel(_rewind(file, "Excel", name), name, rows), name)
    if magic[:2] == b"\x1f\x8b":
        return _read_text(Utf8Text(gzip.GzipFile(fileobj=start, mode="rb"), name))
    return _read_text(Utf8Text(start, name))


def _is_seekable(file: Any) -> bool:
    return bool(getattr(file, "seekable", lambda: False)())


def _rewind(file: Any, kind: str, name: str) -> Any:
    if not _is_seekable(file):
        raise expected("source", f"to be a file for {kind}", name, "Only text can be read from a pipe.")
    file.seek(0)
    return file


def _read_arrow(file: Any, name: str, rows: int, open_table: Any) -> Generator[Any, None, None]:
    """Batches of a Parquet or Feather file."""
    try:
        columns, batches = open_table(file, min(rows, 1 << 16))
        names = _clean_names(columns, name)
        for batch in batches:
            parts = [_decode_categories(batch.column(column)) for column in columns]
            yield pa.RecordBatch.from_arrays(parts, names)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        kind = "Parquet" if open_table is _open_parquet else "Feather"
        raise expected("source", f"to be a complete {kind} file", f"{name} ({reason})") from None


def _open_parquet(file: Any, rows: int) -> tuple[list[str], Iterator[Any]]:
    table = pa.parquet.ParquetFile(file, pre_buffer=False)
    columns = _drop_index(table.schema_arrow.names)
    return columns, table.iter_batches(rows, columns=columns)


def _open_feather(file: Any, rows: int) -> tuple[list[str], Iterator[Any]]:
    reader = pa.ipc.open_file(file)
    batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    parts = (batch.slice(start, rows) for batch in batches for start in range(0, batch.num_rows, rows))
    return _drop_index(reader.schema.names), parts


def _drop_index(names: list[str]) -> list[str]:
    """The names without those of the columns in which pandas stores its row index."""
    return [name for name in names if not re.fullmatch("__index_level_[0-9]+__", name)]


def _decode_categories(column: Any) -> Any:
    """Replace the codes of categories, which may differ between the parts of a file, by their values."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _read_text(text: Utf8Text) -> Generator[Any, None, None]:
    """Read JSON lines or CSV."""
    start = text.peek(1000)
    if re.match(rb"\s*\[\s*[\[{]", start):
        hint = "Write one object per line, without brackets around them."
        raise expected(
            "source", "to be CSV, JSON lines or Parquet", f"{text.name}, which is one JSON array", hint
        )
    return read_json_lines(text) if re.match(rb'\s*\{\s*["}]', start) else _read_csv(text)


def _read_csv(text: Utf8Text) -> Generator[Any, None, None]:
    head = text.peek(_HEAD)
    is_whole = len(head) < _HEAD
    if not head.strip():
        raise expected("source", "to be a table", f"{text.name}, which is empty")
    # Empty lines may precede the header, and so may Excel's line with the separator.
    lead = re.match(rb"[\r\n]*(?:(?i:sep)=([,;|\t])[\r\n]+)?", head)
    assert lead is not None
    text.buffer = text.buffer[lead.end() :]
    sample = head[lead.end() :].decode(errors="ignore")
    if not is_whole and not re.search("[\r\n]", sample):
        raise expected("source", f"with a header below {_HEAD >> 20} MB", f"a longer one in {text.name}")
    separator = lead[1].decode() if lead[1] else detect_separator(sample, is_whole)
    names = next(_records(sample, separator), None)
    if names is None:
        wanted = f"with column names below {csv.field_size_limit():,} characters"
        raise expected("source", wanted, f"a longer one in {text.name}")
    yield from _parse_csv(text, separator, _clean_names(names, text.name))


def _parse_csv(text: Utf8Text, separator: str, names: list[str]) -> Generator[Any, None, None]:
    """Parse block by block, each up to its last complete row.

    pyarrow's own streaming reader reads ahead in a thread, which can deadlock or crash the interpreter if the
    reader is abandoned, for instance after an error.
    """
    quoted = _compile_quoted(separator)
    rows, rest, at_end = 0, b"", False
    while not at_end:
        block = text.read(_BLOCK)
        data, at_end = rest + block, len(block) < _BLOCK
        end = len(data) if at_end else _find_row_end(data, quoted)
        if at_end and _has_open_quote(data, quoted):
            raise expected("source", "with closed quotes", f"{text.name} with an open one at the end")
        if not at_end and len(data) - end > _BLOCK:
            hint = "Is there a quote that is never closed?"
            wanted = f"with rows below {_BLOCK >> 20} MB"
            raise expected("source", wanted, f"a longer one in {text.name}", hint)
        complete, rest = data[:end], data[end:]
        if complete.strip(b"\r\n"):
            table = _parse_block(complete, separator, names, rows, text.name)
            rows += table.num_rows + (rows == 0)  # the header is row 1
            yield from table.to_batches()


def _compile_quoted(separator: str) -> re.Pattern[bytes]:
    """A pattern of quoted fields, which start with a quote; one that is not closed reaches to the end."""
    return re.compile(rb'"(?<![^%s\r\n]")[^"]*(?:""[^"]*)*("?)' % re.escape(separator.encode()))


def _find_row_end(data: bytes, quoted: re.Pattern[bytes]) -> int:
    r"""The number of bytes up to the last line break that is not inside quotes; 0 if there is none.

    >>> quoted = _compile_quoted(",")
    >>> [_find_row_end(data, quoted) for data in (b'1,2\n3', b'1,2\n"a\nb",3', b'1,"2\n3"', b'5" pipe\n7')]
    [4, 4, 0, 8]
    """
    stop = len(data)
    for match in reversed(list(quoted.finditer(data))):
        # A quote at the very end may be the first half of an escaped one.
        start = match.end() if match[1] and match.end() < len(data) else stop
        end = max(data.rfind(b"\n", start, stop), data.rfind(b"\r", start, stop))
        if end >= 0:
            return end + 1
        stop = match.start()
    return max(data.rfind(b"\n", 0, stop), data.rfind(b"\r", 0, stop)) + 1


def _has_open_quote(data: bytes, quoted: re.Pattern[bytes]) -> bool:
    *_, last = (None, *quoted.finditer(data))
    return last is not None and not last[1]


def _parse_block(data: bytes, separator: str, names: list[str], rows: int, name: str) -> Any:
    """Parse complete rows as text; `rows` is the number of rows before them."""
    try:
        return pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(
                use_threads=False,
                block_size=len(data) + 1,
                column_names=names,
                skip_rows_after_names=rows == 0,
            ),
            parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, TEXT), strings_can_be_null=False, check_utf8=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _explain(error, name, rows) from None


def _explain(error: Exception, name: str, rows: int) -> ValueError:
    """The error of pyarrow in our words; it counts from the first row behind `rows` others."""
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
    if ragged:
        row, wanted, got = ragged.groups()
        place = f"{got} in row {int(row) + rows} of {name} (its header is row 1)"
        return expected("source", f"with {wanted} columns in every row", place)
    return expected("source", "to be CSV", f"{name} ({str(error).splitlines()[0]})")


def detect_separator(sample: str, is_whole: bool = True) -> str:
    r"""Detect the separator: the one that splits most rows into as many fields as the header.

    >>> detect_separator('a;b;c\n1,5;"x;y";2,0\n')
    ';'
    """

    def agreement(separator: str) -> tuple[float, int]:
        sizes = [len(record) for record in _records(sample, separator)]
        if not sizes:  # a header of many columns is one long field if the separator is another
            return -3.0, 0
        rows = sizes[1:] if is_whole or len(sizes) < 3 else sizes[1:-1]  # the sample may cut its last row
        share = sum(size == sizes[0] for size in rows) / max(len(rows), 1)
        return (share if sizes[0] > 1 else share - 2, sizes[0])

    return max(SEPARATORS, key=agreement)


def _records(sample: str, separator: str, most: int = 100) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    try:
        for record, _ in zip((record for record in reader if record), range(most), strict=False):
            yield record
    except csv.Error:  # a field longer than the csv module reads
        return


def _clean_names(columns: list[str], name: str) -> list[str]:
    """Check column names and strip them; a first column without a name contains the row index of pandas."""
    names = [column.strip() for column in columns]
    if names and not names[0]:
        names[0] = "column 1"
    nameless = [str(number) for number, column in enumerate(names, 1) if not column]
    if nameless:
        wrong = f"none for column {', '.join(nameless[:5])} of {name}"
        raise expected("source", "with a name for each column", wrong)
    duplicates = [repr(column) for column, count in Counter(names).items() if count > 1]
    if duplicates:
        wrong = f"{', '.join(duplicates[:5])} twice in {name}"
        raise expected("source", "with distinct column names", wrong)
    if not names:
        raise expected("source", "with columns", f"none in {name}")
    return names
