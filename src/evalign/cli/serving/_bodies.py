"""The rows in the body of a request: read within limits, refused with a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from evalign._errors import expected, show
from evalign.tables import read_objects, read_text

#: The kinds of bodies.
JSON, CSV = "application/json", "text/csv"
#: The most columns of a CSV body beyond twice those of the model: each of them takes memory and time.
MORE_COLUMNS = 1000


class RefusedError(Exception):
    """A request that is not answered, with the status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Intake:
    """Reads bodies of limited size, all those in memory together limited, too.

    Args:
        max_bytes: The most bytes of a body.
        max_total: The most bytes of all bodies that are being worked on.
    """

    def __init__(self, max_bytes: int, max_total: int) -> None:
        self.max_bytes, self.max_total = max_bytes, max_total
        self.held = 0

    async def read(self, blocks: AsyncIterator[bytes], length: str | None) -> bytes:
        """Read a body, and refuse it as soon as it is too large; `release` what was read in the end."""
        if length is not None and length.isdecimal() and int(length[:20]) > self.max_bytes:
            raise self._refuse_size()
        body = bytearray()
        try:
            async for block in blocks:
                body += block
                self.held += len(block)
                if len(body) > self.max_bytes:
                    raise self._refuse_size()
                if self.held > self.max_total:
                    raise RefusedError(503, "The server is busy with other requests. Try again in a second.")
        except BaseException:
            self.held -= len(body)
            raise
        return bytes(body)

    def release(self, body: bytes) -> None:
        """Forget a body that has been answered."""
        self.held -= len(body)

    def _refuse_size(self) -> RefusedError:
        return RefusedError(
            413, f"Expected a body of at most {self.max_bytes:,} bytes, but got a larger one."
        )


def choose_kind(content_type: str, encoding: str) -> str:
    """The kind of a body by its headers."""
    if encoding.strip().lower() not in ("", "identity"):
        raise RefusedError(415, f"Expected a body without compression, but got {encoding[:40]!r}.")
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (JSON, CSV):
        got = repr(kind[:60]) if kind else "none"
        raise RefusedError(415, f"Expected the content type {JSON} or {CSV}, but got {got}.")
    return kind


def parse_body(body: bytes, kind: str, columns: Sequence[str], max_rows: int) -> Any:
    """Parse a body as a table of text, as `evalign predict` reads the same rows from a file.

    Args:
        body: The bytes.
        kind: `JSON` or `CSV`.
        columns: The columns that the model reads; of JSON rows, others are left out.
        max_rows: The most rows.
    """
    if not body.strip():
        raise expected("body", "with rows", "an empty one")
    if kind == JSON:
        rows = _parse_json(body)
        _check_rows(len(rows), max_rows)
        return read_objects(_keep_columns(rows, columns), "the body")
    most = 2 * len(columns) + MORE_COLUMNS
    header = body.lstrip(b"\r\n")[: 1 << 20].partition(b"\n")[0]
    if max(map(header.count, (b",", b";", b"\t", b"|"))) > most:
        raise expected("body", f"with at most {most:,} columns", "more")
    table = read_text(body, "the body")
    _check_rows(len(table), max_rows)
    return table


def _check_rows(rows: int, most: int) -> None:
    if rows > most:
        raise RefusedError(413, f"Expected at most {most:,} rows per request, but got {rows:,}.")


def _parse_json(body: bytes) -> list[Any]:
    """The rows of a list, or of an object with the key "rows"; numbers as they are written."""
    try:
        value = json.loads(body, parse_float=str, parse_int=str, parse_constant=str)
    except RecursionError:
        raise expected("body", "of rows", "JSON that is nested too deeply") from None
    except ValueError as error:
        raise expected("body", "to be JSON", f"another text ({error})"[:200]) from None
    rows = value.get("rows") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        got = f"the keys {show(list(value))[:100]}" if isinstance(value, dict) else show(value)[:100]
        raise expected("body", 'to be a list of rows, or an object with a list "rows"', got)
    if not rows:
        raise expected("body", "with rows", "an empty list")
    return rows


def _keep_columns(rows: list[Any], columns: Sequence[str]) -> list[dict[str, Any]]:
    """The values of the model's columns, each a text, a number, a boolean or null."""
    kept = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise expected("rows", "to be objects, such as {...}", f"{type(row).__name__} as row {number}")
        own = {name: row[name] for name in columns if name in row}
        for name, value in own.items():
            if isinstance(value, dict | list):
                got = "a list" if isinstance(value, list) else "an object"
                raise expected(name, "to be a text, a number, true, false or null", f"{got} in row {number}")
        kept.append(own)
    if not any(kept):  # the error of the schema would not say what was there
        others = [name for row in rows for name in row][:5]
        raise expected("rows", f"with the columns {', '.join(columns[:10])}", show(others)[:200])
    return kept
