"""Workers: they run the points of a study until all are done, in this process or in several."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from optuna.trial import Trial

from evalign.papers.data import MissingDataError
from evalign.papers.studies._borrow import borrow
from evalign.papers.studies._plan import StudyPlan
from evalign.papers.studies._queue import StudyQueue
from evalign.papers.studies._storage import StudyStorage
from evalign.papers.training import Outcome, Point, run_point

#: Seconds that a worker waits before it looks for work again.
IDLE = 1.0

#: Options of `mallopt` in glibc, and how many bytes each of them is set to.
_TRIM, _MMAP = (-1, 2**31 - 1), (-3, 2**25)


@dataclass(frozen=True)
class Job:
    """All that a worker process needs."""

    plan: StudyPlan
    storage: str
    interval: int
    grace: int

    @contextlib.contextmanager
    def open_queue(self) -> Iterator[StudyQueue]:
        """Open the study in this process."""
        storage = StudyStorage(self.storage, self.interval, self.grace)
        try:
            yield StudyQueue(storage, self.plan)
        finally:
            storage.close()


class Interrupts:
    """Ctrl-C and SIGTERM end the point that is being run, but never interrupt a write to the storage."""

    def __init__(self) -> None:
        self.requested = self._allowed = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._allowed:
            self._allowed = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def allow(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt in this block."""
        self._allowed = True
        try:
            if self.requested:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False


def keep_memory() -> None:
    """Let this process keep memory that is freed, instead of returning it to the system in every step.

    A step of training frees what the next one allocates again. glibc returns blocks of many megabytes, and
    the system clears each page anew: 3,000 pages per step of Tiny Darknet. Other C libraries are left alone.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # no mallopt, or no C library by this name
        set_option = ctypes.CDLL(None).mallopt
        for option in (_TRIM, _MMAP):
            set_option(*option)


def work(queue: StudyQueue, report: Callable[[], None] | None = None) -> None:
    """Run points until none is left; raise KeyboardInterrupt if a signal asks to stop."""
    keep_memory()
    parent = multiprocessing.parent_process()
    with Interrupts() as interrupts:

        def run(trial: Trial, point: Point) -> Outcome:
            outcome = _borrow(queue, trial, point)
            if outcome is None:
                with interrupts.allow():
                    outcome = run_point(queue.plan.table, point, queue.plan.seed)
            return outcome

        while parent is None or parent.is_alive():
            if interrupts.requested:
                raise KeyboardInterrupt
            if queue.run_next(run):
                queue.refill()  # the last point of a grid makes the trials of its cell runnable
            elif not queue.refill():
                if not queue.progress().pending:
                    return
                with contextlib.suppress(KeyboardInterrupt), interrupts.allow():
                    time.sleep(IDLE)
            if report is not None:
                report()


def _borrow(queue: StudyQueue, trial: Trial, point: Point) -> Outcome | None:
    """Return the outcome of the same work in another study, and note where it comes from."""
    loan = borrow(queue.storage, queue.plan, point)
    if loan is None:
        return None
    lender, outcome = loan
    trial.set_user_attr("borrowed", lender)
    return outcome


def _work_in_process(job: Job) -> None:
    """The body of a worker process."""
    torch.set_num_threads(1)
    try:
        with job.open_queue() as queue:
            work(queue)
    except KeyboardInterrupt:
        sys.exit(130)
    except MissingDataError as error:
        sys.exit(str(error))


def work_in_processes(job: Job, jobs: int, report: Callable[[], None]) -> None:
    """Run points in several processes with one torch thread each, until all processes have ended."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work_in_process, args=(job,)) for _ in range(jobs)]
    try:
        with Interrupts() as interrupts:
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                if interrupts.requested:
                    raise KeyboardInterrupt
                workers[0].join(0.5)
                time.sleep(0 if workers[0].is_alive() else 0.5)
                report()
    except KeyboardInterrupt:
        for worker in workers:
            if worker.is_alive() and worker.pid is not None:
                worker.terminate()  # as Ctrl-C does: the running point is enqueued again
        for worker in workers:
            worker.join(30)
            worker.kill()
        raise
