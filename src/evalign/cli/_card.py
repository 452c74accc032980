"""The model card: what a model is, for whom finds its folder."""

from __future__ import annotations

from typing import Any

from evalign.tables import TableModel


def card(model: TableModel, facts: dict[str, Any]) -> str:
    """The README.md of a model folder."""
    told, task, data, best = model.facts, facts["task"], facts["data"], facts["models"][0]
    positive = f"; positive is {task['positive']}" if task["positive"] else ""
    columns = ", ".join(column.name for column in model.schema.kept)
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    notes = [f"- {warning}" for warning in data["warnings"]]
    notes = ["Notes on the data:", "", *notes, ""] if notes else []
    lines = [
        f"# A classifier of `{told['target']}`",
        "",
        facts["answer"],
        "",
        f"- **Method**: {told['method']}, {best['description']}.",
        f"- **Judged by**: {' and '.join([task['metric'], *task['constraints']])}.",
        f"- **Classes**: {', '.join(model.labels)}{positive}.",
        f"- **Trained on**: {data['rows']:,} rows of {task['file']}, seed {told['seed']}.",
        f"- **Columns**: {columns}.",
        "",
        f"On {best['rows']:,} rows set aside, with 95 % bootstrap intervals, by a model of the same method",
        "that was trained on the other rows:",
        "",
        "| metric | value | interval |",
        "|---|---|---|",
        *(
            f"| {name} | {one['value']:.3f} | {one['low']:.3f} to {one['high']:.3f} |"
            for name, one in best["metrics"].items()
        ),
        "",
        *notes,
        "```console",
        "$ evalign predict . new.csv --out predictions.csv",
        "$ evalign evaluate . labelled.csv",
        "```",
        "",
        f"Made by `{facts['command']}` with {versions}.",
    ]
    return "\n".join(lines) + "\n"
