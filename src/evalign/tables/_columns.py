"""A column of a table: its name, its kind and the conversion of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalign._errors import expected
from evalign.tables import _values
from evalign.tables._dates import DATE_FORMATS

#: The largest number of categories of a column with a feature for each, and the format of a column of more.
MOST_CATEGORIES, MANY = 50, "many"
#: The format of texts in a script that does not separate words by spaces.
CHARACTERS = "characters"
#: Each kind of column with the formats its values may have.
KINDS: dict[str, tuple[str, ...]] = {
    "number": ("", ","), "boolean": ("",), "date": tuple(DATE_FORMATS), "category": ("", MANY),
    "text": ("", CHARACTERS), "dropped": ("",),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        name: Its name in the header.
        kind: "number", "boolean", "date", "category", "text" (several words) or "dropped".
        note: Why it was dropped, or which of its values are read as missing.
        format: How its values are written, where there is a choice: "," for numbers with a decimal comma;
            "iso", "dmy" or "mdy" for dates; "many" for too many categories to give each a feature;
            "characters" for texts in a script without spaces.

    >>> Column("age", "number")
    Column(name='age', kind='number', note='', format='')
    """

    name: str
    kind: str
    note: str = ""
    format: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "kind", "note", "format"):
            if not isinstance(getattr(self, field), str):
                raise expected(field, "to be text", repr(getattr(self, field)))
        if self.kind not in KINDS:
            raise expected("kind", f"to be one of {', '.join(KINDS)}", repr(self.kind))
        if self.format not in KINDS[self.kind]:
            raise expected("format", f"to be one of {KINDS[self.kind]} for a {self.kind}", repr(self.format))

    def convert(self, values: Any) -> Any:
        """Convert raw values to the column's kind, as a pandas column or an array.

        A few invalid values become missing; if most are invalid, it is another column, and an error.

        >>> Column("age", "number").convert(pd.Series(["41", "?"])).tolist()
        [41.0, nan]
        """
        if self.kind == "number" and getattr(values, "dtype", None) == np.float64:
            return _values.as_finite(values)  # of many columns, most are converted already
        raw = _values.as_arrow(values)
        if self.kind in ("category", "text"):
            return pd.Series(_values.as_categories(raw), dtype=object)  # not pandas' own type of text
        converted: Any
        if self.kind == "number":
            converted, invalid = _values.parse_numbers(raw, comma=self.format == ",")
        elif self.kind == "boolean":
            converted, invalid = _values.parse_booleans(raw)
        else:
            converted, invalid = _values.parse_dates(raw, self.format)
        if invalid.sum() > max(0.5 * np.sum(invalid | ~pd.isna(converted)), 0.01 * len(invalid)):
            example = _values.clean_text(raw)[int(np.flatnonzero(invalid)[0])].as_py()
            others = f" and {invalid.sum() - 1} more" if invalid.sum() > 1 else ""
            raise expected(self.name, f"to contain {self.kind}s", shorten(example) + others)
        return converted


def check_table(table: Any) -> None:
    """Check that a table is a pandas DataFrame with distinct strings as column names."""
    if not isinstance(table, pd.DataFrame):
        raise expected("table", "to be a pandas DataFrame", type(table).__name__)
    others = [name for name in table.columns if not isinstance(name, str)]
    if others:
        raise expected("table", "with text as column names", repr(others[0]))
    if not table.columns.is_unique:
        duplicate = table.columns[table.columns.duplicated()][0]
        raise expected("table", "with distinct column names", f"{duplicate!r} twice")


def shorten(text: str, most: int = 40) -> str:
    """Format a value for a message, with at most this many characters.

    >>> shorten("x" * 100, 10)
    "'xxxxxxxxxx...'"
    """
    return repr(text if len(text) <= most else text[:most] + "...")
