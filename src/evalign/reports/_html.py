"""HTML that is safe by default: whatever is not made here is text, and is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from evalign._errors import is_number

#: What stands where there is no number.
NOTHING = "\u2013"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element; children that are not `Html` are escaped, attributes that are None are left out.

    >>> tag("p", "a < b", tag("b", 1), class_="note", title='"')
    '<p class="note" title="&quot;">a &lt; b<b>1</b></p>'
    """
    words = ""
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words += f" {key}"
        elif value is not None and value is not False:
            words += f' {key}="{html.escape(str(value))}"'
    return Html(f"<{name}{words}>{join(*children)}</{name}>")


def join(*children: Any) -> Html:
    """Children one after the other; None is nothing.

    >>> join("&", None, Html("<br>"))
    '&amp;<br>'
    """
    parts = (one if isinstance(one, Html) else html.escape(str(one)) for one in children if one is not None)
    return Html("".join(parts))


def number(value: Any, digits: int = 3, signed: bool = False) -> str:
    """A number as the page writes it, in Python as in JavaScript: halves are rounded up.

    >>> number(0.0625), number(-0.0004, signed=True), number(0.018, signed=True), number(None) == NOTHING
    ('0.063', '0.000', '+0.018', True)
    """
    if not is_number(value):
        return NOTHING
    rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    sign = "\u2212" if rounded < 0 else "+" if signed and rounded > 0 else ""
    return f"{sign}{abs(rounded):f}"


def position(value: Any) -> str:
    """A threshold, with more digits near 0 and 1, where it could not be told from its neighbours.

    >>> position(0.5), position(0.00372), position(0.99973), position(1.0)
    ('0.500', '0.0037', '0.99973', '1.000')
    """
    near = min(value, 1 - value) if is_number(value) else 0
    return number(value, min(9, max(3, 1 - math.floor(math.log10(near)))) if near > 0 else 3)


def interval(low: Any, high: Any) -> str:
    """Both ends of an interval.

    >>> interval(0.0091, 0.027), interval(None, None) == NOTHING
    ('0.009 to 0.027', True)
    """
    return f"{number(low)} to {number(high)}" if is_number(low) and is_number(high) else NOTHING


def percent(share: Any) -> str:
    """A share in percent.

    >>> percent(0.9731)
    '97.3 %'
    """
    return f"{number(share * 100, 1)} %" if is_number(share) else NOTHING


def count(value: Any) -> str:
    """A whole number with its thousands apart.

    >>> count(12345)
    '12,345'
    """
    return f"{int(value):,}" if is_number(value) else NOTHING


def table(
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    caption: str,
    *,
    texts: int = 1,
) -> Html:
    """A table in a box of its own that scrolls; the first `texts` columns are words, the others numbers.

    >>> '<th scope="row">&lt;b&gt;</th><td>1</td>' in table(["name", "rows"], [["<b>", 1]], "Names")
    True
    """
    kinds = ["word" if place < texts else None for place in range(len(head))]
    top = tag("tr", *(tag("th", one, scope="col", class_=k) for one, k in zip(head, kinds, strict=True)))
    body = [
        tag("tr", tag("th", row[0], scope="row"),
            *(tag("td", one, class_=k) for one, k in zip(row[1:], kinds[1:], strict=True)))
        for row in rows
    ]  # fmt: skip
    return scrolled(tag("table", tag("thead", top), tag("tbody", *body)), caption)


def scrolled(inner: Html, label: str, visible: bool = True) -> Html:
    """A table in a box that scrolls by itself, by keyboard too, so that the page never has to."""
    caption = tag("p", label, class_="caption" if visible else "hidden")
    return join(caption, tag("div", inner, class_="scroll", role="region", aria_label=label, tabindex="0"))


def details(summary: str, inner: Html) -> Html:
    """What is folded away until asked for."""
    return tag("details", tag("summary", summary), inner)


def plot(name: str, label: str, numbers: Html | None, note: Any = None) -> Html:
    """The place of a plot, with its alternative: a sentence with the essential numbers, and a table."""
    return tag(
        "figure",
        tag("div", class_="plot", id=f"plot-{name}", role="img", aria_label=label),
        None if note is None else tag("figcaption", note),
        None if numbers is None else details("The numbers as a table", numbers),
    )
