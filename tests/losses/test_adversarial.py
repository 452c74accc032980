"""The adversarial loss against ap_perf's own layer, and against finite differences."""

import sys

import pytest
import torch

from evalign.losses import AdversarialLoss

ap_perf = pytest.importorskip("ap_perf")
common_metrics = pytest.importorskip("ap_perf.common_metrics")


def batch(rows=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, generator=generator), torch.randint(0, 2, (rows,), generator=generator)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("f1", "f1_score"),
        ("fbeta(beta=2)", "f2_score"),
        ("accuracy", "accuracy_metric"),
        ("precision", "prec"),
        ("recall", "rec"),
        ("specificity", "spec"),
    ],
)
def test_value_and_gradient_are_those_of_the_package(ours, theirs):
    logits, targets = batch()
    wanted = logits.clone().requires_grad_()
    value = ap_perf.MetricLayer(getattr(common_metrics, theirs))(wanted, targets.float())
    value.backward()
    mine = logits.clone().requires_grad_()
    loss = AdversarialLoss(ours)(mine, targets)
    (2 * loss).backward()
    torch.testing.assert_close(loss, value.squeeze(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine.grad, 2 * wanted.grad, rtol=1e-3, atol=1e-4)


def test_gradient_by_finite_differences():
    """The solver is iterative, so the two agree only roughly."""
    logits, targets = batch(rows=5)
    logits = logits.double().requires_grad_()
    loss = AdversarialLoss("f1", iterations=200)
    (gradient,) = torch.autograd.grad(loss(logits, targets), logits)
    for i in range(5):
        shift = torch.zeros(5, dtype=torch.float64)
        shift[i] = 1e-3
        with torch.no_grad():
            slope = (loss(logits + shift, targets) - loss(logits - shift, targets)) / 2e-3
        assert gradient[i].item() == pytest.approx(slope.item(), abs=2e-2)


def test_training_lowers_it_and_classifies():
    torch.manual_seed(0)
    x = torch.randn(12, 2)
    y = (x[:, 0] > 0.3).long()
    weights, bias = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer, loss = torch.optim.Adam([weights, bias], lr=0.2), AdversarialLoss("f1")
    first = loss(x @ weights + bias, y).item()
    for _ in range(20):
        optimizer.zero_grad()
        value = loss(x @ weights + bias, y)
        value.backward()
        optimizer.step()
    assert value.item() < first - 0.2
    assert (((x @ weights + bias) > 0).long() == y).double().mean() >= 0.9


@pytest.mark.parametrize("bad", ["mcc", "jaccard", "f1(average='macro')", "fbeta(beta=[1, 2])"])
def test_metrics_it_cannot_solve_are_refused(bad):
    with pytest.raises(ValueError, match="Expected `(metric|beta)`"):
        AdversarialLoss(bad)


def test_bad_input():
    loss = AdversarialLoss()
    with pytest.raises(ValueError, match="at least one row"):
        loss(torch.zeros(0), torch.zeros(0, dtype=torch.long))
    with pytest.raises(ValueError, match="`targets` in 0..1"):
        loss(torch.zeros(2), torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="`iterations`"):
        AdversarialLoss(iterations=0)
    assert loss(torch.tensor([0.0, torch.nan]), torch.tensor([0, 1])).isnan()


def test_a_missing_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ap_perf", None)
    with pytest.raises(ImportError, match=r"evalign\[adversarial\]"):
        AdversarialLoss()
