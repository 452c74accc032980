"""Parsing dates and times as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalign._typing import Indices

_TIME = (
    r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?$"
)
#: Dates with the year, the day or the month first. A dot follows days, never months.
DATE_FORMATS = {
    "iso": r"^(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})" + _TIME,
    "dmy": r"^(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4})" + _TIME,
    "mdy": r"^(?P<month>\d{1,2})[-/](?P<day>\d{1,2})[-/](?P<year>\d{4})" + _TIME,
}


def parse_timestamps(text: Any, date_format: str) -> NDArray[np.datetime64]:
    """Parse texts of one format as timestamps in UTC; NaT where a text is not such a date.

    >>> parse_timestamps(pa.array(["2020-02-29T12:00+01:00", "2021-02-29"]), "iso").astype(str).tolist()
    ['2020-02-29T11:00:00.000000', 'NaT']
    """
    match = pc.extract_regex(text, DATE_FORMATS[date_format])
    year, month, day, hour, minute, second = (
        _parse_digits(pc.struct_field(match, name))
        for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(match, "fraction"), 6, "0"), 0, 6)
    half = _map_distinct(pc.struct_field(match, "half"), {"": -1, "am": 0, "pm": 12}.__getitem__)
    offset = _map_distinct(pc.struct_field(match, "zone"), _utc_offset)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (minute <= 59) & (second <= 59)
    valid &= np.where(half < 0, hour <= 23, (hour >= 1) & (hour <= 12))
    hour = np.where(half < 0, hour, hour % 12 + half)
    first = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (day - 1)
    valid &= date.astype("datetime64[M]") == first  # there is no 30th of February
    seconds = 60 * (60 * hour + minute - offset) + second
    timestamp = date.astype("datetime64[us]") + 1_000_000 * seconds + _parse_digits(fraction)
    timestamp[~valid] = np.datetime64("NaT")
    return np.asarray(timestamp)


def _parse_digits(text: Any) -> Indices:
    """Parse digits as integers, 0 where there are none."""
    text = pc.if_else(pc.equal(text, ""), pa.scalar("0", text.type), text).fill_null("0")
    return np.asarray(text.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _map_distinct(text: Any, function: Callable[[str], int]) -> Indices:
    """Map lower-case texts to integers, calling the function once per distinct text."""
    encoded = pc.utf8_lower(text.fill_null("")).dictionary_encode()
    table = np.array([function(value) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    return np.asarray(table[encoded.indices.to_numpy(zero_copy_only=False)], dtype=np.int64)


def _utc_offset(zone: str) -> int:
    """The minutes by which a zone is ahead of UTC.

    >>> _utc_offset("+05:30"), _utc_offset("-0800"), _utc_offset("z")
    (330, -480, 0)
    """
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (1 if zone[0] == "+" else -1) * (60 * int(digits[:2]) + int(digits[2:]))
