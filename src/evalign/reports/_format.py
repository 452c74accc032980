"""Numbers and dates as the page writes them, in Python as in JavaScript."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeVar

Item = TypeVar("Item")

#: Stands in for a number that is undefined.
UNDEFINED = "\u2013"

#: From here on, a number is written with a power of ten.
HUGE = 1e12

#: About how many lines a table has that stands in for a plot.
LINES = 25


def number(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """A number with some digits; halves are rounded up.

    >>> number(0.0625), number(-0.0004, signed=True), number(0.018, signed=True), number(None) == UNDEFINED
    ('0.063', '0.000', '+0.018', True)
    """
    if value is None:
        return UNDEFINED
    if abs(value) >= HUGE:
        return f"{value:{'+' if signed else ''}.3e}".replace("-", "\u2212")
    rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    sign = "\u2212" if rounded < 0 else "+" if signed and rounded > 0 else ""
    return f"{sign}{abs(rounded):f}"


def position(value: float | None) -> str:
    """A threshold, with more digits close to 0 and 1, where its neighbours would look the same.

    >>> position(0.5), position(0.00372), position(0.99973), position(1.0)
    ('0.500', '0.0037', '0.99973', '1.000')
    """
    distance = 0.0 if value is None else min(value, 1 - value)
    return number(value, min(9, max(3, 1 - math.floor(math.log10(distance)))) if distance > 0 else 3)


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval.

    >>> interval(0.0091, 0.027), interval(None, None) == UNDEFINED
    ('0.009 to 0.027', True)
    """
    return UNDEFINED if low is None or high is None else f"{number(low)} to {number(high)}"


def percent(share: float | None) -> str:
    """A share in percent.

    >>> percent(0.9731)
    '97.3 %'
    """
    return UNDEFINED if share is None else f"{number(share * 100, 1)} %"


def count(value: float | None) -> str:
    """An integer with a comma between thousands.

    >>> count(12345)
    '12,345'
    """
    return UNDEFINED if value is None else f"{int(value):,}"


def date(text: str) -> str:
    """A date in ISO format as people write it; any other text stays as it is.

    >>> date("2025-06-01T10:05:00+00:00"), date("yesterday")
    ('1 June 2025, 10:05 UTC', 'yesterday')
    """
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{day.day} {day:%B %Y, %H:%M} {day.tzname() or ''}".strip()


def thin(items: Sequence[Item], also: int | None = None) -> list[Item]:
    """About `LINES` of many items, including both ends and the one at index `also`.

    >>> thin(range(100), also=50)[:4], len(thin(range(100), also=50)), 50 in thin(range(100), also=50)
    ([0, 4, 8, 12], 27, True)
    """
    step = max(1, -(-len(items) // LINES))
    places = {*range(0, len(items), step), len(items) - 1, also}
    return [item for place, item in enumerate(items) if place in places]


def first_upper(text: str) -> str:
    """A text with a capital letter at its beginning.

    >>> first_upper("the new model")
    'The new model'
    """
    return text[:1].upper() + text[1:]


def one_line(text: str) -> str:
    """A text from data on one line."""
    return " ".join(text.split())


def code(text: str) -> str:
    r"""A name as code in Markdown, so that none of its characters is markup.

    >>> code("two\nlines with a `tick`")
    "`two lines with a 'tick'`"
    """
    plain = one_line(text).replace("`", "'")
    return f"`{plain}`"


def cell(text: str) -> str:
    r"""A text as a cell of a table in Markdown.

    >>> cell("a|b")
    '`a\\|b`'
    """
    return code(text).replace("|", "\\|") if text else ""
