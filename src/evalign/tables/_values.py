"""The values of a column, whatever file or type they came as: text, numbers, booleans or dates."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign.tables._dates import moments

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Texts that stand for a missing value.
MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NaT", "NULL", "Null", "null", "None", "?",
    "-", "--", ".",
)  # fmt: skip
#: As a label these are classes: "+" and "-", or a severity of "None".
CLASSES = ("None", "-", "--", ".")

TRUE = ("true", "t", "yes", "y", "on", "1", "1.0")
FALSE = ("false", "f", "no", "n", "off", "0", "0.0")
NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
TEXT = pa.large_string()
TIME = pa.timestamp("us")


def plain(column: Any) -> Any:
    """A column as one arrow array of text, bool, float64 or timestamp[us]; the same from CSV and Parquet.

    >>> plain(pd.Series([1, 2])).type, plain(pd.Series(["1", None])).type
    (DataType(double), DataType(large_string))
    """
    try:
        values = pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        values = _written(column)  # mixed types, or integers beyond 64 bits
    if isinstance(values, pa.ChunkedArray):
        values = _joined(values)
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
        # By way of the shortest text, as a CSV file would hold it: 0.1 is 0.1 in any precision.
        return values.cast(TEXT).cast(pa.float64())
    if pa.types.is_float16(kind):
        return pa.array(values.to_numpy(zero_copy_only=False).astype(str), TEXT).cast(pa.float64())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return values.cast(TIME, safe=False)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        with suppress(pa.ArrowInvalid):  # some programs write text as bytes
            return values.cast(TEXT)
    return _written(column)


def _joined(values: Any) -> Any:
    if pa.types.is_string(values.type):
        values = values.cast(TEXT)  # one array of strings ends at 2 GB
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    joined = values.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _written(column: Any) -> Any:
    """Each value as Python writes it, which is how a CSV file gets it."""
    missing = pd.isna(column)
    values = [None if gone else str(value) for value, gone in zip(column, missing, strict=True)]
    return pa.array(values, type=TEXT)


def as_written(column: Any) -> Any:
    """A column as a CSV file should hold it: all of its text, all digits of its numbers.

    >>> as_written(pd.Series([0.5, None])).to_pylist(), as_written(pd.Series([True])).to_pylist()
    (['0.5', None], ['True'])
    """
    try:
        values = pa.array(column, from_pandas=True)
        values = _joined(values) if isinstance(values, pa.ChunkedArray) else values
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if pa.types.is_timestamp(values.type) or pa.types.is_time(values.type):
            return pc.replace_substring_regex(values.cast(TEXT), r"\.0+(Z?)$", r"\1")
        if pa.types.is_boolean(values.type):
            return texts(values)
        return _written(column) if pa.types.is_duration(values.type) else values.cast(TEXT)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _written(column)


def texts(values: Any, marks: tuple[str, ...] = MISSING) -> Any:
    """Text without the spaces around it, and null where it is missing.

    >>> texts(plain(pd.Series([" a", "NA", "b"]))).to_pylist()
    ['a', None, 'b']
    """
    kind = values.type
    if pa.types.is_boolean(kind):
        return pc.if_else(values, pa.scalar("True", TEXT), pa.scalar("False", TEXT))
    if pa.types.is_float64(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
        return values.cast(TEXT)
    if pa.types.is_timestamp(kind):
        return _days_or_times(values)
    values = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.is_in(values, value_set=pa.array(marks, TEXT)), pa.scalar(None, TEXT), values)


def _days_or_times(values: Any) -> Any:
    """Dates without their time if they all are midnights, as pandas writes them."""
    text = values.cast(TEXT)
    short = pc.replace_substring_regex(text, r"\.0+$", "")
    midnight = pc.all(pc.ends_with(short, " 00:00:00")).as_py()
    return pc.utf8_slice_codeunits(short, 0, -9) if midnight else short


def encoded(text: Any) -> tuple[Any, NDArray[np.int64]]:
    """The distinct texts and the number of each row's, -1 where it is missing.

    >>> [part.tolist() for part in encoded(pa.array(["b", None, "b"]))]
    [['b'], [0, -1, 0]]
    """
    found = text.dictionary_encode()
    return found.dictionary, found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def numbers(values: Any, comma: bool = False) -> tuple[Floats, Mask]:
    """Numbers, NaN where there is none or an infinite one; and where a text is no number.

    >>> [part.tolist() for part in numbers(plain(pd.Series(["1e3", "", "x"])))]
    [[1000.0, nan, nan], [False, False, True]]
    """
    odd = np.zeros(len(values), bool)
    if pa.types.is_float64(values.type):
        return _finite(values), odd
    found = None if comma or not pa.types.is_large_string(values.type) else _cast(values)
    if found is not None:  # nothing missing, no spaces: the common case is the fast one
        return _finite(found), odd
    text = texts(values)
    if comma:
        text = pc.replace_substring(text, ",", ".", max_replacements=1)
    found = _cast(text)
    if found is not None:
        return _finite(found), odd
    reads = pc.match_substring_regex(text, NUMBER)
    found = pc.if_else(reads, text, pa.scalar(None, TEXT)).cast(pa.float64())
    odd = pc.invert(reads).fill_null(False).to_numpy(zero_copy_only=False)
    return _finite(found), odd


def _cast(text: Any) -> Any:
    """Text as numbers, or None if some is none; that takes pyarrow long, so that a few are tried first."""
    few = text.take(pa.array(np.linspace(0, len(text) - 1, 100, dtype=np.int64))) if len(text) else text
    try:
        few.cast(pa.float64())
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def _finite(values: Any) -> Floats:
    found = np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def booleans(values: Any) -> tuple[Floats, Mask]:
    """1 for true, 0 for false, NaN for neither; and where a text is neither.

    >>> [part.tolist() for part in booleans(plain(pd.Series(["yes", "No", None, "x"])))]
    [[1.0, 0.0, nan, nan], [False, False, False, True]]
    """
    distinct, codes = encoded(texts(values))
    known = {**dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0)}
    found = [known.get(text.casefold(), np.nan) for text in distinct.to_pylist()]
    result = np.array([*found, np.nan])[codes]
    return result, np.isnan(result) & (codes >= 0)


def dates(values: Any, form: str) -> tuple[NDArray[np.datetime64], Mask]:
    """Moments in UTC, NaT where there is none; and where a text is no date of this form.

    >>> dates(plain(pd.Series(["31/1/2020", None])), "dmy")[0].astype("datetime64[D]").astype(str).tolist()
    ['2020-01-31', 'NaT']
    """
    if pa.types.is_timestamp(values.type):
        found = values.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
        moment = found.to_numpy(zero_copy_only=False).view("datetime64[us]")
        return moment, np.zeros(len(values), bool)
    distinct, codes = encoded(texts(values))
    moment = np.append(moments(distinct, form), np.datetime64("NaT", "us"))[codes]
    return moment, np.isnat(moment) & (codes >= 0)


def categories(values: Any) -> NDArray[np.object_]:
    """Text as Python objects, None where it is missing; whole numbers without a fraction.

    >>> categories(plain(pd.Series(["a", "1.0", "NA"]))).tolist()
    ['a', '1', None]
    """
    distinct, codes = encoded(texts(values))
    found = pc.replace_substring_regex(distinct, r"^([+-]?\d+)\.0+$", r"\1").to_pylist()
    table = np.empty(len(found) + 1, dtype=object)
    table[:-1] = found
    return np.asarray(table[codes])
