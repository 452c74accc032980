"""The losses that MetricLoss is compared with, against naive loops and the papers' identities."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evalign.losses import (
    DiceLoss,
    FocalLoss,
    MAELoss,
    SoftFBetaLoss,
    SurrogateFBetaLoss,
    WMWLoss,
    class_balanced_weights,
)


def batch(d=2, rows=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, d, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, d, (rows,), generator=generator)


def margin(logits):
    return logits[:, 1] - logits[:, 0]


@pytest.mark.parametrize("d", [2, 5])
def test_mae_is_the_distance_to_the_one_hot_target(d):
    logits, targets = batch(d)
    distance = (F.one_hot(targets, d) - logits.softmax(-1)).abs().sum(-1).mean()
    torch.testing.assert_close(MAELoss()(logits, targets), distance)
    if d == 2:
        torch.testing.assert_close(MAELoss()(margin(logits), targets), distance)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_equals_a_loop(gamma):
    logits, targets = batch(4)
    p = logits.softmax(-1)
    wanted = sum(-((1 - p[i, y]) ** gamma) * p[i, y].log() for i, y in enumerate(targets)) / len(targets)
    torch.testing.assert_close(FocalLoss(gamma)(logits, targets), wanted)


def test_focal_loss_with_gamma_zero_is_cross_entropy_in_all_tasks():
    logits, targets = batch(4)
    torch.testing.assert_close(FocalLoss(0)(logits, targets), F.cross_entropy(logits, targets))
    soft = torch.rand(40, 4, dtype=torch.float64)
    soft = soft / soft.sum(-1, keepdim=True)
    torch.testing.assert_close(FocalLoss(0, task="multiclass")(logits, soft), F.cross_entropy(logits, soft))
    labels = F.one_hot(targets, 4)
    torch.testing.assert_close(
        FocalLoss(0, task="multilabel")(logits, labels),
        F.binary_cross_entropy_with_logits(logits, labels.double()),
    )


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_is_finite_for_certain_rows(gamma):
    logits = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    value = FocalLoss(gamma)(logits, torch.tensor([0, 0]))
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()


def naive_surrogate(f, y, beta, rate, q):
    """Lee eq. 20 and 25 for one row."""
    odds = beta**2 * rate / (1 - rate)
    if q == 0:
        return -y * math.log(f) + (1 - y) * math.log(odds + f)
    return y * (1 - f**q) / q + (1 - y) * ((odds + f) ** q - 1) / q


@pytest.mark.parametrize("beta", [0.5, 1, 3])
@pytest.mark.parametrize("rate", [0.05, 0.5])
@pytest.mark.parametrize("q", [0, 0.3, 1])
@pytest.mark.parametrize("balanced", [False, True])
def test_surrogate_fbeta_equals_a_loop(beta, rate, q, balanced):
    logits, targets = batch(2)
    rows = [
        naive_surrogate(f.item(), y.item(), beta, rate, q)
        * ((1 / rate if y else 1 / (1 - rate)) if balanced else 1)
        for f, y in zip(margin(logits).sigmoid(), targets, strict=True)
    ]
    loss = SurrogateFBetaLoss(beta, rate, q, balanced)
    assert loss(logits, targets).item() == pytest.approx(sum(rows) / 40)
    assert loss(margin(logits), targets).item() == pytest.approx(sum(rows) / 40)


def test_small_q_tends_to_the_logarithm():
    logits, targets = batch(2)
    limit = SurrogateFBetaLoss(2, 0.1)(logits, targets)
    torch.testing.assert_close(
        SurrogateFBetaLoss(2, 0.1, q=1e-6)(logits, targets), limit, rtol=1e-4, atol=1e-4
    )


def test_q_one_is_half_the_mae():
    logits, targets = batch(2)
    value = SurrogateFBetaLoss(1, 0.5, q=1, class_balanced=False)(logits, targets)
    torch.testing.assert_close(2 * value, MAELoss()(logits, targets))


@pytest.mark.parametrize("q", [0, 0.5, 1])
def test_surrogate_fbeta_is_stable_at_fifty(q):
    logits = torch.tensor([50.0, -50.0, 50.0, -50.0], requires_grad=True)
    value = SurrogateFBetaLoss(1, 0.01, q)(logits, torch.tensor([1, 1, 0, 0]))
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    if q == 0:
        odds = 0.01 / 0.99
        wanted = (50 / 0.01 + (math.log(odds + 1) + math.log(odds)) / 0.99) / 4
        assert value.item() == pytest.approx(wanted, rel=1e-5)


@given(st.floats(0.05, 0.9), st.floats(0.02, 0.9), st.floats(0.05, 0.6), st.floats(0.3, 3))
def test_the_surrogate_is_stationary_where_fbeta_is(miss, alarm, rate, beta):
    """Lee eq. 12 and 22: the same ratio of dq0 and dq1 makes both gradients vanish.

    Positives all have probability 1 - q0, negatives q1, so that smoothed shares are exact.
    """

    def fbeta(q0, q1):
        return (1 + beta**2) * rate * (1 - q0) / (rate * (beta**2 + 1 - q0 - q1) + q1)

    def surrogate(q0, q1):
        p = torch.stack([1 - q0, q1])
        loss = SurrogateFBetaLoss(beta, rate)
        terms = (
            loss(p[:1].logit(), torch.tensor([1])) * rate,
            loss(p[1:].logit(), torch.tensor([0])) * (1 - rate),
        )
        return terms[0] + terms[1]

    q = torch.tensor([miss, alarm], dtype=torch.float64, requires_grad=True)
    of_metric = torch.autograd.grad(fbeta(*q).log(), q)[0]
    of_loss = torch.autograd.grad(surrogate(*q), q)[0]
    cross = of_metric[0] * of_loss[1] - of_metric[1] * of_loss[0]
    assert abs(cross) <= 1e-8 * of_metric.norm() * of_loss.norm()
    assert of_metric @ of_loss < 0


@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_soft_fbeta_is_the_papers_formula(beta):
    """Lee eq. 23 and 24."""
    logits, targets = batch(2)
    f = margin(logits).sigmoid()
    rate = targets.double().mean()
    q0, q1 = (1 - f[targets == 1]).mean(), f[targets == 0].mean()
    score = (1 + beta**2) * rate * (1 - q0) / (rate * (beta**2 + 1 - q0 - q1) + q1)
    torch.testing.assert_close(SoftFBetaLoss(beta)(logits, targets), 1 - score)
    torch.testing.assert_close(SoftFBetaLoss(beta)(margin(logits), targets), 1 - score)


def test_soft_fbeta_of_many_classes_is_the_mean_over_classes():
    logits, targets = batch(4)
    p, y = logits.softmax(-1), F.one_hot(targets, 4)
    score = (2 * (p * y).sum(0) / (p.sum(0) + y.sum(0))).mean()
    torch.testing.assert_close(SoftFBetaLoss()(logits, targets), 1 - score)


@pytest.mark.parametrize("d", [2, 4])
def test_dice_has_squares_in_the_denominator(d):
    logits, targets = batch(d)
    p, y = logits.softmax(-1), F.one_hot(targets, d)
    score = 2 * (p * y).sum(0) / ((p**2).sum(0) + (y**2).sum(0))
    wanted = 1 - (score[1] if d == 2 else score.mean())
    torch.testing.assert_close(DiceLoss()(logits, targets), wanted)
    if d == 2:
        torch.testing.assert_close(DiceLoss()(margin(logits), targets), wanted)


def test_dice_of_labels_and_soft_targets():
    logits, targets = batch(4)
    y = F.one_hot(targets, 4)
    p = logits.sigmoid()
    score = (2 * (p * y).sum(0) / ((p**2).sum(0) + y.sum(0))).mean()
    torch.testing.assert_close(DiceLoss(task="multilabel")(logits, y), 1 - score)
    torch.testing.assert_close(DiceLoss(task="multiclass")(logits, y.double()), DiceLoss()(logits, targets))


@pytest.mark.parametrize(("gamma", "power"), [(0.2, 3.0), (0.5, 2.0)])
def test_wmw_compares_positives_with_negatives(gamma, power):
    logits, targets = batch(2)
    p = margin(logits).sigmoid()
    pairs = [
        max(gamma - (p[i] - p[j]).item(), 0) ** power
        for i in range(40) for j in range(40) if targets[i] == 1 and targets[j] == 0
    ]  # fmt: skip
    assert WMWLoss(gamma, power)(logits, targets).item() == pytest.approx(sum(pairs) / len(pairs))


def test_wmw_training_ranks():
    torch.manual_seed(0)
    x = torch.randn(200, 3)
    y = (x @ torch.tensor([1.0, -1.0, 0.5]) > 0.5).long()
    weights = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        WMWLoss()(x @ weights, y).backward()
        optimizer.step()
    scores = x @ weights.detach()
    assert (scores[y == 1].unsqueeze(1) > scores[y == 0]).double().mean() > 0.98


def test_wmw_without_one_class_is_zero_with_zero_gradient():
    logits = torch.randn(5, requires_grad=True)
    value = WMWLoss()(logits, torch.ones(5, dtype=torch.long))
    value.backward()
    assert value.item() == 0
    assert (logits.grad == 0).all()


ALL = [MAELoss(), FocalLoss(), SoftFBetaLoss(), DiceLoss(), SurrogateFBetaLoss(1, 0.3), WMWLoss()]


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)
def test_weights_equal_repeated_rows_and_ignored_rows_have_no_effect(loss):
    logits, targets = batch(2)
    times = torch.randint(1, 4, (40,), generator=torch.Generator().manual_seed(2))
    repeated = loss(logits.repeat_interleave(times, 0), targets.repeat_interleave(times))
    torch.testing.assert_close(loss(logits, targets, times.double()), repeated)
    hidden = targets.clone()
    hidden[:9] = -100
    torch.testing.assert_close(loss(logits, hidden), loss(logits[9:], targets[9:]))


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)
def test_nan_logits_give_nan_and_bad_targets_are_refused(loss):
    logits, targets = batch(2)
    bad = logits.clone()
    bad[0, 0] = torch.nan
    assert loss(bad, targets).isnan()
    with pytest.raises(ValueError, match=r"`targets` in 0..1, but got 2"):
        loss(logits, targets + 1)
    with pytest.raises(ValueError, match="Expected `targets`"):
        loss(logits, targets[:-1])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: FocalLoss(-1), "gamma"),
        (lambda: SurrogateFBetaLoss(0, 0.1), "beta"),
        (lambda: SurrogateFBetaLoss(1, 0), "positive_rate"),
        (lambda: SurrogateFBetaLoss(1, 1), "positive_rate"),
        (lambda: SurrogateFBetaLoss(1, 0.1, q=2), "q"),
        (lambda: WMWLoss(gamma=0), "gamma"),
        (lambda: WMWLoss(power=1), "power"),
        (lambda: MAELoss(task="all"), "task"),
        (lambda: DiceLoss(task="all"), "task"),
        (lambda: SoftFBetaLoss(beta=-1), "beta"),
        (lambda: class_balanced_weights(torch.rand(3), 2), "targets"),
        (lambda: class_balanced_weights(torch.tensor([0, 2]), 2), "targets"),
    ],
)
def test_bad_settings_are_refused(make, name):
    with pytest.raises(ValueError, match=f"Expected `{name}`"):
        make()


def test_class_balanced_weights_give_classes_equal_weight():
    targets = torch.tensor([0, 0, 0, 0, 1, 1, 3])
    weights = class_balanced_weights(targets, 4)
    assert weights.tolist() == pytest.approx([7 / 4, 7 / 2, 0, 7])
    sums = torch.zeros(4).index_add(0, targets, weights[targets])
    assert sums.tolist() == pytest.approx([7, 7, 0, 7])


def test_repr_of_losses():
    assert repr(FocalLoss(1.5)) == "FocalLoss(gamma=1.5)"
    assert repr(SurrogateFBetaLoss(2, 0.1)) == "SurrogateFBetaLoss(beta=2, positive_rate=0.1, q=0.0)"
    assert repr(WMWLoss()) == "WMWLoss(gamma=0.2, power=3.0)"
