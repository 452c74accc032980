"""The report of an evaluation: its slider shows what the command says at every threshold."""

import json

import numpy as np
import pandas as pd
import pytest

from evalign.reports import facts_of


@pytest.fixture
def evaluated(run, files, tmp_path):
    """The facts of a report of the model on new rows."""
    ran = run("evaluate", files.model, files.new_csv, f"--out={tmp_path / 'r'}", "--json")
    assert ran.status == 0
    assert json.loads(ran.out)["report"] == str(tmp_path / "r" / "report.html")
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["report.html"]
    return facts_of(tmp_path / "r" / "report.html"), json.loads(ran.out)


def test_the_report_holds_what_was_printed(evaluated):
    facts, printed = evaluated
    (model,) = facts["models"]
    for name in ("rows", "classes", "matrix", "value", "metrics", "per_class"):
        assert model[name] == printed[name]
    assert facts["answer"] == f"f1 {printed['value']:.3f} on 93 rows."
    assert facts["task"]["file"] == "new.csv"
    assert sum(facts["data"]["class_counts"].values()) == 93


def test_the_slider_agrees_with_the_command(run, files, evaluated):
    facts, printed = evaluated
    slider = facts["models"][0]["slider"]
    positions, matrices = slider["positions"], np.array(slider["matrices"]).reshape(-1, 2, 2)
    assert matrices[slider["chosen"]].tolist() == printed["matrix"]
    assert slider["values"][slider["chosen"]] == pytest.approx(printed["value"], abs=1e-12)
    places = np.unique(np.linspace(0, len(positions) - 1, 9).astype(int))
    tried = [(place, positions[place]) for place in places if positions[place] <= 1]
    assert len(tried) >= 7
    for place, threshold in tried:
        ran = run("evaluate", files.model, files.new_csv, f"--threshold={threshold!r}", "--json")
        found = json.loads(ran.out)
        assert found["threshold"] == threshold
        assert found["matrix"] == matrices[place].tolist()
        assert found["value"] == pytest.approx(slider["values"][place], abs=1e-12)
    assert len({str(matrices[place]) for place, _ in tried}) > 3  # the slider moves something


def test_a_threshold_decides_by_the_probability_of_the_positive_class(run, files, tmp_path):
    out = tmp_path / "p.parquet"
    assert run("predict", files.model, files.new_csv, "--proba", "--keep=churned", f"--out={out}").status == 0
    table = pd.read_parquet(out)
    for threshold in (0, 0.125, 0.5, float(table["probability_yes"].max()), 1):
        guess = np.where(table["probability_yes"] >= threshold, "yes", "no")
        names = ["no", "yes"]
        matrix = [[int(((table["churned"] == i) & (guess == j)).sum()) for j in names] for i in names]
        found = json.loads(
            run("evaluate", files.model, files.new_csv, f"--threshold={threshold}", "--json").out
        )
        assert found["matrix"] == matrix


def test_threshold_needs_two_classes(run, refused, tmp_path):
    rows = "".join(f"{k % 7},{k % 5},c{(k % 7) // 3}\n" for k in range(90))
    (tmp_path / "three.csv").write_text(f"a,b,y\n{rows}")
    command = ["fit", tmp_path / "three.csv", "--target=y", f"--out={tmp_path / 'm'}", "--method=lightgbm"]
    assert run(*command).status == 0
    line = refused("evaluate", tmp_path / "m", tmp_path / "three.csv", "--threshold=0.5")
    assert "Expected `threshold` only with two classes, but got a model of 3." in line


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{" * 100_000, "\x00", '{"models": 3}', '{"models": [3]}']
)
def test_a_model_whose_facts_are_lost_or_broken(run, files, tmp_path, content):
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
