"""Multilabel rules: thresholds against brute force, label by label and jointly."""

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn.metrics import f1_score

from evalign import metrics
from evalign.decisions import fit_rule as fit_any_rule

#: The best rule on the very rows it is fitted on, which brute force can find, too.
fit_rule = partial(fit_any_rule, evidence="labels")


def rows(generator, n, labels, tied=False):
    y = (generator.random((n, labels)) < generator.uniform(0.1, 0.6, labels)).astype(int)
    p = 1 / (1 + np.exp(-generator.normal(size=(n, labels)) - 1.5 * y + 0.7))
    return (np.round(p * 5) / 5 if tied else p), y


def cuts(scores):
    return [*np.unique(scores), 2.0]


@pytest.mark.parametrize("case", range(12))
def test_a_mean_over_labels_is_best_label_by_label(case):
    generator = np.random.default_rng(case)
    p, y = rows(generator, 30, 4, tied=case % 2 == 0)
    w = generator.integers(1, 4, 30) if case % 3 == 0 else np.ones(30)
    rule = fit_rule(p, y, "f1", sample_weight=w)
    best = [
        max(f1_score(y[:, j], p[:, j] >= t, sample_weight=w, zero_division=0) for t in cuts(p[:, j]))
        for j in range(4)
    ]
    assert rule.value == pytest.approx(np.mean(best))
    again = f1_score(y, rule.predict(p), average="macro", sample_weight=w, zero_division=0)
    assert rule.value == pytest.approx(again)


def brute(p, y, metric, w=None):
    pairs = itertools.product(cuts(p[:, 0]), cuts(p[:, 1]))
    values = [metric.score(y, (p >= pair).astype(int), w) for pair in pairs]
    return max(values) if metric.higher_is_better else min(values)


@pytest.mark.parametrize(
    "text", ["f1(average='micro')", "f1(average='weighted')", "1 - f1(average='micro')",
             "0.5*f1(average='micro') + 0.5*mcc()"],
)  # fmt: skip
def test_two_labels_reach_the_best_of_all_pairs_of_thresholds(text):
    generator = np.random.default_rng(1)
    metric = metrics.as_metric(text)
    reached = 0
    for case in range(20):
        p, y = rows(generator, 6, 2, tied=case % 2 == 0)
        w = generator.integers(1, 4, 6) if case % 3 == 0 else None
        reached += fit_rule(p, y, metric, sample_weight=w).value == pytest.approx(brute(p, y, metric, w))
    assert reached >= 19


@pytest.mark.parametrize("text", ["f1(average='micro')", "jaccard(average='micro')", "mcc", "accuracy"])
def test_never_below_a_common_threshold(text):
    generator = np.random.default_rng(2)
    metric = metrics.as_metric(text)
    for _ in range(3):
        p, y = rows(generator, 200, 6)
        w = generator.exponential(size=200)
        rule = fit_rule(p, y, metric, sample_weight=w)
        common = [metric.score(y, (p >= t).astype(int), w) for t in (0.5, *np.linspace(0, 1, 41))]
        assert rule.value >= max(common) - 1e-9
        assert rule.value == pytest.approx(metric.score(y, rule.predict(p), w))


def test_a_label_without_positives_and_one_without_negatives():
    p = np.array([[0.2, 0.9], [0.7, 0.4], [0.5, 0.1]])
    y = np.array([[0, 1], [0, 1], [0, 1]])
    rule = fit_rule(p, y, "accuracy")
    assert rule.value == 1.0
    assert rule.predict(p).tolist() == y.tolist()


def test_a_rule_for_labels_has_thresholds_and_no_weights():
    p, y = rows(np.random.default_rng(3), 50, 3)
    rule = fit_rule(p, y, "f1")
    assert rule.thresholds.shape == (3,)
    assert rule.weights is None
    assert rule.classes is None
    np.testing.assert_array_equal(rule.predict(p), p >= rule.thresholds)
    with pytest.raises(AttributeError, match="two classes"):
        _ = rule.threshold
    with pytest.raises(ValueError, match="`probabilities` with 3 columns"):
        rule.predict(p[:, :2])


def test_constraints_over_labels():
    generator = np.random.default_rng(4)
    metric, bound = metrics.recall(), metrics.precision(average="micro")
    for _ in range(8):
        p, y = rows(generator, 6, 2)
        rule = fit_rule(p, y, metric, bound >= 0.7)
        kept, misses = [], []
        for pair in itertools.product(cuts(p[:, 0]), cuts(p[:, 1])):
            guess = (p >= pair).astype(int)
            miss = 0.7 - bound.score(y, guess)
            misses.append(miss)
            if miss <= 1e-9:
                kept.append(metric.score(y, guess))
        assert rule.feasible == bool(kept)
        if kept:
            assert bound.score(y, rule.predict(p)) >= 0.7 - 1e-9
            assert rule.value >= 0.9 * max(kept)
        else:
            assert sum(rule.violations.values()) == pytest.approx(min(misses))


def test_under_a_constraint_never_below_a_feasible_common_threshold():
    generator = np.random.default_rng(5)
    metric, bound = metrics.recall(), metrics.precision(average="micro")
    for _ in range(15):
        p, y = rows(generator, 15, 4)
        rule = fit_rule(p, y, metric, bound >= 0.7)
        guesses = [(p >= t).astype(int) for t in cuts(p)]
        kept = [metric.score(y, guess) for guess in guesses if bound.score(y, guess) >= 0.7]
        assert rule.feasible or not kept
        assert rule.value >= max(kept, default=0) - 1e-9
