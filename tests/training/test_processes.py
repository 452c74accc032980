"""Two real processes (gloo) equal one process on the joined batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("two_processes.py")


def start(rank, world, folder):
    target = folder / f"result-{world}-{rank}.pt"
    command = [sys.executable, str(SCRIPT), str(rank), str(world), str(folder / "rendezvous"), str(target)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    return target, subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    running = [start(0, 1, folder), start(0, 2, folder), start(1, 2, folder)]
    for _, process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return [torch.load(target, weights_only=True) for target, _ in running]


CASES = [
    f"{task}-{exact}" for task in ("multiclass", "pair", "binary", "multilabel") for exact in (False, True)
]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(results, case):
    """Losses, gradients, weights and memory to 1e-6 relative; batches cut 50/50, 37/63 and 99/1."""
    alone, *both = (result[case] for result in results)
    for part in both:
        assert part.keys() == alone.keys()
        for name, wanted in alone.items():
            assert (part[name] - wanted).norm() <= 1e-6 * wanted.norm(), name


def test_sync_can_be_turned_off(results):
    first, second = (result["sync"] for result in results[1:])
    assert abs(first["off"] - second["off"]) > 1e-3
    assert first["off"] == pytest.approx(1 - first["local"])
