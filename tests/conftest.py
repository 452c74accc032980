"""How tests are spread over processes, and how they start scripts; CONTRIBUTING.md explains both."""

import gc
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings

import evalign

SOURCE = Path(evalign.__file__).parents[1]

# An example that takes long on a machine with other work is no failure.
settings.register_profile("evalign", deadline=None)
settings.load_profile("evalign")

#: Tests of one group share what takes seconds to build, so they run in the same worker of pytest-xdist.
GROUPS = (
    (
        "tests/cli/",
        "test_studies",
        "test_two_workers",
        "test_resume",
        "test_constraints",
        "test_processes",
        "test_example_processes",
    ),
    ("tests/reports/",),
    ("adversarial",),  # every worker would compile the solver again
    ("test_against_sklearn",),  # and compute the values of scikit-learn again
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


def pytest_collection_finish():
    """Spare the garbage collector, which some libraries call, the million objects of all imports."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def environment():
    """The environment in which a new process finds this evalign; one thread, so that two do not compete."""
    own = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **own, "HF_HUB_OFFLINE": "1"}


class Forked:
    """A script that runs in its own process and process group; see `forks.py`."""

    def __init__(self, ask, arguments, streams, imports):
        self.ask, self.streams = ask, [str(stream) for stream in streams]
        request = {"arguments": [str(one) for one in arguments], "streams": self.streams, "imports": imports}
        self.pid = ask(request)
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
    """Start a script in its own process; it is killed at the end if it still runs.

    `imports` names slow modules that it needs and no other process has needed so far.
    """
    processes = []

    def start(*arguments, stdin=os.devnull, stdout=None, imports=()):
        folder = tmp_path_factory.mktemp("streams")
        streams = [stdin, stdout or folder / "out", folder / "err"]
        processes.append(Forked(forks, arguments, streams, imports))
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


def find_program(name):
    path = shutil.which(name) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None
    )
    if path is None:
        pytest.skip(f"no {name} on this machine")
    return path


def as_server_user(folder):
    """A prefix that runs a command as another user, since PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("no user postgres on this machine")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return [find_program("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


@pytest.fixture(scope="module")
def postgresql():
    """The address of a PostgreSQL that runs during the tests of a module, on this machine only."""
    pytest.importorskip("psycopg")
    initdb, control = find_program("initdb"), find_program("pg_ctl")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp())
    user = as_server_user(folder)
    data, log = folder / "data", folder / "log"
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    start = [*user, control, "-D", data, "-l", log, "-w", "-o", settings, "start"]
    try:
        created = subprocess.run(
            [*user, initdb, "-D", data, "-A", "trust", "-U", "evalign"], capture_output=True
        )
        if created.returncode or subprocess.run(start, stdout=subprocess.DEVNULL).returncode:
            pytest.skip(f"no PostgreSQL could be started: {created.stderr[-300:]!r}")
        yield f"postgresql+psycopg://evalign@127.0.0.1:{port}/postgres"
        subprocess.run([*user, control, "-D", data, "-m", "immediate", "stop"], capture_output=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
