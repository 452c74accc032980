"""The page at `/`: rows in, predictions out; one self-contained answer under a strict policy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from evalign.reports import hash_source, read_style
from evalign.tables import TableModel


@dataclass(frozen=True)
class Page:
    """The page, and the policy that it is sent with."""

    html: str
    policy: str


def render_page(model: TableModel, max_rows: int) -> Page:
    """Render the page of a model. Names from data only ever appear as text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = read_style() + _read_resource("page.css"), _read_resource("page.js")
    facts: dict[str, object] = {"classes": list(model.labels), "threshold": model.threshold}
    html = environment.from_string(_read_resource("page.html.j2")).render(
        target=model.facts["target"],
        metric=model.facts["metric"],
        classes=model.labels,
        threshold=model.threshold,
        columns=model.schema.inputs,
        example=_format_header([column.name for column in model.schema.inputs]),
        max_rows=max_rows,
        facts=_inline_json(facts),
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
    )
    policy = (
        f"default-src 'none'; script-src {hash_source(script)}; style-src {hash_source(style)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html, policy)


def _format_header(names: list[str]) -> str:
    """The first line of a CSV file with these columns.

    >>> _format_header(["age", "a,b"])
    'age,"a,b"'
    """
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return ",".join(
        text if set(name) & set(',;|\t\r\n"') else name for name, text in zip(names, quoted, strict=True)
    )


def _inline_json(facts: dict[str, object]) -> Markup:
    """JSON in which nothing can end the element that contains it."""
    text = json.dumps(facts)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def _read_resource(name: str) -> str:
    return resources.files("evalign.cli.serving").joinpath(name).read_text(encoding="utf-8")
