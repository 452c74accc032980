"""Rules by labels and calibrated probabilities: against naive counts, and on rows they were not fitted on."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.metrics import f1_score, matthews_corrcoef

from evalign import metrics
from evalign.decisions import fit_rule, fit_scaling
from evalign.decisions._evidence import collect_evidence, label_share
from evalign.decisions._fixed_point import best_fixed_points
from evalign.decisions._goal import Goal
from evalign.decisions._scaling import fit_scalings
from evalign.decisions._two_classes import best_threshold


def draw(rows, d, seed, spread=0.7):
    """True probabilities and labels drawn by them."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(d, spread) * np.linspace(1, 0.2, d), rows)
    return p, (p.cumsum(1) > generator.random((rows, 1))).argmax(1)


def expected_matrix(q, truth, share, chosen):
    matrix = np.zeros((q.shape[1],) * 2)
    for row, j in enumerate(chosen):
        for i in range(q.shape[1]):
            matrix[i, j] += share * (truth[row] == i) + (1 - share) * q[row, i]
    return matrix


@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy", "fbeta(beta=2)"])
def test_the_threshold_is_exact_for_mixed_counts(metric):
    p, y = draw(60, 2, seed=1)
    belief = 0.3 * (y == 1) + 0.7 * p[:, 1]
    goal = Goal(metrics.as_metric(metric))
    threshold = best_threshold(p[:, 1], y == 1, np.ones(60), goal, belief)

    def value(cut):
        return goal.value(torch.from_numpy(expected_matrix(p, y, 0.3, (p[:, 1] >= cut).astype(int))))

    cuts = np.append(np.sort(p[:, 1]), 2.0)
    assert value(threshold) == pytest.approx(max(map(value, cuts)), abs=1e-12)


def test_constraints_are_judged_by_labels():
    p, y = draw(80, 2, seed=2)
    rule = fit_rule(p, y, "recall", "precision >= 0.8")
    predicted = rule.predict(p)
    assert (y[predicted == 1] == 1).mean() >= 0.8
    assert rule.feasible
    assert rule.value == pytest.approx(predicted[y == 1].mean())


@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy"])
def test_the_fixed_point_is_near_the_best_of_many_weights(metric):
    goal = Goal(metrics.as_metric(metric))
    for seed in range(2):
        p, y = draw(100, 3, seed)
        mass = 0.4 * np.eye(3)[y] + 0.6 * p
        weights = best_fixed_points(p[None], mass[None], goal)[0]

        def value(weights, p=p, y=y):
            return goal.value(torch.from_numpy(expected_matrix(p, y, 0.4, (p @ weights).argmax(1))))

        others = np.random.default_rng(seed).random((100, 3, 3)) ** 2
        assert value(weights) >= max(map(value, others)) - 0.005


def test_several_sets_at_once_equal_one_by_one():
    p, y = draw(120, 4, seed=3)
    weights = np.random.default_rng(0).integers(0, 3, (3, 120)).astype(float)
    together = collect_evidence(p, y, weights, "mixed")
    for weight, one in zip(weights, together, strict=True):
        (alone,) = collect_evidence(p, y, weight[None], "mixed")
        assert one.scaling.slope == pytest.approx(alone.scaling.slope, rel=1e-5)
        assert one.share == pytest.approx(alone.share, abs=1e-4)
    goal, truth = Goal(metrics.f1()), np.eye(4)[y]
    q = np.stack([one.q for one in together])
    mass = np.stack([one.mix(truth) for one in together]) * weights[:, :, None]
    for k, best in enumerate(best_fixed_points(q, mass, goal)):
        np.testing.assert_allclose(best, best_fixed_points(q[k : k + 1], mass[k : k + 1], goal)[0])


def test_the_plug_in_of_a_linear_metric():
    cost = np.array([[0, 1, 4], [2, 0, 1], [9, 3, 0]])
    p, y = draw(300, 3, seed=4)
    rule = fit_rule(p, y, metrics.cost(cost), evidence="probabilities")
    q = rule.scaling.calibrate(p)
    np.testing.assert_array_equal(rule.predict(p), (q @ cost).argmin(1))


def naive_scaling(scores, y, weight):
    """Slope and offsets by a general optimiser."""
    rows, d = scores.shape
    share = weight / weight.sum()

    def entropy(line):
        logs = log_softmax(line[0] * scores + line[1:], axis=1)
        return -(share @ logs[np.arange(rows), y]) + line[1:] @ line[1:] / (2 * (weight > 0).sum())

    return minimize(entropy, np.append(1.0, np.zeros(d)), method="L-BFGS-B", tol=1e-12).x


@pytest.mark.parametrize("d", [2, 3, 5])
def test_newton_finds_the_scaling_of_a_general_optimiser(d):
    p, y = draw(150, d, seed=d)
    scores, generator = 3 * np.log(p.clip(1e-6)) + np.arange(d), np.random.default_rng(0)
    weights = generator.random((2, 150)) * generator.integers(0, 2, (2, 150))
    for weight, found in zip(weights, fit_scalings(scores, y, weights), strict=True):
        wanted = naive_scaling(scores, y, weight)
        np.testing.assert_allclose(np.append(found.slope, found.offsets), wanted, atol=2e-3)


@pytest.mark.parametrize("scores", [np.zeros(20), np.linspace(-1, 1, 20), -np.linspace(-1, 1, 20)])
@pytest.mark.parametrize("y", [np.arange(20) >= 10, np.zeros(20, bool)])
def test_a_scaling_is_finite_for_separable_and_constant_rows(scores, y):
    scaling = fit_scaling(scores, y.astype(int))
    assert 0.02 <= scaling.slope <= 50
    assert np.isfinite(scaling.offsets).all()


def test_the_share_of_labels_follows_the_errors_of_probabilities():
    q = np.linspace(0.01, 0.99, 3000)
    shares = [
        np.mean([
            label_share([(q, np.random.default_rng(seed).random(3000) < q**power)], np.ones(3000))
            for seed in range(10)
        ])
        for power in (1.0, 1.15, 2.0)
    ]  # fmt: skip
    assert shares[0] < 0.3 < shares[1] < 0.97 < shares[2]


@pytest.mark.parametrize("d", [2, 3])
def test_rows_without_weight_do_not_count(d):
    p, y = draw(300, d, seed=5)
    wrong = np.append(y, np.zeros(50, int))
    weight = np.append(np.ones(300), np.zeros(50))
    with_more = fit_rule(np.vstack([p, p[:50]]), wrong, "f1", sample_weight=weight)
    alone = fit_rule(p, y, "f1")
    np.testing.assert_array_equal(with_more.weights, alone.weights)
    assert with_more.gain_ == alone.gain_
    assert (with_more.value, with_more.scaling is None) == (alone.value, alone.scaling is None)


def test_a_threshold_of_few_rows_does_no_harm_on_new_rows():
    """The best threshold for MCC is 0.5 here; what 80 rows say otherwise is chance."""
    generator = np.random.default_rng(0)
    p_new = generator.beta(2, 2, 20_000)
    y_new = (generator.random(20_000) < p_new).astype(int)
    plain = metrics.mcc().score(y_new, (p_new >= 0.5).astype(int))
    losses = {"mixed": [], "labels": []}
    for _ in range(20):
        p = generator.beta(2, 2, 80)
        y = (generator.random(80) < p).astype(int)
        for evidence, own in losses.items():
            rule = fit_rule(p, y, "mcc", evidence=evidence)
            own.append(plain - metrics.mcc().score(y_new, rule.predict(p_new)))
    assert np.mean(losses["mixed"]) < 0.003
    assert max(losses["mixed"]) < 0.02
    assert np.mean(losses["labels"]) > 0.01, "by labels alone it does harm, so that the test can fail"


def test_the_more_rows_agree_the_more_a_threshold_is_trusted():
    """The same rows repeated: the rule stays, the chance becomes smaller."""
    generator = np.random.default_rng(3)
    p = generator.beta(1, 4, 60)
    y = (generator.random(60) < p).astype(int)
    full = fit_rule(p, y, "f1", evidence="labels").threshold
    thresholds = [fit_rule(np.tile(p, n), np.tile(y, n), "f1").threshold for n in (1, 4, 40)]
    assert full < 0.4
    assert 0.5 >= thresholds[0] > thresholds[1] > thresholds[2]


@pytest.mark.parametrize("constraints", [(), "fp <= 0.5 * total"])
def test_a_threshold_for_a_rare_class_is_near_the_best(constraints):
    """About 15 positives are too few to be sure of a threshold, but 0.5 would find none of them."""
    generator = np.random.default_rng(0)

    def draw_rare(rows):
        p = expit(1.5 * generator.normal(size=rows) - 4)
        return p, (generator.random(rows) < p).astype(int)

    new, truth = draw_rare(50_000)
    best = max(matthews_corrcoef(truth, new >= threshold) for threshold in np.linspace(0.05, 0.4, 15))
    fits = [draw_rare(400) for _ in range(20)]
    scores = [matthews_corrcoef(truth, fit_rule(p, y, "mcc", constraints).predict(new)) for p, y in fits]
    assert np.mean(scores) > best - 0.015
    assert matthews_corrcoef(truth, new >= 0.5) < best - 0.1


def gain_on_new_rows(evidence, rows, d, seeds):
    """The mean and the worst gain in macro F1 over argmax on new rows, with true probabilities."""
    gains = []
    for seed in range(seeds):
        p, y = draw(rows, d, 2 * seed)
        new, truth = draw(20_000, d, 2 * seed + 1)
        rule = fit_rule(p, y, "f1", classes=range(d), evidence=evidence)
        scores = (f1_score(truth, side, average="macro") for side in (rule.predict(new), new.argmax(1)))
        gains.append(next(scores) - next(scores))
    return np.mean(gains), np.min(gains)


def test_a_rule_for_few_rows_helps_on_new_ones():
    mean, worst = gain_on_new_rows("mixed", 400, 6, seeds=4)
    by_labels, worst_by_labels = gain_on_new_rows("labels", 400, 6, seeds=4)
    assert mean > by_labels + 0.005
    assert worst > worst_by_labels
    assert worst > -0.003


def test_without_a_gain_there_is_no_rule():
    # Accuracy with true probabilities: argmax is the best rule, and others only fit chance.
    p, y = draw(300, 4, seed=7)
    for kind in ("mixed", "probabilities"):
        rule = fit_rule(p, y, "accuracy", evidence=kind)
        new, truth = draw(20_000, 4, seed=8)
        assert (rule.predict(new) == truth).mean() > (new.argmax(1) == truth).mean() - 0.005
        if rule.scaling is None:
            np.testing.assert_array_equal(rule.weights, np.eye(4))
            assert rule.gain_ == (0.0, 0.0)


def test_the_gain_is_that_of_new_rows():
    gains, errors, real = [], [], []
    new, truth = draw(50_000, 2, seed=99)
    for seed in range(30):
        p, y = draw(300, 2, seed)
        rule = fit_rule(p, y, "f1")
        gains.append(rule.gain_.value)
        errors.append(rule.gain_.error)
        real.append(f1_score(truth, rule.predict(new)) - f1_score(truth, new.argmax(1)))
    assert np.mean(gains) == pytest.approx(np.mean(real), abs=3 * np.std(gains) / np.sqrt(30))
    # The standard error is as large as the estimates really scatter.
    assert 0.6 < np.mean(errors) / np.std(gains) < 1.6


def test_multilabel_rules_are_mixed_and_compared():
    generator = np.random.default_rng(0)
    p = generator.beta(1, 6, (400, 3))
    y = (generator.random((400, 3)) < p).astype(int)
    rule = fit_rule(p, y, "f1")
    new = generator.beta(1, 6, (20_000, 3))
    truth = (generator.random((20_000, 3)) < new).astype(int)
    gain = f1_score(truth, rule.predict(new), average="macro") - f1_score(
        truth, new >= 0.5, average="macro", zero_division=0
    )
    assert gain > 0.1
    assert abs(rule.gain_.value - gain) < 4 * rule.gain_.error


@pytest.mark.parametrize("evidence", ["both", None, 1])
def test_unknown_evidence(evidence):
    with pytest.raises(ValueError, match="Expected `evidence` to be 'mixed', 'labels' or 'probabilities'"):
        fit_rule([0.2, 0.7], [0, 1], "f1", evidence=evidence)


def test_few_rows_are_not_compared():
    rule = fit_rule([0.1, 0.2, 0.3, 0.9], [0, 0, 1, 1], "f1")
    assert rule.gain_ is None
    assert rule.value == 1.0


def test_the_same_seed_gives_the_same_rule():
    p, y = draw(90, 3, seed=6)
    one, two = (fit_rule(p, y, "f1", random_state=3) for _ in range(2))
    assert one.gain_ == two.gain_
    np.testing.assert_array_equal(one.weights, two.weights)
