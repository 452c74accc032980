"""What is dear is made in one test process only, and scripts run in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evalign

SOURCE = Path(evalign.__file__).parents[1]

#: Files whose tests share what takes seconds to make: those of a line run in one test process.
TOGETHER = (
    ("tests/cli/", "test_studies", "test_two_workers", "test_resume", "test_constraints", "test_processes"),
    ("tests/reports/",),
    ("adversarial",),  # its solver is compiled in each process
)


@pytest.hookimpl(optionalhook=True)  # the tests run without pytest-xdist too
def pytest_xdist_make_scheduler(config, log):
    """What `--dist loadgroup` would do, which pytest 9 does not let pytest-xdist 3.8 do."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return next((str(group) for group in TOGETHER if any(part in file for part in group)), nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def environment():
    """What a process of its own needs to find this evalign; one thread, as two would fight for cores."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


class Forked:
    """A script in a process and a group of its own; see `forks.py`."""

    def __init__(self, ask, arguments, streams):
        self.ask, self.streams = ask, [str(stream) for stream in streams]
        self.pid = ask({"arguments": [str(one) for one in arguments], "streams": self.streams})
        self.status = None

    def poll(self):
        """The exit status, or None if it still runs."""
        if self.status is None:
            self.status = self.ask({"wait": self.pid})
        return self.status

    def wait(self, seconds=120):
        """The exit status, once it has ended."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < end, "it still runs"
            time.sleep(0.01)
        return self.status

    def ended(self, sent):
        """Send a signal to the group, as a terminal does; give the status and the lines of the error."""
        os.killpg(self.pid, sent)
        return self.wait(), self.errors.splitlines()

    @property
    def errors(self):
        return Path(self.streams[2]).read_text()


@pytest.fixture(scope="session")
def forks(environment):
    """Ask the process that forks."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen([sys.executable, Path(__file__).with_name("forks.py")], **pipes) as process:

        def ask(question):
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def script(forks, tmp_path_factory):
    """Start a script in a process of its own; one that still runs in the end is killed."""
    begun = []

    def start(*arguments, stdin=os.devnull, stdout=None):
        folder = tmp_path_factory.mktemp("streams")
        streams = [stdin, stdout or folder / "out", folder / "err"]
        begun.append(Forked(forks, arguments, streams))
        return begun[-1]

    yield start
    for process in begun:
        if process.poll() is None:
            process.ended(signal.SIGKILL)


@pytest.fixture
def data_home(tmp_path, monkeypatch):
    """An empty folder EVALIGN_DATA and an empty cache, so that no data of this machine is seen."""
    from evalign.datasets import _source

    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("EVALIGN_DATA", str(folder))
    monkeypatch.setattr(_source, "cache_folder", lambda: tmp_path / "cache")
    return folder
