"""Classes without a true row: soft predicted mass is never 0, so losses average only over the others."""

import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score
from torch.nn.functional import one_hot

from evalign import MetricLoss, metrics

AVERAGED = [
    "f1", "jaccard", "precision", "recall", "specificity", "informedness", "fbeta(beta=2)",
    "f1(average='weighted')", "f1(average='micro')", "balanced_accuracy", "gmean", "accuracy", "mcc",
    "cohen_kappa", "min(recall)",
    "mean(precision)", "0.5 * f1() + 0.5 * precision()",
]  # fmt: skip


def perfect(y, d, margin=12.0):
    return margin * one_hot(y, d).movedim(-1, 1).float()


@pytest.mark.parametrize("temperature", [0.2, 0.02])
@pytest.mark.parametrize("name", AVERAGED)
def test_a_perfect_batch_has_no_loss(name, temperature):
    segmentation = torch.zeros(2, 16, 16, dtype=torch.long)
    segmentation[:, 4:9, 4:9] = 7  # two of 21 classes
    rows = torch.arange(64) * 37 % 100  # 64 of 100 classes
    loss = MetricLoss(name, temperature=temperature)
    for y, d in ((segmentation, 21), (rows, 100)):
        assert loss(perfect(y, d), y).item() == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("temperature", [0.2, 0.02])
@pytest.mark.parametrize("name", [*AVERAGED, "auroc"])
def test_a_perfect_multilabel_batch_has_no_loss(name, temperature):
    y = torch.zeros(32, 20, dtype=torch.long)
    y[::2, 0] = y[::3, 1] = 1  # 18 labels without positives
    loss = MetricLoss(name, temperature=temperature, task="multilabel")
    assert loss(24.0 * y - 12, y).item() == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("name", AVERAGED)
def test_classes_that_nothing_speaks_for_change_nothing(name):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    y = torch.arange(50) % 3
    wide = torch.cat([logits, torch.full((50, 18), -1e4, dtype=torch.float64)], 1)
    few, many = logits.requires_grad_(), wide.requires_grad_()
    loss = MetricLoss(name)
    values = [loss(few, y), loss(many, y)]
    for value in values:
        value.backward()
    torch.testing.assert_close(*values)
    torch.testing.assert_close(many.grad[:, :3], few.grad)


@pytest.mark.parametrize(
    ("name", "score"), [("precision", precision_score), ("f1", f1_score), ("recall", recall_score)]
)
def test_the_cold_loss_is_the_hard_metric_of_the_classes_with_true_rows(name, score):
    generator = torch.Generator().manual_seed(1)
    logits = 5 * torch.randn(200, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 4, (200,), generator=generator)  # 4 and 5 are predicted, but never true
    expected = score(y, logits.argmax(1), labels=[0, 1, 2, 3], average="macro", zero_division=0)
    value = 1 - MetricLoss(name, temperature=1e-6)(logits, y).item()
    assert value == pytest.approx(expected, abs=1e-3)


def test_a_class_in_the_memory_stays_in_the_average():
    loss, y = MetricLoss("recall", memory=0.5), torch.tensor([0, 0, 1, 1])
    loss(perfect(y, 3), torch.tensor([2, 2, 2, 2]))  # class 2 has true rows now, all of them missed
    assert loss(perfect(y, 3), y).item() == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("name", ["specificity", "accuracy"])
def test_a_batch_without_positives_still_counts_what_has_no_need_of_them(name):
    y = torch.zeros(40, dtype=torch.long)
    logits = torch.full((40,), -12.0, requires_grad=True)
    assert MetricLoss(name)(logits, y).item() == pytest.approx(0, abs=0.01)
    assert MetricLoss(name)(-logits, y).item() == pytest.approx(1, abs=0.01)


def test_a_constraint_leaves_out_the_same_classes():
    y = torch.tensor([0, 1] * 20)
    loss = MetricLoss("recall", constraints=["precision >= 0.9"])
    loss.eval()
    assert loss(perfect(y, 21), y).item() == pytest.approx(0, abs=0.02)  # the constraint is satisfied


ALONE = ["recall[2]", "precision[2]", "f1[2]", "fbeta(beta=2)[2]", "jaccard[2]", "(tp / actual)[2]"]


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("name", ALONE)
def test_a_class_alone_is_constant_where_it_has_no_true_rows(name, task):
    generator = torch.Generator().manual_seed(2)
    y = torch.arange(40) % 2
    if task == "multilabel":
        y = one_hot(y, 4)
    for scale in (0.1, 10.0):
        logits = (scale * torch.randn(40, 4, generator=generator)).requires_grad_()
        value = MetricLoss(name, task=task)(logits, y)
        value.backward()
        assert value.item() == 1
        assert (logits.grad == 0).all()
    present = y.clone()
    present[0] = 2 if task == "multiclass" else 1
    logits.grad = None
    MetricLoss(name, task=task)(logits, present).backward()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["specificity[2]", "metric('fp / total', higher_is_better=False)[2]"])
def test_a_class_alone_still_counts_what_has_no_need_of_true_rows(name):
    y = torch.arange(40) % 2
    wrong = perfect(torch.full((40,), 2), 3).requires_grad_()
    assert MetricLoss(name)(perfect(y, 3), y).item() == pytest.approx(0, abs=0.01)
    assert MetricLoss(name)(wrong, y).item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("constraint", ["recall[2] >= 0.8", "1 - recall[2] <= 0.2", "recall[2] >= recall[0]"])
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_multipliers_ignore_batches_without_the_class(constraint, task):
    loss = MetricLoss("recall", constraints=[constraint], multiplier_learning_rate=0.5, task=task)
    absent, missed = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 2, 0, 2])
    logits = perfect(absent, 3)
    if task == "multilabel":
        absent, missed, logits = one_hot(absent, 3), one_hot(missed, 3), 2 * logits - 12
    loss.multipliers.fill_(0.3)
    loss(logits, absent)
    assert loss.multipliers.item() == pytest.approx(0.3)
    assert loss.eval()(logits, absent).item() == pytest.approx(0, abs=0.02)  # no violation is added
    loss.train()(logits, missed)
    violation = 1 if "recall[0]" in constraint else 0.8  # none of class 2 is found, all of class 0
    assert loss.multipliers.item() == pytest.approx(0.3 + 0.5 * violation)


def test_scores_still_count_wrong_predictions_of_absent_classes():
    assert metrics.precision().score([0, 0, 1], [0, 2, 1]) == pytest.approx(2 / 3)
