"""Accumulators: many batches and processes give the value of one batch, for every task and metric."""

import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef, precision_score, roc_auc_score

from evalign import metrics
from evalign.metrics import MetricAccumulator

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(103, 4, generator=GENERATOR)
TARGETS = torch.randint(0, 4, (103,), generator=GENERATOR)
WEIGHT = torch.rand(103, generator=GENERATOR)
LABELS = (torch.rand(103, 4, generator=GENERATOR) < 0.3).long()


def feed(accumulator, *sides, size=8):
    for rows in torch.arange(103).split(size):
        accumulator.update(*(side[rows] for side in sides))
    return accumulator


@pytest.mark.parametrize("size", [1, 8, 103])
@pytest.mark.parametrize("form", ["logits", "indices"])
def test_batches_of_any_size_equal_scikit_learn(size, form):
    predicted = LOGITS.argmax(1)
    accumulator = MetricAccumulator(["f1", "mcc", "precision(average='weighted')"], num_classes=4)
    feed(accumulator, LOGITS if form == "logits" else predicted, TARGETS, WEIGHT, size=size)
    values = accumulator.compute()
    weight = WEIGHT.double()
    assert values["f1"].item() == pytest.approx(
        f1_score(TARGETS, predicted, average="macro", sample_weight=weight), abs=1e-6
    )
    assert values["mcc"].item() == pytest.approx(
        matthews_corrcoef(TARGETS, predicted, sample_weight=weight), abs=1e-6
    )
    assert values["precision(average='weighted')"].item() == pytest.approx(
        precision_score(TARGETS, predicted, average="weighted", sample_weight=weight), abs=1e-6
    )


@pytest.mark.parametrize("form", ["logits", "labels"])
def test_labels_equal_scikit_learn(form):
    guess = (LOGITS > 0).long()
    accumulator = metrics.f1().accumulator(task="multilabel")
    feed(accumulator, LOGITS if form == "logits" else guess, LABELS)
    assert accumulator.compute().item() == pytest.approx(f1_score(LABELS, guess, average="macro"))
    assert accumulator.confusion.shape == (4, 2, 2)


def test_one_logit_per_row_and_a_threshold():
    p, y = LOGITS[:, 0].sigmoid(), TARGETS % 2
    accumulator = feed(metrics.f1().accumulator(thresholds=0.3), LOGITS[:, 0], y)
    assert accumulator.compute().item() == pytest.approx(f1_score(y, p >= 0.3))
    several = feed(metrics.f1().accumulator(thresholds=[0.3, 0.6]), LOGITS[:, 0], y)
    assert several.compute().item() == pytest.approx((f1_score(y, p >= 0.3) + f1_score(y, p >= 0.6)) / 2)


def test_a_curve_is_close_to_that_of_all_thresholds():
    y = TARGETS % 2
    accumulator = feed(metrics.auroc().accumulator(), LOGITS[:, 0], y)
    assert accumulator.compute().item() == pytest.approx(roc_auc_score(y, LOGITS[:, 0]), abs=0.01)
    accumulator = feed(metrics.auroc().accumulator(), LOGITS, TARGETS)  # each class against the rest
    wanted = roc_auc_score(TARGETS, LOGITS.double().softmax(1), multi_class="ovr")
    assert accumulator.compute().item() == pytest.approx(wanted, abs=0.01)


def test_dense_targets_and_ignored_cells():
    logits = torch.randn(3, 4, 5, 5, generator=GENERATOR)
    y = torch.randint(0, 4, (3, 5, 5), generator=GENERATOR)
    y[0, 0] = -100
    accumulator = metrics.accuracy().accumulator()
    for image in range(3):
        accumulator.update(logits[image : image + 1], y[image : image + 1])
    kept = y != -100
    assert accumulator.compute().item() == pytest.approx((logits.argmax(1) == y)[kept].double().mean().item())


def test_calling_it_gives_the_value_of_the_batch_and_counts_it():
    accumulator = metrics.accuracy().accumulator()
    first, second = slice(0, 10), slice(10, 20)
    assert accumulator(LOGITS[first], TARGETS[first]).item() == pytest.approx(
        (LOGITS[first].argmax(1) == TARGETS[first]).double().mean().item()
    )
    accumulator(LOGITS[second], TARGETS[second])
    assert accumulator.confusion.sum() == 20


def test_reset_and_slacks():
    accumulator = MetricAccumulator("recall", ["precision >= 0.9", "recall <= 0.5"], task="binary")
    accumulator.update(torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1, 0, 1, 0]))
    slacks = {name: value.item() for name, value in accumulator.slacks().items()}
    assert slacks == pytest.approx({"precision() >= 0.9": -0.4, "recall() <= 0.5": 0.0})
    accumulator.reset()
    with pytest.raises(ValueError, match="at least one `update`"):
        accumulator.compute()
    accumulator.update(torch.tensor([1.0]), torch.tensor([1]))
    assert accumulator.compute() == 1


def test_a_module_that_holds_it_keeps_its_state_dict():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.valid_f1 = torch.nn.Linear(2, 2), metrics.f1().accumulator()

    model = Model()
    model.valid_f1.update(LOGITS[:, :2], TARGETS % 2)
    assert set(model.state_dict()) == {"layer.weight", "layer.bias"}
    assert model.to("meta").valid_f1.counts.device.type == "meta"


def test_many_rows_are_counted_exactly():
    accumulator = metrics.accuracy().accumulator()
    accumulator.update(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([2.0**26]))
    accumulator.update(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert accumulator.confusion[0, 0].item() == 2**26 + 1


@pytest.mark.parametrize(
    ("settings", "sides", "message"),
    [
        ({"num_classes": 3}, (LOGITS, TARGETS), "`predictions` of 3 classes, but got 4 classes"),
        ({}, (TARGETS, TARGETS), "`num_classes` to be set if predictions are class indices"),
        ({"num_classes": 2}, (TARGETS, TARGETS), r"`predictions` in 0\.\.1, but got 3"),
        ({"num_classes": 4}, (TARGETS[:5], TARGETS), "`predictions` of shape"),
        ({}, (LOGITS.numpy(), TARGETS), "`predictions` to be a tensor, but got a ndarray"),
        ({}, (LOGITS, LABELS), "Use task='multilabel' for labels"),
    ],
)
def test_bad_batches_are_refused(settings, sides, message):
    with pytest.raises(ValueError, match=message):
        metrics.f1().accumulator(**settings).update(*sides)


def test_batches_of_other_shapes_are_refused():
    accumulator = metrics.f1().accumulator()
    accumulator.update(LOGITS, TARGETS)
    with pytest.raises(ValueError, match=r"counts of shape \(4, 4\), as before"):
        accumulator.update(LOGITS[:, :3], TARGETS % 3)
    with pytest.raises(ValueError, match="of a multiclass task, as before"):
        accumulator.update(LOGITS[:, 0], TARGETS % 2)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["f1"], {"task": "many"}, "`task` to be one of"),
        (["f1"], {"num_classes": 1}, "`num_classes` to be an integer >= 2"),
        (["f1"], {"thresholds": 1.5}, r"`thresholds` in \(0, 1\)"),
        ([[]], {}, "with at least one metric"),
        ([["f1", "auroc"]], {}, "all of a curve or all of one matrix"),
    ],
)
def test_bad_settings_are_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        MetricAccumulator(*arguments, **settings)
