"""Constraints: bounds on metrics, their texts, and what is refused."""

import re

import numpy as np
import pytest
import torch
from sklearn.metrics import fbeta_score, precision_score

from evalign import metrics
from evalign.metrics import Constraint, as_constraint, as_constraints

MATRIX = torch.tensor([[90.0, 10.0], [20.0, 80.0]])


@pytest.mark.parametrize(
    ("text", "name", "slack"),
    [
        ("precision >= 0.9", "precision() >= 0.9", 80 / 90 - 0.9),
        ("  precision()>=0.9 ", "precision() >= 0.9", 80 / 90 - 0.9),
        ("precision <= 0.9", "precision() <= 0.9", 0.9 - 80 / 90),
        ("recall >= 1", "recall() >= 1", -0.2),
        ("fbeta(beta=2)<=0.5", "fbeta(beta=2) <= 0.5", 0.5 - 5 * 80 / (5 * 80 + 4 * 20 + 10)),
        ("0.5*f1()+0.5*recall() >= 3e-1", "0.5 * f1() + 0.5 * recall() >= 0.3", 80 / 190 * 1 + 0.4 - 0.3),
        ("tp / (tp + fn) >= 0.5", "tp / (tp + fn) >= 0.5", 0.3),
        ("mcc() - 1 >= -0.5", "mcc() - 1 >= -0.5", None),
        ("cost([[0, 1], [5, 0]]) <= 1", None, 1 - (10 + 5 * 20) / 200),
    ],
)
def test_a_text_is_read_and_its_name_reads_back(text, name, slack):
    found = as_constraint(text)
    assert name is None or found.name == name
    assert repr(found) == f"Constraint({found.name!r})"
    again = as_constraint(found.name)
    assert again.name == found.name
    assert again.slack(MATRIX) == found.slack(MATRIX)
    if slack is not None:
        assert found.slack(MATRIX).item() == pytest.approx(slack, abs=1e-6)


def test_slack_against_scikit_learn():
    generator = np.random.default_rng(0)
    y, guess = generator.integers(0, 2, 200), generator.integers(0, 2, 200)
    matrix = torch.zeros(2, 2, dtype=torch.float64)
    for true, predicted in zip(y, guess, strict=True):
        matrix[true, predicted] += 1
    assert as_constraint("precision >= 0.9").slack(matrix).item() == pytest.approx(
        precision_score(y, guess) - 0.9
    )
    assert as_constraint("fbeta(2) <= 0.9").slack(matrix).item() == pytest.approx(
        0.9 - fbeta_score(y, guess, beta=2)
    )


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_slack_over_labels_is_that_of_the_multilabel_score(average):
    generator = np.random.default_rng(1)
    y, guess = generator.integers(0, 2, (2, 50, 3))
    matrix = torch.tensor(
        [[[((y[:, k] == i) & (guess[:, k] == j)).sum() for j in (0, 1)] for i in (0, 1)] for k in range(3)]
    )
    found = as_constraint(f"precision(average={average!r}) >= 0.6").slack_over_labels(matrix)
    assert found.item() == pytest.approx(precision_score(y, guess, average=average) - 0.6)


def test_absent_labels_can_be_left_out_of_the_slack():
    matrix = torch.tensor([[[5.0, 1], [1, 3]], [[10.0, 0], [0, 0]]])
    bound = as_constraint("precision >= 0.5")
    assert bound.slack_over_labels(matrix).item() == pytest.approx(0.375 - 0.5)
    assert bound.slack_over_labels(matrix, skip_absent=True).item() == pytest.approx(0.25)


def test_no_positive_predictions_violate_the_constraint_without_nan():
    empty = torch.tensor([[10.0, 0.0], [5.0, 0.0]], requires_grad=True)
    slack = as_constraint("precision >= 0.9").slack(empty)
    assert slack.item() == pytest.approx(-0.9)
    slack.backward()
    assert empty.grad.isfinite().all()


def test_one_or_several_constraints():
    one = metrics.precision() >= 0.9
    assert as_constraint(one) is one
    assert as_constraints(one) == (one,)
    assert as_constraints([one, "recall <= 0.5"])[1].name == "recall() <= 0.5"
    assert [found.name for found in as_constraints("recall >= 0.5")] == ["recall() >= 0.5"]
    assert as_constraints(()) == as_constraints([]) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("precision", "to be a metric, >= or <=, and a number or a metric, but got 'precision'"),
        ("", "to be a metric, >= or <=, and a number"),
        ("precision > 0.9", "to be a metric, .* Did you mean 'precision >= 0.9'?"),
        ("0.9 <= precision", "to be a metric, .* Did you mean 'precision >= 0.9'?"),
        ("precision = 0.9", "to be a metric, .* An example is 'precision >= 0.9'."),
        ("precision >= 90%", "to be a metric, .* An example is 'precision >= 0.9'."),
        ("f1() < 0.9", r"to be a metric, .* Did you mean 'f1\(\) <= 0.9'?"),
        ("precision == 0.9", "to be a metric, >= or <=, and a number"),
        ("precision >= ", "to be a metric, >= or <=, and a number"),
        ("0.9 <= precision", "to be a metric, >= or <=, and a number"),
        ("0.8 <= precision <= 0.9", "to be a metric, >= or <=, and a number"),
        ("precision >= 0.8 <= 0.9", "to be a metric, >= or <=, and a number"),
        ("precision > 0.8 >= 0.9", "to be a metric, >= or <=, and a number"),
        ("0.5 >= 0.9", "to be a metric, >= or <=, and a number"),
        ("precision >= nan", "to be a known name, but got 'nan' in"),
        ("precision >= 1e999", "a number this large"),
        ("precision >= 1 / 0", "without division by 0"),
        ("precision >= 9 ** 9 ** 9", "with finite numbers"),
        (">= 0.9", "to be a metric, >= or <=, and a number"),
        ("f1_macro >= 0.5", re.escape("""Did you mean "f1(average='macro')"?""")),
        ("precisoin >= 0.9", "Did you mean 'precision'"),
        ("auroc >= 0.9", "`constraint` on a metric that gives one number from one matrix, but got auroc"),
        ("f1(average=None) >= 0.9", "`constraint` on a metric that gives one number"),
        ("__import__('os') >= 1", "`metric`"),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        as_constraint(text)


def test_other_bad_input_is_refused():
    for call, message in (
        (lambda: as_constraint(0.9), "`constraint` to be a metric, >= or <=, and a number .*but got 0.9"),
        (lambda: as_constraints(0.9), "`constraints` to be a list of constraints or texts, but got 0.9"),
        (lambda: as_constraints(None), "`constraints`"),
        (lambda: as_constraints([metrics.f1()]), "`constraint`"),
        (lambda: metrics.auroc() >= 0.5, "one number"),
        (lambda: Constraint(metrics.f1(), ">=", float("nan")), "`bound`"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_chained_comparison_does_not_silently_drop_a_bound():
    with pytest.raises(TypeError, match="one bound per constraint"):
        0.5 <= metrics.precision() <= 0.9  # noqa: B015
