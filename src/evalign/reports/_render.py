"""Pages and model cards from a report, by Jinja2 templates."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evalign._errors import expected, show
from evalign._files import write_file
from evalign.reports import _format
from evalign.reports._words import describe_learning
from evalign.reports.facts import Report

#: How a report is written: as a page, as Markdown or as JSON.
Format = Literal["html", "md", "json"]

_START, _END = '<script type="application/json" id="facts">', "</script>"


def render_page(report: Report) -> str:
    """Render a report as one self-contained HTML file, which works offline and printed.

    Parts that are None or empty are left out. Names from data only ever appear as text.

    >>> text = render_page(Report(title="Churn", answer="Use <it>."))
    >>> "Use &lt;it&gt;." in text, "https://" in text.split("<script>")[0]
    (True, False)
    """
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    own = "".join(_read_resource(name) for name in ("plots.js", "costs.js", "page.js"))
    scripts = [get_plotlyjs().replace("\r\n", "\n"), own]
    template = _environment().get_template("report.html.j2")
    return template.render(
        report=report,
        policy=_content_policy(scripts),
        style=Markup(read_style()),  # noqa: S704
        facts=_inline_json(report),
        plotly=Markup(scripts[0]),  # noqa: S704
        script=Markup(scripts[1]),  # noqa: S704
    )


def read_page(path: str | PathLike[str]) -> Report:
    """Read the report back from its page.

    Raises:
        ValueError: If the file is not a page of evalign.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    start = text.find(_START)
    end = text.find(_END, start)
    if start < 0 or end < 0:
        raise expected("path", "to be a report of evalign", show(str(path)))
    return Report.from_json(text[start + len(_START) : end])


def render_text(report: Report) -> str:
    """Render a report as Markdown, without its plots.

    >>> print(render_text(Report(title="Churn", answer="Use it.")))
    # Churn
    <BLANKLINE>
    **Use it.**
    <BLANKLINE>
    """
    text = _environment().get_template("report.md.j2").render(report=report)
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


def write_report(report: Report, path: str | PathLike[str], form: Format = "html") -> None:
    """Write a report as a page, as Markdown or as JSON, completely or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Report(title="Churn"), f"{folder}/report.html")
    ...     read_page(f"{folder}/report.html").title
    'Churn'
    """
    render = {"html": render_page, "md": render_text, "json": Report.to_json}[form]
    file = Path(path)
    if not file.parent.is_dir():
        raise expected("path", "in a folder that exists", show(str(path)))
    write_file(file, render(report).encode(errors="replace"))


def render_card(report: Report, threshold: float | None = None) -> str:
    """Render the model card: the README.md of a model folder.

    Args:
        report: The report of `evalign fit`, with all its parts.
        threshold: The probability from which the model predicts the positive class, if it decides by one.
    """
    return _environment().get_template("card.md.j2").render(report=report, threshold=threshold)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read_resource),
        autoescape=select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = (
        _format.number, _format.position, _format.interval, _format.percent, _format.count, _format.date,
        _format.thin, _format.one_line, _format.code, _format.cell,
        _format.first_upper, describe_learning,
    )  # fmt: skip
    environment.filters.update({one.__name__: one for one in filters})
    return environment


def _read_resource(name: str) -> str:
    return resources.files("evalign.reports").joinpath(name).read_text(encoding="utf-8")


def _inline_json(report: Report) -> Markup:
    """JSON in which nothing can end the element that contains it."""
    text = report.to_json()
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def read_style() -> str:
    """The style of all pages: colours for light and dark, text, tables and controls."""
    return _read_resource("page.css")


def hash_source(text: str) -> str:
    """A script or style as a content security policy allows it: by its digest.

    >>> hash_source("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _content_policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is fetched from anywhere."""
    sources = " ".join(map(hash_source, scripts))
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {sources}; {rest}"
