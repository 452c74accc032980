"""Dates and times as people write them."""

from __future__ import annotations

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

    def part(name: str) -> NDArray[np.int64]:
        digits = pc.struct_field(found, name)
        digits = pc.if_else(pc.equal(digits, ""), "0", digits).fill_null("0")
        return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def written(name: str) -> NDArray[np.str_]:
        return np.array(pc.struct_field(found, name).fill_null("").to_pylist(), dtype=str)

    year, month, day = part("year"), part("month"), part("day")
    hour, minute, second = part("hour"), part("minute"), part("second")
    half = np.char.lower(written("half"))
    good = (month >= 1) & (month <= 12) & (day >= 1) & (minute <= 59) & (second <= 59)
    good &= np.where(half == "", hour <= 23, (hour >= 1) & (hour <= 12))
    hour = np.where(half == "", hour, hour % 12 + 12 * (half == "pm"))
    first = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (day - 1)
    good &= date.astype("datetime64[M]") == first  # there is no 30th of February
    micro = np.array([int(digits[:6].ljust(6, "0")) for digits in written("fraction")], dtype=np.int64)
    minutes = 60 * hour + minute - np.array([_offset(zone) for zone in written("zone")], dtype=np.int64)
    moment = date.astype("datetime64[us]") + (60 * minutes + second) * 1_000_000 + micro
    moment[~good] = np.datetime64("NaT")
    return np.asarray(moment)


def _offset(zone: str) -> int:
    """Minutes ahead of UTC.

    >>> _offset("+05:30"), _offset("-0800"), _offset("Z")
    (330, -480, 0)
    """
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (1 if zone[0] == "+" else -1) * (60 * int(digits[:2]) + int(digits[2:]))
