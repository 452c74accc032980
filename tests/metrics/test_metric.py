"""What every metric does with a confusion matrix: batches, types, shapes, scale, copies, wrong arguments."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import metrics

COUNTS = [[8, 2], [4, 6]]


def spread_of_recall(c):
    return c.recall.amax(-1) - c.recall.amin(-1)


OTHER_KINDS = {
    "text a class": metrics.metric("tp / (tp + fp + fn)"),
    "text of one value": metrics.metric("min(recall) * sum(tp) / total"),
    "text of constants": metrics.metric("1 - 1 / num_classes"),
    "function a class": metrics.metric(lambda c: c.precision * c.recall),
    "function of one value": metrics.metric(spread_of_recall),
    "combined": 0.5 * metrics.f1() + metrics.mcc() / 2,
    "combined with a function": 1 - metrics.metric(spread_of_recall),
}


def loop(metric, batch):
    """The metric of each matrix (..., d, d) on its own."""
    values = [metric(matrix) for matrix in batch.reshape(-1, *batch.shape[-2:])]
    return torch.stack(values).reshape(*batch.shape[:-2], *values[0].shape)


@pytest.mark.parametrize("shape", [(4, 3, 3), (2, 3, 2, 2), (1, 5, 5), (2, 64, 64)], ids=str)
def test_batch_equals_loop(make, random_matrix, shape):
    batch, metric = random_matrix(*shape), make(shape[-1])
    torch.testing.assert_close(metric(batch), loop(metric, batch))


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
@pytest.mark.parametrize("name", ["precision", "recall", "specificity", "fbeta", "jaccard", "informedness"])
def test_batch_equals_loop_for_every_average(random_matrix, name, average):
    batch, metric = random_matrix(2, 3, 4, 4), metrics.NAMED[name](average=average)
    torch.testing.assert_close(metric(batch), loop(metric, batch))


@pytest.mark.parametrize("shape", [(4, 3, 3), (2, 3, 2, 2), (1, 5, 5)], ids=str)
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_batch_equals_loop_for_other_kinds(random_matrix, kind, shape):
    batch, metric = random_matrix(*shape), OTHER_KINDS[kind]
    torch.testing.assert_close(metric(batch), loop(metric, batch))


@pytest.mark.parametrize("classes", [3, 64])
def test_vmap_equals_batch(make, random_matrix, classes):
    batch, metric = random_matrix(4, classes, classes), make(classes)
    torch.testing.assert_close(torch.func.vmap(metric)(batch), metric(batch))


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_vmap_equals_loop_for_other_kinds(random_matrix, kind):
    batch, metric = random_matrix(4, 3, 3), OTHER_KINDS[kind]
    torch.testing.assert_close(torch.func.vmap(metric)(batch), loop(metric, batch))


def test_empty_batch_gives_no_values(make):
    assert make(3)(torch.zeros(0, 3, 3)).shape == (0,)


@settings(max_examples=25, derandomize=True)
@given(cells=st.lists(st.integers(0, 50), min_size=9, max_size=9), exponent=st.integers(-12, 12))
def test_scale_does_not_matter(make, cells, exponent):
    matrix, metric = torch.tensor(cells).reshape(3, 3).double(), make(3)
    torch.testing.assert_close(metric(10.0**exponent * matrix), metric(matrix), rtol=0, atol=1e-6)


@settings(max_examples=25, derandomize=True)
@given(cells=st.lists(st.integers(0, 50), min_size=16, max_size=16), order=st.permutations(range(4)))
def test_order_of_more_than_two_classes_does_not_matter(make, cells, order):
    matrix, metric = torch.tensor(cells).reshape(4, 4).double(), make(4)
    torch.testing.assert_close(metric(matrix[order][:, order]), metric(matrix), rtol=0, atol=1e-9)


@pytest.mark.parametrize("given", [
    COUNTS, np.array(COUNTS), np.array(COUNTS, dtype=np.uint8), torch.tensor(COUNTS, dtype=torch.int16),
    np.array(COUNTS, dtype=np.float16), torch.tensor(COUNTS, dtype=torch.bfloat16), tuple(map(tuple, COUNTS)),
], ids=lambda given: f"{type(given).__name__}-{getattr(given, 'dtype', '')}")  # fmt: skip
def test_counts_of_any_type(given):
    assert float(metrics.f1()(given)) == pytest.approx(12 / 18, abs=1e-6)
    assert float(metrics.f1().gradient(given)[1, 1]) == pytest.approx(2 / 18 - 2 * 12 / 18**2, abs=1e-6)


@pytest.mark.parametrize(("dtype", "kept"), [
    (torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float32, torch.float32),
    (torch.float64, torch.float64), (torch.int64, torch.float64), (torch.bool, torch.float64),
])  # fmt: skip
def test_values_are_at_least_float32(make, dtype, kept):
    assert make(2)(torch.eye(2, dtype=dtype)).dtype == kept


def test_half_precision_does_not_overflow():
    matrix = torch.tensor([[60000, 60000], [0, 60000]], dtype=torch.float16)
    assert float(metrics.accuracy()(matrix)) == pytest.approx(2 / 3)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (1, 1), (4, 3, 2), (0, 0)], ids=str)
def test_matrix_must_be_square(make, shape):
    with pytest.raises(
        ValueError, match=r"Expected `matrix` of shape \(..., d, d\) with d >= 2, but got shape"
    ):
        make(2)(torch.zeros(shape))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
@pytest.mark.parametrize("metric", [
    metrics.fbeta([1, 1, 5], average="weighted"), metrics.cost(1 - torch.eye(3)),
    metrics.metric("min(recall)"),
    metrics.metric("fp / total", average="macro", higher_is_better=False), 1 - metrics.f1() / 2,
    metrics.metric("max(recall)") + metrics.mcc(),
], ids=repr)  # fmt: skip
def test_copies_and_pickles_stay_the_same(random_matrix, metric, copied):
    other = copied(metric)
    assert (other.name, other.formula, other.higher_is_better) == (
        metric.name, metric.formula, metric.higher_is_better,
    )  # fmt: skip
    torch.testing.assert_close(other(random_matrix(2, 3, 3)), metric(random_matrix(2, 3, 3)), rtol=0, atol=0)


def test_auroc_is_pickled():
    curve = torch.tensor([[[6.0, 4.0], [1.0, 9.0]], [[9.0, 1.0], [4.0, 6.0]]])
    assert float(pickle.loads(pickle.dumps(metrics.auroc()))(curve)) == pytest.approx(0.825)


@pytest.mark.parametrize(("metric", "shown"), [
    (metrics.mcc(), "Metric('mcc')"),
    (metrics.f1(average="micro", positive=0), "Metric(\"f1(average='micro', positive=0)\")"),
    (metrics.cost([[0, 1.5], [10, 0]]), "Metric('cost(matrix=[[0, 1.5], [10, 0]])')"),
    (1 - metrics.f1(), "Metric('1 - f1()')"),
    (metrics.metric(spread_of_recall), "Metric('spread_of_recall')"),
    (metrics.metric(spread_of_recall, name="spread"), "Metric('spread')"),
])  # fmt: skip
def test_repr_shows_the_name(metric, shown):
    assert repr(metric) == shown


@pytest.mark.parametrize("average", ["mean", "", "samples", 1, []])
def test_average_must_be_known(average):
    with pytest.raises(ValueError, match="Expected `average` to be one of"):
        metrics.f1(average=average)


@pytest.mark.parametrize("positive", [2, -1, "1", None, 1.0, True])
def test_positive_must_be_class_0_or_1(positive):
    with pytest.raises(ValueError, match="Expected `positive` to be class 0 or 1"):
        metrics.f1(positive=positive)


@pytest.mark.parametrize("metric", [metrics.f1(average="binary"), metrics.metric("recall", average="binary")])
def test_binary_average_needs_two_classes(metric):
    with pytest.raises(ValueError, match=r"Expected `average` other than 'binary' .* but got 3 classes"):
        metric(torch.ones(3, 3))


@pytest.mark.parametrize(
    "beta",
    [-1, float("nan"), float("inf"), "2", True, [1, -1], [1, None], 1e200, pytest.param(10**400, id="huge")],
)
def test_beta_must_be_finite_and_not_negative(beta):
    with pytest.raises(ValueError, match="Expected `beta` to be one number in"):
        metrics.fbeta(beta)


def test_beta_must_not_be_an_empty_list():
    with pytest.raises(ValueError, match="or one per class"):
        metrics.fbeta([])


def test_beta_needs_one_value_per_class():
    with pytest.raises(ValueError, match="Expected `beta` with one value for each of 3 classes"):
        metrics.fbeta([1, 2])(torch.ones(3, 3))


def test_micro_average_needs_one_beta():
    with pytest.raises(ValueError, match="Expected `beta` to be one number with average='micro'"):
        metrics.fbeta([1, 2], average="micro")


@pytest.mark.parametrize("table", [[0, 1], [[0, 1]], [[0]], [], 3])
def test_costs_must_be_square(table):
    with pytest.raises(ValueError, match="Expected `matrix` of shape"):
        metrics.cost(table)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_costs_must_be_finite(value):
    with pytest.raises(ValueError, match="Expected `matrix` to contain finite costs"):
        metrics.cost([[0, value], [1, 0]])


def test_costs_must_fit_the_classes():
    with pytest.raises(ValueError, match="Expected `matrix` of costs for 3 classes, but got 2"):
        metrics.cost([[0, 1], [1, 0]])(torch.ones(3, 3))


def test_beta_may_be_an_array_or_a_tensor():
    for beta in (np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])):
        assert metrics.fbeta(beta).name == "fbeta(beta=[1.0, 2.0])"
    assert metrics.fbeta(np.float32(2)).name == "fbeta(beta=2.0)"


@pytest.mark.parametrize(
    ("metric", "scalar"),
    [
        (metrics.f1(), True),
        (metrics.mcc(), True),
        (metrics.cost([[0, 1], [1, 0]]), True),
        (0.5 * metrics.f1() + 0.5 * metrics.mcc(), True),
        (metrics.f1(average=None), False),
        (metrics.auroc(), False),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_is_scalar_says_whether_one_matrix_gives_one_number(metric, scalar):
    assert metric.is_scalar is scalar
    if scalar:
        assert metrics.as_metric(metric, scalar=True) is metric
        assert metric(torch.ones(2, 2)).ndim == 0
    else:
        with pytest.raises(ValueError, match="Expected `metric` that gives one number"):
            metrics.as_metric(metric, scalar=True)


def test_params_are_the_constants_of_the_formula():
    assert metrics.fbeta(2).params == {"beta": 2}
    assert metrics.fbeta([1, 5]).params == {"beta": [1, 5]}
    assert metrics.f1().params == {"beta": 1.0}
    assert metrics.cost([[0, 1], [10, 0]]).params == {"matrix": [[0.0, 1.0], [10.0, 0.0]]}
    assert metrics.mcc().params == {}


def test_the_sign_makes_higher_better():
    assert (metrics.f1().sign, metrics.cost([[0, 1], [1, 0]]).sign, (-metrics.f1()).sign) == (1, -1, -1)
    assert ((metrics.f1() >= 0.5).sign, (metrics.f1() <= 0.5).sign) == (1, -1)
