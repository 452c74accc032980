"""The report of an evaluation: its slider agrees with the command at every threshold."""

import json
import re
from time import perf_counter

import numpy as np
import pandas as pd
import pytest

from evalign.reports import Report, as_plain, read_page
from evalign.tables import TableModel


@pytest.fixture
def evaluation(run, files, tmp_path):
    """The report of the model on new rows, and what was printed."""
    ran = run("evaluate", files.model, files.new_csv, f"--out={tmp_path / 'r'}", "--json")
    assert ran.status == 0
    assert json.loads(ran.out)["report"] == str(tmp_path / "r" / "report.html")
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["report.html"]
    return read_page(tmp_path / "r" / "report.html"), json.loads(ran.out)


def test_the_report_contains_what_was_printed(evaluation):
    report, printed = evaluation
    model = as_plain(report)["models"][0]
    for name in ("rows", "classes", "matrix", "value", "metrics", "per_class"):
        assert model[name] == printed[name]
    assert len(report.models) == 1
    ((_, alarms), (missed, found)) = printed["matrix"]
    words = (
        f"Of 100 real cases of “yes”, the model finds {100 * found / (found + missed):.0f} (95 % interval "
    )
    assert report.answer.startswith(words)
    assert report.answer.endswith(f", with {1000 * alarms / 93:.0f} false alarms per 1,000 rows.")
    assert report.remarks == (f"f1 {printed['value']:.3f} on 93 rows.",)
    assert report.task.file == "new.csv"
    assert sum(report.data.class_counts.values()) == 93


def test_the_slider_agrees_with_the_command(run, files, evaluation):
    report, printed = evaluation
    slider = report.models[0].slider
    positions, matrices = slider.positions, np.array(slider.matrices).reshape(-1, 2, 2)
    assert matrices[slider.start].tolist() == printed["matrix"]
    assert slider.values[slider.start] == pytest.approx(printed["value"], abs=1e-12)
    places = np.unique(np.linspace(0, len(positions) - 1, 9).astype(int))
    thresholds = [(place, positions[place]) for place in places if positions[place] <= 1]
    assert len(thresholds) >= 7
    for place, threshold in thresholds:
        ran = run("evaluate", files.model, files.new_csv, f"--threshold={threshold!r}", "--json")
        result = json.loads(ran.out)
        assert result["threshold"] == threshold
        assert result["matrix"] == matrices[place].tolist()
        assert result["value"] == pytest.approx(slider.values[place], abs=1e-12)
    assert len({str(matrices[place]) for place, _ in thresholds}) > 3  # the slider changes decisions


def test_a_threshold_decides_by_the_probability_of_the_positive_class(run, files, tmp_path):
    out = tmp_path / "p.parquet"
    assert run("predict", files.model, files.new_csv, "--proba", "--keep=churned", f"--out={out}").status == 0
    table = pd.read_parquet(out)
    for threshold in (0, 0.125, 0.5, float(table["probability_yes"].max()), 1):
        guess = np.where(table["probability_yes"] >= threshold, "yes", "no")
        names = ["no", "yes"]
        matrix = [[int(((table["churned"] == i) & (guess == j)).sum()) for j in names] for i in names]
        ran = run("evaluate", files.model, files.new_csv, f"--threshold={threshold}", "--json")
        assert json.loads(ran.out)["matrix"] == matrix


def test_threshold_needs_two_classes(run, fail, tmp_path):
    rows = "".join(f"{k % 7},{k % 5},c{(k % 7) // 3}\n" for k in range(90))
    (tmp_path / "three.csv").write_text(f"a,b,y\n{rows}")
    command = ["fit", tmp_path / "three.csv", "--target=y", f"--out={tmp_path / 'm'}", "--method=lightgbm"]
    assert run(*command).status == 0
    line = fail("evaluate", tmp_path / "m", tmp_path / "three.csv", "--threshold=0.5")
    assert "Expected `threshold` only with two classes, but got a model of 3." in line


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{" * 100_000, "\x00", '{"models": 3}', '{"models": [3]}']
)
def test_a_model_with_lost_or_broken_facts(run, files, tmp_path, content):
    import shutil

    model = shutil.copytree(files.model, tmp_path / "m")
    before = (model / "report.html").read_bytes()
    if content is None:
        (model / "report.json").unlink()
    else:
        (model / "report.json").write_text(content)
    ran = run("report", model)
    assert ran.status in (1, 2)
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("evalign: Expected `")
    assert (model / "report.html").read_bytes() == before


def test_the_report_of_a_model_is_rendered_again(run, files, tmp_path):
    """From report.json, which contains everything that the page shows."""
    out = tmp_path / "again.html"
    assert run("report", files.model, f"--out={out}").status == 0
    assert out.read_bytes() == (files.model / "report.html").read_bytes()
    assert Report.from_json((files.model / "report.json").read_text()) == read_page(out)


def check_extras(report, result, weights):
    """The parts of a report beyond the evidence: of every row, by models that were not trained on it."""
    rivals = [(one["name"], one["role"]) for one in report["benefit"]["methods"]]
    assert rivals == [("the new model", "model"), ("LightGBM", "tuned"), ("LightGBM", "plain")]
    assert report["answer"] == result["answer"]
    assert re.match("The new model is (not clearly )?(better|worse) than LightGBM with", report["answer"])
    assert {one["name"]: one["weight"] for one in report["members"] if one["weight"]} == pytest.approx(
        weights
    )
    scores = {row["method"]: row["mean"] for row in result["comparison"]["rows"]}
    assert all(one["score"] == pytest.approx(scores[one["name"]]) for one in report["members"])
    columns = {one["column"] for one in report["explanation"]["importances"]}
    assert columns == {"visits", "spent", "city", "since", "member"}
    assert [one["name"] for one in report["groups"]["groups"]][:2] == ["FALSE", "TRUE"]
    assert sum(one["rows"] for one in report["groups"]["groups"]) == report["data"]["rows"]
    assert report["task"]["form"] == "of the class “yes” (binary)"
    assert report["learning"]["method"] == "LightGBM"
    # A mixture of one member is not compared with itself.
    assert ("is not improved by mixing" in report["remarks"][-1]) == (len(weights) == 1)


def test_a_part_of_the_report_that_fails_does_not_cost_the_model(run, files, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no such thing")

    monkeypatch.setattr("evalign.cli._evidence.explain", fail)
    out = tmp_path / "m"
    ran = run("fit", files.old_csv, "--target=churned", f"--out={out}", "--method=lightgbm", "--by=city")
    assert ran.status == 0
    assert "The report does not contain the explanation: no such thing\n" in ran.err
    report = Report.from_json((out / "report.json").read_text())
    assert report.explanation is None
    assert sum(one.rows for one in report.groups.groups) == report.models[0].rows


def test_reports_in_other_formats(run, files, tmp_path):
    text, plain = tmp_path / "r.md", tmp_path / "r.json"
    assert run("report", files.model, "--format=md", f"--out={text}").status == 0
    assert run("report", files.model, "--format=json", f"--out={plain}").status == 0
    assert plain.read_bytes() == (files.model / "report.json").read_bytes()
    report = Report.from_json(plain.read_text())
    assert text.read_text().startswith(f"# {report.title}\n\n**{report.answer}**\n\n{report.remarks[0]}\n")
    folder = tmp_path / "e"
    command = ["evaluate", files.model, files.new_csv, "--format=md", "--by=city", f"--out={folder}"]
    ran = run(*command)
    assert ran.status == 0
    assert [path.name for path in folder.iterdir()] == ["report.md"]
    assert "## By `city`" in (folder / "report.md").read_text()
    assert "By city" in ran.out


def test_formats_and_columns_that_do_not_exist(fail, run, files):
    before = (files.model / "report.json").read_bytes()
    line = fail("report", files.model, "--format=json")
    assert "Expected `out` to be another file than report.json in the folder, but got " in line
    assert (files.model / "report.json").read_bytes() == before
    assert run("report", files.model, "--format=pdf").status == 2
    line = fail("evaluate", files.model, files.new_csv, "--by=citty")
    assert "Expected `by` to be a column, but got 'citty'. Did you mean 'city'?" in line


def test_an_ensemble_is_saved_with_its_members_and_predicts(run, files, tmp_path):
    out = tmp_path / "m"
    command = ["fit", files.old_csv, "--target=churned", f"--out={out}", "--folds=2", "--time-limit=10m"]
    ran = run(*command, "--methods=lightgbm,extra_trees,linear", "--jobs=1", "--by=member", "--json")
    assert ran.status == 0
    result = json.loads(ran.out)
    assert [row["method"] for row in result["comparison"]["rows"]][-1] == "ensemble"
    lines = re.findall(
        r"^(\w+): f1 0[.]\d{3}, [\d.]+ s for 2 models, about (\d+) s left$", ran.err, re.MULTILINE
    )
    assert [name for name, _ in lines] == ["lightgbm", "extra_trees", "linear"]
    assert lines[-1][1] == "0"
    model = TableModel.load(out)
    weights = model.classifier.weights_
    assert sum(weights.values()) == pytest.approx(1)
    largest = max(weights, key=weights.get)
    assert f"{largest} {weights[largest]:.0%}" in (out / "README.md").read_text()
    # The evidence is that of all rows, each predicted by models that were not trained on it.
    report = json.loads((out / "report.json").read_text())
    assert report["models"][0]["rows"] == report["data"]["rows"] == sum(report["benefit"]["support"])
    # The table of methods has another lightgbm, with a rule of its own.
    assert report["models"][1]["name"] == "lightgbm as it comes"
    check_extras(report, result, weights)
    # The slider starts at the rule that is saved.
    slider = report["models"][0]["slider"]
    assert slider["positions"][slider["start"]] == pytest.approx(model.classifier.rule_.thresholds[0])
    assert run("predict", out, files.old_csv, "--proba", f"--out={tmp_path / 'p.csv'}").status == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(predicted.filter(like="probability_").sum(axis=1), 1)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m", "p.csv"]


def test_a_method_that_is_alone_is_not_called_the_best(run, files, tmp_path):
    out, methods = tmp_path / "m", ["--methods=lightgbm", "--folds=2", "--jobs=1"]
    ran = run("fit", files.old_csv, "--target=churned", f"--out={out}", *methods, "--json")
    assert ran.status == 0
    result = json.loads(ran.out)
    assert result["answer"].startswith("Of 100 real cases of “yes”, the new model finds ")
    assert result["remarks"][-1].startswith("lightgbm is all that was tried: f1 0.")
    page = (out / "report.html").read_text()
    assert "Each split and the mean.<" in page
    assert "Nothing that was tried" not in page
    assert "not improved by mixing" not in page


def test_a_short_time_is_not_spent_on_starting_processes(run, files, tmp_path, monkeypatch):
    def start(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr("evalign.selection.workers.joblib.Parallel", start)
    command = ["fit", files.old_csv, "--target=churned", "--methods=lightgbm", "--folds=2", "--jobs=2"]
    assert run(*command, "--time-limit=15s", f"--out={tmp_path / 'm'}").status == 0


def test_the_time_limit_counts_from_the_start_of_the_command(run, files, tmp_path, monkeypatch):
    limits = []

    def note(*_, time_limit, **__):
        limits.append(time_limit)
        raise ValueError("enough")

    monkeypatch.setattr("evalign.cli._fit.AutoClassifier", note)
    command = ["fit", files.old_csv, "--target=churned", "--time-limit=100s", f"--out={tmp_path / 'm'}"]
    for late in (0, 50, 500):
        monkeypatch.setattr("evalign.cli._app.perf_counter", lambda late=late: perf_counter() - late)
        assert "enough" in run(*command).err
    # A part is kept for the report, and a second is there in any case.
    assert 70 < limits[0] < 90
    assert limits[1] == pytest.approx(limits[0] - 50, abs=10)
    assert limits[2] == 1
