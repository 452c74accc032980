"""Finding the kinds of columns from all their values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign._errors import expected, suggest
from evalign.tables import _values
from evalign.tables._dates import moments
from evalign.tables._schema import Column, Schema, checked_names, shortened, typed_column

Codes = NDArray[np.int64]

#: A column is of a kind if so many of its values are; the others count as missing.
ENOUGH = 0.95
#: With fewer rows, values that all differ say nothing.
FEW = 20
#: From this share of distinct texts on, a column names the rows; long texts need fewer.
NAMES, PROSE = 0.9, 0.5
_LONG = 50
_PAIRS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"on", "off"})
_ID = re.compile(
    r"(?i:id|uuid|guid|index|key|row|row[ _-]?(id|number|nr|no)|unnamed: 0|column 1)"
    r"|.*([ _-](?i:id|uuid|guid)|[a-z](Id|ID))"
)


@dataclass
class _Found:
    """What a column turns out to be."""

    kind: str
    note: str = ""
    format: str = ""
    warnings: list[str] = field(default_factory=list)


def infer(table: Any, target: str) -> Schema:
    """The schema of a raw table; see `Schema.infer`."""
    checked_names(table)
    if target not in table.columns:
        raise expected("target", "to be a column", repr(target), suggest(str(target), table.columns))
    if not len(table):
        raise expected("table", "with rows", "none")
    columns, warnings, kept = [], [], {}
    for name in table.columns:
        if name == target:
            continue
        found = _column(name, table[name])
        column = Column(name, found.kind, found.note, found.format)
        columns.append(column)
        if column.kind == "dropped":
            warnings.append(f"`{name}` was left out: {column.note}.")
            continue
        warnings += [f"`{name}` {said}." for said in found.warnings]
        kept[name] = typed_column(column, table[name])
        gone = int(pd.isna(kept[name]).sum())
        if gone > 0.5 * len(table):
            warnings.append(f"`{name}` is missing in {gone} of {len(table)} rows.")
    if not kept:
        raise expected(
            "table", "with a column to learn from", f"none beside {target!r}. {' '.join(warnings)}"
        )
    goal = _values.categories(_values.plain(table[target]))
    warnings += [
        f"`{name}` says the same as `{target}`: is it known before?" for name in _tellers(kept, goal)
    ]
    copies = int(pd.DataFrame({**kept, target: goal}).duplicated().sum())
    if copies:
        said = f"{copies} of {len(table)} rows repeat another"
        warnings.append(f"{said}: copies in training and test flatter a score.")
    return Schema(tuple(columns), tuple(warnings))


def _tellers(columns: dict[str, Any], goal: Any) -> list[str]:
    """The columns that are the target under other names."""
    codes, classes = pd.factorize(goal, use_na_sentinel=False)
    found = []
    for name, values in columns.items() if len(codes) >= FEW else ():
        others, distinct = pd.factorize(values, use_na_sentinel=False)
        if len(distinct) == len(classes) == len(np.unique(others * len(classes) + codes)):
            found.append(name)
    return found


def _column(name: str, column: Any) -> _Found:
    values = _values.plain(column)
    if pa.types.is_timestamp(values.type):
        moment = _values.dates(values, "iso")[0]
        return _unless_constant(_Found("date", format="iso"), moment)
    number, odd = _values.numbers(values)
    if not odd.any():
        return _number(name, number)
    distinct, codes = _values.encoded(_values.texts(values))
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    return _text(name, distinct, codes, counts)


def _text(name: str, distinct: Any, codes: Codes, counts: Codes) -> _Found:
    """The kind of a column of text, from its distinct values and how often each stands."""
    comma, doubt = _decimal_comma(distinct)
    number, odd = _values.numbers(distinct, comma)
    share = counts[~odd].sum() / counts.sum()
    if share >= ENOUGH:
        found = _number(name, np.append(number, np.nan)[codes])
        found.format = "," if comma and found.kind == "number" else ""
        return _with_odd(found, distinct, odd, counts)
    if len(distinct) <= 10 and {text.casefold() for text in distinct.to_pylist()} in _PAIRS:
        return _Found("boolean")
    form, moment, ambiguous = _date(distinct, counts)
    if form:
        found = _unless_constant(_Found("date", format=form), np.append(moment, np.datetime64("NaT"))[codes])
        return _with_odd(found, distinct, np.isnat(moment), counts)
    found = _category(name, distinct, codes)
    doubt = doubt or ambiguous
    if doubt and found.kind == "dropped":
        found.note += f"; {doubt}"
    elif doubt:
        found.warnings.append(f"is taken as text: {doubt}")
    elif share > 1 - ENOUGH and found.kind == "category":
        found.warnings.append(f"mixes numbers ({share:.0%}) and text, and is taken as text")
    return found


def _with_odd(found: _Found, distinct: Any, odd: NDArray[np.bool_], counts: Codes) -> _Found:
    """Say which values do not read as the column's kind."""
    if odd.any() and found.kind != "dropped":
        most = int(np.flatnonzero(odd)[np.argmax(counts[odd])])
        count = int(counts[odd].sum())
        said = f"{count} value{'s' * (count > 1)} such as {shortened(distinct[most].as_py())} read as missing"
        found.note = said
        found.warnings.append(f"holds {found.kind}s; {said}")
    return found


def _number(name: str, values: NDArray[np.float64]) -> _Found:
    there = values[~np.isnan(values)]
    found = _unless_constant(_Found("number"), values)
    if found.kind == "dropped" or there.size < values.size or not (there == np.round(there)).all():
        return found
    ordered = np.sort(there)
    if (ordered[1:] == ordered[:-1]).any():
        return found
    steps = np.diff(ordered)
    counted = there.size >= FEW and (steps == steps[0]).all()
    if counted or _ID.fullmatch(name):
        return _Found("dropped", "it numbers the rows")
    return found


def _unless_constant(found: _Found, values: NDArray[Any]) -> _Found:
    there = values[~pd.isna(values)]
    if not there.size:
        return _Found("dropped", "all its values are missing")
    if there.size == values.size and (there == there[0]).all():
        return _Found("dropped", "it is constant")
    return found


def _category(name: str, distinct: Any, codes: Codes) -> _Found:
    rows = int((codes >= 0).sum())
    share = len(distinct) / rows
    if len(distinct) == 1 and rows == len(codes):
        return _Found("dropped", "it is constant")
    if rows >= FEW and share > PROSE and pc.mean(pc.utf8_length(distinct)).as_py() >= _LONG:
        return _Found("dropped", "it is free text")
    if (rows >= FEW and share > NAMES) or (len(distinct) == len(codes) and _ID.fullmatch(name)):
        return _Found("dropped", f"it names the rows ({len(distinct)} distinct texts in {rows})")
    return _Found("category")


def _decimal_comma(distinct: Any) -> tuple[bool, str]:
    """Whether commas are decimal, or why that is in doubt.

    >>> _decimal_comma(pa.array(["3,14", "2"])), _decimal_comma(pa.array(["1,234", "2"]))
    ((True, ''), (False, "the comma in '1,234' may be one of thousands or of decimals"))
    """
    has = pc.match_substring(distinct, ",")
    commas, others = distinct.filter(has), distinct.filter(pc.invert(has))
    if not len(commas):
        return False, ""

    def share(pattern: str) -> float:
        return float(pc.mean(pc.match_substring_regex(commas, pattern).cast(pa.float64())).as_py())

    doubt = f"the comma in {shortened(commas[0].as_py())} may be one of thousands or of decimals"
    thousands = share(r"^[+-]?[1-9]\d{0,2}([., ']\d{3})+([.,]\d+)?$")
    if share(r"^[+-]?\d*,\d*([eE][+-]?\d+)?$") < ENOUGH:
        return False, doubt if thousands >= ENOUGH else ""
    points = pc.any(pc.match_substring_regex(others, r"^[+-]?\d*\.\d+$")).as_py()
    return (False, doubt) if points or thousands == 1 else (True, "")


def _date(distinct: Any, counts: Codes) -> tuple[str, NDArray[np.datetime64], str]:
    """The form of dates and the dates, or no form and why it is in doubt."""

    def share(moment: NDArray[np.datetime64]) -> float:
        return float(counts[~np.isnat(moment)].sum() / counts.sum())

    moment = moments(distinct, "iso")
    if share(moment) >= ENOUGH:
        return "iso", moment, ""
    found = {form: moments(distinct, form) for form in ("dmy", "mdy")}
    form, other = sorted(found, key=lambda one: share(found[one]), reverse=True)
    if share(found[form]) < ENOUGH:
        return "", moment, ""
    good, rest = ~np.isnat(found[form]), ~np.isnat(found[other])
    if (rest & ~good).any() or (rest == good).all():
        return "", moment, f"{shortened(distinct[0].as_py())} may start with the day or with the month"
    return form, found[form], ""
