"""Ctrl-C, kill -9 and a closed pipe: nothing is half-written, and no trial runs twice."""

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
from evalign.selection import trials
from evalign.tables import TableModel

#: A shell reports both as 130: an exit with this status, and a death by this signal.
STOPPED = (130, -signal.SIGINT)


def wait_until(process, condition, seconds=120):
    """Wait for a condition while a process runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < end
        time.sleep(0.01)


def interrupt(process):
    """Press Ctrl-C, and return the last line of standard error."""
    status, lines = process.ended(signal.SIGINT)
    assert status in STOPPED
    assert "Traceback" not in "\n".join(lines)
    return lines[-1]


def read_trials(path):
    """The keys of finished trials in a file; a kill may tear the last line."""
    keys = []
    for line in path.read_text().splitlines():
        try:
            keys.append(json.loads(line)["key"])
        except ValueError:
            continue
    return keys


RESUMES = "evalign: Stopped. Finished trials are kept: the same command resumes."


def test_compare_resumes_after_ctrl_c_and_after_a_kill(fork, run, files, tmp_path):
    command = [
        "compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1",
        "--methods=lightgbm_rule,lightgbm", "--repeats=16",
    ]  # fmt: skip

    def file():
        return next((tmp_path / "r").glob("trials-*.jsonl"), None)

    def more_than(count):
        return lambda: file() is not None and len(read_trials(file())) > count

    process = fork(*command)
    wait_until(process, more_than(1))
    assert interrupt(process) == RESUMES
    assert [path.name for path in (tmp_path / "r").iterdir()] == [file().name]
    first = read_trials(file())
    assert 1 < len(first) < 32

    process = fork(*command)
    wait_until(process, more_than(len(first)))
    process.ended(signal.SIGKILL)
    second = read_trials(file())
    assert second[: len(first)] == first
    assert len(first) < len(second) < 32
    assert not (tmp_path / "r" / "report.html").exists()

    assert run(*command).status == 0
    third = read_trials(file())
    assert third[: len(second)] == second
    assert len(third) == len(set(third)) == 32  # each trial once, in three runs
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == ["comparison.json", "report.html", file().name]


def test_fit_resumes_after_ctrl_c(fork, run, files, tmp_path, monkeypatch):
    command = [
        "fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1", "--folds=12",
        "--repeats=1", "--methods=lightgbm_rule,lightgbm",
    ]  # fmt: skip
    process = fork(*command)
    wait_until(process, lambda: any(len(read_trials(path)) > 1 for path in tmp_path.glob(".m.*.jsonl")))
    assert interrupt(process) == RESUMES
    (file,) = tmp_path.iterdir()
    before, after, real = read_trials(file), [], trials.run_group

    def record(tasks, *arguments, **settings):
        after.extend(task.key for task in tasks)
        return real(tasks, *arguments, **settings)

    monkeypatch.setattr(trials, "run_group", record)
    assert run(*command).status == 0
    assert not set(after) & set(before)
    assert len({*after, *before}) == len(after) + len(before) == 24
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert TableModel.load(tmp_path / "m").labels == ("no", "yes")


def press_ctrl_c(*_, **__):
    raise KeyboardInterrupt


def test_ctrl_c_in_the_first_trial_leaves_nothing(run, files, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "run_group", press_ctrl_c)
    ran = run("fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1")
    assert ran.status == 130
    assert ran.err.splitlines()[-1] == "evalign: Stopped."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["evaluate_methods", "render_page", "render_card"])
def test_ctrl_c_while_a_model_is_written_leaves_nothing(run, files, tmp_path, monkeypatch, where):
    monkeypatch.setattr(_fit, where, press_ctrl_c)
    command = ["fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--method=lightgbm"]
    ran = run(*command)
    assert (ran.status, ran.err.splitlines()[-1]) == (130, "evalign: Stopped.")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_prediction_leaves_nothing(fork, files, tmp_path):
    table, data, out = pd.read_parquet(files.new_parquet), tmp_path / "long.parquet", tmp_path / "out"
    table.iloc[np.arange(40_000) % len(table)].to_parquet(data)
    out.mkdir()
    process = fork("predict", files.model, data, f"--out={out / 'p.csv'}", "--chunk=20", "--proba")
    wait_until(process, lambda: any(path.stat().st_size for path in out.iterdir()))
    assert not (out / "p.csv").exists()
    status, lines = process.ended(signal.SIGINT)
    assert status in STOPPED
    assert lines == ["evalign: Stopped."]
    assert not list(out.iterdir())


def open_broken_pipe():
    """A pipe without a reader."""
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "wb")


def test_a_closed_pipe_is_silent(run, files, monkeypatch):
    with io.TextIOWrapper(open_broken_pipe()) as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        ran = run("predict", files.model, files.new_csv, "--chunk=20", "--quiet")
    assert (ran.status, ran.err) == (1, "")


def test_python_does_not_complain_of_a_closed_pipe_at_exit(start):
    with open_broken_pipe() as pipe:
        process = start("--help", stdout=pipe)
        assert process.communicate()[1] == b""
    assert process.returncode == 1


def test_a_killed_worker_is_reported(run, files, tmp_path, monkeypatch):
    """The system kills a worker when memory runs out."""

    def kill(*_, **__):
        raise TerminatedWorkerError("A worker process managed by the executor was\nunexpectedly terminated.")

    monkeypatch.setattr(trials, "run_group", kill)
    ran = run("compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1")
    assert ran.status == 1
    message = "A worker process was killed, probably because it ran out of memory: try --jobs 1."
    assert ran.err.splitlines()[-1] == f"evalign: {message}"
