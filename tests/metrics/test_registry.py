"""Metrics by name, by call, by text and from Python functions."""

import inspect
import re

import numpy as np
import pytest
import sklearn.metrics
import torch

from evalign import metrics
from evalign.metrics import Metric, as_metric, f1, fbeta, mcc, metric
from evalign.metrics._registry import OTHER_NAMES

TWO = torch.tensor([[8.0, 2.0], [4.0, 6.0]], dtype=torch.float64)
THREE = torch.tensor([[8.0, 2.0, 1.0], [4.0, 6.0, 3.0], [0.0, 5.0, 7.0]], dtype=torch.float64)


def miss_rate(c):
    return 1 - c.recall


def test_named_contains_every_exported_factory():
    factories = {
        name
        for name in metrics.__all__
        if inspect.isfunction(getattr(metrics, name))
        and inspect.signature(getattr(metrics, name)).return_annotation == "Metric"
    }
    assert metrics.NAMED.keys() == factories - {"as_metric"}
    assert all(factory is getattr(metrics, name) for name, factory in metrics.NAMED.items())


@pytest.mark.parametrize("name", sorted(metrics.NAMED.keys() - {"cost", "fbeta"}))
def test_as_metric_by_name(name):
    assert as_metric(name).name == name
    assert as_metric(f" {name} ").name == name
    assert as_metric(f"{name}()").name == name


@pytest.mark.parametrize(("text", "value"), [
    ("f1", 12 / 18),
    ("fbeta(2)", 0.625),
    ("fbeta(beta=2)", 0.625),
    ("fbeta(beta=2, positive=0)", 40 / 52),
    ("fbeta([1, 2])", 0.625),
    ("fbeta(beta=(2, 1))", 12 / 18),
    ("recall(average='macro')", 0.7),
    ('recall(average="macro")', 0.7),
    ("cost([[0, 1], [10, 0]])", 2.1),
    ("cost(matrix=[[0, -1], [0.5, 0]])", 0),
    ("1 - f1()", 6 / 18),
    ("-cost([[0, 1], [10, 0]])", -2.1),
    ("0.5*f1() + 0.5*recall()", 0.5 * 12 / 18 + 0.3),
    ("(f1() + accuracy()) / 2", (12 / 18 + 0.7) / 2),
    ("2 / (1/precision() + 1/recall())", 12 / 18),
    ("(1 + 1) * f1() / (4 - 2)", 12 / 18),
    ("-1 * -f1()", 12 / 18),
    ("tp / (tp + fn)", 0.6),
    ("precision * recall", 0.45),
    ("min(recall)", 0.6),
    ("0.5*f1 + 0.5*recall", 0.5 * 12 / 18 + 0.3),
    ("f1 + accuracy", 12 / 18 + 0.7),
    ("f1() + min(recall)", 12 / 18 + 0.6),
    ("total * accuracy / 2", 7),
    ("metric('tp / total') - metric('fp / total')", 0.2),
    ("metric('fp', positive=0)", 4),
    ("recall[0]", 0.8),
    ("recall()[1]", 0.6),
    ("fbeta(beta=2)[1]", 0.625),
    ("recall(average=None)[0] - recall[1]", 0.2),
    ("fp[0] / total", 0.2),
    ("(fp / total)[0]", 0.2),
    ("-fp[1]", -2),
])  # fmt: skip
def test_as_metric_by_text(text, value):
    assert float(as_metric(text)(TWO)) == pytest.approx(value)


def test_as_metric_returns_a_metric_unchanged():
    given = fbeta(2)
    assert as_metric(given) is given


def test_as_metric_makes_a_metric_from_a_function():
    assert as_metric(miss_rate).name == "miss_rate"
    assert float(as_metric(miss_rate)(TWO)) == pytest.approx(0.4)


@pytest.mark.parametrize("wrong", [None, 3, 0.5, ["f1"], b"f1", torch.ones(2, 2)])
def test_as_metric_refuses_other_types(wrong):
    with pytest.raises(ValueError, match="Expected `metric` to be a function or a text"):
        as_metric(wrong)


@pytest.mark.parametrize(("text", "hint"), [
    ("f11", "Did you mean 'f1'?"), ("F1", "Did you mean 'f1'?"), ("acuracy", "Did you mean 'accuracy'"),
    ("balanced", "balanced_accuracy"), ("f1_macro", "Did you mean \"f1(average='macro')\"?"),
    ("macro_f1", "Did you mean \"f1(average='macro')\"?"), ("f1_micro", "\"f1(average='micro')\""),
    ("f1_weighted", "\"f1(average='weighted')\""), ("f1-macro", "\"f1(average='macro')\""),
    ("macro F2", "\"fbeta(beta=2, average='macro')\""), ("f2", "Did you mean 'fbeta(beta=2)'?"),
    ("map", "Did you mean 'average_precision'?"),
    ("f0.5", "Did you mean 'fbeta(beta=0.5)'?"), ("iou", "'jaccard'?"), ("dice", "'f1'?"),
    ("mean_iou", "\"jaccard(average='macro')\""), ("ap", "'average_precision'?"), ("auc", "'auroc'?"),
    ("roc_auc", "'auroc'?"), ("ROC AUC", "'auroc'?"), ("kappa", "'cohen_kappa'?"), ("f1_score", "'f1'?"),
    ("quadratic_weighted_kappa", "\"cohen_kappa(weights='quadratic')\""), ("ppv", "'precision'?"),
    ("matthews_corrcoef", "'mcc'?"), ("sensitivity", "'recall'?"), ("tpr", "'recall'?"),
    ("tnr", "'specificity'?"), ("npv", "'precision(positive=0)'?"), ("fpr", "'1 - specificity()'?"),
    ("balanced accuracy", "'balanced_accuracy'?"), ("recall_macro()", "\"recall(average='macro')\""),
    ("zzz", "Choose from 'accuracy', 'balanced_accuracy'"),
])  # fmt: skip
def test_an_unknown_name_suggests_close_ones(text, hint):
    with pytest.raises(
        ValueError, match=re.escape(f"to be a known name, but got '{text}'. ") + f".*{re.escape(hint)}"
    ):
        as_metric(text)


@pytest.mark.parametrize("spelling", [*OTHER_NAMES.values(), "fbeta(beta=0.5)", "f1(average='macro')"])
def test_what_is_suggested_can_be_read(spelling):
    assert as_metric(spelling).name in (spelling, "fbeta(beta=1.0)")


@pytest.mark.parametrize("text", ["kappa / 2", "f1 + kappa", "2 * kappa()", "min(recall) - kappa"])
def test_another_name_in_an_expression_is_explained(text):
    with pytest.raises(
        ValueError, match=re.escape(f"but got 'kappa' in {text!r}. Did you mean 'cohen_kappa'?")
    ):
        as_metric(text)


@pytest.mark.parametrize(("text", "function"), [
    ("top_k_accuracy", "top_k_accuracy_score"), ("top_k_accuracy(k=2)", "top_k_accuracy_score"),
    ("top5", "top_k_accuracy_score"), ("top-5 accuracy", "top_k_accuracy_score"),
    ("log_loss", "log_loss"), ("brier_score", "brier_score_loss"),
])  # fmt: skip
def test_what_is_no_function_of_the_predicted_classes_says_so(text, function):
    with pytest.raises(ValueError, match=f"of the confusion matrix.* not only .*sklearn.metrics.{function}"):
        as_metric(text)
    assert hasattr(sklearn.metrics, function)


def test_a_comparison_is_not_a_metric():
    for text in ("f1() > 0.9", "f1 >= 0.9"):
        with pytest.raises(ValueError, match="not a comparison.*Pass bounds as `constraints`"):
            as_metric(text)


def test_an_unknown_name_in_a_formula_suggests_close_ones():
    with pytest.raises(ValueError, match=r"the name `recal` in 'recal / 2'\. Did you mean 'recall'"):
        as_metric("recal / 2")


PARAMETERS = [
    {}, {"average": "macro"}, {"average": "micro"}, {"average": "weighted"}, {"average": None},
    {"average": "binary", "positive": 0}, {"positive": 0},
]  # fmt: skip
PER_CLASS = ["precision", "recall", "specificity", "f1", "fbeta", "jaccard", "informedness"]
SAME = [
    *(metrics.NAMED[name](**parameters) for name in PER_CLASS for parameters in PARAMETERS),
    *(as_metric(name) for name in ("accuracy", "balanced_accuracy", "gmean", "mcc", "cohen_kappa")),
    fbeta(0.5), fbeta(2, average="micro"), fbeta([1, 3]), fbeta((0.1, 1e-7), average="weighted"), fbeta(0),
    fbeta(np.float64(2)), metrics.cost([[0, 1], [2.5, 0]]), metrics.cost([[0, -1e-9], [1e22, 0]]),
    metrics.cost(np.eye(2)), f1() + mcc(), 1 - f1(), -f1(), f1() * -2, 0.1 * f1() - 0.2 * mcc(),
    f1() - (mcc() - 1),
    f1() / (mcc() * 2), (f1() + 1) * (mcc() + 1), f1() - -0.5, 1e-7 * f1(), 1e22 / f1(), f1() + (mcc() + 1),
    -(1 - fbeta(2, positive=0)), f1(average="macro") - metrics.cost([[0, 1], [1, 0]]),
    metric("min(recall)"), metric("tp"), metric("recall"), 2 * metric("precision + recall"),
    metric("min(recall)") + f1(),
]  # fmt: skip


@pytest.mark.parametrize("given", SAME, ids=repr)
def test_name_is_read_back_as_the_same_metric(given):
    again = as_metric(given.name)
    assert again.name == given.name
    assert again.higher_is_better == given.higher_is_better
    torch.testing.assert_close(again(TWO), given(TWO))


@pytest.mark.parametrize(
    "given", [fbeta([1, 2, 0.5]), f1() + mcc(), f1() - (mcc() - 1), metrics.cost(torch.eye(3))]
)
def test_name_is_read_back_for_three_classes(given):
    torch.testing.assert_close(as_metric(given.name)(THREE), given(THREE))


def test_auroc_is_read_back():
    curve = torch.tensor([[[6.0, 4.0], [1.0, 9.0]], [[9.0, 1.0], [4.0, 6.0]]])
    assert as_metric(metrics.auroc().name).over_thresholds
    assert float(as_metric("auroc")(curve)) == pytest.approx(0.825)


@pytest.mark.parametrize("text", [
    "f1(beta=3)", "f1(2)", "fbeta(beta=x)", "fbeta(beta='a')", "fbeta(beta=1, beta2=2)", "fbeta(1, 2)",
    "accuracy(1)",
    "accuracy(average='macro')", "mcc(average=None)", "auroc(2)", "cost()", "cost(3)", "cost([[0, 1]])",
    "cost([[0, 1], [1]])", "cost('a')", "cost(None)", "cost([[0, 'a'], [1, 0]])",
    "cost([[0, 1e999], [1, 0]])",
    "f1(average='mean')", "f1(average=tp)", "f1(positive=7)", "fbeta(beta=-1)", "fbeta(beta=True)",
    "fbeta(beta=[])",
    "fbeta(beta=1j)", "fbeta(beta=f1())", "fbeta(beta=1+1)", "fbeta(*[2])", "fbeta(**{'beta': 2})",
    "fbeta(beta={[]: 1})", "fbeta(beta=[0 for n in 'a'])", "cost([[0, 1" + "0" * 400 + "], [1, 0]])", "cost",
    "fbeta(beta=1" + "0" * 400 + ")",
], ids=lambda text: text[:30])  # fmt: skip
def test_wrong_arguments_of_a_call_are_refused(text):
    with pytest.raises(ValueError, match="Expected `"):
        as_metric(text)


@pytest.mark.parametrize("text", [
    "f1() ** 2", "f1() % 2", "f1() + tp", "f1() + min(recall())", "sqrt(f1())", "f1() > 0.5",
    "f1() and mcc()",
    "f1() + 'a'", "f1() + True", "f1()()", "f1().score", "mcc()[0]", "auroc[0]", "(f1() + 1)[0]", "f1[0][0]",
    "f1[-1]", "f1[0.5]", "f1[True]", "f1[0:1]", "f1[tp]", "total[0]", "sum(tp)[0]", "f1(average='macro')[0]",
    "f1 + tp", "f1 + precision * tp", "f1 + min(precision, recall)", "metric", "metric()", "metric(3)",
    "metric('f1()')", "metric('tp', name='mine')", "metric('tp', higher_is_better=1)", "f1() / 0", "[f1()]",
    "f1() if 1 else 2",
    "1/0 * f1()",
    "f1() / (1 - 1.0) * (1/0)", "f1() + 1" + "0" * 400, "1e999 * f1()", "1e308 * 10 * f1()",
    "f1(average=None) + 1",
    "f1() + cost([[0, 1], [1, 0]])",
], ids=lambda text: text[:30])  # fmt: skip
def test_other_arithmetic_is_refused(text):
    with pytest.raises(ValueError, match="Expected "):
        as_metric(text)


def test_metric_as_decorator():
    @metric
    def lift(c):
        return c.precision / (c.actual / c.total)

    assert isinstance(lift, Metric)
    assert (lift.name, lift.formula) == ("lift", "lift(C)")
    assert float(lift(TWO)) == pytest.approx(1.5)


def test_metric_as_decorator_with_arguments():
    @metric(name="missed", average="macro", higher_is_better=False)
    def rate(c):
        return 1 - c.recall

    assert (rate.name, rate.higher_is_better) == ("missed", False)
    assert float(rate(TWO)) == pytest.approx(0.3)


@pytest.mark.parametrize(("average", "positive", "value"), [
    ("auto", 1, 0.4), ("auto", 0, 0.2), ("binary", 0, 0.2), ("macro", 1, 0.3), ("micro", 1, 0.3),
    ("weighted", 1, 0.3),
])  # fmt: skip
def test_metric_as_function(average, positive, value):
    assert float(metric(miss_rate, average=average, positive=positive)(TWO)) == pytest.approx(value)


def test_metric_from_a_function_without_average_gives_one_value_per_class():
    assert metric(miss_rate, average=None)(TWO).tolist() == pytest.approx([0.2, 0.4])


def test_metric_from_a_text_has_its_name_and_formula():
    made = metric(" fp / total ", name="alarms", higher_is_better=False)
    assert (made.name, made.formula, made.higher_is_better) == ("alarms", "fp / total", False)


def test_metric_passes_average_on():
    with pytest.raises(ValueError, match="Expected `average` to be one of"):
        metric(miss_rate, average="mean")


@pytest.mark.parametrize("wrong", [3, [], 1.5, {}], ids=repr)
def test_metric_refuses_other_types(wrong):
    with pytest.raises(ValueError, match="Expected `metric` to be a function or a text"):
        metric(wrong)


@pytest.mark.parametrize("wrong", [
    lambda c: c.matrix, lambda c: c.tp[:2], lambda c: torch.zeros(5), lambda c: torch.zeros(1, 3),
    lambda c: c.tp[:0],
])  # fmt: skip
def test_function_of_a_wrong_shape_is_refused(wrong):
    with pytest.raises(
        ValueError, match="Expected `metric` to return one value, or one for each of 3 classes"
    ):
        metric(wrong)(THREE)
    with pytest.raises(
        ValueError, match="Expected `metric` to return one value, or one for each of 3 classes"
    ):
        metric(wrong)(torch.stack([THREE, THREE]))


def test_a_function_of_something_else_is_refused():
    with pytest.raises(ValueError, match="function of one `Confusion`, but got f1_score. Did you mean 'f1'?"):
        metric(sklearn.metrics.f1_score)


@pytest.mark.parametrize("wrong", [0.5, None, [0.5, 0.5], np.array(0.5), "0.5"], ids=repr)
def test_function_without_a_tensor_is_refused(wrong):
    with pytest.raises(ValueError, match="Expected `metric` to return a tensor"):
        metric(lambda c: wrong)(TWO)


def test_as_metric_accepts_forgotten_parentheses():
    assert as_metric(metrics.f1).name == "f1"
    with pytest.raises(ValueError, match="to call cost with its own arguments"):
        as_metric(metrics.cost)
