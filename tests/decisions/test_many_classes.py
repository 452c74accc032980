"""More than two classes: the search against grids of weights, argmax and thresholds class by class."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from evalign import metrics
from evalign.decisions import fit_rule as fit_any_rule

#: The best rule on the very rows it is fitted on, which brute force can find, too.
fit_rule = partial(fit_any_rule, evidence="labels")

GRID = np.array(list(itertools.product([0, 0.5, 1], repeat=9))).reshape(-1, 3, 3)


def worst_row(c):
    return (c.tp.sum() + 1) / (c.total.sum() + 2 * c.fp.max())


def plain_precision(c):
    return (c.tp / c.predicted).mean()  # undefined for a class that is never predicted


METRICS = {
    **{name: name for name in ("f1", "mcc", "balanced_accuracy", "accuracy", "gmean", "cohen_kappa")},
    "jaccard": "jaccard", "micro": "f1(average='micro')", "weighted": "fbeta(beta=2, average='weighted')",
    "formula": "min(recall)", "sum": "0.5*f1() + 0.5*mcc()", "function": worst_row,
    "loss": metrics.metric(lambda c: c.fp.max() / c.total.sum(), name="loss", higher_is_better=False),
    "undefined": plain_precision,
}  # fmt: skip


def rows(generator, d, n, tied=False):
    """Probabilities and labels; some classes may be missing from the labels."""
    some = generator.permutation(d)[: generator.integers(2, d + 1)]
    y = generator.choice(some, n)
    scores = generator.normal(size=(n, d)) * generator.choice([0.5, 2.0])
    scores[np.arange(n), y] += 1.5
    p = np.exp(scores)
    p /= p.sum(1, keepdims=True)
    if tied:
        p = np.round(p * 4) + 1e-9
        p /= p.sum(1, keepdims=True)
    return p, y


def test_three_classes_reach_the_best_of_a_grid_of_weights():
    generator = np.random.default_rng(0)
    names = ("f1", "mcc", "balanced_accuracy", "accuracy")
    reached = 0
    for case in range(40):
        n = int(generator.integers(4, 11))
        p, y = generator.dirichlet(np.ones(3), n), generator.integers(0, 3, n)
        metric = metrics.as_metric(names[case % 4])
        cells = np.zeros((len(GRID), 9))
        np.add.at(cells, (np.arange(len(GRID))[:, None], 3 * y + (p @ GRID).argmax(-1)), 1)
        best = metric(torch.from_numpy(cells.reshape(-1, 3, 3))).max().item()
        reached += fit_rule(p, y, metric, classes=range(3)).value >= best - 1e-9
    assert reached >= 38


@pytest.mark.parametrize("name", METRICS)
def test_never_below_argmax_or_thresholds_class_by_class(name):
    metric = metrics.as_metric(METRICS[name])
    sign = 1 if metric.higher_is_better else -1
    generator = np.random.default_rng(len(name))
    for case in (0, 3):
        d, n = int(generator.integers(4, 13)), int(generator.integers(10, 150))
        p, y = rows(generator, d, n, tied=case == 3)
        w = generator.exponential(size=n) if case % 2 else None
        rule = fit_rule(p, y, metric, sample_weight=w, classes=range(d))
        assert np.isfinite(rule.value)
        assert np.isfinite(rule.weights).all()

        def score(guess, y=y, w=w, d=d):
            return metric.score(y, guess, w, labels=range(d))

        assert rule.value == pytest.approx(score(rule.predict(p)))
        sides = [fit_rule(p[:, j], (y == j).astype(int), metric, (), w, classes=[0, 1]) for j in range(d)]
        t = np.array([side.threshold for side in sides])
        for guess in (p.argmax(1), (p - t).argmax(1), (p / t.clip(1e-6)).argmax(1)):
            rival = sign * score(guess)
            assert np.isnan(rival) or sign * rule.value >= rival - 1e-9


@pytest.mark.parametrize("d", [4, 9])
def test_a_cost_is_at_least_as_low_as_by_the_expected_cost(d):
    generator = np.random.default_rng(d)
    for _ in range(5):
        p, y = rows(generator, d, 200)
        table = generator.integers(0, 10, (d, d)) * (1 - np.eye(d))
        rule = fit_rule(p, y, metrics.cost(table), classes=range(d))
        by_cost = table[y, (p @ table).argmin(1)].mean()
        assert rule.value <= by_cost + 1e-9
        assert rule.value == pytest.approx(table[y, rule.predict(p)].mean())


def test_rare_classes_are_found():
    generator = np.random.default_rng(1)
    share = np.array([0.9, 0.06, 0.03, 0.01])
    y = generator.choice(4, 3000, p=share)
    scores = generator.normal(size=(3000, 4)) + np.log(share)
    scores[np.arange(3000), y] += 1.5
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    rule = fit_rule(p, y, "f1")
    plain = f1_score(y, p.argmax(1), average="macro")
    assert f1_score(y, rule.predict(p), average="macro") == pytest.approx(rule.value)
    assert rule.value > plain + 0.02


def test_more_classes_than_the_full_search_takes():
    generator = np.random.default_rng(2)
    p, y = rows(generator, 40, 1500)
    rule = fit_rule(p, y, "f1", classes=range(40))
    assert rule.value == pytest.approx(metrics.f1().score(y, rule.predict(p), labels=range(40)))
    assert rule.value > metrics.f1().score(y, p.argmax(1), labels=range(40))


def test_the_same_seed_gives_the_same_rule():
    p, y = rows(np.random.default_rng(4), 5, 40)
    one, two = (fit_rule(p, y, "f1", classes=range(5), random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.value == two.value


def test_weights_equal_repeated_rows():
    generator = np.random.default_rng(5)
    p, y = rows(generator, 4, 50)
    times = generator.integers(1, 4, 50)
    weighted = fit_rule(p, y, "f1", sample_weight=times, classes=range(4))
    again = metrics.f1().score(np.repeat(y, times), weighted.predict(np.repeat(p, times, 0)), labels=range(4))
    assert weighted.value == pytest.approx(again)


def test_one_class_in_all_rows():
    rule = fit_rule(np.full((5, 3), 1 / 3), [2] * 5, "accuracy")
    assert rule.value == 1.0
    assert rule.predict([[1 / 3, 1 / 3, 1 / 3]]).tolist() == [2]


def test_another_rule_is_found_where_argmax_is_undefined():
    p = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.6, 0.1, 0.3]])
    assert fit_rule(p, [0, 1, 2], plain_precision).value == pytest.approx(1.0)
