"""Counts of one class against the rest, and the one place where 0/0 is decided."""

import numpy as np
import pytest
import torch
from sklearn.metrics import multilabel_confusion_matrix

from evalign._torch import divide
from evalign.metrics import Confusion
from evalign.metrics._confusion import MANY, margins, root


@pytest.mark.parametrize("classes", [2, 5, MANY])
def test_counts_equal_sklearn(classes):
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 9, (classes, classes))
    truth, guess = np.indices(matrix.shape).reshape(2, -1)
    counts = multilabel_confusion_matrix(truth, guess, sample_weight=matrix.ravel())
    c = Confusion(torch.tensor(matrix).double())
    for got, wanted in zip((c.tn, c.fp, c.fn, c.tp), counts.reshape(classes, 4).T, strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_pooled_counts_are_those_of_all_classes_together():
    c = Confusion(torch.tensor([[3.0, 1.0, 0.0], [2.0, 4.0, 1.0], [0.0, 0.0, 5.0]])).pooled()
    assert [float(count) for count in (c.tp, c.fp, c.fn, c.tn, c.total)] == [12, 4, 4, 28, 48]


def test_present_classes_have_true_or_predicted_mass():
    only_true, only_predicted, absent = 1, 2, 3
    matrix = torch.zeros(4, 4)
    matrix[0, 0], matrix[only_true, 0], matrix[0, only_predicted] = 5, 1, 1
    assert Confusion(matrix).present.tolist() == [True, True, True, False]
    assert not Confusion(matrix).present[absent]


def test_margins_of_many_classes_own_their_memory():
    matrix = torch.ones(MANY, MANY)
    diagonal, *_ = margins(matrix)
    diagonal.zero_()
    assert matrix.sum() == MANY**2


@pytest.mark.parametrize("numerator", [0.0, 3.0])
def test_divide_by_zero_is_zero_with_gradient_zero(numerator):
    top, bottom = torch.tensor(numerator, requires_grad=True), torch.tensor(0.0, requires_grad=True)
    value = divide(top, bottom)
    value.backward()
    assert (value.item(), top.grad.item(), bottom.grad.item()) == (0, 0, 0)


def test_divide_keeps_tiny_numbers():
    assert divide(torch.tensor(1e-30), torch.tensor(2e-30)).item() == 0.5


@pytest.mark.parametrize(("top", "bottom"), [(np.nan, 1.0), (1.0, np.nan), (np.nan, 0.0)])
def test_divide_keeps_nan(top, bottom):
    assert divide(torch.tensor(top), torch.tensor(bottom)).isnan()


@pytest.mark.parametrize("value", [0.0, -1e-9])
def test_root_of_zero_is_zero_with_gradient_zero(value):
    point = torch.tensor(value, requires_grad=True)
    result = root(point)
    result.backward()
    assert (result.item(), point.grad.item()) == (0, 0)


def test_root_keeps_nan():
    assert root(torch.tensor(torch.nan)).isnan()
