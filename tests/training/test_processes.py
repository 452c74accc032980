"""Two real processes (gloo) equal one process on the joined batch."""

import json
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("two_processes.py")
FRAMEWORKS = Path(__file__).with_name("two_frameworks.py")


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
] + ["sharded"]


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


@pytest.fixture(scope="module")
def frameworks(script, tmp_path_factory):
    """What Lightning and Hugging Face report in each of two processes."""
    for name in ("lightning", "transformers", "accelerate"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("frameworks")
    targets = [folder / f"result-{rank}.json" for rank in (0, 1)]
    imports = ["evalign.training.lightning", "evalign.training.transformers"]
    running = [
        script(FRAMEWORKS, rank, folder / "rendezvous", target, imports=imports)
        for rank, target in enumerate(targets)
    ]
    for process in running:
        assert process.wait() == 0, process.errors
    return [json.loads(target.read_text()) for target in targets]


@pytest.mark.parametrize("loss", ["f1", "constraint"])
@pytest.mark.parametrize("framework", ["lightning", "transformers"])
def test_validation_in_small_batches_equals_all_rows(frameworks, framework, loss):
    """Batches of 8 in two processes, against one batch in one process and scikit-learn's F1."""
    for result in frameworks:
        one = result[f"{framework}-{loss}"]
        assert one["logged"] == pytest.approx(one["wanted"], abs=1e-6)
        assert 0.05 < one["wanted"]["f1"] < 0.95
    histories = [result[f"{framework}-{loss}"]["history"] for result in frameworks]
    assert histories[0] == histories[1], "all processes cool together"


def test_lightning_repeats_a_row_unless_its_sampler_does_not(frameworks):
    """65 rows in two processes: by default the first one counts twice, as the docs say."""
    for result in frameworks:
        for loss in ("f1", "constraint"):
            one = result[f"lightning-{loss}"]
            assert one["uneven"] == pytest.approx(one["wanted_uneven"], abs=1e-6)
            assert abs(one["uneven"]["repeated"] - one["uneven"]["once"]) > 1e-4


def test_lightning_divides_stratified_batches_among_processes(frameworks):
    one, two = (result["lightning-f1"] for result in frameworks)
    positive, batches = one["positive"], list(zip(one["batches"], two["batches"], strict=True))
    assert len(batches) == 3 * 10, "three epochs of 200 rows in batches of 10 per process"
    for parts in batches:
        assert not set(parts[0]) & set(parts[1])
        for part in parts:
            assert abs(sum(positive[row] for row in part) - 10 * sum(positive) / 200) < 1
    epoch = [row for parts in batches[:10] for part in parts for row in part]
    assert sorted(epoch) == list(range(200))
    assert batches[:10] != batches[10:20]


def test_different_numbers_of_labels_give_the_gradient_of_the_joint_batch(frameworks):
    """With and without `average_tokens_across_devices`."""
    for result in frameworks:
        for one in result["gradients"]:
            torch.testing.assert_close(torch.tensor(one["logged"]), torch.tensor(one["wanted"]))
            assert torch.tensor(one["wanted"]).norm() > 0.01
