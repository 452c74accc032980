"""What kinds of columns a table has, and new tables read by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalign._errors import expected, suggest
from evalign.tables import _values
from evalign.tables._dates import FORMS

#: Each kind of column with the ways it may be written.
KINDS: dict[str, tuple[str, ...]] = {
    "number": ("", ","), "boolean": ("",), "date": tuple(FORMS), "category": ("",), "dropped": ("",),
}  # fmt: skip
_PLURALS = {"number": "numbers", "boolean": "booleans", "date": "dates"}


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its kind and what there is to say about it.

    Args:
        name: As in the header.
        kind: "number", "boolean", "date", "category" or "dropped".
        note: Why it was dropped, or which values were odd.
        format: How it is written where that has to be known: "," for numbers with a decimal comma;
            "iso", "dmy" or "mdy" for dates.

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


@dataclass(frozen=True)
class Schema:
    """The columns of a table and what is worth a warning; it reads other tables the same way.

    >>> schema = Schema((Column("age", "number"), Column("smokes", "boolean")))
    >>> schema.typed(pd.DataFrame({"smokes": ["no", "yes"], "age": ["41", "?"]})).values.tolist()
    [[41.0, 0.0], [nan, 1.0]]
    """

    columns: tuple[Column, ...]
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise expected("columns", "with distinct names", repr(names))

    @staticmethod
    def infer(table: Any, target: str) -> Schema:
        """Find the kind of each column but the target from all values of a raw table.

        Constant, empty and id-like columns and free text are dropped; the warnings say which and why.

        >>> table = pd.DataFrame({"id": range(30), "age": [41, 23, None] * 10, "y": ["a", "b", "a"] * 10})
        >>> [(column.name, column.kind) for column in Schema.infer(table, "y").columns]
        [('id', 'dropped'), ('age', 'number')]
        """
        from evalign.tables._infer import infer  # it builds schemas

        return infer(table, target)

    @property
    def kept(self) -> tuple[Column, ...]:
        """The columns that are not dropped."""
        return tuple(column for column in self.columns if column.kind != "dropped")

    def typed(self, table: Any) -> Any:
        """The kept columns of a raw table, typed: float64, datetime64[us] in UTC, or text with None.

        Other columns are ignored. What does not read as its column's kind is missing; a column where
        most does not is an error. A table that is typed already stays as it is.
        """
        checked_names(table)
        missing = [column.name for column in self.kept if column.name not in table.columns]
        if missing:
            hint = " ".join(suggest(name, table.columns) for name in missing[:3])
            listed = ", ".join(map(repr, missing[:10])) + (" ..." if len(missing) > 10 else "")
            raise expected("table", "with all columns of the schema", f"one without {listed}", hint)
        typed = {column.name: typed_column(column, table[column.name]) for column in self.kept}
        return pd.DataFrame(typed, index=range(len(table)), copy=False).set_axis(table.index)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts and lists, for a JSON file.

        >>> Schema((Column("age", "number"),)).to_json()["columns"]
        [{'name': 'age', 'kind': 'number', 'note': '', 'format': ''}]
        """
        return {"columns": [asdict(column) for column in self.columns], "warnings": list(self.warnings)}

    @staticmethod
    def from_json(facts: Any) -> Schema:
        """Read what `to_json` gave, or say what is wrong with it.

        >>> schema = Schema((Column("age", "number"),))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        columns = _listed(facts, "columns", Mapping)
        fields = {"name", "kind", "note", "format"}
        for column in columns:
            if set(column) - fields or not {"name", "kind"} <= set(column):
                raise expected(
                    "schema", f"with {', '.join(sorted(fields))} of each column", repr(column)[:200]
                )
        return Schema(tuple(Column(**column) for column in columns), tuple(_listed(facts, "warnings", str)))


def _listed(facts: Any, key: str, kind: type) -> list[Any]:
    found = facts.get(key) if isinstance(facts, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise expected("schema", f"with a list of {key}", repr(found)[:200])
    return found


def typed_column(column: Column, values: Any) -> Any:
    """The values of one column by its kind, as a pandas column or an array."""
    plain = _values.plain(values)
    if column.kind == "category":
        return pd.Series(_values.categories(plain), dtype=object)  # pandas would take it for its own text
    found: Any
    if column.kind == "number":
        found, odd = _values.numbers(plain, comma=column.format == ",")
    elif column.kind == "boolean":
        found, odd = _values.booleans(plain)
    else:
        found, odd = _values.dates(plain, column.format)
    # A few odd values are missing ones; where most are odd, it is another column.
    if odd.sum() > max(0.5 * np.sum(odd | ~pd.isna(found)), 0.01 * len(odd)):
        example = _values.texts(plain)[int(np.flatnonzero(odd)[0])].as_py()
        wanted = f"to hold {_PLURALS[column.kind]}"
        raise expected(column.name, wanted, f"{shortened(example)} and {odd.sum() - 1} more that are none")
    return found


def checked_names(table: Any) -> None:
    """Check that it is a pandas table whose columns have distinct names of text."""
    if not isinstance(table, pd.DataFrame):
        raise expected("table", "to be a pandas DataFrame", type(table).__name__)
    stray = [name for name in table.columns if not isinstance(name, str)]
    if stray:
        raise expected("table", "with text as column names", repr(stray[0]))
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise expected("table", "with distinct column names", f"{twice!r} twice")


def shortened(text: str, most: int = 40) -> str:
    """A value as shown in a message.

    >>> shortened("x" * 100, 10)
    "'xxxxxxxxxx...'"
    """
    return repr(text if len(text) <= most else text[:most] + "...")
