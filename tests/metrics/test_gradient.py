"""`Metric.gradient`, the cost matrix dM/dC, against finite differences and other ways to differentiate."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from evalign import metrics
from evalign.metrics._confusion import MANY

CLASSES = [2, 3, MANY]


def finite_differences(metric, matrix, cells, step=1e-4):
    """Central differences of the metric in the given cells."""
    moved = torch.zeros(len(cells), matrix.numel(), dtype=matrix.dtype)
    moved[torch.arange(len(cells)), cells] = step
    moved = moved.reshape(-1, *matrix.shape)
    return (metric(matrix + moved) - metric(matrix - moved)) / (2 * step)


@pytest.mark.parametrize("classes", CLASSES)
def test_gradient_equals_finite_differences(make, random_matrix, classes):
    matrix, metric = random_matrix(classes, classes), make(classes)
    cells = torch.randperm(classes**2, generator=torch.Generator().manual_seed(0))[:30]
    cells = torch.cat([cells, torch.arange(0, classes**2, classes + 1)[:5]])  # some of the diagonal too
    torch.testing.assert_close(
        metric.gradient(matrix).flatten()[cells],
        finite_differences(metric, matrix, cells),
        rtol=1e-5,
        atol=1e-9,
    )


@pytest.mark.parametrize("average", ["micro", "weighted"])
@pytest.mark.parametrize("name", ["precision", "recall", "specificity", "fbeta", "jaccard", "informedness"])
@pytest.mark.parametrize("classes", [3, MANY])
def test_gradient_of_other_averages_equals_finite_differences(random_matrix, name, average, classes):
    matrix, metric = random_matrix(classes, classes), metrics.NAMED[name](average=average)
    cells = torch.arange(0, classes**2, 1 + classes**2 // 50)
    torch.testing.assert_close(
        metric.gradient(matrix).flatten()[cells],
        finite_differences(metric, matrix, cells),
        rtol=1e-5,
        atol=1e-9,
    )


@pytest.mark.parametrize("classes", CLASSES)
def test_gradcheck(make, random_matrix, classes):
    matrix = random_matrix(2, classes, classes).requires_grad_()
    assert gradcheck(make(classes), matrix, fast_mode=True)


@pytest.mark.parametrize("metric", [
    metrics.metric("sqrt(precision * recall) + min(recall) ** 2"),
    metrics.metric(lambda c: c.precision * c.tn / c.total),
    0.3 * metrics.f1() + metrics.mcc() / metrics.accuracy(),
    metrics.fbeta([0.5, 1, 2], average="weighted"),
], ids=repr)  # fmt: skip
def test_gradcheck_of_other_kinds(random_matrix, metric):
    assert gradcheck(metric, random_matrix(2, 3, 3).requires_grad_())


@pytest.mark.parametrize("name", ["f1", "mcc"])
def test_gradgradcheck_of_many_classes(random_matrix, name):
    matrix = random_matrix(MANY, MANY).requires_grad_()
    assert gradgradcheck(metrics.as_metric(name), matrix, fast_mode=True)


@pytest.mark.parametrize("classes", CLASSES)
def test_torch_func_grad_equals_gradient(make, random_matrix, classes):
    matrix, metric = random_matrix(classes, classes), make(classes)
    torch.testing.assert_close(torch.func.grad(metric)(matrix), metric.gradient(matrix))


@pytest.mark.parametrize("classes", [3, MANY])
def test_hessian_is_the_jacobian_of_the_gradient(random_matrix, classes):
    matrix, metric = random_matrix(classes, classes), metrics.f1()
    direction = random_matrix(classes, classes) - 5
    _, along = torch.func.jvp(torch.func.grad(metric), (matrix,), (direction,))
    step = 1e-5
    wanted = metric.gradient(matrix + step * direction) - metric.gradient(matrix - step * direction)
    torch.testing.assert_close(along, wanted / (2 * step), rtol=1e-5, atol=1e-8)


def test_gradient_of_a_batch_equals_loop(make, random_matrix):
    batch, metric = random_matrix(2, 3, 4, 4), make(4)
    loop = [metric.gradient(matrix) for matrix in batch.reshape(-1, 4, 4)]
    torch.testing.assert_close(metric.gradient(batch), torch.stack(loop).reshape(batch.shape))


@pytest.mark.parametrize("classes", CLASSES)
def test_gradient_is_orthogonal_to_the_matrix(make, random_matrix, classes):
    matrix = random_matrix(classes, classes)  # Euler: a metric that ignores scale has no slope along C
    assert float((make(classes).gradient(matrix) * matrix).sum()) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradient_in_every_mode(mode):
    with mode():
        gradient = metrics.accuracy().gradient(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    torch.testing.assert_close(gradient, torch.tensor([[1 / 32, -3 / 32], [-3 / 32, 1 / 32]]))


def test_gradient_leaves_the_matrix_alone():
    matrix = torch.tensor([[3.0, 1.0], [1.0, 3.0]], requires_grad=True)
    gradient = metrics.f1().gradient(matrix)
    assert matrix.grad is None
    assert not gradient.requires_grad


def test_gradient_of_a_constant_is_zero():
    assert metrics.metric("num_classes / 4").gradient(torch.ones(3, 3)).tolist() == [[0] * 3] * 3


@pytest.mark.parametrize("metric", [metrics.f1(average=None), metrics.metric("recall", average=None)])
def test_gradient_needs_one_number(metric):
    with pytest.raises(ValueError, match="Expected `average` that gives one number"):
        metric.gradient(torch.ones(3, 3))
