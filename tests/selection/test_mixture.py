"""The mixture of members: likelihood, calibration, and how it is judged."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.metrics import matthews_corrcoef

from evalign import metrics
from evalign.decisions import Goal, fit_rule
from evalign.selection.mixture import (
    HeldOutScores,
    as_scores,
    choose_weights,
    fit_calibrator,
    fit_mixture,
    judge_nested,
    maximize_likelihood,
)

RANDOM = np.random.default_rng(0)


def draw(n, d, k, sharpness=1.5):
    """Draw classes, and probabilities of k members that know something about them."""
    y = RANDOM.integers(0, d, n)
    scores = RANDOM.normal(size=(k, n, d)) + sharpness * np.eye(d)[y] * RANDOM.uniform(0.3, 1, (k, 1, 1))
    p = np.exp(scores) / np.exp(scores).sum(2, keepdims=True)
    return y, p


@pytest.mark.parametrize("weighted", [False, True])
def test_the_likelihood_of_the_mixture_is_the_largest(weighted):
    y, p = draw(300, 3, 4)
    weight = RANDOM.uniform(0.1, 3, 300) if weighted else None
    own = p[:, np.arange(300), y]

    def loss(w):
        return -np.average(np.log(w @ own), weights=weight)

    whole = {"type": "eq", "fun": lambda w: w.sum() - 1}
    settings = {"bounds": [(0, 1)] * 4, "constraints": whole, "options": {"ftol": 1e-12, "maxiter": 500}}
    best = minimize(loss, np.full(4, 0.25), **settings)
    weights = maximize_likelihood(p, y, weight, steps=2000)
    assert weights.sum() == pytest.approx(1)
    assert loss(weights) == pytest.approx(best.fun, abs=1e-6)


def test_calibration_undoes_a_distortion():
    y, p = draw(4000, 3, 1, sharpness=3.0)
    logs = as_scores(p[0], True, False)
    distorted = 4 * logs + np.array([1.0, 0.0, -1.0])
    one, other = (fit_calibrator(scores, y, None).apply(scores) for scores in (logs, distorted))
    np.testing.assert_allclose(one, other, atol=5e-3)
    np.testing.assert_allclose(
        [one[y == k, k].mean() for k in range(3)], [one[:, k] @ (y == k) / (y == k).sum() for k in range(3)]
    )
    assert np.abs(one.mean(0) - np.bincount(y) / 4000).max() < 5e-3


def test_a_copy_of_a_member_changes_nothing_and_noise_gets_nothing():
    y, p = draw(1500, 2, 2, sharpness=3.0)
    noise = np.full((1, 1500, 2), 0.5)
    goal, classes = Goal(metrics.f1()), np.array([0, 1])
    held_out = HeldOutScores(as_scores_of(np.concatenate([p, noise])), y)
    mixture = fit_mixture(held_out, goal, classes)
    assert mixture.weights[2] == 0
    assert mixture.weights.sum() == pytest.approx(1)
    twice = HeldOutScores(as_scores_of(np.concatenate([p[:1], p[:1]])), y)
    alone = HeldOutScores(as_scores_of(p[:1]), y)
    np.testing.assert_allclose(
        fit_mixture(twice, goal, classes).predict_proba(list(twice.scores)),
        fit_mixture(alone, goal, classes).predict_proba(list(alone.scores)),
        atol=1e-4,  # a mixture is calibrated again
    )


def as_scores_of(p):
    return np.stack([as_scores(own, True, False) for own in p])


@pytest.mark.parametrize(("rare", "equal"), [(0, 0.5), (60, 0.5), (100, 0.5), (200, 0.25), (500, 0.1)])
@pytest.mark.parametrize("labels", [False, True])
def test_equal_weights_have_a_smaller_share_if_there_are_more_rows_of_every_class(rare, equal, labels):
    y = np.repeat([0, 1], [1000 - rare, rare])
    generator = np.random.default_rng(rare)
    scores = generator.normal(size=(4, 1000, 2)) + 2 * np.eye(2)[y]  # equally good, and independent
    truth = np.stack([y, 1 - y], axis=1) if labels else y

    def check(rows, weight):
        p = softmax(scores[:, rows], axis=2)
        likely = maximize_likelihood(p, truth[rows], weight)
        useful = likely >= 0.01
        wanted = (1 - equal) * likely * useful / likely[useful].sum() + equal * useful / useful.sum()
        held_out = HeldOutScores(scores[:, rows], truth[rows], weight)
        np.testing.assert_allclose(choose_weights(p, held_out), wanted)

    check(np.arange(1000), None)
    half = np.arange(0, 1000, 2)
    check(half, np.full(500, 2.0))  # each row counts twice


def test_at_most_max_models_have_a_weight():
    y = RANDOM.integers(0, 2, 400)
    p = softmax(RANDOM.normal(size=(4, 400, 2)) + 2 * np.eye(2)[y], axis=2)
    held_out = HeldOutScores(as_scores_of(p), y)
    two = choose_weights(p, held_out, max_models=2)
    best = np.sort(np.argsort(-choose_weights(p, held_out))[:2])
    np.testing.assert_array_equal(np.flatnonzero(two), best)
    np.testing.assert_allclose(two[best], choose_weights(p[best], held_out.only(best)))


def test_the_nested_value_of_noise_is_that_of_guessing():
    y = RANDOM.integers(0, 2, 300)
    scores = RANDOM.normal(size=(30, 300, 2))
    parts = np.arange(300) % 5
    judged = judge_nested(HeldOutScores(scores, y), parts, Goal(metrics.mcc()), np.array(["no", "yes"]))
    pooled = matthews_corrcoef(y, (judged.predicted == "yes").astype(int))
    assert abs(pooled) < 0.15
    # The best of 30 members on the rows that its rule is fitted on seems to be better.
    p = softmax(scores, axis=2)
    assert max(fit_rule(one, y, "mcc", evidence="labels").value for one in p) > 0.15
