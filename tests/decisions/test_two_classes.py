"""Two classes: the rule against all n + 1 thresholds, judged by scikit-learn and plain counts."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef

from evalign import metrics
from evalign.decisions import Goal
from evalign.decisions import fit_rule as fit_any_rule
from evalign.decisions._two_classes import best_threshold, expect_value

#: The best rule on the very rows it is fitted on, which brute force can find, too.
fit_rule = partial(fit_any_rule, evidence="labels")


def custom(c):
    return c.tp * c.tp / (c.predicted * c.actual + 0.1)


def counts(y, guess, w):
    return ((w * (y == i) * (guess == j)).sum() for i in (0, 1) for j in (0, 1))


def naive_cost(y, guess, w):
    _, fp, fn, tp = counts(y, guess, w)
    return (2.0 * fp + 5.0 * fn - 1.5 * tp) / w.sum()


def naive_custom(y, guess, w):
    _, fp, fn, tp = counts(y, guess, w)
    return tp * tp / ((tp + fp) * (tp + fn) + 0.1)


def naive_formula(y, guess, w):
    tn, fp, fn, tp = counts(y, guess, w)
    bottom = tp + 2 * fn + 0.5 * fp
    return (tp + 0.1 * tn) / bottom if bottom else 0.0


def of_sklearn(function, **options):
    def score(y, guess, w):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(np.nan_to_num(function(y, guess, sample_weight=w, **options)))

    return score


CASES = {
    "f1": ("f1", of_sklearn(f1_score, zero_division=0)),
    "mcc": ("mcc", of_sklearn(matthews_corrcoef)),
    "balanced accuracy": ("balanced_accuracy", of_sklearn(balanced_accuracy_score)),
    "cost": (metrics.cost([[0, 2], [5, -1.5]]), naive_cost),
    "function": (custom, naive_custom),
    "formula": ("(tp + 0.1 * tn) / (tp + 2 * fn + 0.5 * fp)", naive_formula),
    "lower is better": ("1 - f1()", lambda *rows: 1 - of_sklearn(f1_score, zero_division=0)(*rows)),
}


def random_rows(generator, case):
    n = int(generator.integers(1, 13))
    tied = generator.choice([0.0, 0.1, 0.25, 0.5, 0.5, 0.75, 1.0], n)
    p = tied if case % 3 else generator.random(n)
    y = generator.integers(0, 2, n) if case % 7 else np.full(n, case % 2)
    w = np.ones(n) if case % 2 else generator.integers(0, 4, n) * 0.37
    return p, y, w if w.any() else np.ones(n)


@pytest.mark.parametrize("name", CASES)
def test_the_value_is_the_best_of_all_thresholds(name):
    metric, naive = CASES[name]
    metric = metrics.as_metric(metric)
    sign = 1 if metric.higher_is_better else -1
    generator = np.random.default_rng(len(name))
    for case in range(70):
        p, y, w = random_rows(generator, case)
        rule = fit_rule(p, y, metric, sample_weight=w, classes=[0, 1])
        cuts = [*np.unique(p), 2.0]
        best = max(sign * naive(y, (p >= cut).astype(int), w) for cut in cuts)
        assert sign * rule.value == pytest.approx(best, abs=1e-9)
        guess = rule.predict(p)
        assert rule.value == pytest.approx(metric.score(y, guess, w, labels=[0, 1]), abs=1e-9)
        assert rule.value == pytest.approx(naive(y, guess, w), abs=1e-9)
        by_weights = (np.stack([1 - p, p], 1) @ rule.weights).argmax(1)
        apart = np.abs(p - rule.threshold) > 1e-12
        np.testing.assert_array_equal(by_weights[apart], guess[apart])


def test_of_equally_good_thresholds_the_closest_to_a_half_is_chosen():
    assert fit_rule([0.1, 0.2, 0.9, 0.95], [0, 0, 1, 1], "f1").threshold == pytest.approx(0.55)


def test_neighbouring_numbers_are_distinguished():
    low = 0.3
    high = np.nextafter(low, 1)
    rule = fit_rule([low, high], [0, 1], "f1")
    assert rule.value == 1.0
    assert rule.predict([low, high]).tolist() == [0, 1]


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize("p", [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
def test_certain_scores_can_be_overruled(p, y):
    assert fit_rule(p, y, "accuracy", classes=[0, 1]).value == 1.0


def test_rows_that_a_metric_leaves_undefined_are_not_chosen():
    def plain_precision(c):
        return c.tp / (c.tp + c.fp)

    rule = fit_rule([0.2, 0.4, 0.6], [0, 1, 0], plain_precision)
    assert rule.value == pytest.approx(0.5)


@pytest.mark.parametrize("undefined", [lambda c: 0 * c.tp / 0, lambda c: c.tp.sum() / 0])
def test_a_metric_that_is_never_finite_is_refused(undefined):
    with pytest.raises(ValueError, match="Expected `metric` to be a finite number"):
        fit_rule([0.2, 0.7], [0, 1], undefined)


def test_weights_equal_repeated_rows():
    generator = np.random.default_rng(0)
    p, y, times = generator.random(60), generator.integers(0, 2, 60), generator.integers(0, 4, 60)
    weighted = fit_rule(p, y, "mcc", sample_weight=times)
    repeated = fit_rule(np.repeat(p, times), np.repeat(y, times), "mcc")
    assert weighted.value == pytest.approx(repeated.value)


def test_many_rows_against_the_curve_of_scikit_learn():
    from sklearn.metrics import precision_recall_curve

    generator = np.random.default_rng(3)
    y = (generator.random(20_000) < 0.05).astype(int)
    p = 1 / (1 + np.exp(3 - 2 * y - generator.normal(size=20_000)))
    precision, recall, _ = precision_recall_curve(y, p)
    best = (2 * precision * recall / np.maximum(precision + recall, 1e-12)).max()
    rule = fit_rule(p, y, "f1")
    assert rule.value == pytest.approx(best)
    assert f1_score(y, rule.predict(p)) == pytest.approx(best)


def test_a_threshold_for_a_sample_does_not_rest_on_two_lucky_rows():
    """By all rows, the two at the top have the highest MCC; two thirds of the samples have none of them."""
    scores = np.repeat([0.9, 0.2, 0.1], [2, 150, 848])
    positive = np.arange(1000) < 2
    positive[2:18] = positive[-2:] = True
    for sample, weight in ((0.0, 1.0), (0.2, 1.0), (0.2, 0.01), (0.2, 100.0)):
        find = partial(best_threshold, goal=Goal(metrics.mcc(), sample=sample))
        threshold = find(scores, positive, np.full(1000, weight), belief=positive.astype(float))
        assert (0.1 < threshold < 0.2) if sample else threshold > 0.5
    assert find(scores, positive, np.ones(1000)) > 0.5
    scores, positive = np.repeat(scores, 100), np.repeat(positive, 100)
    assert find(scores, positive, np.ones(100_000), belief=positive.astype(float)) > 0.5


@pytest.mark.parametrize("rarer", [0, 1])
@pytest.mark.parametrize("metric", ["f1(average='macro')", "mcc", "balanced_accuracy", "accuracy"])
def test_expected_values_of_samples_are_those_of_simulated_ones(metric, rarer):
    """Samples without a row of the rarer prediction matter most; the rest of the variance is left out."""
    generator, measure = np.random.default_rng(0), metrics.as_metric(metric)
    for tp, fp in ((0.3, 0.1), (1.0, 0.5)):
        matrix = torch.tensor([[900.0 - fp, fp], [20.0 - tp, tp]], dtype=torch.float64)
        counts = torch.from_numpy(generator.poisson([fp, tp], (20_000, 2)).astype(float))
        samples = torch.stack([matrix.sum(-1) - counts, counts], -1)
        if rarer == 0:
            matrix, samples = matrix.flip(-1), samples.flip(-1)
        value = measure(matrix[None])
        expected = expect_value(matrix[None], value, Goal(measure), matrix[None].sum(-2))
        true = measure(samples).mean()
        assert abs(expected - true) <= abs(value - true) / 2 + 3 * measure(samples).std() / 20_000**0.5


def test_the_sample_is_a_share():
    with pytest.raises(ValueError, match=r"`sample` in \[0, 1\], but got -1"):
        fit_any_rule([0.1, 0.8], [0, 1], "f1", sample=-1)
