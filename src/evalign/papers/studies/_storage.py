"""Optuna's storages: opened with clear errors, safe for many workers, with heartbeats."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

from evalign._errors import expected

try:
    import optuna
except ImportError as error:
    raise ImportError("evalign.papers needs Optuna: pip install 'evalign[papers]'.") from error

import sqlalchemy
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

#: Seconds between heartbeats, and of silence after which a worker is taken for dead.
INTERVAL, GRACE = 10, 60


class Storage:
    """A database of studies, by its URL."""

    def __init__(self, url: str, interval: int = INTERVAL, grace: int = GRACE) -> None:
        self.url, self.interval, self.grace = url, interval, grace
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.rdb = _opened(url, interval, grace)
        if self.rdb.engine.dialect.name == "sqlite":
            _one_writer(self.rdb.engine)

    def beat(self, study: str, number: int) -> None:
        """Show that a trial is being run."""
        known = self.rdb.get_study_id_from_name(study)
        self.rdb.record_heartbeat(self.rdb.get_trial_id_from_study_id_trial_number(known, number))

    def close(self) -> None:
        """Close the connections of this process."""
        self.rdb.remove_session()
        self.rdb.engine.dispose()

    @contextlib.contextmanager
    def patience(self) -> Iterator[None]:
        """Bear with a storage that does not answer."""
        with contextlib.suppress(SQLAlchemyError, StorageInternalError):
            yield


def create_or_load(storage: Storage, name: str, sampler: Any) -> tuple[optuna.Study, bool]:
    """A study by name, and whether it was made just now; of many who try at once, one makes it."""
    try:
        made = optuna.create_study(study_name=name, storage=storage.rdb, sampler=sampler)
    except DuplicatedStudyError:
        return optuna.load_study(study_name=name, storage=storage.rdb, sampler=sampler), False
    return made, True


def fail_stale(study: optuna.Study) -> None:
    """Fail the trials whose workers have been silent for too long."""
    with _quiet():
        optuna.storages.fail_stale_trials(study)


def ask(study: optuna.Study) -> optuna.Trial:
    """Take a waiting trial of a study, or make a new one if none is waiting."""
    with _quiet():
        return study.ask()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Heartbeats are an experiment of Optuna's, and meant for its own loop; both are told every time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield


def _opened(url: str, interval: int, grace: int) -> RDBStorage:
    sqlite = url.startswith("sqlite")
    # Workers that start at once may both find no tables and both try to make them.
    for attempt in range(5):
        try:
            with _quiet():
                waits = {"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True}
                return RDBStorage(url, waits, heartbeat_interval=interval, grace_period=grace)
        except ArgumentError:
            wanted = "to be an SQLAlchemy URL such as sqlite:///studies.db"
            raise expected("storage", wanted, repr(url)) from None
        except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError) as error:
            if attempt == 4 or isinstance(error, ImportError):
                told = (str(error.__cause__ or error).strip().splitlines() or [""])[0]
                shown = sqlalchemy.make_url(url).render_as_string(hide_password=True)
                raise ConnectionError(f"The storage {shown} cannot be reached: {told}") from error
            time.sleep(0.3 * (attempt + 1))
    raise AssertionError


def _one_writer(engine: Any) -> None:
    """Make transactions of SQLite exclude each other from their beginning.

    By default SQLite locks a file at the first write, so two workers could both read that a trial is
    waiting and then both take it.
    """
    engine.dispose()

    @sqlalchemy.event.listens_for(engine, "connect")
    def _manual(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
