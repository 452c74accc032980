"""The schema of a table: the kinds of its columns, and the conversion of other tables by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from evalign._errors import expected, suggest
from evalign.tables._columns import Column, check_table
from evalign.tables._infer import infer_columns


@dataclass(frozen=True)
class Schema:
    """The columns of a table, and warnings about them.

    >>> schema = Schema((Column("age", "number"), Column("smokes", "boolean")))
    >>> schema.convert(pd.DataFrame({"smokes": ["no", "yes"], "age": ["41", "?"]})).values.tolist()
    [[41.0, 0.0], [nan, 1.0]]
    """

    columns: tuple[Column, ...]
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise expected("columns", "with distinct names", repr(names))

    @staticmethod
    def infer(table: Any, target: str, kinds: Mapping[str, str] | None = None) -> Schema:
        """Infer the kind of each column except the target from all values of a raw table.

        Constant and empty columns and identifiers are dropped; the warnings list them with the reason.

        Args:
            table: The table.
            target: The column with the classes.
            kinds: The kinds of columns where they are known, such as {"zip": "category"}.

        >>> table = pd.DataFrame({"id": range(30), "age": [41, 23, None] * 10, "y": ["a", "b", "a"] * 10})
        >>> [(column.name, column.kind) for column in Schema.infer(table, "y").columns]
        [('id', 'dropped'), ('age', 'number')]
        """
        return Schema(*infer_columns(table, target, kinds or {}))

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The columns that a model reads: all that are not dropped."""
        return tuple(column for column in self.columns if column.kind != "dropped")

    def convert(self, table: Any) -> Any:
        """Convert the inputs in a raw table to float64, datetime64[us] in UTC, or text with None.

        Other columns are ignored. Values that are not of their column's kind become missing; a column in
        which most are not is an error. Converting a table twice changes nothing.
        """
        check_table(table)
        missing = [column.name for column in self.inputs if column.name not in table.columns]
        if missing:
            names = ", ".join(map(repr, missing[:10])) + (" ..." if len(missing) > 10 else "")
            hint = " ".join(dict.fromkeys(suggest(name, table.columns) for name in missing[:3]))
            raise expected("table", "with all columns of the schema", f"one without {names}", hint)
        columns = {column.name: column.convert(table[column.name]) for column in self.inputs}
        return pd.DataFrame(columns, index=range(len(table)), copy=False).set_axis(table.index)

    def to_json(self) -> dict[str, Any]:
        """The schema as plain dicts and lists for a JSON file.

        >>> Schema((Column("age", "number"),)).to_json()["columns"]
        [{'name': 'age', 'kind': 'number', 'note': '', 'format': ''}]
        """
        return {"columns": [asdict(column) for column in self.columns], "warnings": list(self.warnings)}

    @staticmethod
    def from_json(facts: Any) -> Schema:
        """Build a schema from the result of `to_json`, checking every part of it.

        >>> schema = Schema((Column("age", "number"),))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        columns = _get_list(facts, "columns", Mapping)
        fields = {"name", "kind", "note", "format"}
        for column in columns:
            if set(column) - fields or not {"name", "kind"} <= set(column):
                wanted = f"with {', '.join(sorted(fields))} of each column"
                raise expected("schema", wanted, repr(column)[:200])
        return Schema(tuple(Column(**column) for column in columns), tuple(_get_list(facts, "warnings", str)))


def _get_list(facts: Any, key: str, kind: type) -> list[Any]:
    items = facts.get(key) if isinstance(facts, Mapping) else None
    if not isinstance(items, list) or not all(isinstance(item, kind) for item in items):
        raise expected("schema", f"with a list of {key}", repr(items)[:200])
    return items
