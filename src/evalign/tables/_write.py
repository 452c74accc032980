"""Writing tables in chunks: a file that is there whole or not at all."""

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
import pyarrow.parquet

from evalign._errors import expected
from evalign._files import draft_file
from evalign.tables._schema import checked_names
from evalign.tables._values import TEXT, as_written

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


def write(frames: Iterable[Any], target: Any) -> int:
    """Write chunks of a table to a CSV or Parquet file or to standard output ("-"); give the rows written.

    A file gets its name only when it is complete: an error or an interruption leaves none behind, and
    an older file as it was.

    >>> import pandas as pd, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write([pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3]})], f"{folder}/a.csv")
    ...     print(rows, Path(folder, "a.csv").read_text().split())
    3 ['a', '1', '2', '3']
    """
    if target == "-":
        return _filled(_Csv(sys.stdout.buffer, ","), frames, "standard output")
    if not isinstance(target, str | os.PathLike):
        raise expected("target", "to be a path or '-'", type(target).__name__)
    path = Path(target)
    suffix = next((end for end in SUFFIXES if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise expected("target", f"to end in {', '.join(SUFFIXES)}", repr(path.name))
    with _said(str(path)):
        taken = path.is_dir()
    if taken:
        raise IsADirectoryError(f"Expected `target` to be a file, but {path} is a folder.")
    with draft_file(path, partial(_said, str(path))) as file:
        with _said(str(path)):
            sink = _sink(file, suffix)
        return _filled(sink, frames, str(path))


def _filled(sink: Any, frames: Iterable[Any], name: str) -> int:
    """Put all chunks into a sink. Errors of the chunks are not errors of the target."""
    rows = 0
    names: list[str] | None = None
    try:
        for frame in frames:
            checked_names(frame)
            if names not in (None, list(frame.columns)):
                raise expected("frames", f"with the columns {names}", list(frame.columns))
            with _said(name):
                sink.put(frame)
            names = list(frame.columns)
            rows += len(frame)
        if names is None:
            raise expected("frames", "with a table", "none")
        with _said(name):
            sink.end()
    except BaseException:
        sink.drop()
        raise
    return rows


@contextmanager
def _said(name: str) -> Iterator[None]:
    """Say in one line why a target cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise  # who read standard output has seen enough: no error of ours
    except FileNotFoundError:
        wanted = "Expected `target` in a folder that exists"
        raise FileNotFoundError(f"{wanted}, but {Path(name).parent} does not.") from None
    except OSError as error:
        reasons = {errno.EACCES: "its folder may not be written to", errno.ENOSPC: "the disk is full"}
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        said = type(error)(f"Expected `target` to be writable, but {name} is not: {reason}.")
        said.errno = error.errno
        raise said from None


def _sink(file: Any, suffix: str) -> Any:
    if suffix in (".parquet", ".pq"):
        return _Parquet(file)
    separator = "\t" if ".tsv" in suffix else ","
    return _Csv(file, separator, packed=suffix.endswith(".gz"))


class _Csv:
    """CSV as UTF-8, with quotes only where they are needed."""

    def __init__(self, file: Any, separator: str, packed: bool = False) -> None:
        self.out = gzip.GzipFile("", "wb", 6, file, mtime=0) if packed else file
        self.packed, self.separator, self.started = packed, separator, False

    def put(self, frame: Any) -> None:
        if not self.started:
            header = {name: pa.array([name], TEXT) for name in frame.columns}
            self.out.write(csv_lines(header, self.separator))
            self.started = True
        columns = {name: as_written(frame[name]) for name in frame.columns}
        if len(frame):
            self.out.write(csv_lines(columns, self.separator))

    def end(self) -> None:
        self.out.close() if self.packed else self.out.flush()

    def drop(self) -> None:
        """End the packing while its file is open."""
        if self.packed:
            with suppress(OSError):
                self.out.close()


def csv_lines(columns: dict[str, Any], separator: str) -> bytes:
    r"""Lines of CSV from columns of text.

    >>> csv_lines({"a": pa.array(["x", None], TEXT), "b": pa.array(["1", "3,4"], TEXT)}, ",")
    b'x,1\n,"3,4"\n'
    """
    quoted = []
    for text in columns.values():
        text = text.fill_null("")
        needs = pc.match_substring_regex(text, f'[{separator}"\\r\\n]')
        if len(columns) == 1:
            needs = pc.or_(needs, pc.equal(text, ""))  # an empty line is no row
        if pc.any(needs).as_py():
            marked = pc.replace_substring(text, '"', '""')
            text = pc.if_else(needs, _joined('"', marked, '"', ""), text)
        quoted.append(text)
    lines = _joined(_joined(*quoted, separator), "", "\n")
    return bytes(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()]


def _joined(*parts: Any) -> Any:
    """Texts joined row by row; the last part is put between the others."""
    return pc.binary_join_element_wise(
        *(pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts)
    )


class _Parquet:
    """Parquet with the types of the first chunk."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.writer: Any = None

    def put(self, frame: Any) -> None:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        if self.writer is None:
            # A column of which nothing is known yet may hold text later.
            kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in table.schema.types]
            schema = pa.schema(list(zip(table.schema.names, kinds, strict=True)))
            self.writer = pa.parquet.ParquetWriter(self.file, schema)
        try:
            table = table.cast(self.writer.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise expected("frames", "with the same types in every chunk", reason) from None
        self.writer.write_table(table)

    def end(self) -> None:
        self.writer.close()

    def drop(self) -> None:
        """End the writer while its file is open."""
        if self.writer is not None:
            with suppress(OSError, pa.ArrowException):
                self.writer.close()
