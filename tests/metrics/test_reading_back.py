"""Every name of a metric or a constraint reads back as the same metric or constraint."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import metrics
from evalign.metrics import as_constraint, as_metric, metric

SEEDED = torch.Generator().manual_seed(0)
MATRICES = 0.1 + torch.rand(4, 3, 3, dtype=torch.float64, generator=SEEDED)
LABELS = 0.1 + torch.rand(2, 3, 2, 2, dtype=torch.float64, generator=SEEDED)

AVERAGES = st.sampled_from([{}, {"average": "macro"}, {"average": "micro"}, {"average": "weighted"}])
BETAS = st.one_of(
    st.floats(0, 1e9, allow_nan=False),
    st.integers(0, 10**9),
    st.sampled_from([1e-20, np.float64(2), np.float32(0.1), np.int64(3)]),
)
NUMBERS = st.one_of(
    st.floats(-1e30, 1e30, allow_nan=False),
    st.integers(-(10**20), 10**20),
    st.sampled_from([1e-20, -1e-20, 1e22, -0.5, np.float64(0.1), np.float32(0.1)]),
).filter(lambda number: number != 0)


@st.composite
def named(draw):
    name = draw(st.sampled_from(["precision", "recall", "specificity", "f1", "jaccard", "informedness"]))
    return metrics.NAMED[name](**draw(AVERAGES), positive=draw(st.sampled_from([0, 1])))


@st.composite
def fbetas(draw):
    return metrics.fbeta(draw(BETAS), **draw(AVERAGES))


LEAVES = st.sampled_from(
    ["tp", "fp", "fn", "tn", "actual", "total", "precision", "recall", "2", "1e-20", "-3.5"]
)
FORMULAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map("({0[0]} {0[1]} {0[2]})".format),
        inner.map("-{}".format),
        inner.map("({}) ** 2".format),
        st.tuples(st.sampled_from(["sqrt", "min", "max", "mean", "sum"]), inner).map("{0[0]}({0[1]})".format),
        st.tuples(inner, inner).map("min({0[0]},  {0[1]})".format),
    ),
    max_leaves=6,
)


@st.composite
def formulas(draw, **fixed):
    options = {**draw(AVERAGES), "higher_is_better": draw(st.booleans()), **fixed}
    text = draw(FORMULAS)
    try:
        return metric(text, **options)
    except ValueError:  # such as 2 / (2 - 2)
        return metric("tp / total", **options)


@st.composite
def one_class(draw):
    whole = draw(
        st.one_of(
            formulas(average=None),
            fbetas().map(lambda made: metrics.fbeta(made.params["beta"], average=None)),
            st.sampled_from([metrics.recall(average=None), metrics.jaccard(average=None, positive=0)]),
        )
    )
    try:
        return whole[draw(st.integers(0, 1))]
    except ValueError:  # a formula with one value for the whole matrix
        return metrics.recall(average=None)[1]


WHOLE = st.sampled_from([
    metrics.accuracy(), metrics.balanced_accuracy(), metrics.gmean(), metrics.mcc(), metrics.cohen_kappa(),
    metrics.cohen_kappa("linear"), metrics.cohen_kappa(weights="quadratic"),
    metrics.cost([[0, 1, -2.5], [1e-20, 0, 1e22], [3, 4, 0]]), metrics.fbeta([1, 0.5, 1e-20]),
])  # fmt: skip
PARTS = st.one_of(named(), fbetas(), formulas(), one_class(), WHOLE)


@st.composite
def combined(draw, inner):
    left, right = draw(
        st.one_of(st.tuples(inner, inner), st.tuples(inner, NUMBERS), st.tuples(NUMBERS, inner))
    )
    symbol = draw(st.sampled_from(["+", "-", "*", "/"]))
    both = isinstance(left, metrics.Metric) and isinstance(right, metrics.Metric)
    if both and symbol in "+*" and left.higher_is_better != right.higher_is_better:
        symbol = "-"
    try:
        return {
            "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
            "/": lambda: left / right,
        }[symbol]()  # fmt: skip
    except ValueError as error:  # too long or too deep to be read back
        assert "at most" in str(error)
        return left if both else metrics.f1()


METRICS = st.recursive(PARTS, lambda inner: combined(inner) | inner.map(lambda one: -one), max_leaves=6)


def check_same(one, other):
    """Equal values to 1e-12 (relative to large ones), whatever the matrices."""
    assert one.higher_is_better == other.higher_is_better
    assert (one.is_scalar, one.degree, one.range) == (other.is_scalar, other.degree, other.range)
    for read in (lambda m: m(MATRICES), lambda m: m.over_labels(LABELS)):
        try:
            wanted = read(one)
        except ValueError:  # costs of three classes do not fit labels
            with pytest.raises(ValueError, match="Expected"):
                read(other)
            continue
        torch.testing.assert_close(read(other), wanted, rtol=1e-12, atol=1e-12, equal_nan=True)


@settings(max_examples=300, derandomize=True)
@given(made=METRICS)
def test_the_name_of_any_metric_reads_back(made):
    assert made.has_text
    again = as_metric(made.name)
    check_same(made, again)
    assert again.has_text
    assert again.name == made.name


@settings(max_examples=200, derandomize=True)
@given(made=METRICS, sense=st.sampled_from([">=", "<="]), bound=st.one_of(NUMBERS, st.just(0)))
def test_the_name_of_any_constraint_reads_back(made, sense, bound):
    try:
        constraint = metrics.Constraint(made, sense, bound)
    except ValueError as error:  # always satisfied, or never
        assert "which is always in" in str(error)
        return
    again = as_constraint(constraint.name)
    assert (again.sense, again.bound) == (sense, constraint.bound)
    check_same(constraint.metric, again.metric)
    assert again.is_scale_free == constraint.is_scale_free


@settings(max_examples=200, derandomize=True)
@given(left=FORMULAS, right=FORMULAS, sense=st.sampled_from([">=", "<="]))
def test_a_constraint_with_formulas_on_both_sides_reads_back_and_means_the_difference(left, right, sense):
    text = f"{left} {sense} {right}"
    try:
        constraint = as_constraint(text)
    except ValueError as error:
        assert str(error).startswith("Expected `")
        return
    again = as_constraint(constraint.name)
    assert again.bound == constraint.bound
    check_same(constraint.metric, again.metric)
    slack = constraint.slack(MATRICES)
    try:
        wanted = metric(left)(MATRICES) - metric(right)(MATRICES)
    except ValueError:
        return
    wanted = wanted if sense == ">=" else -wanted
    clear = wanted.abs() > 1e-6 * (1 + metric(left)(MATRICES).abs())
    assert ((slack > 0) == (wanted > 0))[clear & slack.isfinite() & wanted.isfinite()].all()


@pytest.mark.parametrize(
    "made",
    [
        metrics.auroc(),
        metrics.auroc("weighted"),
        metrics.average_precision(),
        metrics.average_precision(average="micro"),
    ],
    ids=repr,
)
def test_the_name_of_a_curve_reads_back(made):
    again = as_metric(made.name)
    assert (again.name, again.average, type(again)) == (made.name, made.average, type(made))


def test_products_of_formulas_are_not_formulas_of_products():
    product = metric("precision") * metric("recall")
    assert product.name == "metric('precision') * metric('recall')"
    c = MATRICES[0]
    assert float(as_metric(product.name)(c)) == pytest.approx(
        float(metrics.precision()(c) * metrics.recall()(c))
    )
    assert float(as_metric("precision * recall")(c)) != pytest.approx(float(product(c)))


@pytest.mark.parametrize("classes", [20, 100])
def test_a_large_table_of_costs_reads_back(classes):
    table = np.arange(classes**2).reshape(classes, classes) / 7
    again = as_metric(metrics.cost(table).name)
    matrix = torch.rand(classes, classes, dtype=torch.float64, generator=SEEDED)
    assert float(again(matrix)) == pytest.approx(float(metrics.cost(table)(matrix)), rel=1e-12)


def test_a_table_does_not_hide_a_long_text():
    for text in ("[" + "-" * 2000 + "1]", "[" + "1-" * 2000 + "1]", "[" * 2000 + "]" * 2000):
        with pytest.raises(ValueError, match="Expected `metric`"):
            as_metric(f"cost({text})")


def test_a_combination_that_could_not_be_read_back_is_refused():
    with pytest.raises(ValueError, match="Expected `metric` .*at most"):
        sum([1] * 300, metrics.f1())


def test_a_comment_is_not_part_of_the_name():
    assert as_metric("tp  # hits").name == "tp"
    assert as_constraint("(tp -  # hits\n fp) >= 3").name == "tp - fp >= 3"


def f1(c):
    return c.recall


def worst(c):
    return c.recall.amin(-1)


@pytest.mark.parametrize("made", [
    metric(f1), metric(worst), metric(lambda c: c.recall), metric(worst, name="tp +"),
    metric(worst, name="my metric"), metric("tp / total", name="mine"),
], ids=repr)  # fmt: skip
def test_a_metric_without_text_is_never_read_as_another(made):
    made_from = [made, 1 - made, made + 1, 2 * made + metrics.f1(), made * metrics.f1(), metrics.f1() / made]
    for one in made_from:
        assert not one.has_text
        with pytest.raises(ValueError, match="Expected `"):
            as_metric(one.name)
        with pytest.raises(ValueError, match="Expected `"):
            as_constraint((one >= 0.5).name)
    per_class = metric(made.values, name=made.name, average=None)[1]
    assert not per_class.has_text
    with pytest.raises(ValueError, match="Expected `"):
        as_metric(per_class.name)


@pytest.mark.parametrize("name", ["f1", "tp / total", "0.5*f1() + mcc()", "recall[1]", "f1()", "1"])
def test_a_name_that_means_another_metric_is_refused(name):
    for definition in (worst, "fp / total"):
        with pytest.raises(ValueError, match="Expected `name` that is not the text of another metric"):
            metric(definition, name=name)
    assert metric("tp / total", name="tp / total").has_text


def test_numbers_that_fit_no_float_are_refused():
    for number in (10**400, math.inf, math.nan, 1e300):
        with pytest.raises(TypeError, match="Expected a metric or a finite number"):
            number * metrics.f1()
