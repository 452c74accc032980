"""The values of a column as text, numbers, booleans or dates, the same from every file format and type."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign._typing import Floats, Indices
from evalign.tables._dates import parse_timestamps

Mask = NDArray[np.bool_]

#: Texts that stand for a missing value.
MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NaT", "NULL", "Null", "null", "None", "?",
    "-", "--", ".",
)  # fmt: skip
#: Those of them that are classes when they are labels: "+" and "-", or a severity of "None".
CLASSES = ("None", "-", "--", ".")

TRUE = ("true", "t", "yes", "y", "on", "1", "1.0")
FALSE = ("false", "f", "no", "n", "off", "0", "0.0")
NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
TEXT = pa.large_string()
TIMESTAMP = pa.timestamp("us")

_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, TypeError, ValueError)


def as_arrow(column: Any) -> Any:
    """Convert a column to one arrow array of text, bool, float64 or timestamp[us].

    >>> as_arrow(pd.Series([1, 2])).type, as_arrow(pd.Series(["1", None])).type
    (DataType(double), DataType(large_string))
    """
    try:
        values = pa.array(column, from_pandas=True)
    except _CONVERSION_ERRORS:
        values = _format_objects(column)  # mixed types, or integers beyond 64 bits
    if isinstance(values, pa.ChunkedArray):
        values = _combine_chunks(values)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if kind == TEXT or pa.types.is_boolean(kind) or pa.types.is_float64(kind):
        return values
    if pa.types.is_null(kind) or pa.types.is_string(kind) or str(kind) == "string_view":
        return values.cast(TEXT)
    if pa.types.is_integer(kind):
        return values.cast(pa.float64(), safe=False)
    if pa.types.is_float32(kind) or pa.types.is_decimal(kind):
        # By way of the shortest text, which is what a CSV file contains: 0.1 is 0.1 in any precision.
        return values.cast(TEXT).cast(pa.float64())
    if pa.types.is_float16(kind):
        return pa.array(values.to_numpy(zero_copy_only=False).astype(str), TEXT).cast(pa.float64())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return values.cast(TIMESTAMP, safe=False)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        with suppress(pa.ArrowInvalid):  # some programs write text as bytes
            return values.cast(TEXT)
    return _format_objects(column)


def _combine_chunks(values: Any) -> Any:
    if pa.types.is_string(values.type):
        values = values.cast(TEXT)  # one array of type string is limited to 2 GB
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    combined = values.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _format_objects(column: Any) -> Any:
    """Format each value as `str` does, which is how it gets into a CSV file."""
    missing = pd.isna(column)
    values = [None if is_na else str(value) for value, is_na in zip(column, missing, strict=True)]
    return pa.array(values, type=TEXT)


def as_csv_values(column: Any) -> Any:
    """Convert a column to what a CSV file should contain: numbers with all their digits, or text.

    >>> as_csv_values(pd.Series([0.5, None])).to_pylist(), as_csv_values(pd.Series([True])).to_pylist()
    ([0.5, None], ['True'])
    """
    try:
        values = pa.array(column, from_pandas=True)
        values = _combine_chunks(values) if isinstance(values, pa.ChunkedArray) else values
        kind = values.type
        if pa.types.is_floating(kind):
            return pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
        if pa.types.is_integer(kind):
            return values
        if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
            return pc.replace_substring_regex(values.cast(TEXT), r"\.0+(Z?)$", r"\1")
        if pa.types.is_boolean(kind):
            return clean_text(values)
        return _format_objects(column) if pa.types.is_duration(kind) else values.cast(TEXT)
    except _CONVERSION_ERRORS:
        return _format_objects(column)


def clean_text(values: Any, missing: tuple[str, ...] = MISSING) -> Any:
    """Convert values to text without surrounding whitespace, and null where it is missing.

    >>> clean_text(as_arrow(pd.Series([" a", "NA", "b"]))).to_pylist()
    ['a', None, 'b']
    """
    kind = values.type
    if pa.types.is_boolean(kind):
        return pc.if_else(values, pa.scalar("True", TEXT), pa.scalar("False", TEXT))
    if pa.types.is_float64(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
        return values.cast(TEXT)
    if pa.types.is_timestamp(kind):
        return _format_timestamps(values)
    values = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.is_in(values, value_set=pa.array(missing, TEXT)), pa.scalar(None, TEXT), values)


def _format_timestamps(values: Any) -> Any:
    """Format timestamps as pandas writes them: without the time if it is always midnight."""
    text = pc.replace_substring_regex(values.cast(TEXT), r"\.0+$", "")
    midnight = pc.all(pc.ends_with(text, " 00:00:00")).as_py()
    return pc.utf8_slice_codeunits(text, 0, -9) if midnight else text


def encode(text: Any) -> tuple[Any, Indices]:
    """The distinct texts and, for each row, the index of its text, -1 where it is missing.

    >>> [part.tolist() for part in encode(pa.array(["b", None, "b"]))]
    [['b'], [0, -1, 0]]
    """
    encoded = text.dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def parse_numbers(values: Any, comma: bool = False) -> tuple[Floats, Mask]:
    """Parse finite numbers, NaN elsewhere, and mark the texts that are not numbers.

    >>> [part.tolist() for part in parse_numbers(as_arrow(pd.Series(["1e3", "", "x"])))]
    [[1000.0, nan, nan], [False, False, True]]
    """
    invalid = np.zeros(len(values), bool)
    if pa.types.is_float64(values.type):
        return as_finite(values), invalid
    numbers = None if comma or not pa.types.is_large_string(values.type) else _try_cast(values)
    if numbers is not None:  # nothing missing, no spaces: the common case is the fast one
        return as_finite(numbers), invalid
    text = clean_text(values)
    if comma:
        text = pc.replace_substring(text, ",", ".", max_replacements=1)
    numbers = _try_cast(text)
    if numbers is not None:
        return as_finite(numbers), invalid
    matches = pc.match_substring_regex(text, NUMBER)
    numbers = pc.if_else(matches, text, pa.scalar(None, TEXT)).cast(pa.float64())
    invalid = pc.invert(matches).fill_null(False).to_numpy(zero_copy_only=False)
    return as_finite(numbers), invalid


def _try_cast(text: Any) -> Any:
    """Cast text to numbers, or return None if that fails, which pyarrow is slow at: try a sample first."""
    try:
        if len(text) > 100:
            text.take(pa.array(np.linspace(0, len(text) - 1, 100, dtype=np.int64))).cast(pa.float64())
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def as_finite(values: Any) -> Floats:
    """Copy numbers of pandas or arrow to an array, with NaN where they are missing or infinite."""
    is_arrow = isinstance(values, pa.Array)
    numbers = np.array(values.to_numpy(zero_copy_only=False) if is_arrow else values, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def parse_booleans(values: Any) -> tuple[Floats, Mask]:
    """Parse booleans as 1 and 0, NaN elsewhere, and mark the texts that are not booleans.

    >>> [part.tolist() for part in parse_booleans(as_arrow(pd.Series(["yes", "No", None, "x"])))]
    [[1.0, 0.0, nan, nan], [False, False, False, True]]
    """
    distinct, codes = encode(clean_text(values))
    meaning = {**dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0)}
    table = [meaning.get(text.casefold(), np.nan) for text in distinct.to_pylist()]
    booleans = np.array([*table, np.nan])[codes]
    return booleans, np.isnan(booleans) & (codes >= 0)


def parse_dates(values: Any, date_format: str) -> tuple[NDArray[np.datetime64], Mask]:
    """Parse timestamps in UTC, NaT elsewhere, and mark the texts that are not dates of this format.

    >>> dates, invalid = parse_dates(as_arrow(pd.Series(["31/1/2020", None])), "dmy")
    >>> dates.astype("datetime64[D]").astype(str).tolist()
    ['2020-01-31', 'NaT']
    """
    if pa.types.is_timestamp(values.type):
        numbers = values.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
        timestamps = numbers.to_numpy(zero_copy_only=False).view("datetime64[us]")
        return timestamps, np.zeros(len(values), bool)
    distinct, codes = encode(clean_text(values))
    timestamps = np.append(parse_timestamps(distinct, date_format), np.datetime64("NaT", "us"))[codes]
    return timestamps, np.isnat(timestamps) & (codes >= 0)


def as_categories(values: Any) -> NDArray[np.object_]:
    """Convert values to str objects, None where they are missing; whole numbers lose their fraction.

    >>> as_categories(as_arrow(pd.Series(["a", "1.0", "NA"]))).tolist()
    ['a', '1', None]
    """
    distinct, codes = encode(clean_text(values))
    names = pc.replace_substring_regex(distinct, r"^([+-]?\d+)\.0+$", r"\1").to_pylist()
    table = np.empty(len(names) + 1, dtype=object)
    table[:-1] = names
    return np.asarray(table[codes])
