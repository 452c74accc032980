"""Ctrl-C, kill -9 and a closed pipe: nothing is half-written, and no trial runs twice."""

import io
import json
import os
import resource
import signal
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from evalign.cli import _fit, _lists
from evalign.selection import folds, trials
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
        "--methods=lightgbm_rule,lightgbm", "--repeats=24",
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
    assert 1 < len(first) < 48

    process = fork(*command)
    wait_until(process, more_than(len(first)))
    process.ended(signal.SIGKILL)
    second = read_trials(file())
    assert second[: len(first)] == first
    assert len(first) < len(second) < 48
    assert not (tmp_path / "r" / "report.html").exists()

    assert run(*command).status == 0
    third = read_trials(file())
    assert third[: len(second)] == second
    assert len(third) == len(set(third)) == 48  # each trial once, in three runs
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == ["comparison.json", "report.html", file().name]


def find_models(folder):
    """The models of folds that are finished."""
    return {path.name for path in folder.glob(".m.*.folds/fold-*.json")}


def test_fit_resumes_after_ctrl_c(fork, run, files, tmp_path, monkeypatch):
    command = [
        "fit", files.old_parquet, "--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1", "--folds=12",
        "--methods=lightgbm_rule,lightgbm",
    ]  # fmt: skip
    process = fork(*command)
    wait_until(process, lambda: len(find_models(tmp_path)) > 1)
    assert interrupt(process) == RESUMES
    before, after, real = find_models(tmp_path), set(), folds.FoldTask.run
    assert 1 < len(before) < 12  # no member was complete

    def record(task, *arguments, **settings):
        after.add(f"fold-{task.key}.json")
        return real(task, *arguments, **settings)

    monkeypatch.setattr(folds.FoldTask, "run", record)
    assert run(*command).status == 0
    assert not after & before
    assert len(after | before) == 24
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert TableModel.load(tmp_path / "m").labels == ("no", "yes")


def test_ctrl_c_after_a_member_saves_a_model_of_it(run, files, tmp_path, monkeypatch):
    real = folds.FoldTask.run

    def run_first(task, *arguments, **settings):
        if task.member != "lightgbm":
            raise KeyboardInterrupt
        return real(task, *arguments, **settings)

    monkeypatch.setattr(folds.FoldTask, "run", run_first)
    command = ["--target=churned", f"--out={tmp_path / 'm'}", "--jobs=1", "--folds=2"]
    ran = run("fit", files.old_parquet, *command, "--methods=lightgbm,linear", "--json")
    assert ran.status == 0
    assert "linear was left out: interrupted." in ran.err
    assert json.loads(ran.out)["method"] == "lightgbm"
    assert list(TableModel.load(tmp_path / "m").classifier.weights_) == ["lightgbm"]


def press_ctrl_c(*_, **__):
    raise KeyboardInterrupt


def test_ctrl_c_in_the_first_trial_leaves_nothing(run, files, tmp_path, monkeypatch):
    monkeypatch.setattr(folds.FoldTask, "run", press_ctrl_c)
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


@pytest.fixture
def start_prediction(fork, files, tmp_path):
    """Start a prediction that takes long, and wait until it has written something."""
    table, data, out = pd.read_parquet(files.new_parquet), tmp_path / "long.parquet", tmp_path / "out"
    table.iloc[np.arange(40_000) % len(table)].to_parquet(data)
    out.mkdir()

    def start():
        process = fork("predict", files.model, data, f"--out={out / 'p.csv'}", "--chunk=20", "--proba")
        wait_until(process, lambda: any(path.stat().st_size for path in out.iterdir()))
        assert not (out / "p.csv").exists()
        return process, out

    return start


@pytest.mark.parametrize(("sent", "statuses"), [(signal.SIGINT, STOPPED), (signal.SIGTERM, (143,))])
def test_an_interrupted_prediction_leaves_nothing(start_prediction, sent, statuses):
    process, out = start_prediction()
    status, lines = process.ended(sent)
    assert status in statuses
    assert lines == ["evalign: Stopped."]
    assert not list(out.iterdir())


def test_a_later_run_removes_the_draft_of_a_killed_one(start_prediction, run, files):
    process, out = start_prediction()
    process.ended(signal.SIGKILL)
    assert len(list(out.iterdir())) == 1
    assert run("predict", files.model, files.new_csv, f"--out={out / 'p.csv'}").status == 0
    assert [path.name for path in out.iterdir()] == ["p.csv"]


def list_group(number):
    """The ids of the processes of a group that still run."""
    states = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            states[int(path.parent.name)] = (fields[0], int(fields[2]))
    return [pid for pid, (state, group) in states.items() if group == number and state != "Z"]


def assert_group_ends(process):
    """Two seconds on a machine with nothing else to do."""
    end = time.monotonic() + 10
    while list_group(process.pid):
        assert time.monotonic() < end
        time.sleep(0.05)


has_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no list of processes in /proc")

#: A command with two workers that would work for ten minutes.
TWO_WORKERS = """
import sys, time, joblib
from evalign.cli import _lists, main
sleep = joblib.delayed(time.sleep)
_lists.list_metrics = lambda console: joblib.Parallel(2)([sleep(600), sleep(600)])
sys.exit(main(["metrics"]))
"""


@has_proc
def test_workers_end_with_sigterm(script, tmp_path):
    """A container is stopped by a signal to its first process, not to all of them as by Ctrl-C."""
    (tmp_path / "command.py").write_text(TWO_WORKERS)
    process = script(tmp_path / "command.py")
    wait_until(process, lambda: len(list_group(process.pid)) > 2)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == 143
    assert process.errors.splitlines() == ["evalign: Stopped."]
    assert_group_ends(process)


STOPPED_AT_THE_START = """
import signal
from joblib.externals.loky import process_executor
process_executor._ExecutorManagerThread.start = lambda thread: signal.raise_signal(signal.SIGTERM)
"""


@has_proc
def test_workers_without_their_thread_end_too(script, tmp_path):
    """SIGTERM may come when joblib has started its processes, but not the thread that looks after them."""
    (tmp_path / "command.py").write_text(STOPPED_AT_THE_START + TWO_WORKERS)
    process = script(tmp_path / "command.py")
    assert process.wait() == 143
    assert process.errors.splitlines() == ["evalign: Stopped."]
    assert_group_ends(process)


def test_an_error_of_cleaning_up_is_not_the_reason(run, monkeypatch):
    """joblib raises it if its workers have not been started yet."""

    def stop(console):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot join thread before it is started")

    monkeypatch.setattr(_lists, "list_metrics", stop)
    result = run("metrics")
    assert (result.status, result.err) == (130, "evalign: Stopped.\n")


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


ABANDON = """
import io, time
from evalign.tables import stream

class Slow(io.RawIOBase):
    def read(self, size=-1):
        time.sleep(0.01)
        return b"1,2\\n" * 200_000

chunks = stream(Slow(), rows=10)
print(len(next(chunks)), flush=True)
"""


def test_a_stream_may_be_abandoned_at_exit(script, tmp_path):
    """Nothing may still read ahead and need the interpreter while it exits."""
    (tmp_path / "abandon.py").write_text(ABANDON)
    process = script(tmp_path / "abandon.py")
    assert (process.wait(), process.errors) == (0, "")
    assert Path(process.streams[1]).read_text() == "10\n"


def test_a_killed_worker_is_reported(run, files, tmp_path, monkeypatch):
    """The system kills a worker when memory runs out."""

    def kill(*_, **__):
        raise TerminatedWorkerError("A worker process managed by the executor was\nunexpectedly terminated.")

    monkeypatch.setattr(trials, "run_group", kill)
    ran = run("compare", files.old_parquet, "--target=churned", f"--out={tmp_path / 'r'}", "--jobs=1")
    assert ran.status == 1
    message = "A worker process was killed, probably because it ran out of memory: try --jobs 1."
    assert ran.err.splitlines()[-1] == f"evalign: {message}"


@contextmanager
def replace_stdout(path, monkeypatch):
    """A standard output without a buffer, as with PYTHONUNBUFFERED, on a disk with room for 1,000 bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    number = os.open(path, os.O_WRONLY | os.O_CREAT)
    raw = io.FileIO(number, "wb", closefd=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=True))
        patch.setattr(sys, "__stdout__", sys.stdout)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    os.close(number)


@pytest.mark.parametrize("command", [["predict", "--proba"], ["evaluate", "--json"]])
def test_a_full_disk_is_an_error_without_a_buffer(run, files, tmp_path, monkeypatch, command):
    name, *options = command
    with replace_stdout(tmp_path / "full", monkeypatch):
        ran = run(name, files.model, files.new_csv, *options, "--quiet")
    assert ran.status == 1
    assert "File too large" in ran.err  # what the system says where a limit stands for the disk
    assert (tmp_path / "full").stat().st_size == 1000
