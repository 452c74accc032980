"""Workers: they take points from the queue until all are done, in this process or in many."""

from __future__ import annotations

import contextlib
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

from evalign.papers._borrow import borrow
from evalign.papers._data import MissingDataError
from evalign.papers._plan import Plan
from evalign.papers._queue import Queue
from evalign.papers._storage import Storage
from evalign.papers._units import run

#: Seconds between two looks of a worker that has nothing to do.
IDLE = 1.0


@dataclass(frozen=True)
class Job:
    """What a worker needs to know."""

    plan: Plan
    storage: str
    interval: int
    grace: int

    @contextlib.contextmanager
    def queue(self) -> Iterator[Queue]:
        """The study, opened by this process."""
        storage = Storage(self.storage, self.interval, self.grace)
        try:
            yield Queue(storage, self.plan)
        finally:
            storage.close()


class Interrupts:
    """Ctrl-C and SIGTERM end the point that is being run, but never tear a write to the storage."""

    def __init__(self) -> None:
        self.asked = self.inside = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self.inside:
            self.inside = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Where an interrupt may strike."""
        self.inside = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self.inside = False


def work(queue: Queue, report: Callable[[], None] | None = None) -> None:
    """Run points until none is left; raise KeyboardInterrupt if asked to stop."""
    parent = multiprocessing.parent_process()
    with Interrupts() as interrupts:
        while parent is None or parent.is_alive():
            if interrupts.asked:
                raise KeyboardInterrupt
            if not _one(queue, interrupts):
                if queue.refill():
                    continue
                standing = queue.standing()
                if not standing.running and not standing.waiting:
                    return
                with contextlib.suppress(KeyboardInterrupt), interrupts.allowed():
                    time.sleep(IDLE)
            if report is not None:
                report()


def _one(queue: Queue, interrupts: Interrupts) -> bool:
    """Take a point and run it; False if there is none."""
    taken = queue.take()
    if taken is None:
        return False
    trial, point = taken
    try:
        known = borrow(queue.storage, queue.plan, point)
        if known is not None:
            lender, outcome = known
            trial.set_user_attr("borrowed", lender)
        else:
            with queue.beating(trial), interrupts.allowed():
                outcome = run(queue.plan.table, point, queue.plan.seed)
    except (KeyboardInterrupt, MissingDataError):
        queue.put_back(trial)
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        queue.fail(trial, f"{type(error).__name__}: {lines[0]}"[:500])
        return True
    queue.finish(trial, outcome)
    if point.stage == "grid":
        queue.refill()  # the last point of a grid makes way for the trials
    return True


def _worker(job: Job) -> None:
    """The body of a worker process."""
    torch.set_num_threads(1)
    try:
        with job.queue() as queue:
            work(queue)
    except KeyboardInterrupt:
        sys.exit(130)
    except MissingDataError as error:
        sys.exit(str(error))


def work_in_processes(job: Job, jobs: int, report: Callable[[], None]) -> None:
    """Let many processes work, one torch thread each, until all have ended."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(job,)) for _ in range(jobs)]
    try:
        with Interrupts() as interrupts:
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                if interrupts.asked:
                    raise KeyboardInterrupt
                workers[0].join(0.5)
                time.sleep(0 if workers[0].is_alive() else 0.5)
                report()
    except KeyboardInterrupt:
        for worker in workers:
            if worker.is_alive() and worker.pid is not None:
                worker.terminate()  # as Ctrl-C does: the running point is put back
        for worker in workers:
            worker.join(30)
            worker.kill()
        raise
