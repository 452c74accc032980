"""`page`: one HTML file that holds all it shows, and asks nobody for more."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from evalign._errors import expected, show
from evalign._files import write_file
from evalign.reports import _decisions, _plots, _sections
from evalign.reports._held import plain
from evalign.reports._html import Html, join, tag

#: The parts of the page, in order.
PARTS = (
    _sections.asked, _sections.answer, _sections.comparison, _decisions.matrices, _plots.curves,
    _decisions.slider, _plots.training, _plots.calibration, _decisions.per_class, _sections.data,
    _sections.origin,
)  # fmt: skip

_START, _END = '<script type="application/json" id="facts">', "</script>"


def page(facts: dict[str, Any]) -> str:
    """A report as one self-contained HTML file: no request leaves it, and it works offline and printed.

    Whatever part of the facts is missing or None is left out. Names from data are only ever shown as text.

    >>> text = page({"title": "Churn", "answer": "Use <it>.", "models": []})
    >>> "Use &lt;it&gt;." in text, "https://" in text.split("<script>")[0]
    (True, False)
    """
    from plotly.offline import get_plotlyjs

    facts = plain(facts)
    try:
        sections = join(*(part(facts) for part in PARTS))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise expected("facts", "of the form of a report", repr(error)[:80]) from error
    scripts = [get_plotlyjs().replace("\r\n", "\n"), _resource("plots.js") + _resource("page.js")]
    title = str(facts.get("title") or "evalign report")
    parts = {
        "policy": _policy(scripts),
        "title": join(title),
        "created": tag("p", _sections.date(facts["created"]), class_="created")
        if facts.get("created")
        else Html(""),
        "style": _resource("page.css"),
        "sections": sections,
        "facts": _json(facts),
        "plotly": scripts[0],
        "script": scripts[1],
    }
    # One pass, so that a name in the data that looks like a place is no place.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _resource("page.html"))


def write(facts: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write the page of some facts, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write({"title": "Churn"}, f"{folder}/report.html")
    ...     facts_of(Path(folder, "report.html"))
    {'title': 'Churn'}
    """
    file = Path(path)
    if not file.parent.is_dir():
        raise expected("path", "in a folder that is there", show(str(path)))
    write_file(file, page(facts).encode(errors="replace"))


def facts_of(page: str | PathLike[str]) -> dict[str, Any]:
    """The facts that a page was made of, from its text or its file.

    >>> facts_of('<script type="application/json" id="facts">{"seed": 0}</script>')
    {'seed': 0}
    """
    given = isinstance(page, str) and "<" in page
    text = str(page) if given else Path(page).read_text(encoding="utf-8", errors="replace")
    start = text.find(_START)
    end = text.find(_END, start)
    if start < 0 or end < 0:
        raise expected("page", "to be a report of evalign", show(str(page)[:60]))
    try:
        facts = json.loads(text[start + len(_START) : end])
    except (ValueError, RecursionError) as error:
        raise expected("page", "with readable facts", str(error)[:80]) from None
    if not isinstance(facts, dict):
        raise expected("page", "with facts by name", type(facts).__name__)
    return facts


def _resource(name: str) -> str:
    return resources.files("evalign.reports").joinpath(name).read_text(encoding="utf-8")


def _json(facts: dict[str, Any]) -> str:
    """JSON in which nothing can end the element that holds it."""
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is fetched from anywhere."""
    sums = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    known = " ".join(f"'sha256-{one}'" for one in sums)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {known}; {rest}"
