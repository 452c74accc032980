"""The steps: limits, continuity, Lipschitz constants, and what they are at the ends of their ranges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evalign.softsets import HardStep, LinearStep, SigmoidStep

thresholds = st.floats(0.01, 0.99)
temperatures = st.floats(0.001, 0.39)
deltas = st.floats(0.01, 0.49)


def by_the_paper(p, tau, edge, tau_m):
    """BtG eq. 5 and EAST eq. 4, one number at a time."""
    m1, m2, m3 = edge / (tau - tau_m / 2), (1 - 2 * edge) / tau_m, edge / (1 - tau - tau_m / 2)
    if p < tau - tau_m / 2:
        return p * m1
    if p > tau + tau_m / 2:
        return p * m3 + (1 - edge - m3 * (tau + tau_m / 2))
    return p * m2 + (0.5 - m2 * tau)


def test_hard_step_counts_the_threshold_itself():
    assert HardStep()(torch.tensor([0.49, 0.5, 0.51]), 0.5).tolist() == [0, 1, 1]


@given(st.floats(0, 1), thresholds, deltas)
def test_linear_step_with_delta_is_the_papers(p, tau, delta):
    value = LinearStep(delta)(torch.tensor(p, dtype=torch.float64), tau).item()
    assert value == pytest.approx(by_the_paper(p, tau, delta, min(tau, 1 - tau)), abs=1e-9)


@given(st.floats(0, 1), thresholds, temperatures)
def test_linear_step_with_temperature_is_the_papers(p, tau, t):
    value = LinearStep(temperature=t)(torch.tensor(p, dtype=torch.float64), tau).item()
    assert value == pytest.approx(by_the_paper(p, tau, t, 5 * t * min(tau, 1 - tau)), abs=1e-9)


@given(thresholds, temperatures)
def test_linear_step_ends_and_middle(tau, t):
    ends = torch.tensor([0.0, tau, 1.0], dtype=torch.float64)
    assert LinearStep(temperature=t)(ends, tau).tolist() == pytest.approx([0, 0.5, 1], abs=1e-12)


@given(thresholds, temperatures)
def test_linear_step_is_continuous_rising_and_lipschitz(tau, t):
    step = LinearStep(temperature=t)
    p = torch.linspace(0, 1, 4001, dtype=torch.float64)
    rise = step(p, tau).diff() / p.diff()
    assert (rise >= -1e-9).all()
    assert rise.max() <= max(step.slopes(tau)) * (1 + 1e-6)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_the_lipschitz_constant_is_reached(tau):
    step = LinearStep(temperature=0.1)
    p = torch.linspace(0, 1, 4001, dtype=torch.float64)
    assert (step(p, tau).diff() / p.diff()).max().item() == pytest.approx(max(step.slopes(tau)))


@given(st.floats(0, 1), thresholds)
def test_temperature_two_tenths_is_delta_two_tenths(p, tau):
    p = torch.tensor(p, dtype=torch.float64)
    assert LinearStep(temperature=0.2)(p, tau).item() == pytest.approx(LinearStep(0.2)(p, tau).item())


@given(st.floats(0, 1), thresholds)
def test_cold_linear_step_is_the_hard_step(p, tau):
    if abs(p - tau) < 1e-3:
        return
    p = torch.tensor(p, dtype=torch.float64)
    assert abs(LinearStep(temperature=1e-6)(p, tau) - HardStep()(p, tau)) < 1e-5


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.8])
def test_the_warmest_step_is_finite_with_finite_gradient(tau):
    p = torch.linspace(0, 1, 101, dtype=torch.float64, requires_grad=True)
    value = LinearStep(temperature=0.4)(p, tau)
    value.sum().backward()
    assert value.isfinite().all()
    assert p.grad.isfinite().all()
    assert LinearStep(temperature=0.4)(torch.tensor(tau), tau).item() == pytest.approx(0.5)


def test_tensor_thresholds_equal_numbers():
    p = torch.rand(7, dtype=torch.float64)
    for step in (LinearStep(0.1), LinearStep(temperature=0.4), SigmoidStep(), HardStep()):
        for tau in (0.2, 0.5, 0.9):
            torch.testing.assert_close(step(p, torch.tensor(tau, dtype=torch.float64)), step(p, tau))


@given(st.floats(0, 1), thresholds)
def test_sigmoid_step(p, tau):
    value = SigmoidStep(k=10)(torch.tensor(p, dtype=torch.float64), tau).item()
    assert value == pytest.approx(1 / (1 + math.exp(-10 * (p - tau))))


@pytest.mark.parametrize("step", [LinearStep(0.2), LinearStep(temperature=0.3), SigmoidStep()])
def test_gradients_of_steps(step):
    p = torch.rand(20, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: step(p, 0.37), p)


@pytest.mark.parametrize("bad", [0, -0.1, 0.41, 0.7, math.nan, True, "warm"])
def test_bad_temperatures_are_refused(bad):
    with pytest.raises(ValueError, match=r"Expected `temperature` .*in \(0, 0.4\], but got"):
        LinearStep(temperature=bad)


@pytest.mark.parametrize("bad", [0, 0.5, 1, -1])
def test_bad_deltas_are_refused(bad):
    with pytest.raises(ValueError, match=r"Expected `delta` in \(0, 0.5\)"):
        LinearStep(bad)


def test_delta_and_temperature_exclude_each_other():
    with pytest.raises(ValueError, match="not both"):
        LinearStep(0.2, temperature=0.2)


def test_bad_k_is_refused():
    with pytest.raises(ValueError, match="`k`"):
        SigmoidStep(k=0)


def test_repr_of_steps():
    assert repr(LinearStep()) == "LinearStep(delta=0.2)"
    assert repr(LinearStep(temperature=0.1)) == "LinearStep(temperature=0.1)"
    assert [repr(HardStep()), repr(SigmoidStep(5))] == ["HardStep()", "SigmoidStep(k=5)"]
