"""The range of a metric, and bounds that decide nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import metrics
from evalign.metrics import as_constraint, as_metric


@pytest.mark.parametrize(("text", "wanted"), [
    ("f1", (0, 1)), ("mcc", (-1, 1)), ("cohen_kappa(weights='quadratic')", (-1, 1)), ("auroc", (0, 1)),
    ("informedness", (-1, 1)), ("cost([[0, 1], [10, -2]])", (-2, 10)), ("1 - f1()", (0, 1)),
    ("0.5*f1() + 0.5*mcc()", (-0.5, 1)), ("-f1()", (-1, 0)), ("f1() * mcc()", (-1, 1)),
    ("f1() / 4", (0, 0.25)),
    ("f1() / mcc()", None), ("1 / f1()", (0, math.inf)), ("recall[2]", (0, 1)), ("tp", (0, math.inf)),
    ("tp - fp", None), ("tp / total", (0, math.inf)), ("-tp", (-math.inf, 0)),
    ("recall - precision", (-1, 1)),
    ("recall ** 2", (0, 1)), ("sqrt(recall)", (0, 1)), ("min(recall, 0.5)", (0, 0.5)),
    ("max(recall)", (0, 1)), ("sum(recall)", (0, math.inf)), ("sum(-recall)", (-math.inf, 0)),
    ("num_classes", (2, math.inf)), ("1 / num_classes", (0, 0.5)), ("(recall - 1) ** 2", None), ("3", (3, 3)),
])  # fmt: skip
def test_range_by_hand(text, wanted):
    assert as_metric(text).range == wanted


def test_the_range_of_a_function_is_unknown():
    assert metrics.metric(lambda c: c.recall).range is None


NAMES = st.sampled_from(["f1", "mcc", "recall", "gmean", "cohen_kappa", "informedness", "min(recall)", "0.3"])
TEXTS = st.recursive(
    NAMES,
    lambda inner: st.tuples(inner, st.sampled_from("-*/"), inner).map("({0[0]} {0[1]} {0[2]})".format),
    max_leaves=5,
)


@settings(max_examples=150, derandomize=True)
@given(text=TEXTS, cells=st.lists(st.integers(0, 9), min_size=9, max_size=9))
def test_no_value_is_outside_the_range(text, cells):
    made = as_metric(f"{text} - 0 * mcc()")  # the same, as a metric
    low, high = made.range or (-math.inf, math.inf)
    value = float(made(torch.tensor(cells).reshape(3, 3).double()))
    assert low - 1e-9 <= value <= high + 1e-9


@settings(max_examples=50, derandomize=True)
@given(cells=st.lists(st.integers(0, 3), min_size=16, max_size=16))
def test_named_metrics_stay_in_their_range(make, cells):
    made = make(4)
    low, high = made.range
    assert low - 1e-9 <= float(made(torch.tensor(cells).reshape(4, 4).double())) <= high + 1e-9


@pytest.mark.parametrize("power", ["linear", "quadratic"])
@settings(max_examples=100, derandomize=True)
@given(cells=st.lists(st.integers(0, 3), min_size=16, max_size=16))
def test_weighted_kappa_stays_in_its_range(cells, power):
    matrix = torch.tensor(cells).reshape(4, 4).double()
    assert -1 - 1e-9 <= float(metrics.cohen_kappa(power)(matrix)) <= 1 + 1e-9


@pytest.mark.parametrize(("text", "message"), [
    ("recall >= 1.5", "Expected `bound` in (0, 1] for recall, which is always in [0, 1], but got 1.5."),
    ("recall >= 0", "Expected `bound` in (0, 1] for recall, which is always in [0, 1], but got 0."),
    ("recall >= -1", "in (0, 1]"), ("precision <= -1", "Expected `bound` in [0, 1) for precision, which"),
    ("precision <= 1", "in [0, 1)"), ("precision <= 2", "in [0, 1)"), ("mcc >= -1", "in (-1, 1]"),
    ("mcc <= 1", "in [-1, 1)"), ("fp >= 0", "in (0, inf) for fp, which is always in [0, inf), but got 0."),
    ("fp <= -1", "in [0, inf)"), ("recall[1] >= 1.1", "in (0, 1]"), ("1 - f1() >= 1.01", "in (0, 1]"),
    ("cost([[0, 1], [10, 0]]) <= 10", "in [0, 10)"), ("0.5*f1() + 0.5*mcc() <= 1", "in [-0.5, 1)"),
    ("precision - recall >= -1", "in (-1, 1]"), ("-1 * fp >= 1", "in (-inf, 0]"),
])  # fmt: skip
def test_a_bound_that_decides_nothing_is_refused(text, message):
    with pytest.raises(ValueError, match="Expected `bound` in") as raised:
        as_constraint(text)
    assert message in str(raised.value)


@pytest.mark.parametrize("text", [
    "recall >= 1", "recall >= 0.01", "precision <= 0", "precision <= 0.99", "mcc >= -0.99", "mcc >= 0",
    "fp <= 0", "fp >= 1", "1 - f1() <= 0.5", "0.1*f1() + 0.2*recall() + 0.3*accuracy() >= 0.6",
    "f1() / mcc() >= 100", "cost([[0, 1], [10, 0]]) <= 9.5",
])  # fmt: skip
def test_a_bound_that_decides_something_is_accepted(text):
    assert as_constraint(text).metric.is_scalar


def test_a_constraint_made_in_python_is_checked_too():
    with pytest.raises(ValueError, match="which is always in"):
        metrics.recall() >= 1.5  # noqa: B015
    assert (metrics.metric(lambda c: c.recall) >= 1.5).bound == 1.5  # nothing is known about a function
