"""Jobs in other processes, or on other machines: whatever joblib's active backend offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config

from evalign.selection.problem import Problem

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(
    run: Callable[[Job, Problem, bool], Result],
    jobs: Iterable[Job],
    problem: Problem,
    n_jobs: int | None,
    give_up: Callable[[Job, Exception], Result],
) -> Iterator[Result]:
    """Yield the result of each job as soon as it is there; a job is drawn when there is a worker for it.

    Jobs that are lost because a worker was killed are run again, one at a time.

    Args:
        run: A function (job, problem, one thread only) -> result, which raises nothing.
        jobs: The jobs.
        problem: What all jobs have in common. It is sent to a worker once, not with every job.
        n_jobs: The number of jobs at a time; None is one, or what `joblib.parallel_config` says.
        give_up: A function (job, error) -> result of a job that kills its worker even when it runs alone.
    """
    if joblib.effective_n_jobs(n_jobs) == 1:
        for job in jobs:
            yield run(job, problem, n_jobs == 1)
        return
    call = partial(joblib.delayed(_run_numbered), run, problem, get_config())
    numbered, running = enumerate(jobs), {}

    def draw() -> Iterator[Any]:
        for number, job in numbered:
            running[number] = job
            yield call(number, job)

    while True:
        try:
            for number, result in _run_calls(draw(), n_jobs):
                del running[number]
                yield result
            return
        except BrokenProcessPool:
            lost = running.copy()
            running.clear()
        for number, job in lost.items():
            try:
                ((_, result),) = _run_calls([call(number, job)], n_jobs)
            except BrokenProcessPool as error:
                result = give_up(job, error)
            yield result


def _run_calls(calls: Iterable[Any], n_jobs: int | None) -> Iterator[Any]:
    """Yield the results of delayed calls, which are drawn as workers become free."""
    backend, _ = get_active_backend()
    if getattr(backend, "supports_return_generator", True):
        yield from joblib.Parallel(
            n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs"
        )(calls)
        return
    waiting = iter(calls)
    with joblib.Parallel(n_jobs, batch_size=1) as parallel:  # Ray: as many calls as workers, then the next
        while some := list(islice(waiting, joblib.effective_n_jobs(n_jobs))):
            yield from parallel(some)


def _run_numbered(
    run: Callable[[Job, Problem, bool], Result],
    problem: Problem,
    config: dict[str, Any],
    number: int,
    job: Job,
) -> tuple[int, Result]:
    """Run a job with one thread, and with the configuration of scikit-learn in the main process."""
    with config_context(**config):
        return number, run(job, problem, True)
