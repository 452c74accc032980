"""Multilabel problems: one 2 x 2 matrix per label."""

import pytest
import torch

from evalign import metrics

# F1 of the labels by hand: 6/8, 0 (never predicted right) and 0/0 (no positive anywhere).
LABELS = torch.tensor([[[5.0, 1], [1, 3]], [[7, 1], [2, 0]], [[10, 0], [0, 0]]], dtype=torch.float64)


@pytest.mark.parametrize(("metric", "skip_absent", "value"), [
    (metrics.f1(), False, 0.75 / 3),
    (metrics.f1(), True, 0.75 / 2),
    (metrics.f1(average="macro"), False, 0.75 / 3),
    (metrics.f1(average="macro"), True, 0.75 / 2),
    (metrics.f1(average="micro"), False, 6 / 11),
    (metrics.f1(average="micro"), True, 6 / 11),
    (metrics.f1(average="weighted"), False, 0.75 * 4 / 6),
    (metrics.f1(average="weighted"), True, 0.75 * 4 / 6),
    (metrics.accuracy(), False, (0.8 + 0.7 + 1) / 3),
    (metrics.accuracy(), True, (0.8 + 0.7) / 2),
    (metrics.specificity(positive=0), False, (0.75 + 0 + 0) / 3),
    (metrics.metric("2*tp / (2*tp + fp + fn)"), True, 0.75 / 2),
    (metrics.metric(lambda c: c.recall), True, 0.75 / 2),
    (1 - metrics.f1(), True, 1 - 0.75 / 2),
    (2 * metrics.f1(average="micro") - metrics.accuracy(), False, 12 / 11 - 2.5 / 3),
])  # fmt: skip
def test_value_by_hand(metric, skip_absent, value):
    assert float(metric.over_labels(LABELS, skip_absent=skip_absent)) == pytest.approx(value)


@pytest.mark.parametrize("skip_absent", [True, False])
def test_no_average_gives_one_value_per_label(skip_absent):
    values = metrics.f1(average=None).over_labels(LABELS, skip_absent=skip_absent)
    assert values.tolist() == pytest.approx([0.75, 0, 0])


def test_absent_labels_count_by_default():
    torch.testing.assert_close(
        metrics.f1().over_labels(LABELS), metrics.f1().over_labels(LABELS, skip_absent=False)
    )


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
def test_batch_equals_loop(average):
    batch = torch.rand(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    metric = metrics.jaccard(average=average)
    torch.testing.assert_close(
        metric.over_labels(batch), torch.stack([metric.over_labels(labels) for labels in batch])
    )


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("skip_absent", [True, False])
def test_labels_without_any_row_are_finite(average, skip_absent):
    labels = torch.zeros(3, 2, 2, requires_grad=True)
    value = metrics.f1(average=average).over_labels(labels, skip_absent=skip_absent)
    (gradient,) = torch.autograd.grad(value, labels)
    assert value.item() == 0
    assert gradient.isfinite().all()


@pytest.mark.parametrize("shape", [(2, 2), (3, 3, 3), (2,)], ids=str)
def test_matrices_must_be_two_by_two(shape):
    with pytest.raises(ValueError, match="Expected `matrix` of shape"):
        metrics.f1().over_labels(torch.zeros(shape))
