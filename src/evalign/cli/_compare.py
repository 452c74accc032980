"""`evalign compare`: which method is best for a metric on a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalign._errors import expected
from evalign._files import write_file
from evalign.cli._console import Console, blame_run, blame_usage, format_number
from evalign.cli._evidence import build_report, evaluate_methods
from evalign.cli._main import VIOLATED, RunError, StoppedError
from evalign.cli._paths import check_folder
from evalign.cli._task import TaskOptions, parse_methods, read_task
from evalign.reports import ComparisonFacts, describe_benefit, write_report
from evalign.selection import Comparison, Row, compare_problem


@dataclass(frozen=True, kw_only=True)
class CompareOptions(TaskOptions):
    """The options of `evalign compare`."""

    repeats: int
    test_size: float
    out: Path


def run(console: Console, options: CompareOptions) -> int:
    """Compare the methods, write the report, and return the exit status."""
    names, out = parse_methods(options.methods), options.out
    with blame_usage():
        if not 0 < options.test_size < 1:
            raise expected("test_size", "in (0, 1)", options.test_size)
        check_folder(out)
        task = read_task(console, options)
        split, windows = task.hold_out(options.seed, options.test_size), task.draw_windows(options.repeats)
    # The identity in the name gives every table and metric a file of its own.
    file, page = out / f"trials-{task.problem.identity[:12]}.jsonl", out / "report.html"
    with blame_run(), keep_trials(file):
        out.mkdir(parents=True, exist_ok=True)
        comparison = compare_problem(
            task.problem, methods=names, cv=windows, n_repeats=options.repeats, test_size=options.test_size,
            trials_file=file, n_jobs=options.jobs, random_state=options.seed, verbose=not console.quiet,
        )  # fmt: skip
        print_comparison(console, comparison)
        console.print(comparison.advice)
        found = evaluate_methods(console, task, comparison.best, "best", names, options.seed, split)
        report = build_report(
            f"{task.target}: which method for {task.problem.metric.name}?", comparison.advice, options.seed,
            task=task.task_facts, data=task.data_facts,
            comparison=ComparisonFacts.from_comparison(comparison), models=found.models,
            benefit=found.benefit, remarks=tuple(describe_benefit(found.benefit)),
        )  # fmt: skip
        write_report(report, page)
        write_file(out / "comparison.json", comparison.to_json().encode())
    console.print_json(
        {
            **summarize(comparison), "advice": comparison.advice, "report": str(page),
            "warnings": list(task.warnings),
        }
    )  # fmt: skip
    console.print(f"Report: {page}")
    slack = comparison.row(comparison.best).slack
    return VIOLATED if slack is not None and slack < 0 else 0


@contextmanager
def keep_trials(path: Path) -> Iterator[None]:
    """Word an interruption: finished trials are in the file, and the same command resumes."""

    def hint() -> str:
        some = any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size
        return " Finished trials are kept: the same command resumes." if some else ""

    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"Stopped.{hint()}") from None
    except BrokenExecutor as error:
        raise RunError(
            f"A worker process was killed, probably because it ran out of memory: try --jobs 1.{hint()}"
        ) from error
    finally:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.is_file() and not path.stat().st_size:
            path.unlink()


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison."""
    bounds = [" and ".join(comparison.constraints)] if comparison.constraints else []
    head = ["method", comparison.metric, f"- {comparison.reference}", "95 % interval", "fit (s)", *bounds]
    console.print_table("", head, [_format_row(row)[: len(head)] for row in comparison.rows])


def _format_row(row: Row) -> list[str]:
    if row.error is not None:
        return [row.method, f"failed: {row.error}", "", "", "", ""]
    error = "" if row.standard_error is None else f" +/- {row.standard_error:.3f}"
    return [
        row.method,
        f"{format_number(row.mean)}{error}",
        "" if row.difference is None else f"{row.difference:+.3f}",
        "" if row.interval is None else "{:.3f} to {:.3f}".format(*row.interval),
        "" if row.fit_time is None else f"{row.fit_time:.2f}",
        f"satisfied in {row.n_satisfied} of {len(row.values)}",
    ]


def summarize(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    facts = json.loads(comparison.to_json())
    return {"best": comparison.best, "comparison": facts}
