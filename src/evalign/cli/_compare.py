"""`evalign compare`: which method is best for a metric on a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalign import selection
from evalign._errors import expected
from evalign._files import write_file
from evalign.cli._console import Console, number, running, usage
from evalign.cli._evidence import on_rows_set_aside, origin, set_aside
from evalign.cli._folder import check_folder
from evalign.cli._main import RunError, StoppedError
from evalign.cli._task import methods_of, task_of
from evalign.reports import comparison_facts, write
from evalign.selection import Comparison


def run(
    console: Console, data: str, target: str, metric: str, positive: str | None, constraints: Sequence[str],
    methods: str | None, repeats: int, test_size: float, jobs: int, seed: int, out: Path,
) -> None:  # fmt: skip
    """Compare, and write the report."""
    names = methods_of(methods)
    with usage():
        if not 0 < test_size < 1:
            raise expected("test_size", "in (0, 1)", test_size)
        check_folder(out)
        task = task_of(console, data, target, metric, positive, constraints)
        split = set_aside(task, seed, test_size)
    # Named by what is tried: another table or metric gets another file.
    file = out / f"trials-{task.problem.identity[:12]}.jsonl"
    with running(), finished_trials(file) as results:
        out.mkdir(parents=True, exist_ok=True)
        found = selection.compare_problem(
            task.problem, methods=names, n_repeats=repeats, test_size=test_size, trials_file=results,
            n_jobs=jobs, random_state=seed, verbose=console.live,
        )  # fmt: skip
        show(console, found)
        models = on_rows_set_aside(console, task, found.best, "best", names, seed, split)
        facts = {
            **origin(f"{target}: which method for {task.metric.name}?", found.advice, seed),
            **task.facts(),
            "comparison": comparison_facts(found),
            "models": models,
        }
        report = out / "report.html"
        write(facts, report)
        write_file(out / "comparison.json", found.to_json().encode())
    console.result({**summary(found), "report": str(report), "warnings": list(task.warnings)})
    console.say(f"Report: {report}")


@contextmanager
def finished_trials(path: Path) -> Iterator[Path]:
    """The file of finished trials: Ctrl-C or a kill loses those that run, and the same command goes on."""

    def kept() -> str:
        some = path.exists() and path.stat().st_size
        return " Finished trials are kept: the same command goes on." if some else ""

    try:
        yield path
    except KeyboardInterrupt:
        raise StoppedError(f"Stopped.{kept()}") from None
    except BrokenExecutor as error:
        raise RunError(f"A worker was killed, maybe for want of memory: try --jobs 1.{kept()}") from error
    finally:
        if path.exists() and not path.stat().st_size:
            path.unlink()


def show(console: Console, found: Comparison) -> None:
    """Print a comparison: the table, and the advice."""
    bounds = " and ".join(found.constraints)
    head = ["method", found.metric, f"- {found.reference}", "95 % interval", "fit (s)"]
    console.table("", head + [bounds] * bool(bounds), [_cells(row, bool(bounds)) for row in found.rows])
    console.say(found.advice)


def _cells(row: Any, bounded: bool) -> list[str]:
    if row.error is not None:
        return [row.method, f"failed: {row.error}", "", "", "", *([""] if bounded else [])]
    error = "" if row.standard_error is None else f" +/- {row.standard_error:.3f}"
    cells = [row.method, f"{number(row.mean)}{error}"]
    cells.append("" if row.difference is None else f"{row.difference:+.3f}")
    cells.append("" if row.interval is None else "{:.3f} to {:.3f}".format(*row.interval))
    cells.append(f"{row.fit_time:.2f}")
    return cells + ([f"kept in {row.n_satisfied} of {len(row.values)}"] if bounded else [])


def summary(found: Comparison) -> dict[str, Any]:
    """A comparison for machines."""
    return {"best": found.best, "advice": found.advice, "comparison": json.loads(found.to_json())}
