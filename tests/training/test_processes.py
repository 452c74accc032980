"""Two real processes (gloo) equal one process on the joined batch."""

from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.fixture(scope="module")
def results(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")

    def start(rank, world):
        target = folder / f"result-{world}-{rank}.pt"
        return target, script(SCRIPT, rank, world, folder / "rendezvous", target)

    running = [start(0, 1), start(0, 2), start(1, 2)]
    for _, process in running:
        assert process.wait() == 0, process.errors
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
