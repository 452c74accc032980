"""Degenerate confusion matrices: documented values, finite gradients, and NaN that is never hidden."""

import pytest
import torch

from evalign import metrics

PERFECT = [[4.0, 0, 0], [0, 3, 0], [0, 0, 2]]
CONSTANT = [[5.0, 0, 0], [3, 0, 0], [2, 0, 0]]  # all predicted as class 0
EMPTY = [[0.0, 0, 0], [0, 0, 0], [0, 0, 0]]
ONE_TRUE_CLASS = [[4.0, 6], [0, 0]]
ONE_CELL = [[7.0, 0], [0, 0]]
NEVER_RIGHT = [[0.0, 5, 0], [0, 0, 3], [2, 0, 0]]
NO_POSITIVE_PREDICTED = [[6.0, 0], [4, 0]]
DEGENERATE = {
    "perfect": PERFECT, "constant": CONSTANT, "empty": EMPTY, "one true class": ONE_TRUE_CLASS,
    "one cell": ONE_CELL, "never right": NEVER_RIGHT, "no positive predicted": NO_POSITIVE_PREDICTED,
}  # fmt: skip

# By hand: perfect, constant, empty, one true class, one cell.
VALUES = {
    "accuracy": (1, 0.5, 0, 0.4, 1),
    "balanced_accuracy": (1, 1 / 3, 0, 0.4, 1),
    "precision": (1, 0.5 / 3, 0, 0, 0),
    "recall": (1, 1 / 3, 0, 0, 0),
    "specificity": (1, 2 / 3, 0, 0.4, 1),
    "f1": (1, 2 / 3 / 3, 0, 0, 0),
    "fbeta(beta=2)": (1, 5 / 6 / 3, 0, 0, 0),
    "jaccard": (1, 0.5 / 3, 0, 0, 0),
    "gmean": (1, 0, 0, 0.4, 1),
    "mcc": (1, 0, 0, 0, 0),
    "cohen_kappa": (1, 0, 0, 0, 0),
    "cohen_kappa(weights='linear')": (1, 0, 0, 0, 0),
    "cohen_kappa(weights='quadratic')": (1, 0, 0, 0, 0),
    "informedness": (1, 0, 0, -0.6, 0),
}


def test_every_metric_has_documented_values():
    assert {name.partition("(")[0] for name in VALUES} | {
        "cost",
        "auroc",
        "average_precision",
    } == metrics.NAMED.keys()


@pytest.mark.parametrize("case", range(5), ids=["perfect", "constant", "empty", "one true class", "one cell"])
@pytest.mark.parametrize("name", VALUES)
def test_documented_value(name, case):
    matrix = (PERFECT, CONSTANT, EMPTY, ONE_TRUE_CLASS, ONE_CELL)[case]
    assert float(metrics.as_metric(name)(matrix)) == pytest.approx(VALUES[name][case], abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 64])
def test_empty_matrix_gives_zero(make, classes):
    assert float(make(classes)(torch.zeros(classes, classes))) == 0


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("name", ["precision", "recall", "specificity", "fbeta", "jaccard", "informedness"])
def test_empty_matrix_gives_zero_in_every_average(name, average):
    assert float(metrics.NAMED[name](average=average)(EMPTY)) == 0


@pytest.mark.parametrize(("matrix", "value"), [(PERFECT, 0), (CONSTANT, 0.5), (EMPTY, 0), (NEVER_RIGHT, 1)])
def test_cost_of_degenerate_matrices(matrix, value):
    assert float(metrics.cost([[0, 1, 1], [1, 0, 1], [1, 1, 0]])(matrix)) == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("matrix", DEGENERATE.values(), ids=DEGENERATE)
def test_value_and_gradient_are_finite(make, matrix, dtype):
    matrix = torch.tensor(matrix, dtype=dtype)
    metric = make(len(matrix))
    assert metric(matrix).isfinite()
    assert metric.gradient(matrix).isfinite().all()


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("matrix", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("name", ["precision", "recall", "specificity", "fbeta", "jaccard", "informedness"])
def test_every_average_is_finite(name, matrix, average):
    metric = metrics.NAMED[name](average=average)
    assert metric(matrix).isfinite()
    assert metric.gradient(matrix).isfinite().all()


@pytest.mark.parametrize("transposed", [False, True], ids=["one predicted class", "one true class"])
@pytest.mark.parametrize("classes", [3, 10, 64])
def test_mcc_of_one_class_is_zero_whatever_the_weights_round_to(classes, transposed):
    matrix = torch.zeros(50, classes, classes)
    matrix[:, :, 0] = torch.rand(50, classes, generator=torch.Generator().manual_seed(0))
    matrix = matrix.mT if transposed else matrix
    torch.testing.assert_close(metrics.mcc()(matrix), torch.zeros(50), rtol=0, atol=1e-5)
    torch.testing.assert_close(metrics.mcc().gradient(matrix), torch.zeros_like(matrix))


@pytest.mark.parametrize("name", ["f1", "jaccard", "precision(average='macro')", "recall(average='macro')"])
def test_absent_class_leaves_the_macro_average(name):
    metric = metrics.as_metric(name)
    with_absent = [[3.0, 1, 0, 1], [2, 4, 0, 1], [0, 0, 0, 0], [1, 0, 0, 2]]
    without = [[3.0, 1, 1], [2, 4, 1], [1, 0, 2]]
    torch.testing.assert_close(metric(with_absent), metric(without))


@pytest.mark.parametrize("name", [
    "accuracy", "balanced_accuracy", "mcc", "cohen_kappa", "f1", "precision", "recall", "specificity",
    "jaccard",
    "informedness", "f1(average='micro')", "f1(average='weighted')",
])  # fmt: skip
@pytest.mark.parametrize("cell", range(9))
def test_nan_in_any_cell_gives_nan(name, cell):
    matrix = torch.arange(1.0, 10.0)
    matrix[cell] = torch.nan
    assert metrics.as_metric(name)(matrix.reshape(3, 3)).isnan()


@pytest.mark.parametrize("cell", range(9))
def test_nan_in_an_otherwise_empty_matrix_gives_nan(cell):
    matrix = torch.zeros(9)
    matrix[cell] = torch.nan
    assert metrics.f1()(matrix.reshape(3, 3)).isnan()
    assert metrics.mcc()(matrix.reshape(3, 3)).isnan()


@pytest.mark.parametrize("recalls", ["all above 0", "one is 0"])
def test_nan_in_any_cell_gives_nan_for_gmean(recalls):
    matrices = torch.tensor([[3.0, 1, 1], [2, 0 if recalls == "one is 0" else 2, 1], [1, 1, 4]]).repeat(
        9, 1, 1
    )
    matrices.view(9, 9).fill_diagonal_(torch.nan)
    assert metrics.gmean()(matrices).isnan().tolist() == [True] * 9
