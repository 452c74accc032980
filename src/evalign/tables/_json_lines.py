"""Reading JSON lines: one object per row, as columns of text."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from typing import Any

import pyarrow as pa

from evalign._errors import expected
from evalign.tables._source import Utf8Text
from evalign.tables._values import TEXT

#: The number of bytes that are parsed at once; the columns are those of the first ones.
_BLOCK = 1 << 21


def read_json_lines(text: Utf8Text) -> Generator[Any, None, None]:
    r"""Read objects as batches of rows; what is not there is an empty text, as in CSV.

    >>> import io
    >>> text = Utf8Text(io.BytesIO(b'{"a": 1, "b": true}\n{"a": 1.50}\n'), "a.json")
    >>> [batch.to_pydict() for batch in read_json_lines(text)]
    [{'a': ['1', '1.50'], 'b': ['true', '']}]
    """
    rest, first, at_end = b"", 1, False
    names: dict[str, None] = {}
    while not at_end:
        block = text.read(_BLOCK)
        at_end = len(block) < _BLOCK
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > _BLOCK:
            wanted = f"with rows below {_BLOCK >> 20} MB"
            raise expected("source", wanted, f"a longer one in {text.name}", "Write one object per line.")
        numbered = [(first + number, line) for number, line in enumerate(lines) if line.strip()]
        objects = [_parse(line, number, text.name) for number, line in numbered]
        if first == 1:
            names = dict.fromkeys(name for one in objects for name in one)
        first += len(lines)
        if objects:
            yield to_batch(objects, names, text.name)


def _parse(line: bytes, number: int, name: str) -> dict[str, Any]:
    """Parse an object, with its numbers as they are written."""
    wanted = "with a JSON object in every line"
    try:
        value = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        place = f"line {number} of {name} ({error})"
        raise expected("source", wanted, place) from None
    if not isinstance(value, dict):
        raise expected(
            "source", "with a JSON object in every line", f"another value in line {number} of {name}"
        )
    return value


def to_batch(objects: Iterable[dict[str, Any]], names: dict[str, None], name: str) -> Any:
    """Convert objects with these names to a batch of text."""
    columns: dict[str, list[str]] = {column: [] for column in names}
    for one in objects:
        if not one.keys() <= names.keys():
            unknown = next(key for key in one if key not in names)
            raise expected(
                "source", "with the names of its first rows", f"{unknown!r} later on in {name}"[:200]
            )
        for column, values in columns.items():
            values.append(_as_text(one.get(column)))
    try:
        return pa.RecordBatch.from_arrays([pa.array(one, TEXT) for one in columns.values()], list(columns))
    except UnicodeEncodeError:  # an escape such as \ud800
        raise expected("source", "with whole characters", f"half of one in {name}") from None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)
