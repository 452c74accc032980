"""A messy table through fit, predict and evaluate: rows keep their order."""

import csv
import gzip
import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest

from evalign import metrics
from evalign.tables import TableModel, read


def read_rows(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_fit_reports_what_it_leaves_out(run, files, tmp_path):
    ran = run("fit", files.old_csv, "--target=churned", f"--out={tmp_path / 'm'}", "--method=lightgbm")
    assert ran.status == 0
    for name, reason in (
        ("id", "numbers the rows"),
        ("email", "identifies the rows"),
        ("plan", "is constant"),
    ):
        assert f"Note: `{name}` was left out: it {reason}" in ran.err
    assert "Note: 3 of 263 rows are duplicates" in ran.err
    assert "The positive class is 'yes'" in ran.err
    kinds = {column.name: column.kind for column in TableModel.load(tmp_path / "m").schema.inputs}
    assert kinds == {
        "visits": "number", "spent": "number", "city": "category", "since": "date", "member": "boolean",
    }  # fmt: skip


def test_predictions_are_in_the_order_of_the_rows(run, files, tmp_path):
    whole, out = tmp_path / "whole.csv", tmp_path / "p.csv"
    options = ["--proba", "--keep=id", "--keep=city"]
    assert run("predict", files.model, files.new_csv, f"--out={whole}", *options).status == 0
    for chunk in (7, 31):
        ran = run("predict", files.model, files.new_csv, f"--out={out}", *options, f"--chunk={chunk}")
        assert ran.status == 0
        assert out.read_bytes() == whole.read_bytes()
    model, table, rows = TableModel.load(files.model), read(str(files.new_csv)), read_rows(out)
    assert len(rows) == len(table) == 93
    assert list(rows[0]) == ["id", "city", "prediction", "probability_no", "probability_yes"]
    assert [row["city"] for row in rows] == table["city"].tolist()
    assert [row["id"] for row in rows] == table["id"].tolist()
    assert {row["prediction"] for row in rows} == {"yes", "no"}
    for number in range(0, 93, 3):  # each row by itself, in memory
        alone, row = table.iloc[[number]], rows[number]
        assert row["prediction"] == model.predict(alone)[0]
        p = [float(row["probability_no"]), float(row["probability_yes"])]
        np.testing.assert_allclose(p, model.predict_proba(alone)[0], atol=1e-12)


def test_unseen_categories_count_as_rare(files):
    model = TableModel.load(files.model)
    assert "city rare" in model.preparation.get_feature_names_out()
    table = pd.DataFrame([{"visits": "5", "spent": "20,5", "since": "2021-05-05", "member": "TRUE"}] * 3)
    rare, unseen, other = table.assign(city=["Nowhere", "Atlantis", "Rome"]).pipe(model.prepare)
    assert (rare == unseen).all()
    assert (other != unseen).any()


def test_csv_and_parquet_give_the_same_bytes(run, files, tmp_path):
    outs = {}
    for kind, source in (("csv", files.new_csv), ("parquet", files.new_parquet)):
        outs[kind] = tmp_path / f"from_{kind}.csv"
        assert run("predict", files.model, source, f"--out={outs[kind]}", "--proba", "--keep=id").status == 0
    assert outs["csv"].read_bytes() == outs["parquet"].read_bytes()
    # A model of each file: the same trees, rule and numbers.
    other = tmp_path / "model"
    command = ["fit", files.old_parquet, "--target=churned", f"--out={other}", "--method=lightgbm_rule"]
    assert run(*command).status == 0
    parts = sorted(path.name for path in (files.model / "classifier").iterdir())
    assert parts == sorted(path.name for path in (other / "classifier").iterdir())
    assert (other / "rule.json").read_text() == (files.model / "rule.json").read_text()
    facts = [json.loads((folder / "model.json").read_text()) for folder in (files.model, other)]
    assert facts[0]["scores"] == facts[1]["scores"]


def test_gz_and_parquet_go_in_and_out(run, files, tmp_path):
    packed = tmp_path / "new.csv.gz"
    packed.write_bytes(gzip.compress(files.new_csv.read_bytes()))
    outs = [tmp_path / name for name in ("p.csv.gz", "p.csv", "p.parquet")]
    for out in outs:
        assert run("predict", files.model, packed, f"--out={out}", "--proba").status == 0
    assert gzip.decompress(outs[0].read_bytes()) == outs[1].read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(outs[2]), pd.read_csv(outs[1]), check_dtype=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["new.csv.gz", *(o.name for o in outs)])


def test_standard_streams(fork, run, files, tmp_path):
    into, out = tmp_path / "in", tmp_path / "out"
    os.mkfifo(into)
    os.mkfifo(out)
    process = fork("predict", files.model, "-", "--proba", "--chunk=20", stdin=into, stdout=out)
    with into.open("wb") as source, out.open("rb") as sink:
        source.write(files.new_csv.read_bytes())
        source.close()
        written = sink.read()
    assert process.wait() == 0
    assert run("predict", files.model, files.new_csv, "--proba", f"--out={tmp_path / 'p.csv'}").status == 0
    assert written == (tmp_path / "p.csv").read_bytes()


def test_evaluate_counts_the_predictions(run, files, tmp_path):
    out = tmp_path / "p.csv"
    assert run("predict", files.model, files.new_csv, f"--out={out}", "--keep=churned").status == 0
    pairs = [(row["churned"], row["prediction"]) for row in read_rows(out)]
    matrix = [[pairs.count((true, guess)) for guess in ("no", "yes")] for true in ("no", "yes")]
    for source in (files.new_csv, files.new_parquet):
        result = json.loads(run("evaluate", files.model, source, "--json").out)
        assert result["matrix"] == matrix
        assert result["value"] == pytest.approx(float(metrics.f1()(matrix)), abs=1e-9)
        assert result["rows"] == 93


def test_evaluate_notes_rows_of_the_training(run, files):
    assert "trained on exactly these rows" in run("evaluate", files.model, files.old_csv).err
    assert "trained on exactly these rows" not in run("evaluate", files.model, files.new_csv).err


def test_rows_of_one_class_can_be_evaluated(run, files, tmp_path):
    """A model cannot be trained on them, but it can be evaluated."""
    table = pd.read_parquet(files.new_parquet)
    table[table["churned"] == "no"].to_parquet(tmp_path / "one.parquet")
    ran = run("evaluate", files.model, tmp_path / "one.parquet", "--json")
    assert ran.status == 0
    assert json.loads(ran.out)["matrix"][1] == [0, 0]


def test_a_model_may_be_moved_and_linked(run, files, tmp_path):
    moved = tmp_path / "elsewhere" / "m"
    shutil.copytree(files.model, moved)
    (tmp_path / "current").symlink_to(moved)
    assert run("predict", tmp_path / "current", files.new_csv, f"--out={tmp_path / 'p.csv'}").status == 0
