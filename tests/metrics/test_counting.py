"""From labels to confusion matrices: what is counted, and which labels are refused."""

import numpy as np
import pytest
import torch

from evalign import metrics
from evalign.metrics._counting import label_confusion


def test_rows_are_true_and_columns_predicted():
    counts = label_confusion([0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 0, 0])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [2, 0, 1]]
    assert counts.dtype == torch.float64


def test_weights_are_added():
    assert label_confusion([0, 0, 1], [0, 0, 0], [0.5, 1.5, 3]).tolist() == [[2, 0], [3, 0]]


@pytest.mark.parametrize("metric", ["f1", "auroc"])
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2, -1], "`sample_weight` to be finite numbers >= 0, but got -1.0"),
        ([1, 2, np.nan], "`sample_weight` to be finite numbers >= 0, but got nan"),
        ([1, 2], r"`sample_weight` of shape \(3,\), but got shape \(2,\)"),
    ],
)
def test_weights_that_are_none_are_refused(metric, weight, message):
    with pytest.raises(ValueError, match=message):
        metrics.as_metric(metric).score([0, 1, 1], [0, 1, 0], weight)


@pytest.mark.parametrize(("truth", "guess", "counts"), [
    (["b", "a", "b"], ["b", "b", "a"], [[0, 1], [1, 1]]),
    ([True, False, True], [True, True, False], [[0, 1], [1, 1]]),
    ([1, -1, 1], [1, 1, -1], [[0, 1], [1, 1]]),
    ([1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [[0, 1], [1, 1]]),
    ([30, 10, 30], [30, 20, 10], [[0, 1, 0], [0, 0, 0], [1, 0, 1]]),
    (torch.tensor([1, 0, 1]), torch.tensor([1, 1, 0]), [[0, 1], [1, 1]]),
    (np.array([[1], [0], [1]]), np.array([[1], [1], [0]]), [[0, 1], [1, 1]]),
    (np.array(["b", "a", "b"], dtype=object), np.array(["b", "b", "a"], dtype=object), [[0, 1], [1, 1]]),
    (["b", "a"], ["long", "a"], [[1, 0, 0], [0, 0, 1], [0, 0, 0]]),
], ids=str)  # fmt: skip
def test_classes_are_sorted(truth, guess, counts):
    assert label_confusion(truth, guess).tolist() == counts


@pytest.mark.parametrize(("truth", "guess", "counts"), [
    ([0, 0], [0, 0], [[2, 0], [0, 0]]),
    ([1, 1], [1, 1], [[0, 0], [0, 2]]),
    ([0, 0], [1, 1], [[0, 2], [0, 0]]),
    ([True, True], [True, True], [[0, 0], [0, 2]]),
    ([1.0], [1.0], [[0, 0], [0, 1]]),
])  # fmt: skip
def test_zero_and_one_are_assumed_for_binary_numbers(truth, guess, counts):
    assert label_confusion(truth, guess).tolist() == counts


@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], ["c", "a", "b"], ("c", "b", "a", "a"), np.array(["a", "b", "c"])]
)
def test_labels_name_classes_that_are_absent_from_the_data(labels):
    counts = label_confusion(["a", "c"], ["c", "c"], labels=labels)
    assert counts.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_labels_make_one_class_countable():
    assert label_confusion(["b"], ["b"], labels=["a", "b"]).tolist() == [[0, 0], [0, 1]]


def test_zero_one_arrays_are_multilabel():
    truth, guess = [[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [1, 0]]
    assert label_confusion(truth, guess).tolist() == [[[0, 1], [1, 1]], [[2, 0], [0, 1]]]
    weighted = label_confusion(truth, guess, [1, 2, 4])
    assert weighted.tolist() == [[[0, 4], [2, 1]], [[5, 0], [0, 2]]]


@pytest.mark.parametrize(("truth", "guess"), [([], []), (np.zeros((0, 3)), np.zeros((0, 3)))])
def test_no_rows_are_refused(truth, guess):
    with pytest.raises(ValueError, match="Expected `y_true` with at least one row"):
        label_confusion(truth, guess)


@pytest.mark.parametrize(("truth", "guess"), [
    ([0, 1], [0, 1, 1]), ([0, 1], [[0], [1]]), ([[0, 1], [1, 1]], [0, 1]), ([0, 1], 1),
], ids=str)  # fmt: skip
def test_different_shapes_are_refused(truth, guess):
    with pytest.raises(ValueError, match=r"Expected `y_pred` of the shape .* of `y_true`, but got shape"):
        label_confusion(truth, guess)


@pytest.mark.parametrize(
    "labels", [np.ones((2, 2, 2)), np.array(1)], ids=["three dimensions", "a single number"]
)
def test_other_dimensions_are_refused(labels):
    with pytest.raises(ValueError, match="Expected `y_true`"):
        label_confusion(labels, labels)


@pytest.mark.parametrize("label", ["a", 2, -1])
def test_one_class_without_labels_is_refused(label):
    with pytest.raises(
        ValueError, match=r"contain two classes, but got only .*Name all classes with `labels`\."
    ):
        label_confusion([label, label], [label, label])


@pytest.mark.parametrize(("truth", "guess"), [(["a", "b"], ["a", "a"]), (["a", "a"], ["a", "b"])])
def test_labels_must_name_every_class(truth, guess):
    with pytest.raises(
        ValueError, match=r"Expected `labels` to name every class, but got data that also contains .*'b'"
    ):
        label_confusion(truth, guess, labels=["a", "c"])


def test_labels_must_name_two_classes():
    with pytest.raises(ValueError, match="Expected `labels`"):
        label_confusion([1, 1], [1, 1], labels=[1])


@pytest.mark.parametrize("wrong", [[[0, 1], [1, 2]], [[0.5, 1], [1, 0]]], ids=str)
def test_multilabel_arrays_contain_zeros_and_ones(wrong):
    with pytest.raises(ValueError, match=r"not supported|Expected `y_"):
        label_confusion(wrong, wrong)


@pytest.mark.parametrize("weight", [[1], [1, 2, 3]], ids=str)
def test_weights_must_fit_the_rows(weight):
    with pytest.raises(ValueError, match=r"sample_weight|inconsistent numbers of samples"):
        label_confusion([0, 1], [0, 1], weight)


def test_score_is_a_plain_number_or_an_array():
    assert type(metrics.f1().score([0, 1, 1], [0, 1, 0])) is float
    assert isinstance(metrics.f1(average=None).score([0, 1, 1], [0, 1, 0]), np.ndarray)


def test_score_passes_labels_on():
    truth, guess = ["a", "b", "b"], ["a", "b", "a"]
    assert metrics.f1().score(truth, guess) == pytest.approx(2 / 3)  # two classes: of "b"
    assert metrics.f1().score(truth, guess, labels=["a", "b", "c"]) == pytest.approx(2 / 3)  # three: the mean
    assert metrics.recall().score(truth, guess) == 0.5
    assert metrics.recall().score(truth, guess, labels=["a", "b", "c"]) == 0.75
