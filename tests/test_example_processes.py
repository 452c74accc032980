"""The examples for two processes, run in two processes (gloo)."""

import os
import re
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def read_scores(text):
    """The numbers with three digits, all of them losses or scores."""
    numbers = [float(number) for number in re.findall(r"\b\d\.\d{3}\b", text)]
    assert all(0 <= number <= 1 for number in numbers), text
    return numbers


@pytest.mark.skipif(find_spec("lightning") is None, reason="requires lightning")
def test_lightning_trains_in_two_processes(script):
    process = script(EXAMPLES / "lightning_ddp.py", "--small", imports=["evalign.training.lightning"])
    assert process.wait() == 0, process.errors
    assert "MEMBER: 2/2" in process.errors
    title, *lines = Path(process.streams[1]).read_text().splitlines()
    assert title == "F1 on test rows"
    assert [line.split()[0] for line in lines] == ["cross-entropy", "MetricLoss('f1')"]
    assert [len(read_scores(line)) for line in lines] == [1, 1]


def test_ddp_trains_two_processes_as_one(script, tmp_path):
    """As `torchrun` starts it; each process has half of the rows, and the loss is that of both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = tmp_path / "launch.py"
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    launcher.write_text(
        f"import os, runpy, sys\nos.environ |= {place!r} | {{'RANK': sys.argv[1]}}\n"
        f"runpy.run_path({os.fspath(EXAMPLES / 'ddp.py')!r}, run_name='__main__')\n"
    )
    processes = [script(launcher, rank) for rank in (0, 1)]
    assert [process.wait() for process in processes] == [0, 0], [process.errors for process in processes]
    first, second = (Path(process.streams[1]).read_text() for process in processes)
    assert second == "", "only the first process prints"
    lines = [line.split(":") for line in first.splitlines()]
    assert [start for start, _ in lines] == ["epoch 5", "epoch 10", "epoch 15"]
    results = [read_scores(line) for _, line in lines]
    (first_loss, _), *_, (last_loss, score) = results
    assert last_loss < first_loss
    assert score > 0.5, "one row in 43 is positive, so that chance gives 0.04"
