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
from evalign._typing import Floats
from evalign.tables import _values
from evalign.tables._columns import check_table, shorten

#: The largest number of distinct numbers that may be classes.
_MAX_NUMBERS = 100
#: Up to this many distinct numbers may be classes even if most rows have one of their own.
_FEW_NUMBERS = 10
#: Texts that stand for a missing label.
_MISSING = tuple(text for text in _values.MISSING if text not in _values.CLASSES)


def as_labels(column: Any, known: Sequence[str] | None = None) -> NDArray[np.str_]:
    """Convert class labels to text, the same from CSV and Parquet: 1, 1.0 and "1" are "1".

    Args:
        column: The raw labels.
        known: The classes of a model. Every label must be one of them, and is spelt as it is there.

    >>> as_labels(pd.Series([1.0, 0.0, 1.0])).tolist(), as_labels(pd.Series(["yes", " no", "yes"])).tolist()
    (['1', '0', '1'], ['yes', 'no', 'yes'])
    >>> as_labels(pd.Series([True, False]), known=["false", "true"]).tolist()
    ['true', 'false']
    """
    name = str(getattr(column, "name", None) or "target")
    column = pd.Series(column)
    values = _values.as_arrow(column)
    if not pa.types.is_timestamp(values.type):
        values = _values.as_csv_values(column).cast(_values.TEXT)  # with all digits of an integer
    distinct, codes = _values.encode(_values.clean_text(values, _MISSING))
    if not len(codes):
        raise expected(name, "with rows", "none")
    gaps = np.flatnonzero(codes < 0)
    if gaps.size:
        wrong = f"{gaps.size} of {codes.size} missing, the first in row {gaps[0] + 1}"
        raise expected(name, "with a label in every row", wrong, "Remove these rows, or fill them in.")
    if known is not None:
        classes = _match_known(name, distinct.to_pylist(), [str(label) for label in known])
    else:
        numbers, invalid = _values.parse_numbers(distinct)
        numeric = not invalid.any() and not np.isnan(numbers).any()
        classes = _format_numbers(distinct, numbers) if numeric else distinct.to_pylist()
        _check_classes(name, classes, codes.size, numeric)
    return np.array(classes, dtype=str)[codes]


def drop_unlabelled(table: Any, target: str) -> tuple[Any, int]:
    """Return the rows whose label is not missing, and how many others there are.

    >>> table, dropped = drop_unlabelled(pd.DataFrame({"a": [1, 2, 3], "y": ["no", None, ""]}), "y")
    >>> table["a"].tolist(), dropped
    ([1], 2)
    """
    values = _values.as_arrow(table[target])
    known = _values.clean_text(values, _MISSING).is_valid().to_numpy(zero_copy_only=False)
    return table[known].reset_index(drop=True), int((~known).sum())


def _format_numbers(distinct: Any, numbers: Floats) -> list[str]:
    """Format numbers without a fraction if all of them are whole."""
    whole = pc.replace_substring_regex(distinct, r"^([+-]?\d+)\.0*$", r"\1")
    if pc.all(pc.match_substring_regex(whole, r"^[+-]?\d+$")).as_py():
        return list(whole.to_pylist())
    if (numbers == np.round(numbers)).all() and (np.abs(numbers) < 2**53).all():
        return [str(int(value)) for value in numbers]
    return [repr(float(value)) for value in numbers]


def _check_classes(name: str, classes: list[str], rows: int, numeric: bool) -> None:
    count = len(set(classes))
    if count < 2:
        raise expected(name, "with at least two classes", f"only {shorten(classes[0])} in all {rows} rows")
    if numeric and (count > _MAX_NUMBERS or (count > _FEW_NUMBERS and count > rows / 2)):
        hint = "Quantities are not classes: group them into ranges, or write the classes as text."
        raise expected(name, "with classes", f"{count} distinct numbers in {rows} rows", hint)


def _match_known(name: str, labels: list[str], known: list[str]) -> list[str]:
    """Spell each label as the model does: the same text, else the same number, else equal except for case."""
    spellings: dict[str | float, list[str]] = {}
    for label in known:
        for key in _keys(label):
            spellings.setdefault(key, []).append(label)

    def match(label: str) -> str | None:
        candidates = [spellings.get(key, []) for key in _keys(label)]
        return label if label in known else next((one[0] for one in candidates if len(one) == 1), None)

    matches = {label: match(label) for label in labels}
    unknown = [label for label, spelling in matches.items() if spelling is None]
    if unknown:
        classes = ", ".join(map(shorten, known[:10])) + (" ..." if len(known) > 10 else "")
        raise expected(name, f"with classes of the model ({classes})", shorten(unknown[0]))
    return [spelling for spelling in matches.values() if spelling is not None]


def _keys(label: str) -> list[str | float]:
    """What all spellings of a label share: first its number, if it is one, then its text in one case."""
    try:
        return [float(label), label.casefold()]
    except ValueError:
        return [label.casefold()]


def fingerprint(table: Any) -> str:
    """The SHA-256 sum of the names and values of a table, the same from CSV and Parquet.

    >>> fingerprint(pd.DataFrame({"a": [1, 2]})) == fingerprint(pd.DataFrame({"a": ["1", "2.0"]}))
    True
    """
    check_table(table)
    total = hashlib.sha256(f"{len(table)} rows".encode())
    for name in table.columns:
        part = hashlib.sha256(name.encode())
        for content in _to_bytes(_values.as_arrow(table[name])):
            part.update(content)
        total.update(part.digest())
    return total.hexdigest()


def _to_bytes(values: Any) -> tuple[bytes, ...]:
    """Numbers or dates if all values are, else text with the length of each value."""
    numbers, invalid = _values.parse_numbers(values)
    if not invalid.any():
        numbers[np.isnan(numbers)] = np.nan  # NaN has many bit patterns
        return b"number", numbers.astype("<f8").tobytes()
    dates, invalid = _values.parse_dates(values, "iso")
    if not invalid.any():
        return b"date", dates.astype("datetime64[us]").astype("<i8").tobytes()
    text = _values.clean_text(values, missing=("",)).fill_null("")
    lengths = pc.binary_length(text).to_numpy(zero_copy_only=False).astype("<i8")
    return b"text", lengths.tobytes(), "".join(text.to_pylist()).encode()
