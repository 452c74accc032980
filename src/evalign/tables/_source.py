"""Opening the source of a table, and its text as UTF-8 whatever its encoding."""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import os
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalign._errors import expected

#: The first bytes of files that are not tables we read, and a hint for each.
_OTHER_FORMATS = {
    b"PK\x03\x04": "Unpack the archive.",
    b"\xd0\xcf\x11\xe0": "Save the spreadsheet as CSV.",
    b"BZh": "Unpack it first.",
    b"\xfd7zXZ": "Unpack it first.",
    b"\x28\xb5\x2f\xfd": "Unpack it first.",
    b"%PDF": "",
    b"<!DOCTYPE html": "It is a web page.",
    b"<!doctype html": "It is a web page.",
    b"<html": "It is a web page.",
    b"SQLite format 3": "Export the table as CSV.",
}
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BLOCK = 1 << 20
#: Parameters of an address whose names contain one of these are secrets.
_SECRETS = "pass|pwd|token|secret|sig|key|credential"


def describe_source(source: Any) -> str:
    """The name of a source in a message."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else hide_password(str(source))
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the stream"


def hide_password(text: str) -> str:
    """Replace the passwords of addresses in a text, and what their parameters call a secret.

    >>> hide_password("evalign fit postgresql://me:se/cret@db/x")
    'evalign fit postgresql://me:***@db/x'
    >>> hide_password("https://host/a.csv?version=3&X-Amz-Signature=12ab")
    'https://host/a.csv?version=3&X-Amz-Signature=***'
    """
    text = re.sub(r"(\w://[^\s:/@]*:)[^\s@]+@", r"\1***@", text)
    return re.sub(rf"([?&][^\s=&]*(?i:{_SECRETS})[^\s=&]*=)[^\s&'\"]+", r"\1***", text)


def is_address(source: Any) -> bool:
    """Whether a source is the address of a file elsewhere, or of a database."""
    return isinstance(source, str) and re.match(r"[a-z][a-z0-9+.-]*://", source) is not None


@contextmanager
def _open_address(address: str) -> Iterator[Any]:
    """Open a file elsewhere."""
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise ImportError("Addresses need fsspec: pip install 'evalign[remote]'.") from None
    name = hide_password(address)
    try:
        opened = fsspec.open(address, "rb")
        with opened as file:
            yield file
    except ImportError as error:  # of the package for this kind of address
        raise ImportError(f"{name}: {str(error).splitlines()[0]}") from None
    except FileNotFoundError:
        wrong = f"{name} does not exist, or does not answer"
        raise FileNotFoundError(f"Expected `source` to be a file, but {wrong}.") from None
    except ValueError as error:
        if not str(error).startswith("Protocol not known"):
            raise
        hint = "A database needs a query." if "sql" in name else ""
        raise expected("source", "with a known protocol such as https:// or s3://", name, hint) from None


@contextmanager
def open_source(source: Any) -> Iterator[Any]:
    """Open a path, an address, standard input ("-") or a binary file object for reading bytes."""
    if source == "-":
        yield sys.stdin.buffer
        return
    if not isinstance(source, str | os.PathLike):
        if not callable(getattr(source, "read", None)):
            raise expected("source", "to be a path, '-' or a binary file", type(source).__name__)
        yield source
        return
    if is_address(source):
        with _open_address(str(source)) as file:
            yield file
        return
    path = Path(source)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"Expected `source` to be a file, but {path} does not exist.") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"Expected `source` to be a file, but {path} is a folder.") from None
    except PermissionError:
        raise PermissionError(f"Expected `source` to be readable, but access to {path} is denied.") from None
    except (OSError, ValueError) as error:  # a name that is too long or contains a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"Expected `source` to be readable, but {str(path)!r} is not: {reason}.") from None
    with file:
        yield file


class PeekableBytes(io.RawIOBase):
    """Bytes that can be inspected before they are read. Closing it leaves the underlying file open.

    >>> stream = PeekableBytes(io.BytesIO(b"abcdef"))
    >>> stream.peek(2), stream.read(4), stream.read(4)
    (b'ab', b'abcd', b'ef')
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.buffer = b""

    def readable(self) -> bool:
        """True, as pyarrow demands."""
        return True

    def next_block(self) -> bytes:
        """The next block of any size, empty at the end."""
        block = self.file.read(_BLOCK)
        if not isinstance(block, bytes | bytearray | memoryview | None):
            raise expected("source", "to be opened in binary mode", "a text file")
        return bytes(block or b"")

    def peek(self, size: int) -> bytes:
        """The next bytes, which remain to be read."""
        while len(self.buffer) < size and (block := self.next_block()):
            self.buffer += block
        return self.buffer[:size]

    def read(self, size: int = -1, /) -> bytes:
        """Read this many bytes; fewer only at the end."""
        parts, missing = [self.buffer], (size - len(self.buffer) if size >= 0 else sys.maxsize)
        while missing > 0 and (block := self.next_block()):
            parts.append(block)
            missing -= len(block)
        content = b"".join(parts)
        self.buffer = b"" if size < 0 else content[size:]
        return content if size < 0 else content[:size]


class Utf8Text(PeekableBytes):
    r"""The bytes of a text file, gz or not, in UTF-8 and with a newline at the end.

    The file may be in UTF-8, in UTF-16 with a byte order mark, or in Windows-1252, which gives a warning. As
    the latter may show only after many blocks, pyarrow cannot decode the file: it has to know the encoding
    beforehand (and would use the same codecs of Python).

    >>> Utf8Text(io.BytesIO("\ufeffa,b".encode()), "a.csv").read()
    b'a,b\n'
    """

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file)
        self.name = name
        self.encoding = ""
        self.decoder: codecs.IncrementalDecoder | None = None
        self.is_ascii = True  # so far
        self.lines = 1
        self.last = b"\n"
        self.at_end = False

    def next_block(self) -> bytes:
        """The next block as UTF-8, empty at the end."""
        while not self.at_end:
            block = self._unpack()
            is_last = not block
            if self.decoder is None:
                block = self._detect_encoding(block)
            text = self._recode(block, is_last)
            if is_last:
                self.at_end = True
                # pyarrow needs it behind a lone header, and `_read` behind a quote that is never closed.
                text += b"" if (text or self.last)[-1:] in b"\r\n" else b"\n"
            self.lines += text.count(b"\n")
            if text:
                self.last = text[-1:]
                return text
        return b""

    def _unpack(self) -> bytes:
        try:
            return super().next_block()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise expected("source", "to be a complete gz file", f"{self.name} ({error})") from None

    def _detect_encoding(self, data: bytes) -> bytes:
        """Detect the encoding from the first block, and return the block without a byte order mark."""
        for magic, hint in _OTHER_FORMATS.items():
            if data.startswith(magic):
                raise expected("source", "to be CSV or Parquet", f"{self.name}, which is neither", hint)
        for bom, encoding in _BOMS.items():
            if data.startswith(bom):
                self._set_encoding(encoding)
                return data[len(bom) :]
        self._set_encoding("utf-8")
        return data

    def _set_encoding(self, encoding: str) -> None:
        self.encoding = encoding
        self.decoder = codecs.getincrementaldecoder(encoding)()

    def _recode(self, data: bytes, is_last: bool) -> bytes:
        assert self.decoder is not None
        try:
            text = self.decoder.decode(data, is_last)
        except UnicodeDecodeError as error:  # its object starts with what the decoder kept of earlier blocks
            before = error.object[: error.start].decode(self.encoding)
            line = self.lines + before.count("\n")
            if self.encoding == "utf-8" and self.is_ascii and before.isascii():
                # Many files from Windows are in its old encoding.
                self._set_encoding("cp1252")
                content = self._recode(error.object, is_last)
                message = f"{self.name} is not UTF-8 (line {line}): it was read as Windows-1252."
                warnings.warn(message, UserWarning, stacklevel=2)
                return content
            wrong = f"{self.name} with byte 0x{error.object[error.start]:02x} in line {line}"
            raise expected("source", "in UTF-8 or Windows-1252", wrong, "Save it in UTF-8.") from None
        if "\0" in text:
            line = self.lines + text[: text.index("\0")].count("\n")
            wrong = f"{self.name}, which contains binary data in line {line}"
            raise expected("source", "to be CSV or Parquet", wrong)
        self.is_ascii = self.is_ascii and text.isascii()
        return text.encode()
