"""One class of a metric, by index or by label, and costs by label."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score

from evalign import metrics
from evalign.metrics import as_constraint, as_metric

MATRIX = torch.tensor([[8.0, 2.0, 1.0], [4.0, 6.0, 3.0], [0.0, 5.0, 7.0]], dtype=torch.float64)
CLASSES = ["common", "rare", "unknown"]
SKLEARN = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


def labels(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.array(CLASSES)[rng.integers(0, 3, (2, rows))]


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize("index", range(3))
def test_score_of_one_class_equals_sklearn(name, index):
    truth, guess = labels()
    wanted = SKLEARN[name](truth, guess, average=None)[index]
    chosen = metrics.NAMED[name](average=None)[index]
    assert chosen.name == f"{name}[{index}]"
    assert chosen.score(truth, guess) == pytest.approx(wanted)
    assert as_metric(f"{name}[{index}]").score(truth, guess) == pytest.approx(wanted)
    assert as_metric(f"{name}[{CLASSES[index]!r}]").score(truth, guess) == pytest.approx(wanted)


@pytest.mark.parametrize(("text", "value"), [
    ("tp[1]", 6), ("fp[2]", 4), ("(fp / total)[2]", 4 / 36), ("fp[2] / total", 4 / 36),
    ("recall['rare']", 6 / 13), ("recall['rare'] - recall[0]", 6 / 13 - 8 / 11),
    ("metric('tp / actual', higher_is_better=False)[2]", 7 / 12), ("fbeta(beta=[1, 2, 3])[1]", 30 / 65),
])  # fmt: skip
def test_value_by_hand(text, value):
    made = as_metric(text).with_classes(CLASSES)
    assert float(made(MATRIX)) == pytest.approx(value)
    assert made.name == as_metric(text).name  # labels stay readable
    torch.testing.assert_close(made(MATRIX.expand(2, 4, 3, 3)), made(MATRIX).expand(2, 4))


def test_gradient_is_that_of_the_class():
    wanted = torch.zeros(3, 3, dtype=torch.float64)
    wanted[1] = -6 / 13**2
    wanted[1, 1] += 1 / 13
    torch.testing.assert_close(as_metric("recall[1]").gradient(MATRIX), wanted)


def test_one_label_of_a_multilabel_problem():
    rng = np.random.default_rng(1)
    truth, guess = rng.integers(0, 2, (2, 60, 4))
    for index in range(4):
        wanted = recall_score(truth[:, index], guess[:, index])
        assert as_metric(f"recall[{index}]").score(truth, guess) == pytest.approx(wanted)
    with pytest.raises(ValueError, match=r"Expected `class` in 0..3, but got 4 in recall\[4\]"):
        as_metric("recall[4]").score(truth, guess)


def test_a_bound_on_one_class():
    constraint = as_constraint("recall['rare'] >= 0.8")
    assert constraint.name == "recall['rare'] >= 0.8"
    assert constraint.with_classes(CLASSES).name == constraint.name
    assert float(constraint.with_classes(CLASSES).slack(MATRIX)) == pytest.approx(6 / 13 - 0.8)
    assert float(as_constraint("recall[1] >= 0.8").slack(MATRIX)) == pytest.approx(6 / 13 - 0.8)
    made = metrics.recall(average=None)[1] >= 0.8
    assert made.name == "recall[1] >= 0.8"


@pytest.mark.parametrize(
    "classes", [[10, 20, 30], np.array([10, 20, 30]), ["10", "20", "30"], [10.5, 20, 30]]
)
def test_a_text_names_the_number_that_it_spells(classes):
    assert float(as_metric("recall['20']").with_classes(classes)(MATRIX)) == pytest.approx(6 / 13)


def test_a_number_is_always_an_index():
    assert float(as_metric("recall[2]").with_classes([2, 1, 0])(MATRIX)) == pytest.approx(7 / 12)


@pytest.mark.parametrize(("text", "message"), [
    ("recall['other']", "Expected `class` to be one of .*'common', 'rare', 'unknown'.*, but got 'other'"),
    ("recall[3]", r"Expected `class` in 0..2, but got 3 in recall\[3\]"),
    ("f1() + recall['other']", "but got 'other'"),
    ("recall['raer']", "but got 'raer'. Did you mean 'rare'?"),
])  # fmt: skip
def test_a_class_that_does_not_exist_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        as_metric(text).with_classes(CLASSES)


def test_a_number_that_is_no_index_may_be_a_label():
    with pytest.raises(ValueError, match=r"in 0..1, but got 7 in recall\[7\]. A number is .* write \['7'\]"):
        as_metric("recall[7]").with_classes([3, 7])


def test_a_label_needs_classes():
    for text in ("recall['rare']", "1 - recall['rare']", "f1() * recall['rare']"):
        made = as_metric(text)
        assert made.needs_classes
        assert not made.with_classes(CLASSES).needs_classes
        with pytest.raises(ValueError, match=r"Call with_classes\(classes\) first"):
            made(MATRIX)
    assert not as_metric("recall[1] + f1()").needs_classes


def test_what_is_resolved_stays_resolved():
    for text in ("recall['rare']", "2 * recall['rare']"):
        made = as_metric(text).with_classes(CLASSES)
        assert float(made.with_classes([0, 1, 2])(MATRIX)) == float(made(MATRIX))
    truth, guess = (np.searchsorted(CLASSES, side) for side in labels())
    resolved = metrics.cost(FRAME).with_classes(CLASSES)
    assert float(resolved.with_classes([0, 1, 2])(MATRIX)) == float(resolved(MATRIX))
    assert resolved.score(truth, guess, labels=[0, 1, 2]) == pytest.approx(naive_cost(*labels(), FRAME))


def test_metrics_without_labels_stay_the_same_object():
    for made in (metrics.f1(), 1 - metrics.f1(), metrics.cost([[0, 1], [1, 0]])):
        assert made.with_classes(["a", "b"]) is made


@pytest.mark.parametrize("key", [-1, 0.5, True, None, slice(1), (0, 1)])
def test_a_class_is_an_index_or_a_label(key):
    with pytest.raises(ValueError, match="Expected `class` to be an index >= 0 or a label"):
        metrics.recall(average=None)[key]


def test_an_average_has_no_classes():
    with pytest.raises(ValueError, match=r"one value per class.*Write recall\(average=None\)\[2\]"):
        metrics.recall()[2]
    with pytest.raises(ValueError, match="one value per class"):
        metrics.metric("sum(tp) / total", average=None)[0]
    with pytest.raises(ValueError, match="one value per class"):
        metrics.metric(lambda c: c.recall.amin(-1), average=None)[0](MATRIX)


def test_a_metric_is_not_iterable():
    with pytest.raises(TypeError, match="not iterable"):
        list(metrics.recall(average=None))


# Costs by label

NAMES = ["rare", "common", "unknown"]
FRAME = pd.DataFrame([[0, 5, 1], [2, 0, 3], [7, 4, 0]], index=NAMES, columns=NAMES)


def naive_cost(truth, guess, frame):
    return np.mean([frame.loc[t, g] for t, g in zip(truth, guess, strict=True)])


@pytest.mark.parametrize("frame", [FRAME, FRAME[["unknown", "rare", "common"]], FRAME.iloc[::-1]])
def test_the_costs_of_a_frame_are_put_in_order(frame):
    truth, guess = labels()
    made = metrics.cost(frame)
    assert made.score(truth, guess) == pytest.approx(naive_cost(truth, guess, FRAME))
    again = as_metric(made.name)
    assert again.score(truth, guess) == pytest.approx(naive_cost(truth, guess, FRAME))
    ordered = frame.loc[CLASSES, CLASSES].to_numpy()
    assert float(made.with_classes(CLASSES)(MATRIX)) == pytest.approx(float(metrics.cost(ordered)(MATRIX)))
    assert made.with_classes(CLASSES).name == made.name
    combined = (1 - made).with_classes(CLASSES)
    assert float(combined(MATRIX)) == pytest.approx(1 - float(metrics.cost(ordered)(MATRIX)))


def test_a_frame_knows_classes_that_are_absent_from_the_data():
    truth, guess = ["rare", "rare", "common"], ["common", "rare", "common"]
    assert metrics.cost(FRAME).score(truth, guess) == pytest.approx(5 / 3)


def test_a_frame_of_booleans():
    frame = pd.DataFrame([[0, 1], [10, 0]], index=[True, False], columns=[True, False])
    assert metrics.cost(frame).score([False, True], [True, True]) == 5  # half of the rows cost 10
    assert as_metric(metrics.cost(frame).name).score([False, True], [True, True]) == 5


def test_a_frame_of_numbers():
    frame = pd.DataFrame([[0, 1], [10, 0]], index=[1, 0], columns=[1, 0])
    assert metrics.cost(frame).name == "cost(matrix=[[0, 1], [10, 0]], classes=[1, 0])"
    assert metrics.cost(frame).score([0, 1], [1, 1]) == 5


def test_costs_with_labels_need_classes():
    made = metrics.cost(FRAME)
    assert made.needs_classes
    assert made.classes == ("rare", "common", "unknown")
    for one in (made, 2 * made):
        with pytest.raises(ValueError, match=r"Call with_classes\(classes\) first"):
            one(MATRIX)


def test_costs_are_copied():
    for table in (np.array([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.0]]).double()):
        made = metrics.cost(table)
        table[0, 1] = 100
        assert float(made([[0, 1], [0, 0]])) == 1


@pytest.mark.parametrize(("make", "message"), [
    (lambda: metrics.cost(FRAME.rename(columns={"rare": "seldom"})), "the same classes as index and columns"),
    (lambda: metrics.cost(FRAME.iloc[:2]), "the same classes as index and columns"),
    (lambda: metrics.cost(FRAME.rename({"rare": "common"}, axis=0)), "the same classes as index and columns"),
    (lambda: metrics.cost(FRAME, classes=CLASSES), "`classes` only without a DataFrame"),
    (lambda: metrics.cost([[0, 1], [1, 0]], classes=["a"]), "`classes` to be 2 different texts or numbers"),
    (lambda: metrics.cost([[0, 1], [1, 0]], classes=["a", "a"]), "`classes` to be 2 different"),
    (lambda: metrics.cost([[0, 1], [1, 0]], classes=[None, "a"]), "`classes` to be 2 different"),
    (lambda: metrics.cost(FRAME).with_classes(["rare", "common"]), "of costs for the classes"),
    (lambda: metrics.cost(FRAME).with_classes(["a", "b", "c"]), "Expected `class` to be one of"),
    (lambda: metrics.cost(FRAME.astype(object).replace(5, "x")), "one row of costs per class"),
    (lambda: metrics.cost([[0, 1e300], [1, 0]]), "finite costs"),
])  # fmt: skip
def test_wrong_costs_by_label_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
