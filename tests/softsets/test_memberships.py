"""Memberships: the dynamic threshold, sums of one, and the limit of temperature 0."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evalign.softsets import LinearStep, SigmoidStep, dynamic_threshold, soft_assign


def probabilities(seed, d, rows=20, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(rows, d, generator=generator, dtype=torch.float64)).softmax(-1)


def test_the_threshold_is_the_mean_of_the_two_largest():
    p = probabilities(0, 7)
    for row, tau in zip(p.tolist(), dynamic_threshold(p).tolist(), strict=True):
        assert tau == pytest.approx(sum(sorted(row)[-2:]) / 2)


@given(st.integers(0, 10**6), st.integers(2, 30))
def test_only_the_argmax_lies_above_the_threshold(seed, d):
    p = probabilities(seed, d)
    tau = dynamic_threshold(p)
    assert (tau <= 0.5).all()
    assert ((p > tau.unsqueeze(-1)).sum(-1) == 1).all()
    assert ((p > tau.unsqueeze(-1)).long().argmax(-1) == p.argmax(-1)).all()


def test_for_two_classes_the_threshold_is_one_half():
    torch.testing.assert_close(dynamic_threshold(probabilities(0, 2)), torch.full((20,), 0.5).double())


@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(0.001, 0.4))
def test_memberships_are_a_distribution_that_agrees_with_the_argmax(seed, d, t):
    p = probabilities(seed, d)
    g = soft_assign(p, t)
    assert (g >= 0).all()
    torch.testing.assert_close(g.sum(-1), torch.ones(20).double())
    assert (g.argmax(-1) == p.argmax(-1)).all()


@given(st.integers(0, 10**6), st.integers(2, 20))
def test_memberships_become_one_hot_as_the_temperature_goes_to_zero(seed, d):
    p = probabilities(seed, d)
    one_hot = torch.nn.functional.one_hot(p.argmax(-1), d).double()
    gap = p.topk(2).values.diff().abs().squeeze(-1)
    clear = gap > 1e-3
    distances = [(soft_assign(p, t) - one_hot)[clear].abs().max().item() for t in (1e-2, 1e-4, 1e-6)]
    assert distances[2] < 1e-4
    assert distances[2] <= distances[1] + 1e-12


def test_two_classes_need_no_normalisation():
    p = probabilities(1, 2)
    torch.testing.assert_close(soft_assign(p, 0.1)[:, 1], LinearStep(temperature=0.1)(p[:, 1], 0.5))


def test_any_step_can_assign():
    p = probabilities(2, 5)
    h = SigmoidStep()(p, dynamic_threshold(p).unsqueeze(-1))
    torch.testing.assert_close(soft_assign(p, step=SigmoidStep()), h / h.sum(-1, keepdim=True))


def test_gradient_of_memberships():
    p = probabilities(3, 5, rows=6).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: soft_assign(p, 0.2), p)


def test_leading_dimensions_are_batches():
    p = probabilities(4, 6, rows=24).view(2, 3, 4, 6)
    torch.testing.assert_close(soft_assign(p, 0.2).view(24, 6), soft_assign(p.view(24, 6), 0.2))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="d >= 2"):
        dynamic_threshold(torch.ones(3, 1))
