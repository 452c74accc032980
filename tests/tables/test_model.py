"""The model folder: what was saved is what is loaded, and folders of older formats still predict."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalign import _files
from evalign._files import draft_folder
from evalign.cli import main
from evalign.tables import TableModel, read

#: Folders of format 1 that `evalign fit data.csv --target churned --metric f1 --method NAME --out NAME
#: --positive left` wrote, without their pages, and what `evalign predict NAME data.csv --proba` printed.
#: Those of format 3 are the same models, saved again; there are none of format 2, and format 4 only adds
#: ensembles. They are never written again: a new format gets a folder beside them.
STORED = Path(__file__).parent / "fixtures"
METHODS = ["lightgbm_rule", "network_rule"]
FORMATS = [1, 3]
FOLDERS = [(f"format-{number}", method) for number in FORMATS for method in METHODS]


@pytest.mark.parametrize(("version", "method"), FOLDERS)
def test_folders_of_every_format_predict_the_same(version, method, tmp_path, capsys):
    folder, data = STORED / version / method, STORED / version / "data.csv"
    then = pd.read_csv(STORED / version / f"{method}.csv")
    assert main(["predict", str(folder), str(data), "--proba", f"--out={tmp_path / 'p.csv'}"]) == 0
    now = pd.read_csv(tmp_path / "p.csv")
    assert now["prediction"].tolist() == then["prediction"].tolist()
    assert set(then["prediction"]) == {"left", "stayed"}
    columns = ["probability_stayed", "probability_left"]
    np.testing.assert_allclose(now[columns], then[columns], rtol=0, atol=1e-9)
    assert main(["evaluate", str(folder), str(data), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    matrix = pd.crosstab(read(str(data))["churned"], then["prediction"])
    names = ["stayed", "left"]
    assert facts["matrix"] == matrix.loc[names, names].values.tolist()


def test_the_report_of_an_old_folder_can_be_written_again(tmp_path):
    folder = STORED / "format-1" / "lightgbm_rule"
    assert main(["report", str(folder), f"--out={tmp_path / 'r.html'}"]) == 0
    assert "lightgbm_rule" in (tmp_path / "r.html").read_text()


@pytest.fixture(params=METHODS)
def model(request, tmp_path):
    """A folder that tests may change."""
    return shutil.copytree(STORED / "format-1" / request.param, tmp_path / "model")


def test_what_is_saved_is_what_is_loaded(model, tmp_path):
    old, table = TableModel.load(model), read(str(STORED / "format-1" / "data.csv"))
    old.save(tmp_path / "again", {"README.md": "a name with a lone \ud800"})
    new = TableModel.load(tmp_path / "again")
    assert (new.schema, new.labels, new.facts) == (old.schema, old.labels, old.facts)
    assert (new.predict(table) == old.predict(table)).all()
    assert (new.predict_proba(table) == old.predict_proba(table)).all()
    names, p = new.predict_both(table)
    assert (names == new.predict(table)).all()
    assert (p == new.predict_proba(table)).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "model"]


def test_a_model_is_shown_in_a_line(model):
    loaded = TableModel.load(model)
    shown = repr(loaded)
    assert shown.startswith(f"TableModel({type(loaded.classifier).__name__}, ")
    assert f"{len(loaded.schema.columns)} columns" in shown
    assert len(shown) < 200


def test_an_interrupted_save_leaves_the_older_model(model, monkeypatch):
    """Ctrl-C between the two renames that replace one folder by another."""
    loaded, real = TableModel.load(model), Path.rename

    def rename(self, target):
        if self.name.endswith(".draft"):
            raise KeyboardInterrupt
        return real(self, target)

    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        loaded.save(model)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == before
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def make_folder(path):
    path.mkdir()
    (path / "half").write_text("of a model")
    return path


def test_the_drafts_of_killed_processes_are_removed(model, tmp_path):
    dead = make_folder(tmp_path / f".again.{'0' * 16}.draft")
    alive = make_folder(tmp_path / f".again.{'1' * 16}.draft")
    foreign = make_folder(tmp_path / f".other.{'0' * 16}.draft")
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    TableModel.load(model).save(tmp_path / "again")
    os.close(lock)
    assert TableModel.load(tmp_path / "again").labels == ("stayed", "left")
    assert [path.exists() for path in (dead, alive, foreign)] == [False, True, True]


def test_a_model_that_was_being_replaced_is_put_back(model, tmp_path):
    """A kill between the two renames that replace one folder by another."""
    old = model.rename(tmp_path / f".model.{'0' * 16}.old")
    with pytest.raises(KeyboardInterrupt), draft_folder(model):
        raise KeyboardInterrupt
    assert TableModel.load(model).labels == ("stayed", "left")
    assert not old.exists()


def test_a_draft_is_new_and_has_a_name_that_nobody_can_guess(tmp_path, monkeypatch):
    """A link that waits at the name of a draft would lead to a file of the user."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / f".a.{'0' * 16}.draft").symlink_to(tmp_path / "mine")
    monkeypatch.setattr(_files.secrets, "token_hex", lambda size: "00" * size)
    with pytest.raises(FileExistsError):
        _files.write_file(tmp_path / "a", b"content")
    assert (tmp_path / "mine").read_text() == "mine"
    monkeypatch.undo()
    names = set()
    for _ in range(2):
        with _files.draft_file(tmp_path / "a"):
            names |= {path.name for path in tmp_path.iterdir()} - {"mine", f".a.{'0' * 16}.draft", "a"}
    assert len(names) == 2
