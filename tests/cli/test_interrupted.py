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
from joblib.externals.loky.process_executor import TerminatedWorkerError

from evalign.cli import _fit
from evalign.selection import comparison as _comparison
from evalign.tables import TableModel

#: A shell says 130 of both: an exit with this status, and a death of this signal.
STOPPED = (130, -signal.SIGINT)


def until(process, condition, seconds=120):
    """Wait for something that a process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end
        time.sleep(0.01)


def stopped(process):
    """Press Ctrl-C, and give the last line."""
    status, lines = process.ended(signal.SIGINT)
    assert status in STOPPED
    assert "Traceback" not in "\n".join(lines)
    return lines[-1]


def trials(path):
    """The finished trials in a file; a kill may tear the last line."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line)["key"])
        except ValueError:
            continue
    return found


KEPT = "evalign: Stopped. Finished trials are kept: the same command goes on."


def test_compare_goes_on_after_ctrl_c_and_after_a_kill(forked, run, files, tmp_path):
    command = [
        "compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1",
        "--methods=lightgbm_rule,lightgbm", "--repeats=16",
    ]  # fmt: skip

    def file():
        return next((tmp_path / "r").glob("trials-*.jsonl"), None)

    def more_than(count):
        return lambda: file() is not None and len(trials(file())) > count

    process = forked(*command)
    until(process, more_than(1))
    assert stopped(process) == KEPT
    assert [path.name for path in (tmp_path / "r").iterdir()] == [file().name]
    first = trials(file())
    assert 1 < len(first) < 32

    process = forked(*command)
    until(process, more_than(len(first)))
    process.ended(signal.SIGKILL)
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


def test_fit_goes_on_after_ctrl_c(forked, run, files, tmp_path, monkeypatch):
    command = [
        "fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1", "--folds=12",
        "--repeats=1", "--methods=lightgbm_rule,lightgbm",
    ]  # fmt: skip
    process = forked(*command)
    until(process, lambda: any(len(trials(path)) > 1 for path in tmp_path.glob(".m.*.jsonl")))
    assert stopped(process) == KEPT
    (kept,) = tmp_path.iterdir()
    before, begun, real = trials(kept), [], _comparison.run

    def counted(tasks, *arguments, **settings):
        begun.extend(task.key for task in tasks)
        return real(tasks, *arguments, **settings)

    monkeypatch.setattr(_comparison, "run", counted)
    assert run(*command).status == 0
    assert not set(begun) & set(before)
    assert len({*begun, *before}) == len(begun) + len(before) == 24
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert TableModel.load(tmp_path / "m").labels == ("no", "yes")


def press(*_, **__):
    raise KeyboardInterrupt


def test_ctrl_c_in_the_first_trial_leaves_nothing(run, files, tmp_path, monkeypatch):
    monkeypatch.setattr(_comparison, "run", press)
    ran = run("fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1")
    assert ran.status == 130
    assert ran.err.splitlines()[-1] == "evalign: Stopped."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["on_rows_set_aside", "page", "card"])
def test_ctrl_c_while_a_model_is_made_leaves_nothing(run, files, tmp_path, monkeypatch, where):
    monkeypatch.setattr(_fit, where, press)
    command = ["fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--method=lightgbm"]
    ran = run(*command)
    assert (ran.status, ran.err.splitlines()[-1]) == (130, "evalign: Stopped.")
    assert not list(tmp_path.iterdir())


def test_predict_stopped_leaves_nothing(forked, files, tmp_path):
    table, data, out = pd.read_parquet(files.new_parquet), tmp_path / "long.parquet", tmp_path / "out"
    table.iloc[np.arange(40_000) % len(table)].to_parquet(data)
    out.mkdir()
    process = forked("predict", files.model, data, f"--out={out / 'p.csv'}", "--chunk=20", "--proba")
    until(process, lambda: any(path.stat().st_size for path in out.iterdir()))
    assert not (out / "p.csv").exists()
    status, lines = process.ended(signal.SIGINT)
    assert status in STOPPED
    assert lines == ["evalign: Stopped."]
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


def test_a_killed_worker_is_told(run, files, tmp_path, monkeypatch):
    """The system kills a worker when there is no memory left."""

    def killed(*_, **__):
        raise TerminatedWorkerError("A worker process managed by the executor was\nunexpectedly terminated.")

    monkeypatch.setattr(_comparison, "run", killed)
    ran = run("compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1")
    assert ran.status == 1
    assert ran.err.splitlines()[-1] == "evalign: A worker was killed, maybe for want of memory: try --jobs 1."
