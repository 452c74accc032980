"""`reproduce`: a table or a figure of a paper from its name, computed by any number of workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalign._errors import check_integer, expected, is_integer, show, suggest
from evalign._progress import Progress
from evalign._torch import use_threads
from evalign.papers._figure_page import write_figure
from evalign.papers._table_page import write_table
from evalign.papers.data import MissingDataError, fingerprint
from evalign.papers.figures import FIGURES, PaperFigure
from evalign.papers.studies import (
    GRACE,
    INTERVAL,
    Job,
    StudyPlan,
    StudyQueue,
    StudyResults,
    collect_results,
    collect_started,
    work,
    work_in_processes,
)
from evalign.papers.tables import TABLES, PaperTable

STORAGE = "sqlite:///evalign-studies.db"
FOLDER = "docs/results"


@dataclass(frozen=True)
class Reproduction:
    """The results of `reproduce`, and the files it wrote.

    There are none if cells that were to be run are not done, or with `partial` if nothing is.
    """

    results: StudyResults
    files: tuple[Path, ...]


def reproduce(
    table: str | PaperTable | PaperFigure,
    *,
    scale: str = "small",
    jobs: int = 1,
    seed: int = 0,
    storage: str = STORAGE,
    out: str | Path = FOLDER,
    data: Iterable[str] = (),
    partial: bool = False,
    progress: bool = True,
    interval: int = INTERVAL,
    grace: int = GRACE,
) -> Reproduction:
    """Compute a table or a figure of a paper, or what is left of it, and write it as Markdown and CSV.

    Every point is stored as soon as it is done: after an interruption the same call resumes. Several calls
    with the same storage, on one machine or on many, share the work. A figure is also written as PNG;
    figures based on the same training runs share them.

    Args:
        table: The name of a table or a figure, one of `evalign.papers.TABLES` or `FIGURES`, or a
            `PaperTable` or `PaperFigure`.
        scale: `"small"` (minutes, a first look), `"medium"` (a night on two processors, where a table has
            it) or `"full"` (the paper's protocol).
        jobs: The number of worker processes, with one torch thread each.
        seed: The seed of the split and of all trials.
        storage: The SQLAlchemy URL of the database that stores the results, a SQLite file by default.
        out: The folder for the files.
        data: The datasets of a table that are run, all by default. The files have all that is done, of
            other datasets, too.
        partial: Write the files of what is done so far, without running anything and without the datasets
            of which nothing is done. The data itself is not needed.
        progress: Show progress on standard error, as a bar on a terminal and as a line per minute elsewhere.
        interval: Seconds between the heartbeats of a worker.
        grace: Seconds without a heartbeat after which a worker is considered dead and its point run again.
    """
    target = table if isinstance(table, PaperTable | PaperFigure) else find(table)
    study = target.study if isinstance(target, PaperFigure) else target
    _check(study, scale, jobs, seed)
    chosen = check_datasets(target, data)
    fingerprints, missing = ({}, {}) if partial else _check_data(study, chosen)
    plan = StudyPlan(study, scale, seed, tuple(fingerprints))
    wanted = replace(plan, data=chosen) if chosen else plan
    if not study.data:  # a figure of formulas needs no storage
        return _write(target, StudyResults(plan, {}, {}), out)
    job = Job(wanted, storage, interval, grace)
    with job.open_queue() as queue:
        if not partial:
            queue.check_data(fingerprints)
            queue.fill()
            _run(job, queue, jobs, progress)
        state = queue.progress()
    shown = replace(plan, data=_find_shown(study, {*fingerprints, *state.started}, partial))
    missing = {name: reason for name, reason in missing.items() if name not in shown.data}
    collect = collect_started if partial or wanted != plan else collect_results
    results = collect(shown, state, missing)
    ready = results.cells if partial else collect_results(wanted, state, missing).complete
    return _write(target, results, out) if ready else Reproduction(results, ())


def _find_shown(study: PaperTable, known: set[str], partial: bool) -> tuple[str, ...]:
    """The datasets of the files: those that are here, or that another machine has begun."""
    return tuple(data.name for data in study.data if partial or data.name in known)


def _write(target: PaperTable | PaperFigure, results: StudyResults, out: str | Path) -> Reproduction:
    if isinstance(target, PaperFigure):
        return Reproduction(results, write_figure(target, results, Path(out)))
    return Reproduction(results, write_table(results, Path(out)))


def find(name: str) -> PaperTable | PaperFigure:
    """Return a table or a figure by name."""
    known: dict[str, PaperTable | PaperFigure] = {**TABLES, **FIGURES}
    if name not in known:
        raise expected("table", "to be a known table or figure", show(name), suggest(str(name), known))
    return known[name]


def _check(study: PaperTable, scale: str, jobs: int, seed: int) -> None:
    if scale not in study.scales:
        raise expected("scale", f"to be one of {', '.join(study.scales)} for {study.name}", show(scale))
    check_integer(jobs=jobs)
    if not is_integer(seed, 0) or seed >= 10**6:
        raise expected("seed", "to be a whole number from 0 to 999,999", show(seed))


def check_datasets(target: PaperTable | PaperFigure, names: Iterable[str]) -> tuple[str, ...]:
    """Check the names of datasets of a table."""
    names = tuple(names)
    if isinstance(target, PaperFigure):
        if names:
            raise expected("data", "for tables only", f"{show(names[0])} for the figure {target.name}")
        return names
    known = [data.name for data in target.data]
    for name in names:
        if name not in known:
            wanted = f"to be among {', '.join(known)} for {target.name}"
            raise expected("data", wanted, show(name), suggest(str(name), known))
    return names


def _check_data(table: PaperTable, chosen: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fingerprints of the data that is available, and how to obtain the rest.

    Raise `MissingDataError` if a chosen dataset is not available, or none is.
    """
    fingerprints, missing = {}, {}
    for data in table.data:
        try:
            fingerprints[data.name] = fingerprint(data.name)
        except MissingDataError as error:
            missing[data.name] = str(error)
    absent = [reason for name, reason in missing.items() if name in chosen or not fingerprints]
    if absent:
        raise MissingDataError(" ".join(absent))
    return fingerprints, missing


def _run(job: Job, queue: StudyQueue, jobs: int, progress: bool) -> None:
    done, total = job.plan.count_points(queue.progress().done)
    with Progress(job.plan.name, "points", total, done=done, visible=progress) as shown:

        def report() -> None:
            shown.update(job.plan.count_points(queue.progress().done)[0])

        if jobs > 1:
            work_in_processes(job, jobs, report)
        else:
            with use_threads(1):
                work(queue, report)
        report()
