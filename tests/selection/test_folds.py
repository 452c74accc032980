"""Schedules, time limits, and the folder of fold models that a killed fit resumes from."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from evalign import AutoClassifier
from evalign.estimators import CatBoost
from evalign.selection._deadline import OutOfTime, stop_after
from evalign.selection.folds import LATE, Clock, FoldModel, FoldTask, Schedule, as_seconds
from evalign.selection.members import MEMBERS
from evalign.selection.problem import Problem

X, Y = make_classification(150, 5, weights=[0.7], flip_y=0.05, random_state=0)
METHODS = {"bayes": GaussianNB(), "logistic": LogisticRegression()}


class Stopwatch(Clock):
    """A clock that a test moves."""

    now = 0.0

    @property
    def spent(self):
        return self.now


def simulate(schedule, seconds):
    """Run a schedule in which every fold takes as long as its member does."""
    done = []
    for member, fold in schedule:
        done.append((member, fold))
        schedule.clock.now += seconds[member]
        schedule.record(FoldModel(member, fold, fit_time=seconds[member], predict_time=0.0))
    return done


def test_without_a_limit_everything_is_fitted_in_order():
    schedule = Schedule({"a": 1.0, "b": 1.0}, 3, Stopwatch())
    assert simulate(schedule, {"a": 1e6, "b": 1e6}) == [(name, fold) for name in "ab" for fold in range(3)]
    assert schedule.left_out == {}


def test_a_member_is_begun_only_if_all_its_folds_fit():
    costs = {"a": 1.0, "dear": 10.0, "cheap": 1.0}
    schedule = Schedule(costs, 5, Stopwatch(30.0), reserve=0.1)
    done = simulate(schedule, {"a": 2.0, "dear": 20.0, "cheap": 2.0})
    assert [member for member, _ in done] == ["a"] * 5 + ["cheap"] * 5
    assert schedule.clock.now == 20 <= 27
    # Its cost of 10 is a guess: a fold of `a` took 2 s, so five folds take 100 s.
    assert schedule.left_out == {"dear": "it needs about 100 s more, and 17 s are left"}


def test_the_guess_for_a_forest_is_not_misled_by_boosting_a_tree_per_class():
    problem = Problem.check(np.zeros((20, 1)), np.arange(20) % 10)
    costs = {name: MEMBERS[name].guess_cost(problem) for name in ("lightgbm", "extra_trees")}
    schedule = Schedule(costs, 5, Stopwatch(20.0))
    done = simulate(schedule, {"lightgbm": 2.7, "extra_trees": 0.7})  # as measured with 10 classes
    assert [member for member, _ in done] == ["lightgbm"] * 5 + ["extra_trees"] * 5
    labels = Problem.check(np.zeros((20, 1)), np.arange(60).reshape(20, 3) % 2)
    two = Problem.check(np.zeros((20, 1)), np.arange(20) % 2)
    assert MEMBERS["lightgbm"].guess_cost(labels) == 3 * MEMBERS["lightgbm"].guess_cost(two)
    assert MEMBERS["extra_trees"].guess_cost(labels) == MEMBERS["extra_trees"].guess_cost(two)


def test_a_member_that_takes_longer_than_expected_is_given_up():
    schedule = Schedule({"a": 1.0, "slow": 1.0, "b": 1.0}, 5, Stopwatch(40.0), reserve=0.0)
    done = simulate(schedule, {"a": 1.0, "slow": 12.0, "b": 1.0})
    assert [member for member, _ in done] == ["a"] * 5 + ["slow"] + ["b"] * 5
    assert schedule.left_out["slow"] == "after 1 of 5 folds, it needs about 48 s more, and 23 s are left"


def test_the_first_member_is_fitted_on_as_many_folds_as_there_is_time_for():
    schedule = Schedule({"a": 1.0, "b": 0.001}, 5, Stopwatch(10.0), reserve=0.1)
    assert simulate(schedule, {"a": 4.0, "b": 4.0}) == [("a", 0), ("a", 1)]
    schedule = Schedule({"a": 1.0, "b": 1.0}, 5, Stopwatch(10.0))
    assert simulate(schedule, {"a": 100.0, "b": 1.0}) == [("a", 0)]


def test_several_jobs_share_the_folds():
    costs = {"a": 1.0, "b": 1.0}
    schedule = Schedule(costs, 4, Stopwatch(10.0), n_jobs=4, reserve=0.0)
    for fold in range(4):
        schedule.record(FoldModel("a", fold, fit_time=8.0, predict_time=0.0))
    assert list(schedule) == [("b", fold) for fold in range(4)]  # 8 s together


def test_folds_that_are_still_running_count_with_the_time_they_took_so_far():
    """joblib draws the next fold before the result of the last one is handed over."""
    schedule = Schedule({"a": 1.0, "b": 1.0}, 5, Stopwatch(20.0), n_jobs=2, reserve=0.1)
    following = iter(schedule)
    assert [next(following), next(following)] == [("a", 0), ("a", 1)]
    schedule.clock.now = 12.0
    assert list(following) == []  # a third fold would end after 24 s
    assert schedule.left_out["a"] == "after 2 of 5 folds, it needs about 12 s more, and 6 s are left"


def test_a_failed_member_is_not_continued():
    schedule = Schedule({"a": 1.0, "b": 1.0}, 3, Stopwatch())
    following = iter(schedule)
    assert next(following) == ("a", 0)
    schedule.record(FoldModel("a", 0, error="ValueError: no"))
    assert list(following) == [("b", 0), ("b", 1), ("b", 2)]
    assert schedule.left_out == {"a": "failed: ValueError: no"}


def test_only_the_first_member_is_not_stopped():
    schedule = Schedule({"a": 1.0, "b": 1.0, "c": 1.0}, 2, Stopwatch(20.0), reserve=0.1)
    schedule.clock.now = 5.0
    assert schedule.find_deadline("a") is None
    assert schedule.find_deadline("b") == pytest.approx(time.time() + 13, abs=1)
    schedule.record(FoldModel("a", 0, error="ValueError: no"))
    assert schedule.find_deadline("b") is None
    assert Schedule({"a": 1.0, "b": 1.0}, 2, Stopwatch()).find_deadline("b") is None  # no limit
    schedule.record(FoldModel("c", 0, fit_time=1.0, predict_time=0.0))
    schedule.record(FoldModel("c", 1, error=LATE))
    assert schedule.left_out["c"] == "after 1 of 2 folds, the time was over"


class Sleeper(DummyClassifier):
    """It would take a minute."""

    def fit(self, X, y):
        time.sleep(60)
        return super().fit(X, y)


def test_a_fold_that_takes_too_long_is_stopped(capsys):
    methods = {"bayes": GaussianNB(), "sleeper": Sleeper(), "logistic": LogisticRegression()}
    start = time.monotonic()
    model = AutoClassifier("f1", methods=methods, cv=2, time_limit=2, verbose=True, random_state=0).fit(X, Y)
    assert time.monotonic() - start < 30
    assert [row.method for row in model.comparison_.rows] == ["bayes"]
    assert model.left_out_["sleeper"] == "after 0 of 2 folds, the time was over"
    assert capsys.readouterr().err.count("sleeper was stopped: the time was over") == 1
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_deadline_ends_with_its_block():
    with stop_after(60):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    with stop_after(None):
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_deadline_is_not_an_interrupt():
    """CatBoost raises KeyboardInterrupt when a signal raises anything."""
    pytest.importorskip("catboost")
    generator = np.random.default_rng(0)
    with pytest.raises(OutOfTime), stop_after(0.5):  # it would take minutes
        CatBoost(n_estimators=100_000, patience=100_000, n_jobs=1).fit(
            generator.normal(size=(2000, 20)), generator.integers(0, 5, 2000)
        )
    with pytest.raises(KeyboardInterrupt), stop_after(60):
        signal.raise_signal(signal.SIGINT)


def test_there_is_no_deadline_where_signals_are_not_ours():
    def wait():
        with stop_after(0.01):
            time.sleep(0.1)
        return "in time"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(wait).result() == "in time"
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert wait() == "in time"
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("value", ["", "ten minutes", "10d", 0, -5, float("nan"), float("inf"), True, [5]])
def test_wrong_time_limits(value):
    with pytest.raises(ValueError, match="Expected `time_limit` to be seconds above 0, or a text such as"):
        as_seconds(value)
    assert as_seconds(" 2M ") == 120


@pytest.fixture
def fitted(monkeypatch):
    """The members and folds that are fitted."""
    record, fit = [], FoldTask._fit
    monkeypatch.setattr(
        FoldTask, "_fit", lambda task, *rest: (record.append((task.member, task.fold)), fit(task, *rest))[1]
    )
    return record


def classifier(folder, **settings):
    return AutoClassifier("f1", methods=METHODS, cv=3, random_state=0, checkpoint=folder, **settings)


def test_a_killed_fit_resumes_with_the_same_result(tmp_path, fitted, monkeypatch):
    whole = AutoClassifier("f1", methods=METHODS, cv=3, random_state=0).fit(X, Y)
    fitted.clear()
    with monkeypatch.context() as patch:

        def kill(self, X, y, *rest):
            raise SystemExit

        patch.setattr(LogisticRegression, "fit", kill)
        with pytest.raises(SystemExit):
            classifier(tmp_path).fit(X, Y)
    assert fitted == [("bayes", 0), ("bayes", 1), ("bayes", 2), ("logistic", 0)]
    fitted.clear()
    resumed = classifier(tmp_path).fit(X, Y)
    assert fitted == [("logistic", fold) for fold in range(3)]
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    assert [row.values for row in resumed.comparison_.rows] == [row.values for row in whole.comparison_.rows]
    fitted.clear()
    classifier(tmp_path).fit(X, Y)
    assert fitted == []


class Foreign(GaussianNB):
    """Of a type that is not trusted, and so cannot be stored."""


def test_what_cannot_be_stored_is_fitted_again(tmp_path, fitted):
    settings = {"methods": {"mine": Foreign(), "bayes": GaussianNB()}, "cv": 2, "random_state": 0}
    one, two = (AutoClassifier("f1", checkpoint=tmp_path, **settings).fit(X, Y) for _ in range(2))
    assert fitted == [("mine", 0), ("mine", 1), ("bayes", 0), ("bayes", 1), ("mine", 0), ("mine", 1)]
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-12)


def test_other_settings_and_data_are_not_mixed_up(tmp_path, fitted):
    classifier(tmp_path).fit(X, Y)
    fitted.clear()
    AutoClassifier(
        "f1", methods={"bayes": GaussianNB(var_smoothing=0.1)}, cv=3, random_state=0, checkpoint=tmp_path
    ).fit(X, Y)
    assert fitted == [("bayes", fold) for fold in range(3)]
    for data, metric in ((X + 1, "f1"), (X, "mcc")):
        with pytest.raises(ValueError, match="`checkpoint` of this data, metric and constraints"):
            classifier(tmp_path).set_params(metric=metric).fit(data, Y)
    with pytest.raises(ValueError, match="`random_state` to be an integer with `checkpoint`"):
        AutoClassifier(methods=METHODS, checkpoint=tmp_path).fit(X, Y)


def test_foreign_and_damaged_files_are_rejected(tmp_path):
    folder = tmp_path / "folds"
    classifier(folder).fit(X, Y)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(
        ValueError, match="`checkpoint` to be a new folder, or one of fold models, but got .*notes"
    ):
        classifier(folder).fit(X, Y)
    (folder / "notes.txt").unlink()
    part = next(folder.glob("*.s*"))
    content = part.read_bytes()
    part.write_bytes(content[:-1] + b"x")
    with pytest.raises(ValueError, match="`checkpoint` with the parts that were saved.* Delete it, or"):
        classifier(folder).fit(X, Y)
    part.write_bytes(content)
    facts = next(folder.glob("*.json"))
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "kind": "Other"}))
    with pytest.raises(ValueError, match="`checkpoint` with a FoldModel, but got Other"):
        classifier(folder).fit(X, Y)
    with pytest.raises(ValueError, match="`checkpoint` to be a folder that can be written"):
        classifier(facts).fit(X, Y)
