"""Ctrl-C, kill -9 and a reader that goes away: nothing half-written, and no trial is done twice."""

import io
import json
import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest

from evalign.cli import _fit
from evalign.estimators import _comparison
from evalign.tables import TableModel

#: A shell says 130 of both: an exit with this status, and a death of this signal.
STOPPED = (130, -signal.SIGINT)


def until(process, condition, seconds=120):
    """Wait for something that a process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def stopped(process):
    """Press Ctrl-C: the signal goes to the whole group, as a terminal sends it."""
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in STOPPED
    assert "Traceback" not in err.decode()
    return err.decode().splitlines()


def trials(path):
    """The finished trials in a file; a kill may tear the last line."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line)["key"])
        except ValueError:
            continue
    return found


def test_compare_goes_on_after_ctrl_c_and_after_a_kill(started, run, files, tmp_path):
    command = [
        "compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1",
        "--methods=lightgbm_rule,lightgbm", "--repeats=16",
    ]  # fmt: skip

    def file():
        return next((tmp_path / "r").glob("trials-*.jsonl"), None)

    def more_than(count):
        return lambda: file() is not None and len(trials(file())) > count

    process = started(*command)
    until(process, more_than(1))
    told = stopped(process)
    assert told[-1] == "evalign: Stopped. Finished trials are kept: the same command goes on."
    assert [path.name for path in (tmp_path / "r").iterdir()] == [file().name]
    first = trials(file())
    assert 1 < len(first) < 32

    process = started(*command)
    until(process, more_than(len(first)))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    second = trials(file())
    assert second[: len(first)] == first
    assert len(first) < len(second) < 32
    assert not (tmp_path / "r" / "report.html").exists()

    assert run(*command).status == 0
    found = trials(file())
    assert found[: len(second)] == second
    assert len(found) == len(set(found)) == 32  # each trial once, in three runs
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == ["comparison.json", "report.html", file().name]


@pytest.fixture
def pressed(monkeypatch):
    """Press Ctrl-C in the middle of the trial of this number, and give the list of those that began."""

    def at(number, real=_comparison.run):
        begun = []

        def trial(*arguments, **settings):
            begun.append(arguments)
            if len(begun) == number:
                raise KeyboardInterrupt
            return real(*arguments, **settings)

        monkeypatch.setattr(_comparison, "run", trial)
        return begun

    return at


def test_fit_goes_on_after_ctrl_c(run, files, tmp_path, pressed):
    command = [
        "fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1", "--folds=3",
        "--methods=lightgbm_rule,lightgbm",
    ]  # fmt: skip
    pressed(4)
    ran = run(*command)
    assert ran.status == 130
    assert ran.err.splitlines()[-1] == "evalign: Stopped. Finished trials are kept: the same command goes on."
    (kept,) = tmp_path.iterdir()
    assert len(trials(kept)) == 3
    begun = pressed(None)
    assert run(*command).status == 0
    assert len(begun) == 3  # of the six, three were done before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert TableModel.load(tmp_path / "m").labels == ("no", "yes")


def test_ctrl_c_before_the_first_trial_leaves_nothing(run, files, tmp_path, pressed):
    pressed(1)
    ran = run("fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1")
    assert ran.status == 130
    assert ran.err.splitlines()[-1] == "evalign: Stopped."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["on_rows_set_aside", "page", "card"])
def test_ctrl_c_while_a_model_is_made_leaves_nothing(run, files, tmp_path, monkeypatch, where):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_fit, where, press)
    command = ["fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--method=lightgbm"]
    ran = run(*command)
    assert (ran.status, ran.err.splitlines()[-1]) == (130, "evalign: Stopped.")
    assert not list(tmp_path.iterdir())


def test_predict_stopped_leaves_nothing(started, files, tmp_path):
    table, data, out = pd.read_parquet(files.new_parquet), tmp_path / "long.parquet", tmp_path / "out"
    table.iloc[np.arange(40_000) % len(table)].to_parquet(data)
    out.mkdir()
    process = started("predict", files.model, data, f"--out={out / 'p.csv'}", "--chunk=20", "--proba")
    until(process, lambda: any(path.stat().st_size for path in out.iterdir()))
    assert not (out / "p.csv").exists()
    assert stopped(process) == ["evalign: Stopped."]
    assert not list(out.iterdir())


def unread():
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "wb")


def test_a_reader_that_has_seen_enough(run, files, monkeypatch):
    with io.TextIOWrapper(unread()) as gone, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", gone)
        ran = run("predict", files.model, files.new_csv, "--chunk=20", "--quiet")
    assert (ran.status, ran.err) == (1, "")


def test_python_complains_of_no_reader_at_its_end(started):
    with unread() as pipe:
        process = started("--help", stdout=pipe)
        assert process.communicate()[1] == b""
    assert process.returncode == 1
