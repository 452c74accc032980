"""`evalign report`: the page of a model, made anew from what was kept of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evalign._errors import expected
from evalign.cli._console import Console, running, usage
from evalign.cli._folder import check_file
from evalign.reports import write
from evalign.tables import TableModel


def run(console: Console, model: Path, out: Path | None) -> None:
    """Read what the model knows, and write the page."""
    path = out or model / "report.html"
    with usage():
        TableModel.load(model)
        facts = _facts(model)
        check_file(path)
    with running():
        write(facts, path)
    console.result({"report": str(path)})
    console.say(f"Report: {path}")


def _facts(model: Path) -> dict[str, Any]:
    try:
        facts = json.loads((model / "report.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise expected("model", "with report.json", f"{model} without") from None
    except (ValueError, RecursionError) as error:
        raise expected("model", "with a readable report.json", f"{model} ({error})") from None
    if not isinstance(facts, dict):
        raise expected("model", "with facts in report.json", type(facts).__name__)
    return facts
