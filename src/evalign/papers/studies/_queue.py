"""The points of a table as an Optuna study: each is run once, by whichever worker takes it first."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from evalign._errors import expected
from evalign.papers._plan import Plan
from evalign.papers._storage import Storage, ask, create_or_load, fail_stale
from evalign.papers._units import Outcome, Point

#: A point that took its worker down so often is given up.
LIVES = 3

#: Seconds without a new point after which whoever was enqueuing them is taken for dead.
SILENCE = 10.0

#: Seconds within which a worker that took a point must have shown a first heartbeat.
FIRST_BEAT = 120.0

_PENDING = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True)
class Standing:
    """Where a study stands: what is done (None: failed, for the reason beside it), what is pending."""

    done: dict[str, Outcome | None]
    errors: dict[str, str]
    waiting: int
    running: int
    pending: frozenset[str]


class Queue:
    """A study: points wait in it, are taken, and are finished, failed or put back.

    A killed worker's point is found by its silence (a heartbeat in the storage) and enqueued again. Two
    workers may enqueue the same point at the same time: the first one counts, the others are dropped
    when they are taken.
    """

    def __init__(self, storage: Storage, plan: Plan) -> None:
        self.storage, self.plan = storage, plan
        self.study, created = create_or_load(storage, plan.name, RandomSampler(seed=plan.seed))
        self._check(created)

    def _check(self, created: bool) -> None:
        """Refuse a study that was made for other work."""
        wanted = self.plan.table.identity(self.plan.scale, self.plan.seed)
        if created:
            self.study.set_user_attr("identity", wanted)
        until = time.monotonic() + SILENCE
        while "identity" not in self.study.user_attrs and time.monotonic() < until:
            time.sleep(0.1)
        found = self.study.user_attrs.get("identity", wanted)
        self.study.set_user_attr("identity", found)
        if found != wanted:
            raise expected(
                "storage", f"without a study {self.plan.name!r} of another configuration",
                f"one made with configuration {found}, not {wanted}",
                "Give another `storage`, or delete that study.",
            )  # fmt: skip

    def check_data(self, fingerprints: dict[str, str]) -> None:
        """Refuse to mix results on other data under the same name, and note which data is used."""
        known = dict(self.study.user_attrs.get("data", {}))
        for name, found in fingerprints.items():
            if known.setdefault(name, found) != found:
                raise expected(
                    "storage", f"with results on the same {name} data",
                    f"the study {self.plan.name!r} on other rows of it", "Give another `storage`.",
                )  # fmt: skip
        self.study.set_user_attr("data", known)

    def fill(self) -> None:
        """Enqueue all points; if somebody else has begun to, wait for them as long as they go on."""
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
        """Enqueue the points that are needed and neither pending nor done; say how many."""
        fail_stale(self.study)
        self._fail_silent()
        standing = self.standing()
        missing = [
            point
            for point in self.plan.needed(standing.done)
            if point.key not in standing.done and point.key not in standing.pending
        ]
        for point in missing:
            self.study.enqueue_trial({}, user_attrs={"key": point.key, "point": point.to_dict()})
        return len(missing)

    def _fail_silent(self) -> None:
        """Fail points whose worker died before its first heartbeat."""
        longest = timedelta(seconds=max(FIRST_BEAT, self.storage.grace))
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            begun = trial.datetime_start
            if "taken" not in trial.user_attrs and begun and datetime.now() - begun > longest:
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def standing(self) -> Standing:
        """Where the study stands."""
        done: dict[str, Outcome | None] = {}
        errors: dict[str, str] = {}
        deaths: dict[str, int] = {}
        pending = set()
        states = []
        for trial in self.study.get_trials(deepcopy=False):
            key = trial.user_attrs.get("key")
            if key is None:
                continue
            states.append(trial.state)
            if trial.state in _PENDING:
                pending.add(key)
            elif trial.state == TrialState.COMPLETE:
                done[key] = Outcome(**trial.user_attrs["outcome"])
            elif "error" in trial.user_attrs and key not in done:
                done[key], errors[key] = None, trial.user_attrs["error"]
            elif trial.state == TrialState.FAIL and "put back" not in trial.user_attrs:
                deaths[key] = deaths.get(key, 0) + 1
        for key in [key for key, count in deaths.items() if count >= LIVES and key not in done]:
            done[key], errors[key] = None, f"its worker died {LIVES} times"
        waiting, running = (states.count(state) for state in _PENDING)
        return Standing(done, errors, waiting, running, frozenset(pending))

    def take(self) -> tuple[Trial, Point] | None:
        """Take a waiting point; None if there is none."""
        while self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            trial = ask(self.study)
            key = trial.user_attrs.get("key")
            # Optuna makes a new trial if somebody else took the last one that was waiting.
            if key is None or self._is_second(trial.number, key):
                self.study.tell(trial, state=TrialState.PRUNED)
                continue
            self.storage.beat(self.study.study_name, trial.number)
            trial.set_user_attr("taken", f"by process {os.getpid()} of {platform.node()}")
            return trial, Point.from_dict(trial.user_attrs["point"])
        return None

    def _is_second(self, number: int, key: str) -> bool:
        def counts(other: FrozenTrial) -> bool:
            alive = other.state in (*_PENDING, TrialState.COMPLETE) or "error" in other.user_attrs
            return other.user_attrs.get("key") == key and other.number < number and alive

        return any(map(counts, self.study.get_trials(deepcopy=False)))

    @contextmanager
    def beating(self, trial: Trial) -> Iterator[None]:
        """Show the other workers that a point is being run."""
        stop = Event()

        def beat() -> None:
            while not stop.wait(self.storage.interval):
                # A storage that is away for a moment must not end hours of work.
                with self.storage.patience():
                    self.storage.beat(self.study.study_name, trial.number)

        thread = Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def finish(self, trial: Trial, outcome: Outcome) -> None:
        """Store what came of a point."""
        stored: dict[str, Any] = json.loads(json.dumps(asdict(outcome)))
        trial.set_user_attr("outcome", stored)
        self.study.tell(trial, outcome.valid_loss, skip_if_finished=True)

    def fail(self, trial: Trial, error: str) -> None:
        """Record that a point failed; it is not run again."""
        trial.set_user_attr("error", error)
        self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def put_back(self, trial: Trial) -> None:
        """Give up a point that was not finished; whoever is idle next enqueues it again."""
        trial.set_user_attr("put back", True)
        self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
