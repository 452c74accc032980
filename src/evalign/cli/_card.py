"""The model card: what a model is, for whom finds its folder."""

from __future__ import annotations

from typing import Any

from evalign.cli._console import number
from evalign.tables import TableModel

#: A card names so many columns, and so many classes.
MOST = 50


def card(model: TableModel, facts: dict[str, Any]) -> str:
    """The README.md of a model folder."""
    told, task, data = model.facts, facts["task"], facts["data"]
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    lines = [
        f"# A classifier of {_code(told['target'])}",
        "",
        _line(facts["answer"]),
        "",
        *_what(model, facts),
        "",
        *_judged(facts["models"][0]),
        "",
        *_notes(data["warnings"]),
        "## Use it",
        "",
        "```console",
        "$ evalign predict . new.csv --out predictions.csv --proba",
        "$ evalign evaluate . labelled.csv",
        "```",
        "",
        "New rows need the columns named above; others are ignored. `report.html` shows more, and",
        "`model.json` holds all of this for machines. Nothing in this folder is executed when it is loaded,",
        "and a part that was changed is refused.",
        "",
        "## Made by",
        "",
        _code(facts["command"]),
        "",
        f"on {facts['created'][:10]} from {data['rows']:,} rows of {_code(task['file'])} (fingerprint "
        f"{told['fingerprint'][:16]}), seed {told['seed']}, with {versions}.",
    ]
    return "\n".join(lines) + "\n"


def _what(model: TableModel, facts: dict[str, Any]) -> list[str]:
    task, best, counts = facts["task"], facts["models"][0], facts["data"]["class_counts"]
    classes = [f"{_code(name)} ({counts[name]:,} rows)" for name in model.labels]
    columns = [f"{_code(column.name)} ({column.kind})" for column in model.schema.inputs]
    bounds = " and ".join(map(_code, task["constraints"]))
    judged = f"{_code(task['metric'])}{' with ' if bounds else ''}{bounds}"
    positive = f"; {_code(task['positive'])} is the positive one" if task["positive"] else ""
    thresholds, decides = getattr(getattr(model.classifier, "rule_", None), "thresholds", None), ""
    if thresholds is not None and task["positive"]:
        decides = f"; it predicts {_code(task['positive'])} from a probability of {thresholds[0]:.3f} on"
    return [
        f"- **Method**: {model.facts['method']}, {best['description']}{decides}.",
        f"- **Judged by**: {judged}, {'more' if best['higher_is_better'] else 'less'} is better.",
        f"- **Classes**: {_listed(classes)}{positive}.",
        f"- **Columns**: {_listed(columns)}.",
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return f"{', '.join(names[:MOST])}{more}"


def _judged(best: dict[str, Any]) -> list[str]:
    rows = [
        f"| {_code(name)} | {number(one['value'])} | {number(one['low'])} to {number(one['high'])} |"
        for name, one in best["metrics"].items()
    ]
    bounds = [
        f"- {_code(name)}: {'kept' if one['satisfied'] else 'not kept'}, {number(one['value'])}"
        for name, one in best["constraints"].items()
    ]
    return [
        "## How good it is",
        "",
        f"On {best['rows']:,} rows set aside, by a model of the same method trained on the other rows:",
        "",
        "| metric | value | 95 % interval |",
        "|---|---|---|",
        *rows,
        *(["", *bounds] if bounds else []),
        "",
        "These rows come from the same file. Judge the model on newer ones before you rely on it.",
    ]


def _notes(warnings: list[str]) -> list[str]:
    if not warnings:
        return []
    return ["## Notes on the data", "", *(f"- {_line(warning)}" for warning in warnings), ""]


def _line(text: str) -> str:
    """A text of the data in one line."""
    return " ".join(text.split())


def _code(text: str) -> str:
    r"""A name as code: no sign in it is one of Markdown.

    >>> _code("two\nlines with a `tick`")
    "`two lines with a 'tick'`"
    """
    plain = _line(text).replace("`", "'")
    return f"`{plain}`"
