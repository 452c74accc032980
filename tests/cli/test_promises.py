"""What is said agrees with what is done: constraints, choices, thresholds, signatures, formulas."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import create_engine

from evalign.cli import _evidence
from evalign.tables import TableModel

FIT = ["--target=churned", "--method=lightgbm_rule"]
IMPOSSIBLE = ["--constraint=precision>=0.999", "--constraint=recall>=0.999"]


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_the_report_shows_the_model_that_is_saved(run, files, tmp_path, positive):
    assert run("fit", files.old_csv, *FIT, f"--out={tmp_path / 'm'}", f"--positive={positive}").status == 0
    (saved,) = TableModel.load(tmp_path / "m").classifier.rule_.thresholds
    slider = json.loads((tmp_path / "m" / "report.json").read_text())["models"][0]["slider"]
    assert slider["positions"][slider["start"]] == saved
    assert f"at least {saved:.3f}" in (tmp_path / "m" / "README.md").read_text()


def test_the_rule_of_three_classes_is_the_one_that_was_evaluated(run, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 3))
    kind = np.argmax(X + generator.gumbel(size=X.shape) - [0, 0, 1], axis=1)
    pd.DataFrame(X, columns=list("abc")).assign(kind=kind).to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", tmp_path / "t.csv", "--target=kind", f"--out={tmp_path / 'm'}", FIT[1]]
    assert run(*command).status == 0
    model, report = TableModel.load(tmp_path / "m"), json.loads((tmp_path / "m" / "report.json").read_text())
    track = report["models"][0]["slider"]["classes"][0]
    assert track["matrices"][track["start"]] == report["models"][0]["matrix"]  # found with the rule's weights
    assert model.classifier.rule_.weights.shape == (3, 3)


@pytest.mark.filterwarnings("ignore:No rule satisfies the constraints")
def test_a_violated_constraint_is_said_and_is_a_status(run, files, tmp_path):
    command = ["fit", files.old_csv, *FIT, *IMPOSSIBLE]
    ran = run(*command, f"--out={tmp_path / 'a'}")
    assert ran.status == 3
    assert "recall() >= 0.999 is violated on the 53 held-out rows: " in " ".join(ran.out.split())
    ran = run(*command, f"--out={tmp_path / 'b'}", "--json")
    assert ran.status == 3
    result = json.loads(ran.out)
    assert "is violated on the 53 held-out rows" in result["answer"]
    assert not all(one["satisfied"] for one in result["constraints"].values())
    assert "is violated on the 53 held-out rows" in (tmp_path / "b" / "README.md").read_text()
    ran = run("evaluate", tmp_path / "a", files.new_csv)
    assert ran.status == 3
    assert "violated" in ran.out
    assert run("evaluate", files.model, files.new_csv).status == 0


@pytest.mark.filterwarnings("ignore:No rule satisfies the constraints")
def test_a_comparison_without_a_satisfying_method_is_a_status(run, files, tmp_path):
    methods = ["--methods=lightgbm,lightgbm_rule", "--repeats=2", "--jobs=1"]
    command = ["compare", files.old_parquet, "--target=churned", *methods, f"--out={tmp_path}"]
    ran = run(*command, *IMPOSSIBLE)
    assert ran.status == 3
    assert "no method satisfies" in ran.out
    assert run(*command, "--constraint=recall>=0.01").status == 0


def test_fit_gives_one_advice(run, files, tmp_path):
    """Not "use booster", and then that another method was chosen."""
    methods = ["--methods=lightgbm,lightgbm_rule", "--folds=2", "--jobs=1"]
    command = ["fit", files.old_parquet, "--target=churned", *methods]
    ran = run(*command, f"--out={tmp_path / 'a'}")
    assert ran.status == 0
    result = json.loads(run(*command, f"--out={tmp_path / 'b'}", "--json").out)
    assert result["answer"] in ran.out
    assert "advice" not in result
    assert "use it" not in ran.out
    assert "may be as good" not in ran.out


@pytest.mark.parametrize("metric", ["9999999999999999999999999999*tp", "1/0", "tp/0"])
def test_formulas_of_huge_numbers_have_defined_results(run, files, tmp_path, metric):
    ran = run("fit", files.old_csv, *FIT, f"--metric={metric}", f"--out={tmp_path / 'm'}", "--json")
    if ran.status == 0:
        assert np.isfinite(json.loads(ran.out)["value"])
    else:
        assert ran.status in (1, 2)
        assert ran.err.splitlines()[-1].startswith("evalign: Expected `metric`")


def test_cells_are_not_run_by_a_spreadsheet(run, files, tmp_path):
    notes = ["=1+1", "-5", "+1e3", "@SUM(A1)", "-", "plain", "=cmd|' /C calc'!A0", "+x", "-x,y"]
    table = pd.read_parquet(files.new_parquet).head(len(notes)).assign(**{"=note": notes})
    table.to_parquet(tmp_path / "new.parquet")
    command = ["predict", files.model, tmp_path / "new.parquet", "--keep==note"]
    assert run(*command, f"--out={tmp_path / 'a.csv'}").status == 0
    assert run(*command, f"--out={tmp_path / 'b.csv'}", "--raw").status == 0
    with (tmp_path / "a.csv").open() as safe, (tmp_path / "b.csv").open() as raw:
        safe, raw = ([row[0] for row in csv.reader(file)] for file in (safe, raw))
    assert raw == ["=note", *notes]
    numbers = {"-5", "+1e3", "-", "plain"}
    assert safe == [text if text in numbers else f"'{text}" for text in raw]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A private and a public key as `openssl genpkey -algorithm ed25519` writes them."""
    folder, private = tmp_path_factory.mktemp("keys"), Ed25519PrivateKey.generate()
    pem, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    secret = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key").write_bytes(secret)
    (folder / "key.pub").write_bytes(private.public_key().public_bytes(pem, kind))
    return folder


def test_a_model_is_signed_and_verified(run, fail, files, keys, tmp_path):
    out = tmp_path / "m"
    assert run("fit", files.old_csv, *FIT, f"--out={out}", f"--sign={keys / 'key'}").status == 0
    verify = f"--verify={keys / 'key.pub'}"
    assert run("predict", out, files.new_csv, verify).status == 0
    assert run("evaluate", out, files.new_csv, verify).status == 0
    for command in ("predict", "evaluate"):
        assert "with a signature, but got" in fail(command, files.model, files.new_csv, verify)


def test_a_wrong_key_is_an_error_before_any_work(fail, files, keys, left, tmp_path):
    line = fail("fit", files.old_csv, *FIT, f"--out={tmp_path / 'm'}", f"--sign={keys / 'key.pub'}")
    assert "Expected `sign` to be a private Ed25519 key in a PEM file" in line
    assert left() == []


@pytest.fixture
def other_rows(files, tmp_path):
    """Rows of another population: numbers outside of the training range, and cities that are new."""
    table = pd.read_parquet(files.new_parquet)
    table = table.assign(spent=table["spent"] + 1000, city="Atlantis")
    table.to_parquet(tmp_path / "other.parquet")
    return tmp_path / "other.parquet"


def test_drift_is_noted(run, files, other_rows, tmp_path):
    ran = run("predict", files.model, other_rows, f"--out={tmp_path / 'p.csv'}", "--json")
    assert ran.status == 0
    kinds = {(one["column"], one["kind"]) for one in json.loads(ran.out)["drift"]}
    assert {("spent", "range"), ("city", "unseen")} <= kinds
    assert "Note: `city` has categories that are new in 100.0% of the rows, such as 'Atlantis'." in ran.err
    assert (
        json.loads(run("predict", files.model, files.old_csv, f"--out={tmp_path / 'q.csv'}", "--json").out)[
            "drift"
        ]
        == []
    )


def test_strict_fails_on_drift_and_writes_no_file(run, fail, files, other_rows, left, tmp_path):
    out = f"--out={tmp_path / 'p.csv'}"
    line = fail("predict", files.model, other_rows, out, "--strict", status=1)
    assert "The rows differ from those of the training. `spent` is outside" in line
    assert left() == ["other.parquet"]
    assert run("predict", files.model, files.old_csv, out, "--strict").status == 0


def test_predict_with_a_threshold(run, fail, files, tmp_path):
    out = tmp_path / "p.csv"
    assert (
        run("predict", files.model, files.new_csv, f"--out={out}", "--proba", "--threshold=0.05").status == 0
    )
    table = pd.read_csv(out)
    assert (table["prediction"] == np.where(table["probability_yes"] >= 0.05, "yes", "no")).all()
    assert set(table["prediction"]) == {"yes", "no"}
    assert "Expected `threshold` in [0, 1], but got 2.0." in fail(
        "predict", files.model, files.new_csv, "--threshold=2"
    )


def test_a_query_and_no_password_in_the_report(run, files, tmp_path):
    address = f"sqlite:///{tmp_path / 'a.db'}"
    engine = create_engine(address)
    pd.read_parquet(files.old_parquet).to_sql("customers", engine, index=False)
    engine.dispose()
    query = "--query=select * from customers where id > 0"
    assert run("fit", address, *FIT, query, f"--out={tmp_path / 'm'}").status == 0
    out = f"--out={tmp_path / 'p.csv'}"
    assert run("predict", tmp_path / "m", address, query, out, "--keep=id").status == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 263
    assert run("evaluate", tmp_path / "m", address, query).status == 0


def test_passwords_are_hidden_in_reports(monkeypatch):
    monkeypatch.setattr(_evidence, "command_line", ["evalign", "fit", "postgresql://me:secret@db/x"])
    assert _evidence.build_report("", "", 0).command == "evalign fit postgresql://me:***@db/x"
    signed = ["evalign", "fit", "https://host/a.csv?v=1&token=secret", "--target=key=secret"]
    monkeypatch.setattr(_evidence, "command_line", signed)
    command = _evidence.build_report("", "", 0).command
    assert command == "evalign fit 'https://host/a.csv?v=1&token=***' --target=key=secret"
