"""`reproduce`: a table or a figure of a paper from its name, run by as many workers as wanted."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm  # type: ignore[import-untyped]

from evalign._errors import check_integer, expected, is_integer, show, suggest
from evalign.papers import _figure_report
from evalign.papers._data import MissingDataError, fingerprint
from evalign.papers._engine import Job, work, work_in_processes
from evalign.papers._figure import Figure
from evalign.papers._plan import Plan
from evalign.papers._queue import Queue
from evalign.papers._report import write
from evalign.papers._results import Results, collect
from evalign.papers._storage import GRACE, INTERVAL
from evalign.papers._table import Table
from evalign.papers._tables import FIGURES, TABLES

SCALES = ("small", "full")
STORAGE = "sqlite:///evalign-studies.db"
FOLDER = "docs/results"


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` gives: the results, and the files written (none if some cells are not done)."""

    results: Results
    files: tuple[Path, ...]


def reproduce(
    table: str | Table | Figure,
    *,
    scale: str = "small",
    jobs: int = 1,
    seed: int = 0,
    storage: str = STORAGE,
    out: str | Path = FOLDER,
    partial: bool = False,
    progress: bool = True,
    interval: int = INTERVAL,
    grace: int = GRACE,
) -> Reproduction:
    """Run a table or a figure of a paper, or what is left of it, and write it as Markdown and CSV.

    Every point is stored as soon as it is done: killed or interrupted, the same call goes on where it
    was. Many calls on one storage, on one machine or many, share the work. A figure is also written as
    PNG; figures of the same training runs share them.

    Args:
        table: The name of a table or a figure, one of `evalign.papers.TABLES` or `FIGURES`, or a
            `Table` or a `Figure`.
        scale: `"small"` (minutes) or `"full"` (the paper's protocol).
        jobs: How many processes work, one torch thread each.
        seed: The seed of the split and of all trials.
        storage: Where results are kept: an SQLAlchemy URL, a SQLite file by default.
        out: The folder for the files.
        partial: Write the files of what is done so far, and run nothing.
        progress: Show a progress bar on standard error.
        interval: Seconds between two heartbeats of a worker.
        grace: Seconds of silence after which a worker is taken for dead, and its point run again.
    """
    found = table if isinstance(table, Table | Figure) else find(table)
    _check(scale, jobs, seed)
    study = found.study if isinstance(found, Figure) else found
    prints, missing = _available(study)
    if missing and not prints:
        raise MissingDataError(" ".join(missing.values()))
    plan = Plan(study, scale, seed, tuple(prints))
    if study.data:
        job = Job(plan, storage, interval, grace)
        with job.queue() as queue:
            queue.check_data(prints)
            if not partial:
                queue.fill()
                _run(job, queue, jobs, progress)
            results = collect(plan, queue.standing(), missing)
    else:  # a figure of formulas needs no storage
        results = Results(plan, {}, {})
    if not (results.complete or partial):
        return Reproduction(results, ())
    if isinstance(found, Figure):
        return Reproduction(results, _figure_report.write(found, results, Path(out)))
    return Reproduction(results, write(results, Path(out)))


def find(name: str) -> Table | Figure:
    """A table or a figure by name."""
    known: dict[str, Table | Figure] = {**TABLES, **FIGURES}
    if name not in known:
        raise expected("table", "to be a known one", show(name), suggest(str(name), known))
    return known[name]


def _check(scale: str, jobs: int, seed: int) -> None:
    if scale not in SCALES:
        raise expected("scale", f"to be one of {SCALES}", show(scale))
    check_integer(jobs=jobs)
    if not is_integer(seed, 0) or seed >= 10**6:
        raise expected("seed", "to be a whole number from 0 to 999,999", show(seed))


def _available(table: Table) -> tuple[dict[str, str], dict[str, str]]:
    """Which data of a table is there, with its fingerprint, and what to do about the rest."""
    prints, missing = {}, {}
    for data in table.data:
        try:
            prints[data.name] = fingerprint(data.name)
        except MissingDataError as error:
            missing[data.name] = str(error)
    return prints, missing


def _run(job: Job, queue: Queue, jobs: int, progress: bool) -> None:
    done, total = job.plan.progress(queue.standing().done)
    form = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {remaining} left]"
    with tqdm(
        total=total, initial=done, desc=job.plan.name, file=sys.stderr, disable=not progress, bar_format=form
    ) as bar:

        def report() -> None:
            bar.update(job.plan.progress(queue.standing().done)[0] - bar.n)

        if jobs > 1:
            work_in_processes(job, jobs, report)
        else:
            threads = torch.get_num_threads()
            try:
                torch.set_num_threads(1)
                work(queue, report)
            finally:
                torch.set_num_threads(threads)
        report()
