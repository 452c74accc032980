"""Class labels of any type as text, and the fingerprint of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign._errors import expected
from evalign.tables import _values
from evalign.tables._schema import checked_names, shortened

#: More distinct numbers are no classes.
_MOST = 100
#: So few rows may all be of classes of their own.
_FEW = 10


def labels(column: Any, known: Sequence[str] | None = None) -> NDArray[np.str_]:
    """The class of each row as text, the same from CSV and Parquet: 1, 1.0 and "1" are "1".

    Args:
        column: The raw values.
        known: The classes of a model: then each value has to be one of them, and is written as there.

    >>> labels(pd.Series([1.0, 0.0, 1.0])).tolist(), labels(pd.Series(["yes", " no", "yes"])).tolist()
    (['1', '0', '1'], ['yes', 'no', 'yes'])
    >>> labels(pd.Series([True, False]), known=["false", "true"]).tolist()
    ['true', 'false']
    """
    name = getattr(column, "name", None) or "target"
    marks = tuple(mark for mark in _values.MISSING if mark not in _values.CLASSES)
    column = pd.Series(column)
    values = _values.plain(column)
    if not pa.types.is_timestamp(values.type):
        values = _values.as_written(column)  # with all digits of an integer
    distinct, codes = _values.encoded(_values.texts(values, marks))
    if not len(codes):
        raise expected(str(name), "with rows", "none")
    gone = np.flatnonzero(codes < 0)
    if gone.size:
        wrong = f"{gone.size} of {codes.size} missing, the first in row {gone[0] + 1}"
        raise expected(str(name), "with a label in every row", wrong, "Remove these rows, or fill them.")
    number, odd = _values.numbers(distinct)
    numeric = not odd.any() and not np.isnan(number).any()
    if known is not None:
        found = _as_known(str(name), distinct.to_pylist(), [str(one) for one in known])
    else:
        found = _written(distinct, number) if numeric else distinct.to_pylist()
        _check_classes(str(name), found, codes.size, numeric)
    return np.array(found, dtype=str)[codes]


def _written(distinct: Any, number: NDArray[np.float64]) -> list[str]:
    """Numbers as one writes them: whole ones without a fraction, if all are whole."""
    whole = pc.replace_substring_regex(distinct, r"^([+-]?\d+)\.0*$", r"\1")
    if pc.all(pc.match_substring_regex(whole, r"^[+-]?\d+$")).as_py():
        return list(whole.to_pylist())
    if (number == np.round(number)).all() and (np.abs(number) < 2**53).all():
        return [str(int(value)) for value in number]
    return [repr(float(value)) for value in number]


def _check_classes(name: str, found: list[str], rows: int, numeric: bool) -> None:
    count = len(set(found))
    if count < 2:
        raise expected(name, "with two classes or more", f"only {shortened(found[0])} in all {rows} rows")
    if numeric and (count > _MOST or (count > _FEW and count > rows / 2)):
        hint = "Numbers to predict are no classes; cut them into ranges, or write classes as text."
        raise expected(name, "with classes", f"{count} distinct numbers in {rows} rows", hint)


def _as_known(name: str, found: list[str], known: list[str]) -> list[str]:
    """Each label as the model writes it: the same text, else the same number, else the same but for case."""
    forms: dict[Any, list[str]] = {}
    for one in known:
        for form in (one.casefold(), *_number(one)):
            forms.setdefault(form, []).append(one)

    def match(text: str) -> str | None:
        alike = [forms.get(form, []) for form in (*_number(text), text.casefold())]
        return text if text in known else next((one[0] for one in alike if len(one) == 1), None)

    result = [match(text) for text in found]
    stray = [text for text, one in zip(found, result, strict=True) if one is None]
    if stray:
        classes = ", ".join(map(shortened, known[:10])) + (" ..." if len(known) > 10 else "")
        raise expected(name, f"with classes of the model ({classes})", shortened(stray[0]))
    return [one for one in result if one is not None]


def _number(text: str) -> tuple[float, ...]:
    try:
        return (float(text),)
    except ValueError:
        return ()


def fingerprint(table: Any) -> str:
    """A SHA-256 sum of the names and values of a table, the same from CSV and Parquet.

    >>> fingerprint(pd.DataFrame({"a": [1, 2]})) == fingerprint(pd.DataFrame({"a": ["1", "2.0"]}))
    True
    """
    checked_names(table)
    total = hashlib.sha256(f"{len(table)} rows".encode())
    for name in table.columns:
        part = hashlib.sha256(name.encode())
        for content in _content(_values.plain(table[name])):
            part.update(content)
        total.update(part.digest())
    return total.hexdigest()


def _content(values: Any) -> tuple[bytes, ...]:
    """Numbers and dates as such where all values are, else text with the length of each."""
    number, odd = _values.numbers(values)
    if not odd.any():
        number[np.isnan(number)] = np.nan  # one NaN of the many there are
        return b"number", number.astype("<f8").tobytes()
    moment, odd = _values.dates(values, "iso")
    if not odd.any():
        return b"date", moment.astype("datetime64[us]").astype("<i8").tobytes()
    text = _values.texts(values, marks=("",)).fill_null("")
    sizes = pc.binary_length(text).to_numpy(zero_copy_only=False).astype("<i8")
    return b"text", sizes.tobytes(), "".join(text.to_pylist()).encode()
