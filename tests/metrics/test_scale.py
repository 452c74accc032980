"""Which metrics depend on the number of rows, and what is refused in a loss for that reason."""

import ast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import metrics
from evalign.metrics import as_constraint, as_metric, check_for_loss, metric

# False positives of two classes by hand: 2 in 20 rows.
TWO = torch.tensor([[8.0, 2.0], [4.0, 6.0]], dtype=torch.float64)
MATRIX = torch.tensor([[8.0, 2.0, 1.0], [4.0, 6.0, 3.0], [1.0, 5.0, 7.0]], dtype=torch.float64)


@pytest.mark.parametrize(("text", "degree"), [
    ("tp", 1), ("total", 1), ("tp - fp", 1), ("2 * tp", 1), ("tp * fp", 2), ("tp / fp", 0), ("1 / tp", -1),
    ("recall", 0), ("recall + tp / total", 0), ("num_classes", 0), ("3", 0), ("sqrt(tp)", 0.5),
    ("sqrt(tp * fp) / total", 0), ("tp ** 2 / total ** 2", 0), ("tp ** 0.1 * tp ** 0.2 / tp ** 0.3", 0),
    ("min(tp, fp)", 1), ("min(tp)", 1), ("mean(tp) / sum(fp)", 0), ("-tp", 1), ("recall ** recall", 0),
    ("tp + 1", None), ("tp + recall", None), ("tp / (tp + fp + 1)", None), ("2 ** tp", None),
    ("max(tp, 1)", None), ("tp ** tp", None), ("(tp + 1) / total", None), ("sqrt(tp + 1)", None),
    ("f1()", 0), ("tp[1]", 1), ("f1() * total", 1), ("recall[1] / total", -1), ("f1() + total", None),
    ("metric('tp') / metric('total')", 0), ("0.5 * f1() + 0.5 * mcc()", 0), ("auroc", 0),
])  # fmt: skip
def test_degree_by_hand(text, degree):
    assert as_metric(text).degree == degree
    assert as_metric(text).is_scale_free == (degree == 0)


LEAVES = st.sampled_from(["tp", "fp", "fn", "tn", "actual", "total", "precision", "recall", "2", "0.5"])
FORMULAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map("({0[0]} {0[1]} {0[2]})".format),
        inner.map("sqrt({})".format),
        inner.map("max({})".format),
    ),
    max_leaves=6,
)


@settings(max_examples=100, derandomize=True)
@given(
    text=FORMULAS, average=st.sampled_from(["auto", "micro", "weighted"]), scale=st.sampled_from([1e-3, 7.0])
)
def test_the_degree_is_that_of_the_values(text, average, scale):
    try:
        made = metric(text, average=average)
    except ValueError:
        return
    if made.degree is not None:
        wanted = scale**made.degree * made(MATRIX)
        torch.testing.assert_close(made(scale * MATRIX), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("function", "scale_free"), [
    (lambda c: c.recall, True),
    (lambda c: c.tp / c.total, True),
    (lambda c: 2 * c.tp / (2 * c.tp + c.fp + c.fn + 1e-7), True),  # only against division by 0
    (lambda c: c.tp, False),
    (lambda c: c.tp - c.fp, False),
    (lambda c: (2 * c.tp + 1) / (2 * c.tp + c.fp + c.fn + 1), False),
    (lambda c: c.tp / torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), False),  # only for five classes
    (lambda c: c.recall * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), True),  # none that is tried
])  # fmt: skip
def test_functions_are_tried(function, scale_free):
    assert metric(function).is_scale_free is scale_free
    assert metric(function, average=None).is_scale_free is scale_free


@pytest.mark.parametrize(("text", "scale_free"), [
    ("fp <= 10", False), ("fp <= 0", True), ("fp <= 0.01 * total", True), ("fp <= fn", True),
    ("fp <= 2 * fn + total / 10", True), ("fp <= fn + 3", False), ("precision >= 0.9", True),
    ("precision >= recall", True), ("recall >= 0.5 * total", False), ("tp * fp <= total ** 2 / 4", True),
    ("tp[1] >= 5", False), ("tp[1] >= 0.1 * total", True),
])  # fmt: skip
def test_constraints_are_scale_free_if_only_shares_decide(text, scale_free):
    constraint = as_constraint(text)
    assert constraint.is_scale_free is scale_free
    if scale_free:
        assert torch.equal(constraint.slack(1e4 * TWO) >= 0, constraint.slack(1e-4 * TWO) >= 0)
        check_for_loss(metrics.f1(), [constraint])


@pytest.mark.parametrize(("text", "name", "slack"), [
    ("fp <= 0.01 * total", "fp / total <= 0.01", 0.01 - 0.1),
    ("fp <= total / 4", "fp / total <= 0.25", 0.25 - 0.1),
    ("fp <= total", "fp / total <= 1", 1 - 0.1),
    ("fp*fn <= total*total/10", "fp * fn / total ** 2 <= 0.1", 0.1 - 8 / 400),
    ("tp >= 2 * fp", "(tp - 2 * fp) / total >= 0", 2 / 20),
    ("tp - fp >= fn", "(tp - fp - fn) / total >= 0", 0),
    ("fp <= 10 + fn", "fp - (10 + fn) <= 0", 12),
    ("precision >= recall", "precision() - recall() >= 0", 0.15),
    ("precision >= tp / total", "precision() - metric('tp / total') >= 0", 0.75 - 0.3),
    ("f1 >= 2 * precision - 1", "f1() - metric('2 * precision - 1') >= 0", 1 / 6),
    ("recall >= 1 / 2", "recall() >= 0.5", 0.1),
    ("fp[1] <= 0.2 * total", "fp[1] / metric('total') <= 0.2", 0.1),
    ("recall[0] >= recall[1]", "recall[0] - recall[1] >= 0", 0.2),
])  # fmt: skip
def test_the_right_side_may_be_an_expression(text, name, slack):
    constraint = as_constraint(text)
    assert constraint.name == name
    assert float(constraint.slack(TWO)) == pytest.approx(slack)
    assert as_constraint(name).name == name


@pytest.mark.parametrize(("given", "hint"), [
    ("tp - fp", "as in '(tp - fp) / total'."),
    ("tp * fp", "as in '(tp * fp) / total**2'."),
    ("tp[1]", "as in '(tp[1]) / total'."),
    ("tp + 1", "Divide counts by the number of rows, `total`, before numbers are added."),
    (metric(lambda c: c.tp), "Divide counts by the number of rows, `total`, before numbers are added."),
])  # fmt: skip
def test_a_metric_of_counts_is_refused_in_a_loss(given, hint):
    with pytest.raises(ValueError, match="Expected `metric` to be scale-free in a loss") as raised:
        check_for_loss(as_metric(given))
    assert str(raised.value).endswith(hint)
    if "as in" in hint:
        check_for_loss(as_metric(hint.split("'")[1]))


@pytest.mark.parametrize("text", ["fp <= 10", "tp[0] >= 5", "fp * fp <= 9", "f1() * total <= 3"])
def test_a_constraint_on_counts_is_refused_in_a_loss_with_the_form_to_write(text):
    with pytest.raises(ValueError, match="Expected `constraints` to be scale-free in a loss") as raised:
        check_for_loss(metrics.f1(), [as_constraint(text)])
    example = ast.literal_eval(str(raised.value).split("as in ")[1].removesuffix("."))
    check_for_loss(metrics.f1(), [as_constraint(example)])
