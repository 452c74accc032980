"""The points of a table as an Optuna study: each is run once, by whichever worker takes it first."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from optuna.exceptions import TrialPruned
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from evalign._errors import expected
from evalign.papers.data import MissingDataError
from evalign.papers.studies._plan import StudyPlan
from evalign.papers.studies._storage import StudyStorage, create_or_load, fail_stale_trials
from evalign.papers.training import Outcome, Point

#: A point whose workers died this many times is given up.
LIVES = 3

#: Seconds without a new point after which the worker that was enqueueing them is considered dead.
SILENCE = 10.0

#: Seconds within which a worker that took a point must have sent its first heartbeat.
FIRST_HEARTBEAT = 120.0

#: So many points wait at a time. Every worker enqueues more when it needs one; with many waiting, the trials
#: of a dataset would come after the grids of others, since they are enqueued only when its own grid is done.
AHEAD = 4

_PENDING = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True)
class StudyProgress:
    """The progress of a study: points that are done (None: failed, see `errors`) and own ones pending.

    `days` has the days on which points were completed, `started` the datasets of all points that are done.
    """

    done: dict[str, Outcome | None]
    errors: dict[str, str]
    pending: frozenset[str]
    days: dict[str, date]
    started: frozenset[str]


class PointFailedError(Exception):
    """A point raised an error, which is recorded with it."""


class StudyQueue:
    """A study as a queue: points wait in it until a worker runs them, which takes only those of its datasets.

    Optuna's heartbeats show which workers are alive. The point of a dead worker, and one interrupted by
    Ctrl-C, is enqueued again by `refill`. Two workers may enqueue the same point at the same time: the
    first trial counts, the others are pruned when they are taken.
    """

    def __init__(self, storage: StudyStorage, plan: StudyPlan) -> None:
        self.storage, self.plan = storage, plan
        self.study, created = create_or_load(storage, plan.name, RandomSampler(seed=plan.seed), self._is_own)
        self._check_identity(created)

    def _is_own(self, trial: FrozenTrial) -> bool:
        """Whether a trial is a point of the datasets of this plan; other workers may have others."""
        return trial.user_attrs.get("point", {}).get("data") in self.plan.data

    def _check_identity(self, created: bool) -> None:
        """Reject a study that was created for other work."""
        wanted = self.plan.table.identity(self.plan.scale, self.plan.seed)
        if created:
            self.study.set_user_attr("identity", wanted)
        until = time.monotonic() + SILENCE
        while "identity" not in self.study.user_attrs and time.monotonic() < until:
            time.sleep(0.1)
        identity = self.study.user_attrs.get("identity", wanted)
        self.study.set_user_attr("identity", identity)
        if identity != wanted:
            raise expected(
                "storage", f"without a study {self.plan.name!r} of another configuration",
                f"one created with configuration {identity}, not {wanted}",
                "Use another `storage`, or delete that study.",
            )  # fmt: skip

    def check_data(self, fingerprints: dict[str, str]) -> None:
        """Store which data is used, and refuse to mix results on other data of the same name."""
        known = dict(self.study.user_attrs.get("data", {}))
        for name, fingerprint in fingerprints.items():
            if known.setdefault(name, fingerprint) != fingerprint:
                raise expected(
                    "storage", f"with results on the same {name} data",
                    f"the study {self.plan.name!r} on other rows of it", "Use another `storage`.",
                )  # fmt: skip
        self.study.set_user_attr("data", known)

    def fill(self) -> None:
        """Enqueue the first points; if another worker is doing so, wait for as long as it makes progress."""
        if "filling" not in self.study.user_attrs:
            self.study.set_user_attr("filling", True)
        else:
            count, since = -1, time.monotonic()
            while "filled" not in self.study.user_attrs and time.monotonic() - since < SILENCE:
                now = len(self.study.get_trials(deepcopy=False))
                count, since = (count, since) if now == count else (now, time.monotonic())
                time.sleep(0.2)
        self.refill()
        self.study.set_user_attr("filled", True)

    def refill(self) -> int:
        """Enqueue the next points that can be run and are neither pending nor done; return their number."""
        # Optuna's retry callback covers only trials with a stale heartbeat: a point interrupted by Ctrl-C or
        # without a first heartbeat would be lost, and so would one if its retrying worker were killed too.
        fail_stale_trials(self.study)
        self._fail_without_heartbeat()
        progress = self.progress()
        missing = [
            point
            for point in self.plan.runnable_points(progress.done)
            if point.key not in progress.done and point.key not in progress.pending
        ]
        following = missing[: max(0, AHEAD - len(self.study.waiting()))]
        for point in following:
            self.study.enqueue_trial({}, user_attrs={"key": point.key, "point": point.to_dict()})
        return len(following)

    def _fail_without_heartbeat(self) -> None:
        """Fail the trials of workers that died before their first heartbeat, which Optuna never fails."""
        longest = timedelta(seconds=max(FIRST_HEARTBEAT, self.storage.grace))
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            start = trial.datetime_start
            if "worker" not in trial.user_attrs and start and datetime.now() - start > longest:
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def progress(self) -> StudyProgress:
        """Return the progress of the study."""
        done: dict[str, Outcome | None] = {}
        errors: dict[str, str] = {}
        days: dict[str, date] = {}
        deaths: Counter[str] = Counter()
        pending, started = set(), set()
        for trial in self.study.get_trials(deepcopy=False):
            key = trial.user_attrs.get("key")
            if key is None:
                continue
            if trial.state in _PENDING:
                pending |= {key} if self._is_own(trial) else set()
            elif trial.state == TrialState.COMPLETE:
                done[key] = Outcome(**trial.user_attrs["outcome"])
                started.add(trial.user_attrs["point"]["data"])
                days |= {key: trial.datetime_complete.date()} if trial.datetime_complete else {}
            elif "error" in trial.user_attrs and key not in done:
                done[key], errors[key] = None, trial.user_attrs["error"]
            elif trial.state == TrialState.FAIL and "interrupted" not in trial.user_attrs:
                deaths[key] += 1
        for key, count in deaths.items():
            if count >= LIVES and key not in done:
                done[key], errors[key] = None, f"its worker died {LIVES} times"
        return StudyProgress(done, errors, frozenset(pending), days, frozenset(started))

    def run_next(self, run: Callable[[Trial, Point], Outcome]) -> bool:
        """Run a waiting point and store its outcome or its error; return False if none is waiting.

        Raises:
            KeyboardInterrupt, MissingDataError: Raised by `run`; the point is not counted as failed.
        """
        if not self.study.waiting():
            return False

        def objective(trial: Trial) -> float:
            key = trial.user_attrs.get("key")
            # Optuna creates a new trial if another worker has just taken the last waiting one.
            if key is None or self._is_duplicate(trial.number, key):
                raise TrialPruned
            point = Point.from_dict(trial.user_attrs["point"])
            if any(self.plan.table.scale(self.plan.scale).skips(point.data, row) for row in point.rows):
                raise TrialPruned  # it was enqueued before the scale skipped it
            # Optuna's thread sends heartbeats, but its first may come later than a kill: then the trial would
            # run forever. So this one comes first, and `worker` says that it was sent.
            self.storage.rdb.record_heartbeat(trial._trial_id)
            trial.set_user_attr("worker", f"process {os.getpid()} on {platform.node()}")
            try:
                outcome = run(trial, point)
            except (KeyboardInterrupt, MissingDataError):
                trial.set_user_attr("interrupted", True)
                raise
            except Exception as error:
                lines = str(error).strip().splitlines() or [""]
                trial.set_user_attr("error", f"{type(error).__name__}: {lines[0]}"[:500])
                raise PointFailedError from error
            trial.set_user_attr("outcome", json.loads(json.dumps(asdict(outcome))))
            return outcome.valid_loss

        self.study.optimize(objective, n_trials=1, catch=PointFailedError)
        return True

    def _is_duplicate(self, number: int, key: str) -> bool:
        """Whether an earlier trial of the same point is pending, complete or failed with an error."""
        return any(
            trial.user_attrs.get("key") == key
            and (trial.state in (*_PENDING, TrialState.COMPLETE) or "error" in trial.user_attrs)
            for trial in self.study.get_trials(deepcopy=False)
            if trial.number < number
        )
