"""Dates and times as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_TIME = (
    r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?$"
)
#: How a date is written: year first, day first or month first. A point is put behind days, not months.
FORMS = {
    "iso": r"^(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})" + _TIME,
    "dmy": r"^(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4})" + _TIME,
    "mdy": r"^(?P<month>\d{1,2})[-/](?P<day>\d{1,2})[-/](?P<year>\d{4})" + _TIME,
}


def moments(text: Any, form: str) -> NDArray[np.datetime64]:
    """Moments in UTC from texts of one form, NaT where one is not a date.

    >>> moments(pa.array(["2020-02-29T12:00+01:00", "2021-02-29"]), "iso").astype(str).tolist()
    ['2020-02-29T11:00:00.000000', 'NaT']
    """
    found = pc.extract_regex(text, FORMS[form])
    year, month, day, hour, minute, second = (
        _digits(pc.struct_field(found, name)) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(found, "fraction"), 6, "0"), 0, 6)
    noon = _each(pc.struct_field(found, "half"), {"": -1, "am": 0, "pm": 12}.__getitem__)
    ahead = _each(pc.struct_field(found, "zone"), _offset)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (minute <= 59) & (second <= 59)
    good &= np.where(noon < 0, hour <= 23, (hour >= 1) & (hour <= 12))
    hour = np.where(noon < 0, hour, hour % 12 + noon)
    first = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (day - 1)
    good &= date.astype("datetime64[M]") == first  # there is no 30th of February
    seconds = 60 * (60 * hour + minute - ahead) + second
    moment = date.astype("datetime64[us]") + 1_000_000 * seconds + _digits(fraction)
    moment[~good] = np.datetime64("NaT")
    return np.asarray(moment)


def _digits(text: Any) -> NDArray[np.int64]:
    """Numbers, 0 where there are no digits."""
    text = pc.if_else(pc.equal(text, ""), pa.scalar("0", text.type), text).fill_null("0")
    return np.asarray(text.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _each(text: Any, meaning: Callable[[str], int]) -> NDArray[np.int64]:
    """What each of a few distinct texts means, in lower case."""
    found = pc.utf8_lower(text.fill_null("")).dictionary_encode()
    table = np.array([meaning(one) for one in found.dictionary.to_pylist()], dtype=np.int64)
    return np.asarray(table[found.indices.to_numpy(zero_copy_only=False)], dtype=np.int64)


def _offset(zone: str) -> int:
    """Minutes ahead of UTC.

    >>> _offset("+05:30"), _offset("-0800"), _offset("z")
    (330, -480, 0)
    """
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (1 if zone[0] == "+" else -1) * (60 * int(digits[:2]) + int(digits[2:]))
