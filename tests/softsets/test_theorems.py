"""Theorems of the papers about soft confusion matrices, by simulation or by a bound derived here."""

import math

import pytest
import torch

from evalign import metrics
from evalign.softsets import soft_assign, soft_confusion


def random_probabilities(rows, d, generator, sharpness=2.0):
    return (sharpness * torch.randn(rows, d, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_macro_fbeta_and_its_soft_version_have_one_limit(beta):
    """F-beta paper, eq. 10 and 14: categorical predictions and Dirichlet memberships of the same means."""
    torch.manual_seed(0)
    d, n = 3, 300_000
    shares = torch.tensor([0.7, 0.25, 0.05], dtype=torch.float64)
    p = torch.tensor([[0.8, 0.15, 0.05], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)
    y = torch.repeat_interleave(torch.arange(d), (shares * n).round().long())
    hits, predicted = p.diagonal() * shares, p.T @ shares
    limit = ((1 + beta**2) * hits / (beta**2 * shares + predicted)).mean().item()
    one_hot = torch.nn.functional.one_hot(torch.distributions.Categorical(p[y]).sample(), d).double()
    dirichlet = torch.distributions.Dirichlet(3 * p[y]).sample()
    for memberships in (one_hot, dirichlet):
        matrix = soft_confusion(memberships, y, d)
        assert metrics.fbeta(beta, average="macro")(matrix).item() == pytest.approx(limit, abs=3e-3)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_the_soft_confusion_matrix_is_lipschitz_in_the_probabilities(d):
    """F-beta paper, theorem 5.1; the hard matrix is not.

    With delta = 0.2 and tau <= 1/2 every slope of the step in p or tau is at most 1.2 / tau, and tau is at
    least 1 / (2 d), half of the largest probability. So if all p move by at most e, a step moves by 4.8 d e,
    the sum of the steps by 4.8 d^2 e; the sum is at least 1/2, and each membership is a quotient of both.
    """
    generator = torch.Generator().manual_seed(d)
    bound = 2 * 4.8 * d * (1 + d)
    p = random_probabilities(500, d, generator)
    tied = p.clone()  # where the order of the two largest changes, and so the predicted class
    tied.scatter_(1, p.topk(2).indices, p.topk(2).values.mean(1, keepdim=True).expand(-1, 2))
    uniform = torch.full_like(p, 1 / d)
    y = torch.randint(0, d, (1500,), generator=generator)
    start = torch.cat([p, tied, uniform])
    for size in (1e-2, 1e-5, 1e-8):
        noise = torch.randn(start.shape, generator=generator, dtype=torch.float64)
        moved = (start + size * noise * start.amin(1, keepdim=True)).clamp_min(1e-300)
        moved /= moved.sum(1, keepdim=True)
        distance = (moved - start).abs().max()
        soft = [soft_confusion(soft_assign(one, 0.2), y, d) / len(y) for one in (start, moved)]
        assert (soft[0] - soft[1]).abs().max() <= bound * distance
    hard = [metrics.hard_confusion(one.argmax(1), y, d) / len(y) for one in (start, moved)]
    assert (hard[0] - hard[1]).abs().max() > 1000 * bound * distance


def sample_metrics(metric, population, n, samples, generator):
    d = len(population)
    cells = torch.multinomial(population.flatten(), samples * n, replacement=True, generator=generator)
    offsets = torch.arange(samples).repeat_interleave(n) * d * d
    counts = torch.bincount(cells + offsets, minlength=samples * d * d).view(samples, d, d).double()
    return metric(counts)


def test_the_deviation_of_a_metric_is_bounded():
    """EAST theorem 5.9: L sqrt(log(2 d^2 / delta) / (2 n)) is exceeded with probability delta at most.

    Accuracy is the sum of d entries of a matrix with sum 1: L = d.
    """
    generator = torch.Generator().manual_seed(0)
    d, n, delta = 3, 200, 0.05
    population = torch.rand(d, d, generator=generator, dtype=torch.float64) + 2 * torch.eye(d)
    population /= population.sum()
    metric = metrics.accuracy()
    errors = (sample_metrics(metric, population, n, 2000, generator) - metric(population)).abs()
    assert (errors > d * math.sqrt(math.log(2 * d**2 / delta) / (2 * n))).double().mean() <= delta
    assert errors.max() > 0.01


@pytest.mark.parametrize("name", ["accuracy", "f1", "mcc"])
def test_the_deviation_of_a_metric_falls_with_the_root_of_the_rows(name):
    """EAST theorem 5.9: O_p(1 / sqrt(n)), so 16 times as many rows give a quarter of the deviation."""
    generator = torch.Generator().manual_seed(1)
    population = torch.tensor([[0.5, 0.1, 0.0], [0.05, 0.2, 0.05], [0.0, 0.02, 0.08]], dtype=torch.float64)
    metric = metrics.as_metric(name)
    quantiles = [
        (sample_metrics(metric, population, n, 1000, generator) - metric(population)).abs().quantile(0.9)
        for n in (200, 3200)
    ]
    assert 3.3 < quantiles[0] / quantiles[1] < 4.8


@pytest.mark.parametrize("d", [2, 5, 20])
def test_the_distance_to_the_hard_matrix_is_bounded_by_the_temperature(d):
    """Rows outside the steep piece are within (d - 1) T / (1 + (d - 2) T) of one-hot, the others within 1.

    Outside it the largest probability has a step of at least 1 - T and every other one of at most T; inside
    it the two largest differ by less than 5 T tau. The bound does not depend on the number of rows.
    """
    for n in (50, 5000):
        generator = torch.Generator().manual_seed(n)
        p = random_probabilities(n, d, generator)
        y = torch.randint(0, d, (n,), generator=generator)
        hard = metrics.hard_confusion(p.argmax(1), y, d) / n
        first, second = p.topk(2).values.unbind(1)
        errors, bounds = [], []
        for t in (0.2, 0.1, 0.05, 0.01, 0.001):
            soft = soft_confusion(soft_assign(p, t), y, d) / n
            errors.append((soft - hard).abs().max().item())
            steep = (first - second < 5 * t * (first + second) / 2).double().mean().item()
            bounds.append(steep + (d - 1) * t / (1 + (d - 2) * t))
        assert all(error <= bound for error, bound in zip(errors, bounds, strict=True))
        assert errors[-1] < 0.2 * errors[0]
        assert bounds[-1] < 0.05
