"""How tests are spread over processes, and how they start scripts; CONTRIBUTING.md explains both."""

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

#: Tests of one group share what takes seconds to build, so they run in the same worker of pytest-xdist.
GROUPS = (
    ("tests/cli/", "test_studies", "test_two_workers", "test_resume", "test_constraints", "test_processes"),
    ("tests/reports/",),
    ("adversarial",),  # every worker would compile the solver again
)


@pytest.hookimpl(optionalhook=True)  # the tests also run without pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """Do what `--dist loadgroup` should do; with pytest 9.2 it ignores groups (pytest-xdist issue 1386)."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return next((str(group) for group in GROUPS if any(part in file for part in group)), nodeid)

    return GroupScheduling(config, log)


@pytest.fixture(scope="session")
def environment():
    """The environment in which a new process finds this evalign; one thread, so that two do not compete."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


class Forked:
    """A script that runs in its own process and process group; see `forks.py`."""

    def __init__(self, ask, arguments, streams):
        self.ask, self.streams = ask, [str(stream) for stream in streams]
        self.pid = ask({"arguments": [str(one) for one in arguments], "streams": self.streams})
        self.status = None

    def poll(self):
        """Return the exit status, or None while it runs."""
        if self.status is None:
            self.status = self.ask({"wait": self.pid})
        return self.status

    def wait(self, seconds=120):
        """Wait until it ends and return its exit status."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < end, "the script is still running"
            time.sleep(0.01)
        return self.status

    def ended(self, sent):
        """Send a signal to the group, as a terminal does; return the exit status and the lines of stderr."""
        os.killpg(self.pid, sent)
        return self.wait(), self.errors.splitlines()

    @property
    def errors(self):
        return Path(self.streams[2]).read_text()


@pytest.fixture(scope="session")
def forks(environment):
    """Start `forks.py` and return a function that sends it a request and returns its answer."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen([sys.executable, Path(__file__).with_name("forks.py")], **pipes) as process:

        def ask(request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def script(forks, tmp_path_factory):
    """Start a script in its own process; it is killed at the end if it still runs."""
    processes = []

    def start(*arguments, stdin=os.devnull, stdout=None):
        folder = tmp_path_factory.mktemp("streams")
        streams = [stdin, stdout or folder / "out", folder / "err"]
        processes.append(Forked(forks, arguments, streams))
        return processes[-1]

    yield start
    for process in processes:
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
