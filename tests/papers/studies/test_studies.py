"""Studies: every point once, whatever happens to the workers."""

import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState
from toys import BROKEN, TOY

from evalign.papers import Column, Data, Row, Scale
from evalign.papers import _engine as engine
from evalign.papers import _queue as queues
from evalign.papers._data import MissingDataError
from evalign.papers._plan import Plan
from evalign.papers._queue import Queue
from evalign.papers._storage import Storage, ask

SCRIPT = Path(__file__).with_name("toys.py")
PLAN = StudyPlan(TOY, "small", 0, ("mammography",))
#: F1*, BCE and the rule: two settings and one stack of two trials; Dice: two settings and two trials.
POINTS = 3 * (2 + 1) + 2 + 2


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    from evalign.papers import reproduce

    folder = tmp_path_factory.mktemp("uninterrupted")
    made = reproduce(TOY, storage=f"sqlite:///{folder / 's.db'}", out=folder, progress=False)
    assert made.results.complete
    return made


def scores(made):
    return {key: cell.scores for key, cell in made.results.cells.items()}


def complete(found):
    return Counter(trial.user_attrs["key"] for trial in found if trial.state == TrialState.COMPLETE)


def wait_for(trials, count, worker):
    """Wait until so many points are done and another one is running."""
    until = time.monotonic() + 120
    while time.monotonic() < until and worker.poll() is None:
        try:
            states = Counter(trial.state for trial in trials())
        except KeyError:  # no such study yet
            states = Counter()
        if states[TrialState.COMPLETE] >= count and states[TrialState.RUNNING]:
            return
        time.sleep(0.05)
    raise AssertionError(f"never {count} points; the worker ended with {worker.poll()}")


def test_every_point_is_run_once_and_never_again(run, trials, uninterrupted):
    first = run(TOY)
    assert scores(first) == scores(uninterrupted)
    assert set(complete(trials()).values()) == {1}
    assert len(trials()) == POINTS
    before = [trial.datetime_complete for trial in trials()]
    assert scores(run(TOY)) == scores(first)
    assert [trial.datetime_complete for trial in trials()] == before


def test_trials_run_at_the_setting_with_the_lowest_validation_loss(run, trials):
    run(TOY)
    found = [trial for trial in trials() if trial.user_attrs["point"]["row"] == "Dice"]
    grid = [trial for trial in found if trial.user_attrs["point"]["stage"] == "grid"]
    best = min(grid, key=lambda trial: trial.value).user_attrs["point"]["setting"]
    runs = [trial.user_attrs["point"] for trial in found if trial not in grid]
    assert [point["setting"] for point in runs] == [best, best]
    assert [point["seeds"] for point in runs] == [[1], [2]]


def test_two_processes_share_a_study(run, trials, uninterrupted):
    made = run(TOY, jobs=2)
    assert scores(made) == scores(uninterrupted)
    assert set(complete(trials()).values()) == {1}
    assert len(complete(trials())) == POINTS


def test_killed_in_the_middle_it_goes_on(script, run, storage, trials, tmp_path, uninterrupted):
    worker = script(SCRIPT, storage, tmp_path / "out", 0.4)
    wait_for(trials, 3, worker)
    worker.ended(signal.SIGKILL)
    done = {trial.number: trial.datetime_complete for trial in trials() if trial.state == TrialState.COMPLETE}
    assert 3 <= len(done) < POINTS
    assert not (tmp_path / "out").exists()
    made = run(TOY)
    assert scores(made) == scores(uninterrupted)
    assert set(complete(trials()).values()) == {1}
    assert all(trials()[number].datetime_complete == when for number, when in done.items())


def test_ctrl_c_puts_the_running_point_back(script, run, storage, trials, tmp_path, uninterrupted):
    worker = script(SCRIPT, storage, tmp_path / "out", 0.4)
    wait_for(trials, 2, worker)
    assert worker.ended(signal.SIGINT)[0] == 130
    back = [trial for trial in trials() if "put back" in trial.user_attrs]
    assert len(back) == 1
    assert not any(trial.state == TrialState.RUNNING for trial in trials())
    assert scores(run(TOY)) == scores(uninterrupted)
    assert set(complete(trials()).values()) == {1}


def test_a_failed_point_is_recorded_and_ends_nothing(run, trials):
    made = run(BROKEN)
    assert made.results.complete
    cell = made.results.cells["mammography", "no loss"]
    assert cell.scores == []
    assert len(cell.errors) == 2  # both settings, so that there are no trials
    assert "Expected `method` to be a known loss, but got 'nothing'" in cell.errors[0]
    assert made.results.cells["mammography", "F1*"].number("F1") is not None
    assert "Failed: no loss on mammography: ValueError: Expected" in made.files[0].read_text()
    count = len(trials("broken small seed 0"))
    run(BROKEN)
    assert len(trials("broken small seed 0")) == count


def test_another_configuration_is_refused_and_nothing_lost(run, trials):
    run(TOY)
    before = len(trials())
    other = replace(TOY, small=Scale(3, TOY.small.settings))
    with pytest.raises(ValueError, match="without a study 'toy small seed 0' of another configuration"):
        run(other)
    assert len(trials()) == before
    run(replace(TOY, title="another title"))  # words may change
    run(TOY, seed=1)  # a study of its own
    assert len(trials("toy small seed 1")) == POINTS


def test_other_data_under_the_same_name_is_refused(run, monkeypatch):
    run(TOY)
    monkeypatch.setattr("evalign.papers._reproduce.fingerprint", lambda name: "other")
    with pytest.raises(ValueError, match="results on the same mammography data"):
        run(TOY)


def test_a_point_enqueued_twice_is_run_once(storage, trials):
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    point = PLAN.runnable_points({})[0]
    queue.study.enqueue_trial({}, user_attrs={"key": point.key, "point": point.to_dict()})
    engine.work(queue)
    assert len(trials()) == POINTS + 1
    assert set(complete(trials()).values()) == {1}
    assert [trial.state for trial in trials() if trial.user_attrs["key"] == point.key] == [
        TrialState.COMPLETE,
        TrialState.PRUNED,
    ]


def test_a_point_whose_worker_died_before_its_first_heartbeat_is_run_again(storage, trials, monkeypatch):
    queue = StudyQueue(StudyStorage(storage, interval=1, grace=1), PLAN)
    queue.fill()
    ask(queue.study)
    assert queue.refill() == 0
    monkeypatch.setattr(queues, "FIRST_BEAT", 0.0)
    time.sleep(1.1)
    assert queue.refill() == 1


def test_a_point_that_kills_its_workers_is_given_up(storage):
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    key = PLAN.runnable_points({})[0].key
    for _ in range(queues.LIVES):
        trial, point = queue.take()
        while point.key != key:
            trial, point = queue.take()
        queue.study.tell(trial, state=TrialState.FAIL)
        queue.refill()
    assert queue.progress().errors == {key: "its worker died 3 times"}
    assert key not in queue.progress().pending


def test_one_who_finds_a_study_half_enqueued_enqueues_the_rest(storage, trials, monkeypatch):
    """Its maker was killed between making it and enqueuing its points."""
    monkeypatch.setattr(queues, "SILENCE", 0.5)
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.study.set_user_attr("filling", True)
    StudyQueue(StudyStorage(storage), PLAN).fill()
    assert len(trials()) == 4 * 2


def test_missing_data_is_told_and_the_rest_goes_on(run, monkeypatch, tmp_path):
    monkeypatch.setenv("EVALIGN_DATA", str(tmp_path))
    table = replace(TOY, data=(*TOY.data, PaperData("creditcard", "Kaggle", "btg_net")))
    made = run(table)
    assert made.results.complete
    assert "Put creditcard.csv" in made.results.missing["creditcard"]
    text = made.files[0].read_text()
    assert "Left out, since its data is not on the machine: creditcard. The data of 'creditcard'" in text
    assert "## Kaggle" not in text
    with pytest.raises(MissingDataError, match="creditcard.csv"):
        run(replace(table, name="nothing", data=table.data[1:]))


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("sqlite:////no/such/folder/studies.db", ConnectionError, "cannot be reached: unable to open"),
        (
            "postgresql+psycopg://me:secret@127.0.0.1:1/db",
            ConnectionError,
            r"me:\*\*\*@127.0.0.1:1/db cannot be",
        ),
        ("studies.db", ValueError, "an SQLAlchemy URL such as sqlite:///studies.db, but got 'studies.db'"),
    ],
)
def test_a_storage_that_cannot_be_reached(run, monkeypatch, url, error, message):
    monkeypatch.setattr("evalign.papers._storage.time.sleep", lambda seconds: None)
    with pytest.raises(error, match=message) as raised:
        run(TOY, storage=url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("setting", "value"), [("scale", "huge"), ("jobs", 0), ("seed", -1)])
def test_bad_arguments(run, setting, value):
    with pytest.raises(ValueError, match=f"Expected `{setting}` to be"):
        run(TOY, **{setting: value})


def test_an_estimator_and_a_rule_are_rows_too(run):
    rows = (PaperRow("forest", "forest", {"n_estimators": 5}), PaperRow("CCS", "ccs"), PaperRow("aligned", "aligned"))
    settings = {**TOY.small.settings, "learning_rate": 0.01}
    made = run(replace(TOY, name="rows", rows=rows, small=Scale(1, settings), numbers={}, bold=None))
    assert made.results.complete
    assert all(len(cell.scores) == 1 and not cell.errors for cell in made.results.cells.values())


LENDER = replace(TOY, name="lender", rows=TOY.rows[1:2], columns=(*TOY.columns, PaperColumn("Acc", "accuracy")))
BORROWER = replace(
    TOY, name="borrower", rows=(PaperRow("Other name", "dice"), PaperRow("Focal", "balanced ce")),
    columns=(PaperColumn("M", "mcc"), PaperColumn("Mean F1", "f1", "thresholds")),
)  # fmt: skip


@pytest.fixture
def lent(run, monkeypatch):
    """A storage in which the table `lender` is done, and the points that are run from then on."""
    from evalign.papers import _borrow

    monkeypatch.setitem(_borrow.TABLES, "lender", LENDER)
    made, ran = run(LENDER), []
    real = engine.run
    monkeypatch.setattr(
        engine, "run", lambda table, point, seed: ran.append(point.row) or real(table, point, seed)
    )
    return made, ran


def test_what_another_table_has_done_is_not_done_again(lent, run, trials):
    lender, ran = lent
    made = run(BORROWER)
    assert made.results.complete
    assert set(ran) == {"Focal"}
    theirs = lender.results.cells["mammography", "Dice"].scores
    own = made.results.cells["mammography", "Other name"].scores
    assert own == [{"M": one["MCC"], "Mean F1": one["F1"]} for one in theirs]
    borrowed = [trial for trial in trials("borrower small seed 0") if "borrowed" in trial.user_attrs]
    assert {trial.user_attrs["borrowed"] for trial in borrowed} == {"lender"}
    assert len(borrowed) == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": (PaperColumn("R", "recall"),)},  # not judged there
        {"columns": (PaperColumn("Seconds", "", "time"),)},
        {"metric": "mcc"},
        {"small": Scale(2, {**TOY.small.settings, "max_epochs": 1})},
        {"rows": (PaperRow("Dice", "dice", rule=True),)},
    ],
)
def test_other_work_is_not_borrowed(lent, run, changed):
    made = run(replace(BORROWER, **{"rows": BORROWER.rows[:1], **changed}))
    assert made.results.complete
    assert len(lent[1]) == 4


def test_work_of_another_configuration_is_not_borrowed(lent, run, monkeypatch):
    from evalign.papers import _borrow

    monkeypatch.setitem(_borrow.TABLES, "lender", replace(LENDER, metric="mcc"))
    run(replace(BORROWER, rows=BORROWER.rows[:1]))
    assert len(lent[1]) == 4


def test_work_on_other_data_is_not_borrowed(lent, run, monkeypatch):
    from evalign.papers import _reproduce

    monkeypatch.setattr(_reproduce, "fingerprint", lambda name: "other rows")
    run(replace(BORROWER, rows=BORROWER.rows[:1]))
    assert len(lent[1]) == 4


def test_rows_that_differ_in_their_rule_alone_share_their_networks(run, monkeypatch):
    from evalign.papers import _training

    _training._entropies.cache_clear()
    calls = []
    real = _training._all
    monkeypatch.setattr(_training, "_all", lambda row, *rest: calls.append(row.name) or real(row, *rest))
    rows = (
        PaperRow("BCE", "ce"),
        PaperRow("rule", "ce", rule=True),
        PaperRow("F2", "ce", {"metric": "fbeta(2)"}, rule=True),
    )
    made = run(replace(TOY, rows=rows, small=Scale(2, {**TOY.small.settings, "learning_rate": 0.01})))
    assert len(calls) == 1
    found = [made.results.cells["mammography", row.name].number("MCC").mean for row in rows]
    assert found[0] != found[1]
