"""Writing tables in chunks, to a file that appears only when it is complete."""

from __future__ import annotations

import errno
import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from evalign._errors import expected
from evalign._files import draft_file
from evalign.tables._columns import check_table
from evalign.tables._values import TEXT, as_csv_values

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


def write(frames: Iterable[Any], target: Any, raw: bool = False) -> int:
    """Write chunks of a table to a CSV or Parquet file or to standard output ("-").

    A file appears under its name only when it is complete: an error or an interruption leaves no file
    behind, and an older one as it was.

    Args:
        frames: The chunks.
        target: The path, or "-".
        raw: Write texts to CSV as they are. By default, a text that a spreadsheet would run as a formula
            begins with an apostrophe there.

    Returns:
        The number of rows.

    >>> import pandas as pd, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write([pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3]})], f"{folder}/a.csv")
    ...     print(rows, Path(folder, "a.csv").read_text().split())
    3 ['a', '1', '2', '3']
    """
    if target == "-":
        return _write_frames(frames, _CsvSink(sys.stdout.buffer, ",", raw), "standard output")
    if not isinstance(target, str | os.PathLike):
        raise expected("target", "to be a path or '-'", type(target).__name__)
    path = Path(target)
    suffix = next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise expected("target", f"to end in {', '.join(SUFFIXES)}", repr(path.name))
    with explain_errors(str(path)):
        is_folder = path.is_dir()
    if is_folder:
        raise IsADirectoryError(f"Expected `target` to be a file, but {path} is a folder.")
    with draft_file(path, partial(explain_errors, str(path))) as file:
        with explain_errors(str(path)):
            sink = _open_sink(file, suffix, raw)
        return _write_frames(frames, sink, str(path))


def _write_frames(frames: Iterable[Any], sink: _CsvSink | _ParquetSink, name: str) -> int:
    """Write all chunks to a sink. Errors of the chunks themselves are passed on as they are."""
    rows = 0
    columns: list[str] | None = None
    try:
        for frame in frames:
            check_table(frame)
            if columns not in (None, list(frame.columns)):
                raise expected("frames", f"with the columns {columns}", list(frame.columns))
            with explain_errors(name):
                sink.write(frame)
            columns = list(frame.columns)
            rows += len(frame)
        if columns is None:
            raise expected("frames", "with a table", "none")
        with explain_errors(name):
            sink.finish()
    except BaseException:
        sink.abort()
        raise
    return rows


@contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Explain in one line why a target cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever reads standard output has seen enough
    except FileNotFoundError:
        wanted = "Expected `target` in a folder that exists"
        raise FileNotFoundError(f"{wanted}, but {Path(name).parent} does not.") from None
    except OSError as error:
        reasons = {errno.EACCES: "its folder is not writable", errno.ENOSPC: "the disk is full"}
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        explanation = type(error)(f"Expected `target` to be writable, but {name} is not: {reason}.")
        explanation.errno = error.errno
        raise explanation from None


def _open_sink(file: Any, suffix: str, raw: bool) -> _CsvSink | _ParquetSink:
    if suffix in (".parquet", ".pq"):
        return _ParquetSink(file)
    separator = "\t" if ".tsv" in suffix else ","
    return _CsvSink(file, separator, raw, compress=suffix.endswith(".gz"))


class _CsvSink:
    """Writes CSV in UTF-8."""

    def __init__(self, file: Any, separator: str, raw: bool, compress: bool = False) -> None:
        self.file = gzip.GzipFile("", "wb", 6, file, mtime=0) if compress else file
        self.compress, self.separator, self.raw, self.has_header = compress, separator, raw, False

    def write(self, frame: Any) -> None:
        if not self.has_header:
            self._write_columns([pa.array([name], TEXT) for name in frame.columns])
            self.has_header = True
        columns = [as_csv_values(frame[name]) for name in frame.columns]
        if len(frame):
            self._write_columns(columns)

    def _write_columns(self, columns: list[Any]) -> None:
        columns = columns if self.raw else [disarm_formulas(column) for column in columns]
        write_all(self.file, format_csv(columns, self.separator))

    def finish(self) -> None:
        self.file.close() if self.compress else self.file.flush()

    def abort(self) -> None:
        """End the compression while its file is still open."""
        if self.compress:
            with suppress(OSError):
                self.file.close()


def write_all(file: Any, content: Any) -> None:
    """Write all bytes: a file without a buffer may accept only a part of them, and says how many.

    >>> import tempfile
    >>> with tempfile.TemporaryFile(buffering=0) as file:
    ...     write_all(file, b"abc")
    ...     file.tell()
    3
    """
    rest = memoryview(content)
    while rest:
        accepted = file.write(rest)
        if accepted is None:  # the reader of a pipe that does not wait is too slow
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[accepted:]


def disarm_formulas(values: Any) -> Any:
    """Put an apostrophe before texts that a spreadsheet would run, but not before numbers.

    >>> disarm_formulas(pa.array(["=1+1", "-5", "@x", "-", None])).to_pylist()
    ["'=1+1", '-5', "'@x", '-', None]
    """
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    runs = pc.match_substring_regex(values, r"^[=+\-@\t\r](?s:.)")
    if not pc.any(runs).as_py():
        return values
    runs = pc.and_not(runs, pc.match_substring_regex(values, r"^[+-]?(\d|[.,]\d)[\d.,]*([eE][+-]?\d+)?$"))
    quote = pa.scalar("'", values.type)
    return pc.if_else(runs, pc.binary_join_element_wise(quote, values, pa.scalar("", values.type)), values)


def format_csv(columns: list[Any], separator: str) -> Any:
    r"""Format columns of numbers and text as rows of CSV; if one text needs quotes, all of them get quotes.

    >>> format_csv([pa.array(["x", None]), pa.array([1, 2])], ",").to_pybytes()
    b'x,1\n,2\n'
    >>> format_csv([pa.array(["x", "3,4"]), pa.array([1, 2])], ",").to_pybytes()
    b'"x",1\n"3,4",2\n'
    """
    if len(columns) == 1:
        text = columns[0].cast(TEXT).fill_null("")
        if pc.any(pc.equal(text, "")).as_py():  # an empty line would not be read as a row
            return _format_quoted([text], separator, "needed")
    try:
        return _format_quoted(columns, separator, "none")
    except pa.ArrowInvalid:  # a text contains a separator, a quote or a line break
        return _format_quoted(columns, separator, "needed")


def _format_quoted(columns: list[Any], separator: str, quoting: str) -> Any:
    table = pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    options = pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style=quoting)
    out = pa.BufferOutputStream()
    pa.csv.write_csv(table, out, options)
    return out.getvalue()


class _ParquetSink:
    """Writes Parquet with the types of the first chunk."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.writer: Any = None

    def write(self, frame: Any) -> None:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        if self.writer is None:
            # A column without any values yet may contain text later.
            kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in table.schema.types]
            schema = pa.schema(list(zip(table.schema.names, kinds, strict=True)))
            self.writer = pa.parquet.ParquetWriter(self.file, schema)
        try:
            table = table.cast(self.writer.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise expected("frames", "with the same types in every chunk", reason) from None
        self.writer.write_table(table)

    def finish(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        """End the writer while its file is still open."""
        if self.writer is not None:
            with suppress(OSError, pa.ArrowException):
                self.writer.close()
