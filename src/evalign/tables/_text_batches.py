"""Rows of Python values as batches of text, as they would be in a CSV file."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from evalign.tables._values import TEXT


def to_text_batch(rows: Iterable[Sequence[Any]], names: list[str]) -> Any:
    """Convert rows to a batch with these column names.

    >>> to_text_batch([(1, None, datetime.datetime(2024, 1, 2))], ["a", "b", "c"]).to_pydict()
    {'a': ['1'], 'b': [''], 'c': ['2024-01-02']}
    """
    columns = [[_as_text(value) for value in column] for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays([pa.array(column, TEXT) for column in columns], names)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
