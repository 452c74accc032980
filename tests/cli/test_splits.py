"""Groups, times and weights: what a report says is what new rows will show."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from evalign.cli import _splits
from evalign.cli._console import Console
from evalign.cli._task import TaskOptions, read_task
from evalign.tables import TableModel

FIT = ["--target=ill", "--method=lightgbm_rule", "--json"]


def patients(count, seed, visits=8):
    """Visits of patients, who differ in two measures that say nothing of their illness."""
    generator = np.random.default_rng(seed)
    measures = generator.normal(size=(count, 2)).repeat(visits, axis=0)
    return pd.DataFrame(
        {
            "patient_id": np.arange(count).repeat(visits) + 1000 * seed,
            "height": measures[:, 0].round(4),
            "pressure": (measures[:, 1] + 0.01 * generator.normal(size=count * visits)).round(4),
            "noise": generator.normal(size=count * visits).round(3),
            "ill": np.where(generator.random(count) < 0.4, "yes", "no").repeat(visits),
        }
    )


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    for name, seed in (("old", 0), ("new", 1)):
        patients(60, seed).to_csv(folder / f"{name}.csv", index=False)
    return folder


def score_new(folder, clinic):
    table = pd.read_csv(clinic / "new.csv", dtype=str)
    return f1_score(table["ill"], TableModel.load(folder).predict(table), pos_label="yes")


def test_groups_tell_what_new_patients_will_show(run, clinic, tmp_path):
    plain = run("fit", clinic / "old.csv", *FIT, f"--out={tmp_path / 'plain'}")
    grouped = run("fit", clinic / "old.csv", *FIT, f"--out={tmp_path / 'grouped'}", "--group=patient_id")
    assert plain.status == grouped.status == 0
    assert "Note: `patient_id` looks like a group (60 values with several rows each)" in plain.err
    assert "looks like a group" not in grouped.err
    values = [json.loads(ran.out)["value"] for ran in (plain, grouped)]
    truth = [score_new(tmp_path / name, clinic) for name in ("plain", "grouped")]
    assert values[0] > 0.9 > truth[0] + 0.2  # random rows judge what was learned by heart
    assert values[1] < truth[1] + 0.2
    model = TableModel.load(tmp_path / "grouped")
    assert "patient_id" not in {column.name for column in model.schema.columns}
    assert (
        "rows of one patient_id are never on both sides" in (tmp_path / "grouped" / "README.md").read_text()
    )
    assert (
        "rows of one patient_id are never on both sides" in (tmp_path / "grouped" / "report.html").read_text()
    )


@pytest.fixture
def read(clinic):
    """Read a task with some options."""

    def call(data=clinic / "old.csv", target="ill", **options):
        plain = {
            "metric": "f1",
            "positive": None,
            "constraints": (),
            "methods": None,
            "jobs": 1,
            "seed": 0,
        }
        return read_task(
            Console(quiet=True), TaskOptions(data=str(data), target=target, **{**plain, **options})
        )

    return call


@pytest.mark.parametrize("seed", range(3))
def test_a_group_is_on_one_side(read, seed):
    task = read(group="patient_id")
    train, test = task.hold_out(seed)
    groups = pd.read_csv(task.file)["patient_id"].to_numpy()
    assert not set(groups[train]) & set(groups[test])
    assert len(train) + len(test) == len(groups)
    assert task.draw_windows(3) is None


def test_compare_keeps_groups_together(run, clinic, tmp_path):
    command = [
        "compare", clinic / "old.csv", "--target=ill", "--methods=lightgbm,lightgbm_rule", "--repeats=2",
        "--jobs=1", "--json",
    ]  # fmt: skip
    means = []
    for number, more in enumerate([[], ["--group=patient_id"]]):
        result = json.loads(run(*command, f"--out={tmp_path / str(number)}", *more).out)
        means.append(result["comparison"]["rows"][1]["mean"])
    assert means[0] > 0.9 > means[1] + 0.2


@pytest.fixture
def visits(tmp_path):
    """Rows of 200 days, of which the later ones are mostly of the other class."""
    generator = np.random.default_rng(0)
    day = generator.integers(0, 200, 600)
    table = pd.DataFrame(
        {"x": generator.normal(size=600), "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D")}
    )
    table["y"] = np.where(generator.random(600) < 0.2 + 0.6 * (day > 100), "b", "a")
    table["weight"] = np.where(table["y"] == "b", 3, 1)
    table.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def test_the_future_judges(read, visits):
    task = read(visits, "y", time="day")
    days = pd.read_csv(visits)["day"]
    for train, test in [task.hold_out(0), *task.draw_windows(4)]:
        assert days[train].max() < days[test].min()  # never the same day
    assert sorted(np.concatenate([test for _, test in task.draw_windows(4)])) == sorted(
        np.flatnonzero(days >= days[task.draw_windows(4)[0][1]].min())
    )
    assert "day" not in task.problem.X
    assert (
        read(visits, "y").warnings[-1] == "The classes change over `day`: with --time day, later rows judge."
    )


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_commands_accept_times_and_weights(run, visits, tmp_path, command):
    out = ["--methods=lightgbm,lightgbm_rule", "--jobs=1", f"--out={tmp_path / 'out'}"]
    ran = run(command, visits, "--target=y", "--time=day", "--weight=weight", *out)
    assert ran.status == 0, ran.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "later rows judge, in the order of day" in page
    assert "`weight` weighs rows in training and in the comparison" in ran.err


def test_weights_reach_the_problem(read, visits):
    task = read(visits, "y", weight="weight")
    assert task.problem.sample_weight.tolist() == pd.read_csv(visits)["weight"].tolist()
    assert "weight" not in task.problem.X


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--group=patien_id"],
            "Expected `group` to be a column, but got 'patien_id'. Did you mean 'patient_id'?",
        ),
        (["--group=ill"], "Expected `group` to be a column of its own, but got 'ill'."),
        (["--group=noise", "--weight=noise"], "to be a column of its own"),
        (["--group=patient_id", "--time=noise"], "Expected `group` without `time`, but got both."),
        (["--weight=noise"], "Expected `weight` with a number >= 0 in every row"),
        (["--time=ill_text"], "Expected `time` to be a column"),
    ],
)
def test_wrong_roles(fail, clinic, tmp_path, options, message):
    assert message in fail("fit", clinic / "old.csv", "--target=ill", f"--out={tmp_path / 'm'}", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group=two"], "Expected `group` with at least three values for one method: to train on, to"),
        (
            ["--group=copy"],
            "Expected `group` with several values per class, of which 20% can be held",
        ),
        (
            ["--weight=half"],
            "with a number above 0 in every class, but got only 0 for 'b'.",
        ),
        (
            ["--time=same"],
            "of dates such as 2024-12-31, that differ, but got 'same'.",
        ),
        (["--time=word"], "of dates such as 2024-12-31, that differ, but got 'word' (category)."),
        (["--time=late"], "Expected `time` with rows of every class before those that judge, but got "),
    ],
)
def test_roles_that_leave_nothing_to_learn_from(fail, left, tmp_path, options, message):
    y = pd.Series(["a"] * 100 + ["b"] * 20)
    table = pd.DataFrame({"x": np.arange(120) % 7, "y": y, "two": np.arange(120) % 2, "copy": y})
    table = table.assign(half=(y == "a") * 2.5, same="2024-01-01", word=["soon", "now"] * 60, late=range(120))
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", tmp_path / "t.csv", "--target=y", "--method=lightgbm_rule", f"--out={tmp_path / 'm'}"]
    assert message in fail(*command, *options)
    assert left() == ["t.csv"]


def test_what_numbers_the_rows_may_be_their_time(read, visits, tmp_path):
    table = pd.read_csv(visits)
    number = np.random.default_rng(1).permutation(len(table)) + 7
    table.assign(number=number).to_csv(tmp_path / "numbered.csv", index=False)
    task = read(tmp_path / "numbered.csv", "y", time="number")
    train, test = task.hold_out(0)
    assert task.times.tolist() == number.tolist()
    assert number[train].max() < number[test].min()


def test_rows_without_a_label(run, fail, visits, tmp_path):
    table = pd.read_csv(visits, dtype=str)
    table.loc[:99, "y"] = None
    table.loc[100, "y"] = "NA"
    table.to_csv(tmp_path / "gaps.csv", index=False)
    command = ["fit", tmp_path / "gaps.csv", "--target=y", "--method=lightgbm", f"--out={tmp_path / 'm'}"]
    assert "101 of 600 missing" in fail(*command)
    ran = run(*command, "--drop-unlabelled")
    assert ran.status == 0
    assert "Note: 101 rows without a label were left out." in ran.err
    assert TableModel.load(tmp_path / "m").facts["rows"] == 499


def test_what_looks_like_a_group():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 600)
    texts = pd.Series([f"shop {number}" for number in generator.integers(0, 100, 600)], dtype=object)
    own = pd.Series([f"shop {number}" for number in np.arange(600) // 6], dtype=object)
    constant = np.repeat(generator.integers(0, 2, 100), 6)
    assert not _splits._is_group("shop", "category", texts, y)
    assert _splits._is_group("shop", "category", own, constant)  # all its rows are of one class
    assert _splits._is_group("user id", "category", texts, y)
    assert not _splits._is_group("age", "number", pd.Series(generator.integers(18, 90, 600)), y)
    assert not _splits._is_group("user_id", "number", pd.Series(generator.normal(size=600)), y)


def test_the_values_that_divide_a_report():
    days = pd.date_range("2024-01-01", periods=40).astype(str)
    table = pd.DataFrame({"age": np.arange(40) % 37 + 20.5, "city": ["Rome", "Oslo", None, "Oslo"] * 10})
    table = table.assign(day=days, clinic=np.arange(40) % 5, patient=np.arange(40) // 1.5, y=["a", "b"] * 20)
    assert set(_splits.read_values(table, "city", "y")) == {"Rome", "Oslo", "(missing)"}
    ages = _splits.read_values(table, "age", "y")
    assert sorted((ages == name).sum() for name in set(ages)) == [10, 10, 10, 10]
    low, high = map(float, ages[table["age"].argmax()].split(" to "))
    assert low < table["age"].max() <= high
    assert len(set(_splits.read_values(table, "day", "y"))) == 4
    assert set(_splits.read_values(table, "y", "y")) == {"a", "b"}
    # A group divides the report only if it has few values; a column that is named always does.
    assert _splits.find_by(table, None, "patient", "y") is None
    assert _splits.find_by(table, None, "clinic", "y")[0] == "clinic"
    assert _splits.find_by(table, "city", "patient", "y")[0] == "city"
    assert _splits.find_by(table, None, None, "y") is None
