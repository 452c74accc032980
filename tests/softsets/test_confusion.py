"""Soft and hard confusion matrices against naive loops, and the bounds of the papers."""

import math

import pytest
import torch
from sklearn.metrics import confusion_matrix

from evalign import metrics
from evalign.softsets import (
    HardStep,
    LinearStep,
    SigmoidStep,
    batch_size_advice,
    binary_soft_confusion,
    soft_assign,
    soft_confusion,
)


def test_soft_confusion_equals_a_loop():
    g, y, w = torch.rand(30, 4).double(), torch.randint(0, 4, (30,)), torch.rand(30).double()
    naive = torch.zeros(4, 4).double()
    for i in range(30):
        naive[y[i]] += w[i] * g[i]
    torch.testing.assert_close(soft_confusion(g, y, 4, w), naive)
    torch.testing.assert_close(soft_confusion(g, torch.nn.functional.one_hot(y, 4), 4, w), naive)


def test_soft_targets_divide_a_row_among_classes():
    g, y = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.25, 0.75]])
    torch.testing.assert_close(soft_confusion(g, y, 2), torch.tensor([[0.225, 0.025], [0.675, 0.075]]))


@pytest.mark.parametrize("step", [LinearStep(), SigmoidStep(), HardStep()])
def test_binary_soft_confusion_equals_a_loop(step):
    p, y, w = torch.rand(25).double(), torch.randint(0, 2, (25,)), torch.rand(25).double()
    levels = [0.1, 0.5, 0.7]
    naive = torch.zeros(3, 2, 2).double()
    for k, tau in enumerate(levels):
        for i in range(25):
            h = step(p[i], tau)
            naive[k, y[i], 1] += w[i] * h
            naive[k, y[i], 0] += w[i] * (1 - h)
    torch.testing.assert_close(binary_soft_confusion(p, y, levels, step, w), naive)
    torch.testing.assert_close(binary_soft_confusion(p, y, 0.5, step, w)[0], naive[1])


def test_binary_soft_confusion_of_labels_is_one_matrix_per_label():
    p, y, w = torch.rand(25, 3).double(), torch.randint(0, 2, (25, 3)), torch.rand(25, 3).double()
    together = binary_soft_confusion(p, y, [0.3, 0.6], LinearStep(), w)
    assert together.shape == (2, 3, 2, 2)
    for label in range(3):
        alone = binary_soft_confusion(p[:, label], y[:, label], [0.3, 0.6], LinearStep(), w[:, label])
        torch.testing.assert_close(together[:, label], alone)
    by_row = binary_soft_confusion(p, y, 0.3, LinearStep(), w[:, 0])
    torch.testing.assert_close(by_row[0, 0], together[0, 0])


def test_hard_confusion_equals_sklearn():
    y, guess, w = torch.randint(0, 5, (200,)), torch.randint(0, 5, (200,)), torch.rand(200).double()
    wanted = confusion_matrix(y, guess, labels=range(5), sample_weight=w)
    torch.testing.assert_close(metrics.hard_confusion(guess, y, 5, w), torch.from_numpy(wanted))
    torch.testing.assert_close(
        metrics.hard_confusion(guess, y, 5), torch.from_numpy(confusion_matrix(y, guess)).double()
    )


@pytest.mark.parametrize("name", ["f1", "mcc", "balanced_accuracy", "gmean", "cohen_kappa", "jaccard"])
@pytest.mark.parametrize("d", [2, 5])
def test_the_soft_metric_tends_to_the_hard_metric(name, d):
    """EAST theorem 5.3."""
    generator = torch.Generator().manual_seed(3)
    y = torch.randint(0, d, (400,), generator=generator)
    z = torch.randn(400, d, generator=generator, dtype=torch.float64) + 2 * torch.eye(d)[y]
    p, metric = z.softmax(-1), metrics.as_metric(name)
    hard = metric(metrics.hard_confusion(p.argmax(-1), y, d)).item()
    errors = [abs(metric(soft_confusion(soft_assign(p, t), y, d)).item() - hard) for t in (0.2, 1e-2, 1e-6)]
    assert errors[2] < 1e-3
    assert errors[2] < errors[1] < errors[0]


def test_f1_and_soft_f1_have_the_limit_of_the_paper():
    """BtG eq. 10 and 12: Bernoulli memberships and Beta ones of the same mean give one limit."""
    generator = torch.Generator().manual_seed(0)
    n, r, u, v = 400_000, 0.1, 0.7, 0.05
    y = (torch.arange(n) < r * n).long()
    mean = torch.where(y == 1, u, v).double()
    beta = torch.distributions.Beta(2 * mean, 2 * (1 - mean))
    torch.manual_seed(0)
    limit = 2 * r * u / (r + r * u + v - r * v)
    for memberships in (torch.bernoulli(mean, generator=generator), beta.sample()):
        c = soft_confusion(torch.stack([1 - memberships, memberships], -1), y, 2)
        assert metrics.f1()(c).item() == pytest.approx(limit, abs=5e-3)


@pytest.mark.parametrize(("d", "n"), [(2, 50), (4, 200)])
def test_the_hoeffding_bound_holds(d, n):
    """EAST theorem 5.8, by simulation: the bound fails in at most delta of all samples."""
    generator = torch.Generator().manual_seed(1)
    delta, trials = 0.05, 2000
    population = torch.rand(d, d, generator=generator, dtype=torch.float64)
    population /= population.sum()
    cells = torch.multinomial(population.flatten(), trials * n, replacement=True, generator=generator)
    counts = torch.nn.functional.one_hot(cells.view(trials, n), d * d).sum(1) / n
    worst = (counts - population.flatten()).abs().amax(-1)
    failures = (worst > math.sqrt(math.log(2 * d * d / delta) / (2 * n))).double().mean()
    assert failures <= delta


def test_batch_size_advice_is_the_smallest_within_the_bound():
    advice = batch_size_advice(10, tolerance=0.05, confidence=0.9)

    def bound(n):
        return math.sqrt(math.log(2 * 10**2 / 0.1) / (2 * n))

    assert bound(advice.rows) <= 0.05 < bound(advice.rows - 1)
    assert advice.bound == pytest.approx(bound(advice.rows))
    assert advice.rows == advice.rows_for_tolerance


def test_batch_size_advice_covers_the_rarest_class():
    advice = batch_size_advice(3, [0.899, 0.1, 0.001], tolerance=0.5, confidence=0.95)
    n = advice.rows_for_rarest
    assert advice.rows == n > advice.rows_for_tolerance

    def missing(n):
        return sum((1 - share) ** n for share in (0.899, 0.1, 0.001))

    assert missing(n) <= 0.05 < missing(n - 1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"num_classes": 2.5}, "num_classes"),
        ({"num_classes": 2, "tolerance": 0}, "tolerance"),
        ({"num_classes": 2, "confidence": 1}, "confidence"),
        ({"num_classes": 2, "class_shares": [0.5]}, "class_shares"),
        ({"num_classes": 2, "class_shares": [1.0, 0.0]}, "class_shares"),
        ({"num_classes": 2, "class_shares": [0.7, 0.7]}, "class_shares"),
    ],
)
def test_batch_size_advice_refuses(arguments, name):
    with pytest.raises(ValueError, match=f"Expected `{name}`"):
        batch_size_advice(**arguments)


@pytest.mark.parametrize(
    ("memberships", "targets", "message"),
    [
        (torch.rand(3, 2), torch.tensor([0, 1, 2]), r"`targets` in 0..1, but got 2"),
        (torch.rand(3, 2), torch.tensor([0, 1, -1]), r"`targets` in 0..1, but got -1"),
        (torch.rand(3, 2), torch.tensor([0.0, 1.0, 1.0]), "integer type, but got torch.float32"),
        (torch.rand(3, 2), torch.tensor([0, 1]), r"`targets` of shape \(3,\)"),
        (torch.rand(3, 4), torch.tensor([0, 1, 1]), r"`memberships` of shape \(n, 2\)"),
    ],
)
def test_soft_confusion_refuses(memberships, targets, message):
    with pytest.raises(ValueError, match=message):
        soft_confusion(memberships, targets, 2)


def test_wrong_weights_and_shapes_are_refused():
    with pytest.raises(ValueError, match="`weight` of shape"):
        soft_confusion(torch.rand(3, 2), torch.tensor([0, 1, 1]), 2, torch.ones(2))
    with pytest.raises(ValueError, match="`targets` of shape"):
        binary_soft_confusion(torch.rand(3), torch.tensor([0, 1]), 0.5, LinearStep())
    with pytest.raises(ValueError, match="`predicted` to be class indices"):
        metrics.hard_confusion(torch.rand(3), torch.tensor([0, 1, 1]), 2)
    with pytest.raises(ValueError, match="`predicted` in 0..1"):
        metrics.hard_confusion(torch.tensor([0, 1, 5]), torch.tensor([0, 1, 1]), 2)


def test_no_cubic_tensor_is_allocated():
    """Memory stays O(n d + d^2): an (n, d, d) tensor of these sizes would take 128 GB."""
    n, d = 8000, 2000
    matrix = soft_confusion(torch.full((n, d), 1 / d), torch.arange(n) % d, d)
    assert matrix.sum().item() == pytest.approx(n, rel=1e-3)
