"""Studies: every point is run once, whatever happens to the workers."""

import math
import pickle
import platform
import shutil
import signal
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import _optimize
from optuna.trial import TrialState
from toys import BROKEN, SETTINGS, TOY

from evalign.papers import MissingDataError, _reproduce, reproduce
from evalign.papers.studies import StudyPlan, StudyQueue, _borrow, _queue, _workers, work
from evalign.papers.studies._storage import StudyStorage
from evalign.papers.tables import PaperColumn, PaperData, PaperRow, Protocol, Scale
from evalign.papers.training import Outcome

SCRIPT = Path(__file__).parents[1] / "toys.py"
PLAN = StudyPlan(TOY, "small", 0, ("mammography",))
#: F1* and BCE with its rule have two settings and one stack of two trials, Dice two settings and two trials.
POINTS = 2 * (2 + 1) + 2 + 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A function that copies the database of a finished table to a storage, and returns its result."""
    folder, results = tmp_path_factory.mktemp("finished"), {}

    def finish(table, storage=None):
        database = folder / f"{table.name}.db"
        if table.name not in results:
            results[table.name] = reproduce(
                table, storage=f"sqlite:///{database}", out=folder, progress=False
            )
            assert results[table.name].results.complete
        if storage is not None:
            shutil.copy(database, storage.removeprefix("sqlite:///"))
        return results[table.name]

    return finish


@pytest.fixture
def uninterrupted(finished):
    return finished(TOY)


def scores(result):
    return {key: cell.scores for key, cell in result.results.cells.items()}


def count_complete(trials):
    return Counter(trial.user_attrs["key"] for trial in trials if trial.state == TrialState.COMPLETE)


def take(queue):
    """Take a waiting trial as a worker does, but without its heartbeats."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        return queue.study.ask()


def wait_for(trials, count, worker):
    """Wait until `count` points are done and another one is running."""
    until = time.monotonic() + 120
    while time.monotonic() < until and worker.poll() is None:
        try:
            known = trials()
        except KeyError:  # no such study yet
            known = []
        running = [trial for trial in known if trial.state == TrialState.RUNNING]
        # Without `worker` there was no heartbeat yet, and a kill would be noticed after two minutes only.
        if len(count_complete(known)) >= count and any("worker" in trial.user_attrs for trial in running):
            return
        time.sleep(0.05)
    raise AssertionError(f"never {count} points; the worker ended with {worker.poll()}")


def test_every_point_is_run_exactly_once(run, trials, uninterrupted):
    first = run(TOY)
    assert scores(first) == scores(uninterrupted)
    assert set(count_complete(trials()).values()) == {1}
    assert len(trials()) == POINTS
    before = [trial.datetime_complete for trial in trials()]
    assert set(first.results.days) == {when.date() for when in before}
    assert scores(run(TOY)) == scores(first)
    assert [trial.datetime_complete for trial in trials()] == before


def test_trials_run_at_the_setting_with_the_lowest_validation_loss(finished, storage, trials):
    finished(TOY, storage)
    dice = [trial for trial in trials() if trial.user_attrs["point"]["rows"] == ["Dice"]]
    grid = [trial for trial in dice if trial.user_attrs["point"]["stage"] == "grid"]
    best = min(grid, key=lambda trial: trial.value).user_attrs["point"]["setting"]
    runs = [trial.user_attrs["point"] for trial in dice if trial not in grid]
    assert [point["setting"] for point in runs] == [best, best]
    assert [point["seeds"] for point in runs] == [[1], [2]]


def test_settings_are_compared_with_those_of_the_grid_and_run_without(run, trials):
    settings = {**TOY.small.settings, "floor": 0.1}
    metric, ce = PaperRow("F1*", "metric", {"metric": "f1"}), PaperRow("CE", "ce")
    table = replace(TOY, rows=(metric, ce), small=Scale(1, settings, grid={"floor": 0.2}))
    run(table)
    points = [trial.user_attrs["point"] for trial in trials()]
    floors = {(point["stage"], point["rows"][0]): point["setting"].get("floor") for point in points}
    assert floors == {
        ("grid", "F1*"): 0.2,
        ("trial", "F1*"): 0.1,
        ("grid", "CE"): None,
        ("trial", "CE"): None,
    }
    assert Counter(point["stage"] for point in points) == {"grid": 4, "trial": 2}


def test_a_row_may_take_the_settings_of_another(run, trials):
    aligned = PaperRow("aligned", "aligned", tuned_as="ce")
    result = run(replace(TOY, rows=(aligned, PaperRow("CE", "ce")), small=Scale(1, TOY.small.settings)))
    points = [trial.user_attrs["point"] for trial in trials()]
    assert Counter((point["stage"], point["rows"][0]) for point in points) == {
        ("grid", "CE"): 2, ("trial", "CE"): 1, ("trial", "aligned"): 1,
    }  # fmt: skip
    first, second = (point["setting"] for point in points if point["stage"] == "trial")
    assert first == second
    keys = [trial.user_attrs["key"] for trial in trials()]
    assert result.results.plan.count_points(keys) == (4, 4)


def test_points_of_data_that_is_not_there_do_not_count():
    places = [(name, row) for name in ("mammography", "adult") for row in ("F1*", "BCE")]
    done = [f"trial | {name} | {row} | {{}} | [1, 2]" for name, row in places]
    assert PLAN.count_points(done) == (2, POINTS)


def test_two_processes_share_a_study(script, run, storage, trials, tmp_path, uninterrupted):
    worker = script(SCRIPT, storage, tmp_path / "out", 0.1, 2)
    assert worker.wait() == 0, worker.errors
    complete = [trial for trial in trials() if trial.state == TrialState.COMPLETE]
    assert len({trial.user_attrs["worker"] for trial in complete}) == 2
    result = run(TOY)
    assert scores(result) == scores(uninterrupted)
    assert set(count_complete(trials()).values()) == {1}
    assert len(count_complete(trials())) == POINTS
    job = _workers.Job(PLAN, storage, 1, 3)
    assert pickle.loads(pickle.dumps((_workers._work_in_process, job)))[1] == job  # as it reaches a process


def test_a_killed_study_resumes(script, run, storage, trials, tmp_path, uninterrupted):
    worker = script(SCRIPT, storage, tmp_path / "out", 0.2)
    wait_for(trials, 3, worker)
    worker.ended(signal.SIGKILL)
    done = {trial.number: trial.datetime_complete for trial in trials() if trial.state == TrialState.COMPLETE}
    assert 3 <= len(done) < POINTS
    assert not (tmp_path / "out").exists()
    result = run(TOY)
    assert scores(result) == scores(uninterrupted)
    assert set(count_complete(trials()).values()) == {1}
    assert all(trials()[number].datetime_complete == when for number, when in done.items())


def test_a_point_interrupted_by_ctrl_c_is_run_again(script, run, storage, trials, tmp_path, uninterrupted):
    worker = script(SCRIPT, storage, tmp_path / "out", 1)
    wait_for(trials, 2, worker)
    assert worker.ended(signal.SIGINT)[0] == 130
    interrupted = [trial for trial in trials() if "interrupted" in trial.user_attrs]
    assert len(interrupted) == 1
    assert not any(trial.state == TrialState.RUNNING for trial in trials())
    assert scores(run(TOY)) == scores(uninterrupted)
    assert set(count_complete(trials()).values()) == {1}


def test_a_failed_point_is_recorded_and_the_study_continues(run, trials):
    result = run(BROKEN)
    assert result.results.complete
    cell = result.results.cells["mammography", "no loss"]
    assert cell.scores == []
    assert len(cell.errors) == 2  # both settings, so that there are no trials
    assert "Expected `method` to be a known loss, but got 'nothing'" in cell.errors[0]
    assert result.results.cells["mammography", "F1*"].number("F1") is not None
    assert "Failed: no loss on mammography: ValueError: Expected" in result.files[0].read_text()
    count = len(trials("broken small seed 0"))
    run(BROKEN)
    assert len(trials("broken small seed 0")) == count


def test_a_setting_that_diverges_is_neither_chosen_nor_repeated(run, trials):
    scale = Scale(2, {**SETTINGS, "learning_rate": (1e30, 0.01)})
    table = replace(TOY, name="diverging", rows=TOY.rows[1:2], small=scale)
    result = run(table)
    assert result.results.cells["mammography", "Dice"].errors == []
    known = trials("diverging small seed 0")
    assert [trial.state for trial in known] == [TrialState.COMPLETE] * 4
    assert [trial.value for trial in known][:1] == [math.inf]
    rates = [trial.user_attrs["point"]["setting"]["learning_rate"] for trial in known]
    assert rates == [1e30, 0.01, 0.01, 0.01]


def test_another_configuration_is_rejected_and_nothing_lost(finished, run, storage, trials):
    finished(TOY, storage)
    before = len(trials())
    other = replace(TOY, small=Scale(3, TOY.small.settings))
    with pytest.raises(ValueError, match="without a study 'toy small seed 0' of another configuration"):
        run(other)
    assert len(trials()) == before
    run(replace(TOY, title="another title"))  # titles are not part of the configuration
    run(TOY, seed=1)  # another study
    assert len(trials("toy small seed 1")) == POINTS


def test_other_data_of_the_same_name_is_rejected(finished, run, storage, monkeypatch):
    finished(TOY, storage)
    monkeypatch.setattr(_reproduce, "fingerprint", lambda name: "other")
    with pytest.raises(ValueError, match="results on the same mammography data"):
        run(TOY)


def test_a_point_enqueued_twice_is_run_once(storage, trials):
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    point = PLAN.runnable_points({})[0]
    queue.study.enqueue_trial({}, user_attrs={"key": point.key, "point": point.to_dict()})
    work(queue)
    assert len(trials()) == POINTS + 1
    assert set(count_complete(trials()).values()) == {1}
    assert [trial.state for trial in trials() if trial.user_attrs["key"] == point.key] == [
        TrialState.COMPLETE,
        TrialState.PRUNED,
    ]


def test_a_point_whose_worker_died_before_its_first_heartbeat_is_run_again(storage, trials, monkeypatch):
    monkeypatch.setattr(_queue, "AHEAD", POINTS)
    queue = StudyQueue(StudyStorage(storage, interval=1, grace=1), PLAN)
    queue.fill()
    take(queue)
    assert queue.refill() == 0
    monkeypatch.setattr(_queue, "FIRST_HEARTBEAT", 0.0)
    time.sleep(1.1)
    assert queue.refill() == 1


def test_a_point_whose_worker_died_at_once_is_run_again(storage, monkeypatch):
    """The thread that sends heartbeats may come too late, so its first one does not depend on it."""
    monkeypatch.setattr(_optimize, "get_heartbeat_thread", lambda *_: nullcontext())
    monkeypatch.setattr(_queue, "AHEAD", POINTS)
    queue = StudyQueue(StudyStorage(storage, interval=1, grace=1), PLAN)
    queue.fill()

    def die(trial, point):
        raise SystemExit

    with pytest.raises(SystemExit):
        queue.run_next(die)
    assert queue.refill() == 0
    time.sleep(2.1)  # the database counts whole seconds
    assert queue.refill() == 1


def test_a_heartbeat_survives_a_database_that_is_unreachable(storage, monkeypatch):
    def record_heartbeat(*_):
        raise StorageInternalError("The connection is lost.")

    monkeypatch.setattr(RDBStorage, "record_heartbeat", record_heartbeat)
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    outcome = Outcome([{}], 0.5, [1], 1.0)
    assert queue.run_next(lambda trial, point: outcome)
    assert list(queue.progress().done.values()) == [outcome]


def test_a_point_that_kills_its_workers_is_given_up(storage):
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    key = PLAN.runnable_points({})[0].key
    for _ in range(_queue.LIVES):
        trial = take(queue)
        while trial.user_attrs["key"] != key:
            trial = take(queue)
        queue.study.tell(trial, state=TrialState.FAIL)
        queue.refill()
    assert queue.progress().errors == {key: "its worker died 3 times"}
    assert key not in queue.progress().pending


def test_a_worker_completes_a_study_that_was_enqueued_in_part(storage, trials, monkeypatch):
    """The worker that created the study was killed before it had enqueued the points."""
    monkeypatch.setattr(_queue, "SILENCE", 0.5)
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.study.set_user_attr("filling", True)
    StudyQueue(StudyStorage(storage), PLAN).fill()
    assert len(trials()) == _queue.AHEAD


def test_one_dataset_is_complete_before_the_next_is_far(storage):
    """Its trials are known only when its settings were compared, but come before most of the next dataset."""
    data = (*TOY.data, PaperData("cocktailparty", "CocktailParty", "btg_net"))
    plan = StudyPlan(replace(TOY, data=data), "small", 0, tuple(one.name for one in data))
    queue = StudyQueue(StudyStorage(storage), plan)
    queue.fill()
    order = []

    def run(trial, point):
        order.append(point.data)
        return Outcome([{row: {} for row in point.rows}] * len(point.seeds), 0.5, [1], 1.0)

    while queue.run_next(run):
        queue.refill()
    assert Counter(order) == {"mammography": POINTS, "cocktailparty": POINTS}
    last = max(at for at, name in enumerate(order) if name == "mammography")
    assert order[:last].count("cocktailparty") <= 4


def test_a_worker_leaves_the_points_of_other_datasets_to_others(storage):
    data = (*TOY.data, PaperData("cocktailparty", "CocktailParty", "btg_net"))
    plan = StudyPlan(replace(TOY, data=data), "small", 0, tuple(one.name for one in data))
    everything = StudyQueue(StudyStorage(storage), plan)
    everything.fill()  # points of the first dataset wait
    queue = StudyQueue(StudyStorage(storage), replace(plan, data=("cocktailparty",)))
    taken = []

    def run(trial, point):
        taken.append(point.data)
        return Outcome([{row: {} for row in point.rows}] * len(point.seeds), 0.5, [1], 1.0)

    assert not queue.run_next(run)
    assert not queue.progress().pending
    queue.refill()
    while queue.run_next(run):
        queue.refill()
    assert taken == ["cocktailparty"] * POINTS
    waiting = everything.study.waiting()
    assert [trial.user_attrs["point"]["data"] for trial in waiting] == ["mammography"] * _queue.AHEAD


def test_points_are_enqueued_for_any_number_of_workers(storage):
    queue = StudyQueue(StudyStorage(storage), PLAN)
    queue.fill()
    for _ in range(_queue.AHEAD):
        take(queue)
    assert queue.refill() == 3 * 2 - _queue.AHEAD


def test_missing_data_is_reported_and_the_rest_is_run(run, monkeypatch, tmp_path):
    monkeypatch.setenv("EVALIGN_DATA", str(tmp_path))
    table = replace(TOY, data=(*TOY.data, PaperData("creditcard", "Kaggle", "btg_net")))
    result = run(table)
    assert result.results.complete
    assert "Put creditcard.csv" in result.results.missing["creditcard"]
    text = result.files[0].read_text()
    assert "Left out, since its data is not on this machine: creditcard. The data of 'creditcard'" in text
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
    monkeypatch.setattr("evalign.papers.studies._storage.time.sleep", lambda seconds: None)
    with pytest.raises(error, match=message) as raised:
        run(TOY, storage=url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("setting", "value"), [("scale", "huge"), ("jobs", 0), ("seed", -1)])
def test_invalid_arguments(run, setting, value):
    with pytest.raises(ValueError, match=f"Expected `{setting}` to be"):
        run(TOY, **{setting: value})


def test_rows_may_be_estimators_and_aligned_networks(run):
    rows = (
        PaperRow("forest", "forest", {"n_estimators": 5}),
        PaperRow("CCS", "ccs"),
        PaperRow("aligned", "aligned"),
    )
    settings = {**TOY.small.settings, "learning_rate": 0.01}
    result = run(replace(TOY, name="rows", rows=rows, small=Scale(1, settings), numbers={}, bold=None))
    assert result.results.complete
    assert all(len(cell.scores) == 1 and not cell.errors for cell in result.results.cells.values())


LENDER = replace(
    TOY, name="lender", rows=TOY.rows[1:2], columns=(*TOY.columns, PaperColumn("Acc", "accuracy"))
)
BORROWER = replace(
    TOY, name="borrower", rows=(PaperRow("Other name", "dice"), PaperRow("Focal", "balanced ce")),
    columns=(PaperColumn("M", "mcc"), PaperColumn("Mean F1", "f1", "thresholds")),
)  # fmt: skip


@pytest.fixture
def loan(finished, storage, monkeypatch):
    """The result of the table `lender`, and the rows of the points that are run after it."""
    monkeypatch.setitem(_borrow.TABLES, "lender", LENDER)
    result, rows = finished(LENDER, storage), []
    real = _workers.run_point
    monkeypatch.setattr(
        _workers, "run_point", lambda table, point, seed: rows.extend(point.rows) or real(table, point, seed)
    )
    return result, rows


def test_the_work_of_another_table_is_not_repeated(loan, run, trials):
    lender, rows = loan
    result = run(BORROWER)
    assert result.results.complete
    assert set(rows) == {"Focal"}
    theirs = lender.results.cells["mammography", "Dice"].scores
    own = result.results.cells["mammography", "Other name"].scores
    assert own == [{"M": one["MCC"], "Mean F1": one["F1"]} for one in theirs]
    borrowed = [trial for trial in trials("borrower small seed 0") if "borrowed" in trial.user_attrs]
    assert {trial.user_attrs["borrowed"] for trial in borrowed} == {"lender"}
    assert len(borrowed) == 4


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"columns": (PaperColumn("R", "recall"),)}, 4),  # not scored there
        ({"columns": (PaperColumn("Seconds", "", "time"),)}, 4),
        ({"metric": "mcc"}, 4),
        ({"protocol": Protocol(weight_decay=0.0)}, 4),
        ({"small": Scale(2, {**TOY.small.settings, "max_epochs": 1})}, 4),
        ({"rows": (PaperRow("Dice", "dice", rule=True),)}, 2),  # the same setting is best, other decisions
    ],
)
def test_other_work_is_not_borrowed(loan, run, changes, count):
    result = run(replace(BORROWER, **{"rows": BORROWER.rows[:1], **changes}))
    assert result.results.complete
    assert len(loan[1]) == count


def test_work_of_another_configuration_is_not_borrowed(loan, run, monkeypatch):
    monkeypatch.setitem(_borrow.TABLES, "lender", replace(LENDER, metric="mcc"))
    run(replace(BORROWER, rows=BORROWER.rows[:1]))
    assert len(loan[1]) == 4


def test_work_on_other_data_is_not_borrowed(loan, run, monkeypatch):
    monkeypatch.setattr(_reproduce, "fingerprint", lambda name: "other rows")
    run(replace(BORROWER, rows=BORROWER.rows[:1]))
    assert len(loan[1]) == 4


def test_rows_that_differ_only_in_their_rule_share_their_networks(run, monkeypatch):
    from evalign.papers.training import _points

    calls = []
    real = _points.train_networks
    monkeypatch.setattr(_points, "train_networks", lambda *work: calls.append(work) or real(*work))
    rows = (
        PaperRow("BCE", "ce"),
        PaperRow("rule", "ce", rule=True),
        PaperRow("F2", "ce", {"metric": "fbeta(2)"}, rule=True),
        PaperRow("raw", "ce", raw=True),
    )
    columns = (*TOY.columns, PaperColumn("AUROC", "auroc", "scores"))
    # Trained well enough for a rule to be worth something.
    small = Scale(2, {**TOY.small.settings, "learning_rate": 0.01, "max_epochs": 40, "patience": 40})
    result = run(replace(TOY, rows=rows, columns=columns, small=small))
    assert len(calls) == 1
    cells = [result.results.cells["mammography", row.name] for row in rows]
    assert len({cell.number("AUROC") for cell in cells}) == 1
    assert cells[0].number("MCC") == cells[3].number("MCC") != cells[1].number("MCC")
    assert cells[0].number("F1") != cells[3].number("F1")


def test_waiting_points_of_a_skipped_row_are_not_run(tmp_path):
    storage = StudyStorage(f"sqlite:///{tmp_path / 'studies.db'}")
    StudyQueue(storage, PLAN).fill()
    scale = replace(TOY.small, skip=(("mammography", "Dice"),))
    queue = StudyQueue(storage, replace(PLAN, table=replace(TOY, small=scale)))
    taken = []

    def run(trial, point):
        taken.append(point.rows)
        return Outcome([], 0.5, [])

    while queue.run_next(run):
        pass
    assert ("F1*",) in taken
    assert ("Dice",) not in taken


#: Allocates and frees 32 MB, ten times as a step of training does; without `keep_memory` all pages are new.
STEPS = """
import resource
import torch
from evalign.papers.studies._workers import keep_memory

def count_new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [torch.ones(2**20) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = count_new_pages()
keep_memory()
count_new_pages()
print(usual, count_new_pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_memory_that_a_step_frees_is_kept_for_the_next(script, tmp_path):
    steps, printed = tmp_path / "steps.py", tmp_path / "printed"
    steps.write_text(STEPS)
    assert script(steps, stdout=printed).wait() == 0
    usual, kept = map(int, printed.read_text().split())
    assert kept < usual / 10
