"""Places where results cannot be written: not a folder, not ours, not writable, or full."""

import errno
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from evalign.cli import _evaluate, main
from evalign.tables import TableModel

FIT = ["--target=churned", "--method=lightgbm"]


def test_keep_may_not_replace_a_result(fail, files, tmp_path):
    data = tmp_path / "new.parquet"
    pd.read_parquet(files.new_parquet).assign(prediction=1).to_parquet(data)
    line = fail("predict", files.model, data, f"--out={tmp_path / 'p.csv'}", "--keep=prediction")
    assert "Expected `keep` without the names of results, but got 'prediction'." in line


def test_a_table_is_not_overwritten_by_its_predictions(fail, files, tmp_path):
    data = shutil.copy(files.new_csv, tmp_path / "new.csv")
    line = fail("predict", files.model, data, f"--out={tmp_path}/../{tmp_path.name}/new.csv")
    assert "to be another file than `data`" in line
    assert data.read_bytes() == files.new_csv.read_bytes()


class TestWhereResultsGo:
    """Folders that are files, or that contain other files."""

    def test_a_file(self, fail, commands, files, tmp_path):
        (tmp_path / "out").write_text("mine")
        for name in ("compare", "fit", "evaluate"):
            line = fail(*commands[name](files.old_csv))
            assert "Expected `out` to be a folder, but got the file" in line
        assert (tmp_path / "out").read_text() == "mine"

    def test_under_a_file(self, fail, files, tmp_path, left):
        (tmp_path / "f").write_text("mine")
        under = tmp_path / "f" / "x"
        data, model = files.old_csv, files.model
        for command in (["compare", data, "--target=churned"], ["evaluate", model, data]):
            assert "is a file" in fail(*command, f"--out={under}")
        for command in (
            ["fit", data, *FIT, f"--out={under}"],
            ["predict", model, data, f"--out={under}.csv"],
        ):
            assert "in a folder that exists" in fail(*command)
        assert left() == ["f"]

    def test_without_permission(self, fail, commands, files, monkeypatch):
        """Root may write anywhere, so the refusal of the system is simulated."""

        def denied(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied", "x")

        monkeypatch.setattr(tempfile, "TemporaryFile", denied)
        for name in ("compare", "fit", "predict", "evaluate"):
            line = fail(*commands[name](files.old_csv))
            assert "Expected `out` in a folder that can be written, but got" in line
            assert "Permission denied" in line

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write")
    def test_where_nobody_may_write(self, fail, files):
        for command in (
            ["compare", files.old_csv, "--target=churned", "--out=/proc/evalign"],
            ["fit", files.old_csv, *FIT, "--out=/proc/evalign"],
            ["predict", files.model, files.old_csv, "--out=/proc/p.csv"],
            ["evaluate", files.model, files.old_csv, "--out=/proc/evalign"],
            ["report", files.model, "--out=/proc/r.html"],
        ):
            assert "in a folder that can be written" in fail(*command)

    def test_fit_replaces_only_models(self, run, fail, files, tmp_path):
        thesis = tmp_path / "thesis"
        thesis.mkdir()
        (thesis / "chapter1.txt").write_text("years of work")
        line = fail("fit", files.old_csv, *FIT, f"--out={thesis}")
        assert "to be new, empty or a model, but got" in line
        assert "chapter1.txt" in line
        (thesis / "model.json").write_text(json.dumps({"of": "somebody else"}))
        (thesis / "chapter1.txt").unlink()
        assert "with other files" in fail("fit", files.old_csv, *FIT, f"--out={thesis}")
        model = shutil.copytree(files.model, tmp_path / "model")
        (model / "notes.txt").write_text("mine")
        assert "notes.txt" in fail("fit", files.old_csv, *FIT, f"--out={model}")
        (model / "notes.txt").unlink()
        (model / "classifier" / "notes.txt").write_text("mine")
        assert "classifier/notes.txt" in fail("fit", files.old_csv, *FIT, f"--out={model}")
        (model / "classifier" / "notes.txt").unlink()
        assert run("fit", files.old_csv, *FIT, f"--out={model}").status == 0
        assert TableModel.load(model).facts["method"] == "lightgbm"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "thesis"]

    def test_links_and_the_folder_one_is_in(self, fail, files, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "Choose one inside of it." in fail("fit", files.old_csv, *FIT, "--out=.")
        (tmp_path / "link").symlink_to(files.model)
        assert "but got the link link" in fail("fit", files.old_csv, *FIT, "--out=link")


def fill_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")


class TestFullDisk:
    """A full disk: a failed run, and no trace of it."""

    def test_model(self, fail, files, tmp_path, left, monkeypatch):
        monkeypatch.setattr(Path, "write_bytes", fill_disk)
        line = fail("fit", files.old_csv, *FIT, f"--out={tmp_path / 'm'}", status=1)
        place = tmp_path / "m"
        assert line == f"evalign: Expected `out` to be writable, but {place} is not: the disk is full."
        assert left() == []

    def test_older_model_stays(self, fail, files, tmp_path, monkeypatch):
        model = shutil.copytree(files.model, tmp_path / "m")
        monkeypatch.setattr(Path, "write_bytes", fill_disk)
        fail("fit", files.old_csv, *FIT, f"--out={model}", status=1)
        monkeypatch.undo()
        assert [path.name for path in tmp_path.iterdir()] == ["m"]
        assert TableModel.load(model).facts["method"] == "lightgbm_rule"

    def test_reports(self, run, files, tmp_path, left, monkeypatch):
        """Pages and the summary of a comparison are written by one function."""
        monkeypatch.setattr(os, "fsync", fill_disk)
        options = ["--target=churned", "--methods=lightgbm", "--repeats=1", "--jobs=1"]
        compare = ["compare", files.old_csv, *options]
        for command in (compare, ["evaluate", files.model, files.new_csv]):
            ran = run(*command, f"--out={tmp_path / 'r'}")
            assert ran.status == 1
            assert ran.err.splitlines()[-1] == "evalign: No space left on device: x"
            assert not [path for path in left() if not path.startswith("r/trials") and path != "r"]
        before = (files.model / "report.html").read_bytes()
        assert run("report", files.model).status == 1
        assert (files.model / "report.html").read_bytes() == before
        assert not list(files.model.glob(".*"))

    def test_predictions(self, fail, files, tmp_path, left, monkeypatch):
        monkeypatch.setattr(os, "fsync", fill_disk)
        for name in ("p.csv", "p.csv.gz", "p.parquet"):
            line = fail("predict", files.model, files.new_csv, f"--out={tmp_path / name}", status=1)
            assert "Expected `out` to be writable" in line
            assert "the disk is full" in line
        assert left() == []

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_standard_output(self, run, start, files, monkeypatch):
        with io.TextIOWrapper(open("/dev/full", "wb")) as disk, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", disk)
            ran = run("predict", files.model, files.new_csv)
        assert ran.status == 1
        message = "Expected `out` to be writable, but standard output is not: the disk is full."
        assert ran.err == f"evalign: {message}\n"
        with open("/dev/full", "wb") as nowhere:  # and Python itself adds nothing at exit
            process = start("--version", stdout=nowhere)
            assert process.communicate()[1] == b"evalign: No space left on device\n"
            assert process.returncode == 1


def test_an_unexpected_error_is_one_line(fail, files, monkeypatch):
    def crash(*_):
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr(_evaluate, "fingerprint", crash)
    line = fail("evaluate", files.model, files.new_csv, status=1)
    assert line == "evalign: ZeroDivisionError: a bug of ours (--debug shows where)"
    with pytest.raises(ZeroDivisionError):
        main(["evaluate", str(files.model), str(files.new_csv), "--debug"])


def test_control_characters_in_data_are_escaped(run, fail, files, table):
    rows = "".join(f"{k % 7},{'yes' if k % 3 else chr(27) + '[31mno'}\n" for k in range(60))
    path = table(f"a,churned\n{rows}")
    line = fail("fit", path, "--target=\x1b[31m", "--out=m")
    assert "\x1b" not in line
    out = path.with_name("m")
    ran = run("fit", path, *FIT, f"--out={out}")
    assert ran.status == 0
    assert "\x1b" not in ran.out + ran.err
    ran = run("evaluate", out, path)
    assert ran.status == 0
    assert "\x1b" not in ran.out
    assert "\\x1b[31mno" in ran.out
