"""Optuna's database storage with clear errors, heartbeats, and transactions that are safe for workers."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from evalign._errors import expected

try:
    import optuna
except ImportError as error:
    raise ImportError("evalign.papers needs Optuna: pip install 'evalign[papers]'.") from error

import sqlalchemy
from optuna.exceptions import (
    DuplicatedStudyError,
    ExperimentalWarning,
    StorageInternalError,
    UpdateFinishedTrialError,
)
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

#: Seconds between the heartbeats of a worker, and without one after which it is considered dead.
INTERVAL, GRACE = 10, 60


class StudyStorage:
    """A database of studies, by its URL."""

    def __init__(self, url: str, interval: int = INTERVAL, grace: int = GRACE) -> None:
        self.url, self.interval, self.grace = url, interval, grace
        # Failed trials are recorded with their error; Optuna would also print their tracebacks.
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.rdb = _connect(url, interval, grace)
        if self.rdb.engine.dialect.name == "sqlite":
            _begin_immediately(self.rdb.engine)

    def close(self) -> None:
        """Close the connections of this process."""
        self.rdb.remove_session()
        self.rdb.engine.dispose()


class _PatientStorage(RDBStorage):
    """A storage whose heartbeats survive a database that is unreachable for a moment."""

    def record_heartbeat(self, trial_id: int) -> None:
        with contextlib.suppress(SQLAlchemyError, StorageInternalError):
            super().record_heartbeat(trial_id)


class SelectiveStudy(optuna.Study):
    """A study that runs only those waiting trials that are its own; Optuna would run any."""

    is_own: Callable[[FrozenTrial], bool]

    def waiting(self) -> list[FrozenTrial]:
        """Return the waiting trials that are its own."""
        return [
            trial
            for trial in self.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if self.is_own(trial)
        ]

    def _pop_waiting_trial_id(self) -> int | None:
        for trial in self.waiting():
            with contextlib.suppress(UpdateFinishedTrialError):
                # False if another worker was faster
                if self._storage.set_trial_state_values(trial._trial_id, state=TrialState.RUNNING):
                    return trial._trial_id
        return None


def create_or_load(
    storage: StudyStorage, name: str, sampler: Any, is_own: Callable[[FrozenTrial], bool]
) -> tuple[SelectiveStudy, bool]:
    """Return a study by name, and whether it was created now; of several concurrent calls, one creates it."""
    try:
        optuna.create_study(study_name=name, storage=storage.rdb)
        created = True
    except DuplicatedStudyError:
        created = False
    study = SelectiveStudy(name, storage.rdb, sampler)
    study.is_own = is_own
    return study, created


def fail_stale_trials(study: optuna.Study) -> None:
    """Fail the running trials whose heartbeats have stopped."""
    with _ignore_experimental():
        optuna.storages.fail_stale_trials(study)


@contextlib.contextmanager
def _ignore_experimental() -> Iterator[None]:
    """Silence Optuna's warning that heartbeats are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def _connect(url: str, interval: int, grace: int) -> RDBStorage:
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    # Workers that start at the same time may all find no tables and all try to create them.
    for attempt in range(5):
        try:
            with _ignore_experimental():
                return _PatientStorage(url, options, heartbeat_interval=interval, grace_period=grace)
        except ArgumentError:
            wanted = "to be an SQLAlchemy URL such as sqlite:///studies.db"
            raise expected("storage", wanted, repr(url)) from None
        except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError) as error:
            if attempt == 4 or isinstance(error, ImportError):
                reason = (str(error.__cause__ or error).strip().splitlines() or [""])[0]
                address = sqlalchemy.make_url(url).render_as_string(hide_password=True)
                raise ConnectionError(f"The storage {address} cannot be reached: {reason}") from error
            time.sleep(0.3 * (attempt + 1))
    raise AssertionError


def _begin_immediately(engine: Any) -> None:
    """Make SQLite transactions exclude each other from their start.

    By default SQLite locks a file at the first write, so that two workers could both read that a trial is
    waiting and then both take it.
    """
    engine.dispose()

    @sqlalchemy.event.listens_for(engine, "connect")
    def _leave_transactions_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
