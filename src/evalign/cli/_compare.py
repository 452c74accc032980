"""`evalign compare`: which method is best for a metric on a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalign import estimators
from evalign._errors import expected
from evalign.cli._console import Console, usage
from evalign.cli._evidence import on_rows_set_aside, origin
from evalign.cli._task import Task, methods_of, task_of
from evalign.estimators._comparison import Comparison
from evalign.reports import comparison_facts, write


def run(
    console: Console, data: str, target: str, metric: str, positive: str | None, constraints: Sequence[str],
    methods: str | None, repeats: int, test_size: float, jobs: int, seed: int, out: Path,
) -> None:  # fmt: skip
    """Compare, and write the report."""
    names = methods_of(methods)
    with usage():
        if not 0 < test_size < 1:
            raise expected("test_size", "in (0, 1)", test_size)
        task = task_of(console, data, target, metric, positive, constraints)
        made = folder(out)
    found = estimators.compare(
        task.X, task.y, task.metric, names, repeats, test_size, jobs, seed, constraints=task.constraints,
        results=made / f"trials-{identity(task)}.jsonl", verbose=console.live,
        prepare=task.preparation(),
    )  # fmt: skip
    show(console, found)
    models = on_rows_set_aside(console, task, found.best, "best", names, seed, test_size)
    facts = {
        **origin(f"{target}: which method for {task.metric.name}?", found.advice, seed),
        **task.facts(),
        "comparison": comparison_facts(found),
        "models": models,
    }
    report = made / "report.html"
    write(facts, report)
    (made / "comparison.json").write_text(found.to_json(), encoding="utf-8")
    console.result({**summary(found), "report": str(report), "warnings": list(task.warnings)})
    console.say(f"Report: {report}")


def folder(out: Path) -> Path:
    """The folder for a report, made if it is not there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".evalign"
        probe.touch()
        probe.unlink()
    except (FileExistsError, NotADirectoryError):
        raise expected("out", "to be a folder", f"the file {out}") from None
    except OSError as error:
        raise expected("out", "to be a folder that can be written", f"{out} ({error.strerror})") from None
    return out


def identity(task: Task) -> str:
    """Names the file of finished trials: another table or metric gets another file."""
    parts = [task.fingerprint, task.target, task.metric.name, *(one.name for one in task.constraints)]
    return hashlib.sha256("\n".join([*parts, *task.labels]).encode()).hexdigest()[:12]


def show(console: Console, found: Comparison) -> None:
    """Print a comparison: the table, and the advice."""
    bounds = " and ".join(found.constraints)
    head = [
        "method",
        found.metric,
        f"- {found.reference}",
        "95 % interval",
        "fit (s)",
        *([bounds] if bounds else []),
    ]
    console.table("", head, [_cells(row, bool(bounds)) for row in found.rows])
    console.say(found.advice)


def _cells(row: Any, bounded: bool) -> list[str]:
    if row.error is not None:
        return [row.method, f"failed: {row.error}", "", "", "", *([""] if bounded else [])]
    error = "" if row.standard_error is None else f" +/- {row.standard_error:.3f}"
    cells = [row.method, f"{row.mean:.3f}{error}"]
    cells.append("" if row.difference is None else f"{row.difference:+.3f}")
    cells.append("" if row.interval is None else "{:.3f} to {:.3f}".format(*row.interval))
    cells.append(f"{row.fit_time:.2f}")
    return cells + ([f"kept in {row.kept} of {len(row.values)}"] if bounded else [])


def summary(found: Comparison) -> dict[str, Any]:
    """A comparison for machines."""
    return {"best": found.best, "advice": found.advice, "comparison": json.loads(found.to_json())}
