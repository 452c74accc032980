"""The fast path equals the plain formulas: values, gradients, second derivatives, transforms."""

import pytest
import torch

from evalign import softsets
from evalign.softsets import SigmoidStep, _large, _native, soft_assign, soft_confusion


@pytest.fixture(params=["native", "torch"], autouse=True)
def path(request, monkeypatch):
    """Run every test with the compiled kernel and without."""
    if request.param == "torch":
        monkeypatch.setattr(_native, "KERNEL", None)
    elif _native.KERNEL is None:
        pytest.skip("evalign was installed without a compiler")


def logit_confusion(*args, **settings):
    """The matrix of sums, of which `softsets.logit_confusion` gives the shares and the total."""
    shares, total = softsets.logit_confusion(*args, **settings)
    return shares * total


def binary_logit_confusion(*args, **settings):
    shares, total = softsets.binary_logit_confusion(*args, **settings)
    return shares * total


def batch(d, rows=40, scale=2.0, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, d, generator=generator, dtype=dtype)
    targets = torch.randint(0, d, (rows,), generator=generator)
    return logits.requires_grad_(), targets, torch.rand(rows, generator=generator, dtype=dtype)


def plain(logits, targets, weight, temperature):
    return soft_confusion(soft_assign(logits.softmax(-1), temperature), targets, logits.shape[1], weight)


def value_and_gradient(function, logits, direction):
    matrix = function(logits)
    (gradient,) = torch.autograd.grad((matrix * direction).sum(), logits)
    return matrix.detach(), gradient


@pytest.mark.parametrize("d", [2, 3, 10, 48, 130, 257])
@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.2, 0.25, 0.39, 0.4])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_fast_equals_plain(d, temperature, scale):
    logits, targets, weight = batch(d, scale=scale)
    direction = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    fast = value_and_gradient(
        lambda z: logit_confusion(z, targets, weight, temperature=temperature), logits, direction
    )
    slow = value_and_gradient(lambda z: plain(z, targets, weight, temperature), logits, direction)
    torch.testing.assert_close(fast[0], slow[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(fast[1], slow[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("d", [2, 10, 100])
def test_single_precision_is_as_good_as_plain(d):
    logits, targets, weight = batch(d, dtype=torch.float32)
    exact = plain(logits.double(), targets, weight.double(), 0.2).float()
    fast = logit_confusion(logits, targets, weight)
    torch.testing.assert_close(fast, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("d", [2, 6, 60])
def test_larges_change_nothing(d, monkeypatch):
    logits, targets, weight = batch(d)
    direction = torch.ones(d, d).double().triu()
    whole = value_and_gradient(lambda z: logit_confusion(z, targets, weight), logits, direction)
    monkeypatch.setattr(_large, "BLOCK", 7 * d)
    for large in (2**14, 1):
        monkeypatch.setattr(_large, "LARGE", large)
        blocks = value_and_gradient(lambda z: logit_confusion(z, targets, weight), logits, direction)
        torch.testing.assert_close(blocks, whole)


@pytest.mark.parametrize("d", [2, 5, 60])
def test_first_and_second_derivatives(d):
    logits, targets, weight = batch(d, rows=4)
    function = lambda z: logit_confusion(z, targets, weight)  # noqa: E731
    assert torch.autograd.gradcheck(function, logits, fast_mode=d > 5)
    assert torch.autograd.gradgradcheck(function, logits, fast_mode=True)


def test_one_logit_is_two_logits_with_a_zero():
    logits, targets, weight = batch(2)
    margin = (logits[:, 1] - logits[:, 0]).detach()
    torch.testing.assert_close(
        binary_logit_confusion(margin, targets, weight), logit_confusion(logits, targets, weight)
    )
    one = margin.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: binary_logit_confusion(z, targets, weight), one)


def test_soft_targets_and_other_steps_use_the_plain_formula():
    logits, targets, weight = batch(5)
    soft = torch.nn.functional.one_hot(targets, 5).double()
    torch.testing.assert_close(
        logit_confusion(logits, soft, weight), logit_confusion(logits, targets, weight)
    )
    wanted = soft_confusion(soft_assign(logits.softmax(-1), step=SigmoidStep()), targets, 5, weight)
    torch.testing.assert_close(logit_confusion(logits, targets, weight, step=SigmoidStep()), wanted)
    logits, targets, weight = batch(2)
    soft = torch.stack([1 - targets, targets], -1).double()
    torch.testing.assert_close(
        logit_confusion(logits, soft, weight), logit_confusion(logits, targets, weight)
    )


@pytest.mark.parametrize("d", [2, 5])
def test_weights_may_carry_gradient(d):
    logits, targets, weight = batch(d, rows=6)
    weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda z, w: logit_confusion(z, targets, w), (logits, weight))


@pytest.mark.parametrize("d", [3, 10, 60])
def test_equal_logits_have_a_finite_gradient_that_is_not_zero(d):
    """Networks often start with all logits equal: every class is tied for the largest."""
    logits = torch.zeros(12, d, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(12) % d
    direction = torch.eye(d, dtype=torch.float64)
    matrix, gradient = value_and_gradient(
        lambda z: logit_confusion(z, targets, torch.ones(12).double()), logits, direction
    )
    torch.testing.assert_close(matrix.sum(-1), torch.bincount(targets, minlength=d).double())
    assert gradient.isfinite().all()
    assert (gradient.abs().sum(-1) > 0).all()
    torch.testing.assert_close(gradient.sum(-1), torch.zeros(12).double())


@pytest.mark.parametrize("d", [2, 5, 60])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_logit_that_is_not_finite_makes_the_whole_matrix_nan(d, bad):
    logits, targets, weight = batch(d)
    logits = logits.detach().clone()
    logits[3, 1] = bad
    for temperature in (0.2, 0.4):
        assert logit_confusion(logits, targets, weight, temperature=temperature).isnan().all()
    assert logit_confusion(logits, targets, weight, step=SigmoidStep()).isnan().all()


@pytest.mark.parametrize("d", [3, 60])
def test_a_class_with_logit_minus_infinity_is_impossible(d):
    logits, targets, weight = batch(d)
    logits = logits.detach().clone()
    logits[:, 0] = -torch.inf
    logits.requires_grad_()
    matrix, gradient = value_and_gradient(
        lambda z: logit_confusion(z, targets, weight), logits, torch.ones(d, d).double().triu()
    )
    assert (matrix[:, 0] == 0).all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("d", [2, 3, 60])
def test_large_logits_stay_finite(d):
    logits, targets, weight = batch(d, dtype=torch.float32)
    logits = (logits.detach().sign() * 80).requires_grad_()
    matrix, gradient = value_and_gradient(
        lambda z: logit_confusion(z, targets, weight), logits, torch.ones(d, d).triu()
    )
    assert matrix.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("d", [2, 5])
def test_vmap_and_hessian(d):
    _, targets, weight = batch(d, rows=6)
    stacked = torch.randn(3, 6, d, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    function = lambda z: logit_confusion(z, targets, weight)  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(function)(stacked), torch.stack([*map(function, stacked)]))
    trace = lambda z: function(z).trace()  # noqa: E731
    together = torch.func.vmap(torch.func.grad(trace))(stacked)
    torch.testing.assert_close(together, torch.stack([torch.func.grad(trace)(z) for z in stacked]))
    one = stacked[0].clone().requires_grad_()
    torch.testing.assert_close(torch.func.grad(trace)(stacked[0]), torch.autograd.grad(trace(one), one)[0])
    assert torch.func.hessian(trace)(stacked[0]).isfinite().all()


@pytest.mark.parametrize("d", [2, 5, 60])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_logits_are_left_as_they_were(d, rows):
    logits, targets, weight = batch(d, rows=rows)
    before = logits.detach().clone()
    logit_confusion(logits, targets, weight).trace().backward()
    torch.testing.assert_close(logits.detach(), before, rtol=0, atol=0)
    again = before.clone().requires_grad_()
    plain(again, targets, weight, 0.2).trace().backward()
    torch.testing.assert_close(logits.grad, again.grad)


def test_empty_batches_give_an_empty_matrix():
    for d in (2, 5, 60):
        matrix = logit_confusion(torch.zeros(0, d), torch.zeros(0, dtype=torch.long), torch.zeros(0))
        assert (matrix == 0).all()
        assert matrix.shape == (d, d)
