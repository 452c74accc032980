"""Where a table is read from: opening it, and its text as UTF-8 whatever its encoding."""

from __future__ import annotations

import codecs
import gzip
import os
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalign._errors import expected

#: What files start with that are no tables we read, and what to do about them.
_OTHERS = {
    b"PK\x03\x04": "Save a spreadsheet as CSV, or unpack the archive.",
    b"\xd0\xcf\x11\xe0": "Save the spreadsheet as CSV.",
    b"BZh": "Unpack it first.",
    b"\xfd7zXZ": "Unpack it first.",
    b"\x28\xb5\x2f\xfd": "Unpack it first.",
    b"%PDF": "",
    b"SQLite format 3": "Export the table as CSV.",
}
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BLOCK = 1 << 20


def named(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the stream"


@contextmanager
def opened(source: Any) -> Iterator[Any]:
    """The bytes of a path, of standard input ("-") or of a binary file object."""
    if source == "-":
        yield sys.stdin.buffer
        return
    if not isinstance(source, str | os.PathLike):
        if not callable(getattr(source, "read", None)):
            raise expected("source", "to be a path, '-' or a binary file", type(source).__name__)
        yield source
        return
    path = Path(source)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"Expected `source` to be a file, but {path} does not exist.") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"Expected `source` to be a file, but {path} is a folder.") from None
    except PermissionError:
        raise PermissionError(f"Expected `source` to be readable, but {path} may not be read.") from None
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"Expected `source` to be readable, but {str(path)!r} is not: {reason}.") from None
    with file:
        yield file


class Bytes:
    """Bytes that can be looked at before they are read.

    >>> import io
    >>> stream = Bytes(io.BytesIO(b"abcdef"))
    >>> stream.head(2), stream.read(4), stream.read(4)
    (b'ab', b'abcd', b'ef')
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.buffer = b""
        self.closed = False

    def more(self) -> bytes:
        """The next block, empty at the end."""
        block = self.file.read(_BLOCK)
        if not isinstance(block, bytes | bytearray | memoryview | None):
            raise expected("source", "to be opened in binary mode", "a text file")
        return bytes(block or b"")

    def head(self, size: int) -> bytes:
        """The first bytes, which are still to be read."""
        while len(self.buffer) < size and (block := self.more()):
            self.buffer += block
        return self.buffer[:size]

    def read(self, size: int = -1) -> bytes:
        """The next bytes: fewer than asked for only at the end."""
        parts, missing = [self.buffer], (size - len(self.buffer) if size >= 0 else sys.maxsize)
        while missing > 0 and (block := self.more()):
            parts.append(block)
            missing -= len(block)
        found = b"".join(parts)
        self.buffer = b"" if size < 0 else found[size:]
        return found if size < 0 else found[:size]

    def readable(self) -> bool:
        """True, for pyarrow and gzip."""
        return True

    def seekable(self) -> bool:
        """False, for pyarrow and gzip."""
        return False

    def writable(self) -> bool:
        """False, for pyarrow."""
        return False

    def close(self) -> None:
        """The file is closed by who opened it."""


class Text(Bytes):
    r"""A text file as UTF-8 that ends with a new line; gz is unpacked.

    It may be UTF-8, UTF-16 with its mark at the start, or Windows-1252, which is said in a warning.

    >>> import io
    >>> Text(io.BytesIO(chr(0xFEFF).encode() + b"a,b"), "a.csv").read()
    b'a,b\n'
    """

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file)
        self.name = name
        self.encoding = ""
        self.pending = b""
        self.plain = True  # nothing but ASCII so far
        self.lines = 1
        self.quotes = 0
        self.last = b"\n"

    def more(self) -> bytes:
        """The next block as UTF-8, empty at the end."""
        while self.encoding != "ended":
            block = self._unpacked()
            data = self.pending + block
            if not self.encoding:
                data = self._started(data)
            text = self._recoded(data, final=not block)
            if not block:
                self.encoding = "ended"
                text += b"" if (text or self.last)[-1:] in b"\r\n" else b"\n"
            self.lines += text.count(b"\n")
            self.quotes += text.count(b'"')
            if text:
                self.last = text[-1:]
                return text
        return b""

    def _unpacked(self) -> bytes:
        try:
            return super().more()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise expected("source", "to be a whole gz file", f"{self.name} ({error})") from None

    def _started(self, data: bytes) -> bytes:
        """Find the encoding, and refuse what is no text at all."""
        for magic, hint in _OTHERS.items():
            if data.startswith(magic):
                raise expected("source", "to be CSV or Parquet", f"{self.name}, which is neither", hint)
        for bom, encoding in _BOMS.items():
            if data.startswith(bom):
                self.encoding = encoding
                return data[len(bom) :]
        self.encoding = "utf-8"
        if b"\0" in data:
            raise expected("source", "to be CSV or Parquet", f"{self.name}, which holds binary data")
        return data

    def _recoded(self, data: bytes, final: bool) -> bytes:
        if data.isascii() and self.encoding == "utf-8":
            self.pending = b""
            return data
        decoder = codecs.getincrementaldecoder(self.encoding)()
        try:
            text = decoder.decode(data, final)
        except UnicodeDecodeError as error:
            line = self.lines + data[: error.start].count(b"\n")
            if self.encoding == "utf-8" and self.plain and data[: error.start].isascii():
                return self._as_windows(data, line, final)
            wrong = f"{self.name} with byte 0x{data[error.start]:02x} in line {line}"
            raise expected("source", "in UTF-8 or Windows-1252", wrong, "Save it in UTF-8.") from None
        self.pending = decoder.getstate()[0]
        used = data[: len(data) - len(self.pending)]
        self.plain = self.plain and used.isascii()
        return used if self.encoding == "utf-8" else text.encode()

    def _as_windows(self, data: bytes, line: int, final: bool) -> bytes:
        """Many files from Windows are in its old encoding; UTF-8 that was seen before speaks against it."""
        self.encoding = "cp1252"
        text = self._recoded(data, final)
        note = f"{self.name} is not UTF-8 (line {line}): it was read as Windows-1252."
        warnings.warn(note, UserWarning, stacklevel=2)
        return text
