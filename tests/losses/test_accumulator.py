"""The validation loss of many batches is that of one batch."""

import pytest
import torch

from evalign import MetricLoss

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(100, 4, generator=GENERATOR)
TARGETS = torch.randint(0, 4, (100,), generator=GENERATOR)
LABELS = (torch.rand(100, 4, generator=GENERATOR) < 0.3).long()
WEIGHT = torch.rand(100, generator=GENERATOR)


@pytest.mark.parametrize(
    ("settings", "logits", "targets"),
    [
        ({}, LOGITS, TARGETS),
        ({"anchor": 0.3, "temperature": 0.05}, LOGITS, TARGETS),
        ({"constraints": ["precision >= 0.9"]}, LOGITS, TARGETS),
        ({"constraints": ["precision >= 0.9"], "anchor": 0.3, "memory": 0.9}, LOGITS, TARGETS),
        ({"thresholds": "btg"}, LOGITS[:, 0], TARGETS % 2),
        ({"task": "multilabel", "constraints": ["recall >= 0.9"]}, LOGITS, LABELS),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 8, 100])
def test_batches_of_any_size_equal_one(settings, logits, targets, size):
    loss = MetricLoss("f1", **settings)
    accumulator = loss.accumulator()
    for rows in torch.arange(100).split(size):
        accumulator.update(logits[rows], targets[rows], WEIGHT[rows])
    assert loss.training  # it stays as it is
    torch.testing.assert_close(accumulator.compute().float(), loss.eval()(logits, targets, WEIGHT))
    assert loss.running_confusion is None


def test_slacks_are_those_of_the_predicted_classes():
    loss = MetricLoss("recall", constraints=["precision >= 0.9"])
    accumulator = loss.accumulator()
    for logit, target in ((1.0, 1), (1.0, 0), (-1.0, 1)):
        accumulator.update(torch.tensor([logit]), torch.tensor([target]))
    assert accumulator.slacks()["precision() >= 0.9"].item() == pytest.approx(-0.4)
    assert MetricLoss("f1").accumulator() is not accumulator


def test_reset_forgets_all_rows():
    accumulator = MetricLoss("f1").accumulator()
    accumulator.update(LOGITS, TARGETS)
    accumulator.reset()
    with pytest.raises(ValueError, match="at least one `update`"):
        accumulator.compute()
