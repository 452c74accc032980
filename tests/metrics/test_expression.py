"""Metrics written as text: what they mean, and that nothing but formulas of counts is ever read."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import metrics

MATRIX = torch.tensor([[8.0, 2.0], [4.0, 6.0]], dtype=torch.float64)
read_by = pytest.mark.parametrize("read", [metrics.metric, metrics.as_metric])


@pytest.mark.parametrize("classes", [2, 3, 64])
@pytest.mark.parametrize(("text", "named"), [
    ("2*tp / (2*tp + fp + fn)", metrics.f1()),
    ("5*tp / (5*tp + 4*fn + fp)", metrics.fbeta(2)),
    ("2 / (1/precision + 1/recall)", metrics.f1()),
    ("tp / (tp + fp)", metrics.precision()),
    ("tp / predicted", metrics.precision()),
    ("tp / actual", metrics.recall()),
    ("tn / (tn + fp)", metrics.specificity()),
    ("recall + tn / (tn + fp) - 1", metrics.informedness()),
    ("tp / (tp + fp + fn)", metrics.jaccard()),
    ("sum(tp) / total", metrics.accuracy()),
    ("sum(tp) / sum(actual)", metrics.accuracy()),
    ("mean(recall)", metrics.balanced_accuracy()),
    ("sum(recall) / num_classes", metrics.balanced_accuracy()),
])  # fmt: skip
def test_text_equals_the_named_metric(random_matrix, text, named, classes):
    batch = random_matrix(3, classes, classes)
    torch.testing.assert_close(metrics.metric(text)(batch), named(batch))


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
def test_text_is_averaged_like_the_named_metric(random_matrix, average):
    batch = random_matrix(3, 4, 4)
    text = metrics.metric("2*tp / (2*tp + fp + fn)", average=average)
    torch.testing.assert_close(text(batch), metrics.f1(average=average)(batch))


# Of class 1: tp 6, fp 2, fn 4, tn 8, precision 0.75, recall 0.6; of class 0: precision 2/3, recall 0.8.
@pytest.mark.parametrize(("text", "value"), [
    ("min(recall)", 0.6), ("max(recall)", 0.8), ("mean(recall)", 0.7), ("sum(recall)", 1.4),
    ("min(precision, recall)", 0.6), ("max(precision, recall)", 0.75),
    ("max(recall, 0.1, precision, 0.7)", 0.75),
    ("min(0.5, recall)", 0.5), ("min(min(recall), 0.7)", 0.6), ("sqrt(precision * recall)", 0.45**0.5),
    ("recall ** 2", 0.36), ("2 ** tp", 64), ("2 ** 3 ** 2", 512), ("-tp", -6), ("+tp", 6), ("--tp", 6),
    ("-tp ** 2", -36), ("1 - recall", 0.4), ("tp - fp - fn", 0), ("tp / fp / fn", 0.75),
    ("tp * (fp + fn)", 36),
    ("total", 20), ("num_classes", 2), ("actual", 10), ("predicted", 8), ("1e-1", 0.1), ("  tp  ", 6),
    ("fn / (fp - 2)", 0), ("sqrt(fp - fn)", 0), ("sum(3)", 3), ("mean(total)", 20),
])  # fmt: skip
def test_value_by_hand(text, value):
    assert float(metrics.metric(text)(MATRIX)) == pytest.approx(value)


def test_positive_class_is_chosen():
    assert float(metrics.metric("recall", positive=0)(MATRIX)) == pytest.approx(0.8)


# A third class that neither occurs nor is predicted; recalls 0.75 and 0.5.
@pytest.mark.parametrize(("text", "value"), [
    ("min(recall)", 0.5), ("max(-recall)", -0.5), ("mean(recall)", 0.625), ("sum(recall)", 1.25),
    ("sum(1 - recall)", 0.75), ("recall", 0.625),
])  # fmt: skip
def test_absent_class_is_left_out(text, value):
    assert float(metrics.metric(text)([[3, 1, 0], [2, 2, 0], [0, 0, 0]])) == pytest.approx(value)


@pytest.mark.parametrize("text", ["recall", "min(recall)", "max(recall)", "mean(recall)", "sum(tp) / total"])
def test_empty_matrix_gives_zero(text):
    assert float(metrics.metric(text)(torch.zeros(3, 3))) == 0


@pytest.mark.parametrize(
    "text", ["recall", "min(recall)", "max(recall)", "mean(recall)", "sqrt(tp)", "max(tp, 1)"]
)
def test_nan_is_preserved(text):
    assert metrics.metric(text, positive=0)([[np.nan, 1.0], [1.0, 2.0]]).isnan()


@pytest.mark.parametrize(("text", "what"), [
    ("exec(tp)", "a call of `exec`"),
    ("abs(tp)", "a call of `abs`"),
    ("open('x')", "a call of `open`"),
    ("tp.grad_fn", "attribute"),
    ("tp.__class__.__base__", "attribute"),
    ("sqrt(tp).item()", "call"),
    ("sqrt(tp)(fp)", "call"),
    ("(lambda: tp)()", "call"),
    ("lambda: tp", "lambda"),
    ("tp > fp", "compare"),
    ("tp and fp", "boolop"),
    ("tp if fp else fn", "ifexp"),
    ("'tp'", "'tp'"),
    ("tp + b'1'", "b'1'"),
    ('f"{tp}"', "joinedstr"),
    ("[n for n in tp]", "listcomp"),
    ("sum(n for n in tp)", "generatorexp"),
    ("{n: n for n in tp}", "dictcomp"),
    ("(tp := 1)", "namedexpr"),
    ("max(*tp)", "starred"),
    ("(tp, fp)", "tuple"),
    ("[tp]", "list"),
    ("{tp}", "set"),
    ("{}", "dict"),
    ("~tp", "unaryop"),
    ("not tp", "unaryop"),
    ("tp // fp", "binop"),
    ("tp % fp", "binop"),
    ("tp @ fp", "binop"),
    ("2 << 9", "binop"),
    ("sqrt(x=tp)", "these arguments of `sqrt`"),
    ("max(tp, key=fp)", "these arguments of `max`"),
    ("max(tp, **fp)", "these arguments of `max`"),
    ("sqrt()", "these arguments of `sqrt`"),
    ("sqrt(tp, fp)", "these arguments of `sqrt`"),
    ("sum(tp, fp)", "these arguments of `sum`"),
    ("mean(tp, fp)", "these arguments of `mean`"),
    ("True + tp", "True"),
    ("None", "None"),
    ("...", "Ellipsis"),
    ("1j * tp", "1j"),
    ("tp + matrix", "the name `matrix`"),
    ("tp + sqrt", "the name `sqrt`"),
    ("tp + __builtins__", "the name `__builtins__`"),
    ("tp + 1" + "0" * 400, "a number this large"),
])  # fmt: skip
def test_anything_else_is_refused_by_name(text, what):
    with pytest.raises(ValueError, match=re.escape(f", but got {what} in ")):
        metrics.metric(text)
    with pytest.raises(ValueError, match="Expected `metric`"):
        metrics.as_metric(text)


@read_by
@pytest.mark.parametrize("text", [
    "__import__('os').system('touch {file}')",
    "tp + __import__('os').system('touch {file}')",
    "open('{file}', 'w')",
    "[open('{file}', 'w') for n in (1,)][0]",
    "(lambda: open('{file}', 'w'))()",
    "f1(average=open('{file}', 'w'))",
    "f1(open('{file}', 'w'))",
    "f1() + open('{file}', 'w')",
    "f1().score.__globals__['__builtins__']['open']('{file}', 'w')",
    "exec(\"open('{file}', 'w')\")",
])  # fmt: skip
def test_nothing_is_executed(read, text, tmp_path):
    file = tmp_path / "proof"
    with pytest.raises(ValueError, match="Expected `metric`"):
        read(text.format(file=file))
    assert not file.exists()


@read_by
@pytest.mark.parametrize("text", [
    "", "   ", "tp +", "tp fp", "(tp", "tp)", "tp; fp", "x = tp", "import os", "tp\nfp", "return tp", "\0",
    "tp\0",
    "tp +\\", "'", "1__0", "\ud800", "yield tp", "del tp",
])  # fmt: skip
def test_anything_but_a_formula_is_refused(read, text):
    with pytest.raises(ValueError, match="Expected `metric`"):
        read(text)


@read_by
@pytest.mark.parametrize("text", ["+".join(["tp"] * 5000), "1" * 10_000, "tp" + " " * 10_000])
def test_long_text_is_refused(read, text):
    with pytest.raises(ValueError, match="Expected `metric` of at most 1000 characters"):
        read(text)


@read_by
def test_deep_parentheses_are_refused(read):
    with pytest.raises(ValueError, match="Expected `metric`"):
        read("(" * 450 + "tp" + ")" * 450)


@read_by
@pytest.mark.parametrize("text", [
    "-" * 990 + "tp", "-" * 990 + "f1()", "**".join("1" * 330), "-".join(["f1()"] * 142),
    "-".join(["tp"] * 330),
    "sqrt(" * 150 + "tp" + ")" * 150, "(" * 90 + "tp" + ")" * 90,
], ids=lambda text: text[-8:])  # fmt: skip
def test_deep_formula_is_computed_or_refused(read, text):
    try:
        value = read(text)(MATRIX)
    except ValueError:
        return
    assert value.isfinite()


@read_by
@pytest.mark.parametrize("text", [
    "9 ** 9 ** 9 ** 9", "tp ** tp ** tp ** tp", "tp ** 1000", "1e30 * 1e30 * tp", "tp + 1e39", "1e300 * tp",
    "tp + 1" + "0" * 400, "0 ** -1", "tp / (1 - 1)", "fn / 0", "1 / 0", "tp / sqrt(0)", "1 / 0 / tp",
    "1/(" * 30 + "0" + ")" * 30,
], ids=lambda text: text[:20])  # fmt: skip
def test_what_has_no_finite_value_is_refused_at_once(read, text):
    with pytest.raises(ValueError, match="Expected `metric`"):
        read(text)


def test_a_tower_of_powers_in_arithmetic_is_refused_at_once():
    for text in ("f1() * 9 ** 9 ** 9 ** 9", "9 ** 9 ** 9 - f1()", "f1() / (2 - 2)", "(-8) ** 0.5 * f1()"):
        with pytest.raises(ValueError, match="Expected `metric`"):
            metrics.as_metric(text)


@read_by
def test_a_large_number_is_a_float(read):
    read_back = read("9999999999999999999999999999*tp")
    assert float(read_back(MATRIX)) == pytest.approx(6e28)
    assert float(read_back(MATRIX.float())) == pytest.approx(6e28, rel=1e-6)


TOKENS = [
    "tp", "fp", "fn", "tn", "total", "recall", "num_classes", "sqrt", "min", "max", "mean", "sum", "(", ")",
    "(", ")",
    ",", "+", "-", "*", "/", "**", "0", "1", "2.5", "1e9", ".", "[", "]", "'", ":", "=", " ", "f1", "f1()",
    "lambda",
    "not", "if", "\\", "\n", "_", "é", "{", "}", "@", "%", "#", "\t",
]  # fmt: skip


@settings(max_examples=300, derandomize=True)
@given(
    text=st.lists(st.sampled_from(TOKENS), max_size=9).map("".join) | st.text("tpfn()+-*/0.9 ", max_size=12)
)
def test_random_text_gives_a_tensor_or_a_value_error(text):
    for read in (metrics.metric, metrics.as_metric):
        try:
            value = read(text)(MATRIX)
        except ValueError:
            continue
        assert value.shape == ()
        assert value.dtype == torch.float64


NUMBERS = st.sampled_from(["tp", "fp", "fn", "tn", "total", "precision", "recall", "2", "0.5"])
FORMULAS = st.recursive(
    NUMBERS,
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})")
        | inner.map("(-{})".format)
    ),
    max_leaves=8,
)


@settings(max_examples=100, derandomize=True)
@given(text=FORMULAS)
def test_random_formula_means_what_python_means(text):
    counts = {"tp": 6, "fp": 2, "fn": 4, "tn": 8, "total": 20, "precision": 0.75, "recall": 0.6}
    assert float(metrics.metric(text)(MATRIX)) == pytest.approx(eval(text, {}, counts))
