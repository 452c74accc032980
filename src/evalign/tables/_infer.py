"""Inferring the kinds of columns from all their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign._errors import expected, suggest
from evalign._typing import Floats, Indices
from evalign.tables import _values
from evalign.tables._columns import CHARACTERS, KINDS, MANY, MOST_CATEGORIES, Column, check_table, shorten
from evalign.tables._dates import parse_timestamps

#: The least share of values that must be of a kind for the column to be; the others are read as missing.
_KIND_SHARE = 0.95
#: In fewer rows, it means nothing that all values differ.
_MIN_ROWS = 20
#: Above this share of distinct texts, a column identifies the rows.
_IDENTIFIER_SHARE = 0.9
#: Above this share of distinct texts with at least this many words on average, a column is free text.
_PROSE_SHARE, _PROSE_WORDS = 0.5, 4
#: A character of a script without spaces counts as a word.
_NO_SPACES = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"on", "off"})
_IDENTIFIER = re.compile(
    r"(?i:id|uuid|guid|index|key|row|row[ _-]?(id|number|nr|no)|unnamed: 0|column 1)"
    r"|.*([ _-](?i:id|uuid|guid)|[a-z](Id|ID))"
)


@dataclass
class _Inference:
    """What the values of a column reveal about it."""

    kind: str
    note: str = ""
    format: str = ""
    warnings: list[str] = field(default_factory=list)


def infer_columns(
    table: Any, target: str, kinds: Mapping[str, str]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Infer the columns of a raw table except its target, and warnings; see `Schema.infer`."""
    check_table(table)
    for name in kinds:
        if name not in table.columns or name == target:
            raise expected("kinds", "of columns to learn from", repr(name), suggest(name, table.columns))
    if target not in table.columns:
        raise expected("target", "to be a column", repr(target), suggest(str(target), table.columns))
    if not len(table):
        raise expected("table", "with rows", "none")
    columns, warnings, inputs = [], [], {}
    for name in table.columns.drop(target):
        inference = _infer_column(name, table[name], kinds.get(name))
        column = Column(name, inference.kind, inference.note, inference.format)
        columns.append(column)
        if column.kind == "dropped":
            warnings.append(f"`{name}` was left out: {column.note}.")
            continue
        warnings += [f"`{name}` {warning}." for warning in inference.warnings]
        inputs[name] = column.convert(table[name])
        missing = int(pd.isna(inputs[name]).sum())
        if missing > 0.5 * len(table):
            warnings.append(f"`{name}` is missing in {missing} of {len(table)} rows.")
    if not inputs:
        reasons = " ".join(warnings)
        raise expected("table", "with a column to learn from", f"none besides {target!r}", reasons)
    classes = _values.as_categories(_values.as_arrow(table[target]))
    warnings += [
        f"`{name}` determines `{target}`: will it be known when predicting?"
        for name in _find_leaks(inputs, classes)
    ]
    copies = int(pd.DataFrame({**inputs, target: classes}).duplicated().sum())
    if copies:
        duplicates = f"{copies} of {len(table)} rows are duplicates"
        warnings.append(f"{duplicates}: copies in both training and test rows inflate scores.")
    return tuple(columns), tuple(warnings)


def _find_leaks(inputs: dict[str, Any], classes: NDArray[np.object_]) -> list[str]:
    """The columns that are the target under another name."""
    if len(classes) < _MIN_ROWS:
        return []
    codes, distinct = pd.factorize(classes, use_na_sentinel=False)
    leaks = []
    for name, values in inputs.items():
        others, categories = pd.factorize(values, use_na_sentinel=False)
        if len(categories) == len(distinct) == len(np.unique(others * len(distinct) + codes)):
            leaks.append(name)
    return leaks


def _infer_column(name: str, column: Any, kind: str | None) -> _Inference:
    values = _values.as_arrow(column)
    if kind is not None:
        return _impose_kind(name, values, kind)
    if pa.types.is_timestamp(values.type):
        return _drop_if_constant(_Inference("date", format="iso"), _values.parse_dates(values, "iso")[0])
    numbers, invalid = _values.parse_numbers(values)
    if not invalid.any():
        return _infer_number(name, numbers)
    distinct, codes = _values.encode(_values.clean_text(values))
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    return _infer_text(name, distinct, codes, counts)


def _impose_kind(name: str, values: Any, kind: str) -> _Inference:
    """Infer only the format of a column, whose kind the user knows."""
    if kind not in KINDS:
        raise expected("kinds", f"to be {', '.join(KINDS)}", repr(kind), suggest(kind, KINDS))
    if kind == "dropped":
        return _Inference("dropped", "as the user said")
    if kind in ("category", "text"):
        distinct, _ = _values.encode(_values.clean_text(values))
        return _Inference(kind, format=_find_format(distinct) if kind == "text" else _count(distinct))
    if kind in ("number", "date") and not pa.types.is_large_string(values.type):
        return _Inference(kind, format="iso" if kind == "date" else "")
    distinct, codes = _values.encode(_values.clean_text(values))
    if kind == "number":
        return _Inference(kind, format="," if _detect_decimal_comma(distinct)[0] else "")
    if kind == "boolean":
        return _Inference(kind)
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    date_format, _, doubt = _detect_dates(distinct, counts)
    if not date_format:
        raise expected("kinds", f"that suit the values of {name!r}", f"date ({doubt or 'no dates'})")
    return _Inference(kind, format=date_format)


def _infer_text(name: str, distinct: Any, codes: Indices, counts: Indices) -> _Inference:
    """Infer the kind of a column of text from its distinct values and their counts."""
    comma, doubt = _detect_decimal_comma(distinct)
    numbers, invalid = _values.parse_numbers(distinct, comma)
    share = counts[~invalid].sum() / counts.sum()
    if share >= _KIND_SHARE:
        inference = _infer_number(name, np.append(numbers, np.nan)[codes])
        inference.format = "," if comma and inference.kind == "number" else ""
        return _note_invalid(inference, distinct, invalid, counts)
    if len(distinct) <= 10 and {text.casefold() for text in distinct.to_pylist()} in _BOOLEANS:
        return _Inference("boolean")
    date_format, dates, ambiguity = _detect_dates(distinct, counts)
    if date_format:
        inference = _Inference("date", format=date_format)
        inference = _drop_if_constant(inference, np.append(dates, np.datetime64("NaT"))[codes])
        return _note_invalid(inference, distinct, np.isnat(dates), counts)
    inference = _infer_category(name, distinct, codes)
    doubt = doubt or ambiguity
    if doubt and inference.kind == "dropped":
        inference.note += f"; {doubt}"
    elif doubt:
        inference.warnings.append(f"is treated as text: {doubt}")
    elif share > 1 - _KIND_SHARE and inference.kind == "category":
        inference.warnings.append(f"mixes numbers ({share:.0%}) and text, and is treated as text")
    return inference


def _note_invalid(
    inference: _Inference, distinct: Any, invalid: NDArray[np.bool_], counts: Indices
) -> _Inference:
    """Note which values are not of the column's kind."""
    if invalid.any() and inference.kind != "dropped":
        most = int(np.flatnonzero(invalid)[np.argmax(counts[invalid])])
        count = int(counts[invalid].sum())
        values = f"{count} value{'s' * (count > 1)} such as {shorten(distinct[most].as_py())}"
        inference.note = f"{values} read as missing"
        inference.warnings.append(f"contains {inference.kind}s; {inference.note}")
    return inference


def _infer_number(name: str, values: Floats) -> _Inference:
    present = values[~np.isnan(values)]
    inference = _drop_if_constant(_Inference("number"), values)
    if inference.kind == "dropped" or present.size < values.size or (present != np.round(present)).any():
        return inference
    ordered = np.sort(present)
    if (ordered[1:] == ordered[:-1]).any():
        return inference
    steps = np.diff(ordered)
    is_counter = present.size >= _MIN_ROWS and (steps == steps[0]).all()
    if is_counter or _IDENTIFIER.fullmatch(name):
        return _Inference("dropped", "it numbers the rows")
    return inference


def _drop_if_constant(inference: _Inference, values: NDArray[Any]) -> _Inference:
    present = values[~pd.isna(values)]
    if not present.size:
        return _Inference("dropped", "all its values are missing")
    if present.size == values.size and (present == present[0]).all():
        return _Inference("dropped", "it is constant")
    return inference


def _infer_category(name: str, distinct: Any, codes: Indices) -> _Inference:
    rows = int((codes >= 0).sum())
    share = len(distinct) / rows
    if len(distinct) == 1 and rows == len(codes):
        return _Inference("dropped", "it is constant")
    if rows >= _MIN_ROWS and share > _PROSE_SHARE and _count_words(distinct) >= _PROSE_WORDS:
        return _Inference("text", format=_find_format(distinct))
    is_unique = len(distinct) == len(codes)
    if (rows >= _MIN_ROWS and share > _IDENTIFIER_SHARE) or (is_unique and _IDENTIFIER.fullmatch(name)):
        return _Inference(
            "dropped", f"it identifies the rows ({len(distinct)} distinct texts in {rows} rows)"
        )
    return _Inference("category", format=_count(distinct))


def _count(distinct: Any) -> str:
    """The format of a column of categories: whether they are too many for a feature each."""
    return MANY if len(distinct) > MOST_CATEGORIES else ""


def _count_words(distinct: Any, pattern: str = rf"[^\s{_NO_SPACES}]+|[{_NO_SPACES}]") -> float:
    """The mean number of words of texts.

    >>> _count_words(pa.array(["to be or", "not"])), _count_words(pa.array(["\u6211\u559c\u6b22"]))
    (2.0, 3.0)
    """
    return float(pc.mean(pc.count_substring_regex(distinct, pattern)).as_py() or 0.0)


def _find_format(distinct: Any) -> str:
    """The format of texts: whether most of their words are single characters of a script without spaces."""
    alone = _count_words(distinct, rf"[{_NO_SPACES}]")
    return CHARACTERS if alone > 0.5 * _count_words(distinct) else ""


def _detect_decimal_comma(distinct: Any) -> tuple[bool, str]:
    """Whether commas are decimal, or why that is in doubt.

    >>> _detect_decimal_comma(pa.array(["3,14", "2"])), _detect_decimal_comma(pa.array(["1,234", "2"]))
    ((True, ''), (False, "the comma in '1,234' may separate thousands or decimals"))
    """
    has_comma = pc.match_substring(distinct, ",")
    commas, others = distinct.filter(has_comma), distinct.filter(pc.invert(has_comma))
    if not len(commas):
        return False, ""

    def share(pattern: str) -> float:
        return float(pc.mean(pc.match_substring_regex(commas, pattern).cast(pa.float64())).as_py())

    doubt = f"the comma in {shorten(commas[0].as_py())} may separate thousands or decimals"
    thousands = share(r"^[+-]?[1-9]\d{0,2}([., ']\d{3})+([.,]\d+)?$")
    if share(r"^[+-]?\d*,\d*([eE][+-]?\d+)?$") < _KIND_SHARE:
        return False, doubt if thousands >= _KIND_SHARE else ""
    has_points = pc.any(pc.match_substring_regex(others, r"^[+-]?\d*\.\d+$")).as_py()
    return (False, doubt) if has_points or thousands == 1 else (True, "")


def _detect_dates(distinct: Any, counts: Indices) -> tuple[str, NDArray[np.datetime64], str]:
    """The format of dates and the dates, or no format and why it is in doubt."""

    def share(dates: NDArray[np.datetime64]) -> float:
        return float(counts[~np.isnat(dates)].sum() / counts.sum())

    iso = parse_timestamps(distinct, "iso")
    if share(iso) >= _KIND_SHARE:
        return "iso", iso, ""
    dates = {name: parse_timestamps(distinct, name) for name in ("dmy", "mdy")}
    best, other = sorted(dates, key=lambda name: share(dates[name]), reverse=True)
    if share(dates[best]) < _KIND_SHARE:
        return "", iso, ""
    valid, also_valid = ~np.isnat(dates[best]), ~np.isnat(dates[other])
    if (also_valid & ~valid).any() or (also_valid == valid).all():
        return "", iso, f"{shorten(distinct[0].as_py())} may start with the day or the month"
    return best, dates[best], ""
