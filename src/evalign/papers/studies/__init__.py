"""A table run as an Optuna study: what is to be run, by which workers, and the results."""

from evalign.papers.studies._plan import StudyPlan
from evalign.papers.studies._queue import StudyQueue
from evalign.papers.studies._results import Cell, StudyResults, collect_results, collect_started
from evalign.papers.studies._storage import GRACE, INTERVAL
from evalign.papers.studies._workers import Job, work, work_in_processes

__all__ = [
    "GRACE", "INTERVAL", "Cell", "Job", "StudyPlan", "StudyQueue", "StudyResults", "collect_results",
    "collect_started", "work", "work_in_processes",
]  # fmt: skip
