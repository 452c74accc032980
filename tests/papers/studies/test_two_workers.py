"""Two workers on one PostgreSQL (skipped where none can be started); on SQLite: test_studies.py."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState
from toys import TOY

from evalign.papers import reproduce


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


@pytest.fixture
def postgresql():
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


def test_two_workers_share_a_study_and_run_each_point_once(script, postgresql, trials, tmp_path):
    url, toys = postgresql, Path(__file__).parents[1] / "toys.py"
    workers = [script(toys, url, tmp_path / "out", 0.5, stdout=tmp_path / f"{number}") for number in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert [(tmp_path / f"{number}").read_text() for number in range(2)] == ["done\n", "done\n"]
    complete = [trial for trial in trials(url=url) if trial.state == TrialState.COMPLETE]
    assert set(Counter(trial.user_attrs["key"] for trial in complete).values()) == {1}
    assert len(complete) == 3 * (2 + 1) + 2 + 2
    assert len({trial.user_attrs["worker"] for trial in complete}) == 2
    shared = reproduce(TOY, storage=url, out=tmp_path / "out", progress=False)
    alone = reproduce(TOY, storage=f"sqlite:///{tmp_path / 's.db'}", out=tmp_path / "alone", progress=False)
    assert [cell.scores for cell in shared.results.cells.values()] == [
        cell.scores for cell in alone.results.cells.values()
    ]
