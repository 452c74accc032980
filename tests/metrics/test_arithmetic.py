"""Sums, differences, products and quotients of metrics, and bounds on them."""

import numpy as np
import pytest
import torch

from evalign import metrics
from evalign.metrics import Metric, accuracy, f1, mcc, precision, recall

MATRIX = torch.tensor([[8.0, 2.0], [4.0, 6.0]], dtype=torch.float64)
F1, PRECISION, RECALL, ACCURACY, MCC, COST = 12 / 18, 0.75, 0.6, 0.7, 40 / 9600**0.5, 2.1  # by hand
cost = metrics.cost([[0, 1], [10, 0]])
COST_NAME = "cost(matrix=[[0, 1], [10, 0]])"


@pytest.mark.parametrize(("metric", "value", "name"), [
    (f1() + precision(), F1 + PRECISION, "f1() + precision()"),
    (f1() - recall(), F1 - RECALL, "f1() - recall()"),
    (f1() * mcc(), F1 * MCC, "f1() * mcc()"),
    (f1() / mcc(), F1 / MCC, "f1() / mcc()"),
    (f1() + 1, F1 + 1, "f1() + 1"),
    (1 + f1(), 1 + F1, "1 + f1()"),
    (f1() - 1, F1 - 1, "f1() - 1"),
    (1 - f1(), 1 - F1, "1 - f1()"),
    (f1() * 0.5, F1 * 0.5, "f1() * 0.5"),
    (0.5 * f1(), F1 * 0.5, "0.5 * f1()"),
    (f1() / 4, F1 / 4, "f1() / 4"),
    (4 / f1(), 4 / F1, "4 / f1()"),
    (-cost, -COST, f"-1 * {COST_NAME}"),
    (1 - (f1() - mcc()), 1 - (F1 - MCC), "1 - (f1() - mcc())"),
    (2 * (f1() + mcc()), 2 * (F1 + MCC), "2 * (f1() + mcc())"),
    (accuracy() / (f1() * mcc()), ACCURACY / (F1 * MCC), "accuracy() / (f1() * mcc())"),
    (0.5 * f1() + 0.5 * mcc(), 0.5 * F1 + 0.5 * MCC, "0.5 * f1() + 0.5 * mcc()"),
], ids=repr)  # fmt: skip
def test_value_and_name(metric, value, name):
    assert float(metric(MATRIX)) == pytest.approx(value)
    assert metric.name == name


@pytest.mark.parametrize("metric", [
    precision() + recall(),
    accuracy() / precision(),
    recall() / (precision() * accuracy()),
    2 * metrics.metric("precision + recall"),
    1 - metrics.metric("precision - recall"),
    metrics.metric("tp + fn") * metrics.metric("fp + fn"),
], ids=repr)  # fmt: skip
def test_formula_reads_as_it_is_computed(metric):
    torch.testing.assert_close(metrics.metric(metric.formula)(MATRIX), metric(MATRIX))


@pytest.mark.parametrize(("metric", "higher"), [
    (f1() + mcc(), True), (f1() * mcc(), True), (f1() / cost, True), (f1() - cost, True),
    (cost - f1(), False),
    (cost + cost, False), (cost * cost, False), (cost / 2, False), (cost + 1, False), (cost - 1, False),
    (1 - f1(), False), (f1() - 1, True), (-f1(), False), (-cost, True), (1 - cost, True), (2 * cost, False),
    (f1() * -2, False), (-2 * cost, True), (f1() / -2, False), (1 / f1(), False), (-1 / f1(), True),
    (1 / cost, True), (-1 / cost, False), (1 - (1 - f1()), True),
], ids=repr)  # fmt: skip
def test_higher_is_better_follows_the_sign(metric, higher):
    assert metric.higher_is_better is higher


@pytest.mark.parametrize("join", [Metric.__add__, Metric.__mul__])
@pytest.mark.parametrize(
    ("left", "right"), [(f1(), cost), (cost, f1()), (f1(), 1 - mcc()), (-f1(), accuracy())]
)
def test_metrics_of_opposite_direction_cannot_be_combined(left, right, join):
    with pytest.raises(ValueError, match="with the same direction"):
        join(left, right)


@pytest.mark.parametrize("other", ["1", None, True, [1], 1j, float("nan"), float("inf"), torch.tensor(0.5)])
@pytest.mark.parametrize("join", [
    lambda other: f1() + other, lambda other: other + f1(), lambda other: f1() - other,
    lambda other: other - f1(),
    lambda other: f1() / other, lambda other: other / f1(),
], ids=["+", "r+", "-", "r-", "/", "r/"])  # fmt: skip
def test_only_metrics_and_finite_numbers_can_be_combined(join, other):
    with pytest.raises(TypeError, match="Expected a metric or a finite number in"):
        join(other)


def test_numbers_too_large_for_float_cannot_be_combined():
    with pytest.raises(TypeError, match="Expected a metric or a finite number in"):
        f1() + 10**400


@pytest.mark.parametrize("join", [lambda m: m + 1, lambda m: 1 - m, lambda m: m * f1(), lambda m: -m])
def test_one_value_per_class_cannot_be_combined(join):
    with pytest.raises(ValueError, match="Expected `average` that gives one number in arithmetic"):
        join(f1(average=None))


def test_numpy_numbers_are_numbers():
    metric = np.float64(0.5) * f1() + mcc() * np.float64(0.25)
    assert float(metric(MATRIX)) == pytest.approx(0.5 * F1 + 0.25 * MCC)
    assert metric.name == "0.5 * f1() + mcc() * 0.25"


def test_division_by_a_metric_that_is_zero_is_zero():
    wrong = torch.tensor([[0.0, 3.0], [2.0, 0.0]])
    assert float((accuracy() / f1())(wrong)) == 0
    assert (accuracy() / f1()).gradient(wrong).isfinite().all()


def test_each_part_keeps_its_own_average():
    matrix = [[3.0, 1, 0], [2, 4, 1], [0, 0, 5]]
    macro_recall, micro = (3 / 4 + 4 / 7 + 1) / 3, 12 / 16
    metric = recall(average="macro") - f1(average="micro")
    assert float(metric(matrix)) == pytest.approx(macro_recall - micro, abs=1e-6)


@pytest.mark.parametrize(("constraint", "slack", "shown"), [
    (precision() >= 0.7, PRECISION - 0.7, "Constraint('precision() >= 0.7')"),
    (precision() >= 0.9, PRECISION - 0.9, "Constraint('precision() >= 0.9')"),
    (cost <= 3, 3 - COST, f"Constraint('{COST_NAME} <= 3')"),
    (cost <= 2, 2 - COST, f"Constraint('{COST_NAME} <= 2')"),
    (0.9 <= precision(), PRECISION - 0.9, "Constraint('precision() >= 0.9')"),  # noqa: SIM300
    (3 >= cost, 3 - COST, f"Constraint('{COST_NAME} <= 3')"),  # noqa: SIM300
    (1 - f1() <= 0.5, 0.5 - (1 - F1), "Constraint('1 - f1() <= 0.5')"),
    (recall() >= 0.123456789, RECALL - 0.123456789, "Constraint('recall() >= 0.123456789')"),
])  # fmt: skip
def test_slack_is_positive_where_the_constraint_is_satisfied(constraint, slack, shown):
    assert float(constraint.slack(MATRIX)) == pytest.approx(slack)
    assert repr(constraint) == shown


def test_slack_of_a_batch():
    batch = torch.stack([MATRIX, torch.eye(2, dtype=torch.float64)])
    assert (precision() >= 0.9).slack(batch).tolist() == pytest.approx([-0.15, 0.1])


@pytest.mark.parametrize("bound", [
    "0.9", None, True, float("nan"), float("inf"), f1(), [0.9], pytest.param(10**400, id="huge"),
], ids=repr)  # fmt: skip
def test_bound_must_be_a_finite_number(bound):
    with pytest.raises(ValueError, match="Expected `bound` to be a finite number"):
        f1() >= bound  # noqa: B015
    with pytest.raises(ValueError, match="Expected `bound` to be a finite number"):
        cost <= bound  # noqa: B015
