"""Rules under constraints: the best feasible rule, the closest one if none is, and margins for new rows."""

from functools import partial

import numpy as np
import pytest

from evalign import metrics
from evalign.decisions import DecisionRule
from evalign.decisions import fit_rule as fit_any_rule

#: The best rule on the very rows it is fitted on, which brute force can find, too.
fit_rule = partial(fit_any_rule, evidence="labels")

BOUNDS = {
    "precision": ["precision >= 0.7"],
    "specificity": ["specificity >= 0.8"],
    "at most": [metrics.cost([[0, 1], [3, 0]]) <= 0.8],
    "two": ["precision >= 0.6", "specificity >= 0.5"],
    "against each other": ["recall >= 0.8", "recall <= 0.3"],
    "out of reach": ["precision >= 0.99", "recall >= 0.9"],
}


def misses(bounds, y, guess, w):
    found = {}
    for one in bounds:
        value = one.metric.score(y, guess, w, labels=[0, 1])
        found[one.name] = one.bound - value if one.sense == ">=" else value - one.bound
    return found


@pytest.mark.parametrize("name", BOUNDS)
def test_the_best_feasible_threshold_or_the_nearest(name):
    bounds = metrics.as_constraints(BOUNDS[name])
    generator = np.random.default_rng(len(name))
    metric = metrics.f1()
    for case in range(40):
        n = int(generator.integers(2, 13))
        p = generator.choice([0, 0.2, 0.4, 0.6, 0.8, 1.0], n) if case % 2 else generator.random(n)
        y, w = generator.integers(0, 2, n), generator.integers(1, 4, n) * 0.1
        rule = fit_rule(p, y, metric, bounds, w, classes=[0, 1])
        options = []
        for cut in [*np.unique(p), 2.0]:
            guess = (p >= cut).astype(int)
            worst = max(*misses(bounds, y, guess, w).values(), -1.0)
            options.append((worst, metric.score(y, guess, w, labels=[0, 1])))
        kept = [value for worst, value in options if worst <= 1e-9]
        assert rule.feasible == bool(kept)
        mine = misses(bounds, y, rule.predict(p), w)
        if kept:
            assert rule.violations == {}
            assert rule.value == pytest.approx(max(kept))
            assert max(mine.values()) <= 1e-9
        else:
            least = min(worst for worst, _ in options)
            assert max(rule.violations.values()) == pytest.approx(least)
            assert rule.violations == pytest.approx({key: by for key, by in mine.items() if by > 1e-9})
            # Among those that miss as little, the metric decides.
            assert rule.value == pytest.approx(
                max(value for worst, value in options if worst <= least + 1e-9)
            )


def test_a_constraint_met_exactly_up_to_rounding_is_satisfied():
    y, p, w = np.repeat([1, 0], [18, 2]), np.full(20, 0.7), np.full(20, 0.7)
    right, wrong = np.cumsum(w * y)[-1], np.cumsum(w * (1 - y))[-1]
    assert right / (right + wrong) < 0.9
    assert fit_rule(p, y, "recall", "precision >= 0.9", w).feasible


def test_violations_survive_a_round_trip():
    rule = fit_rule([0.2, 0.7], [1, 0], "f1", "precision >= 0.9", classes=[0, 1])
    assert rule.violations == pytest.approx({"precision() >= 0.9": 0.4})
    again = DecisionRule.from_json(rule.to_json())
    assert again.violations == rule.violations
    assert not again.feasible


def many(generator, n, d=4):
    y = generator.integers(0, d, n)
    scores = generator.normal(size=(n, d))
    scores[np.arange(n), y] += 1.5
    p = np.exp(1.5 * scores)
    return p / p.sum(1, keepdims=True), y


def test_constraints_are_satisfied_for_more_classes():
    generator = np.random.default_rng(0)
    first = metrics.metric(lambda c: c.recall[0], name="recall of the first")
    for _ in range(3):
        p, y = many(generator, 200)
        rule = fit_rule(p, y, "accuracy", first >= 0.95)
        guess = rule.predict(p)
        assert rule.feasible
        assert (guess[y == 0] == 0).mean() >= 0.95
        # Raising the weight of the first class alone is a rule too: never below it.
        for weight in np.geomspace(1, 100, 60):
            other = (p * [weight, 1, 1, 1]).argmax(1)
            if (other[y == 0] == 0).mean() >= 0.95:
                assert rule.value >= (other == y).mean() - 0.01
                break


def test_violations_are_reported_for_more_classes():
    p, y = np.full((6, 3), 1 / 3), [0, 0, 1, 1, 2, 2]
    rule = fit_rule(p, y, "f1", "accuracy >= 0.9")
    assert rule.violations == pytest.approx({"accuracy() >= 0.9": 0.9 - 1 / 3})
    assert (rule.predict(p) == y).mean() == pytest.approx(1 / 3)


def two(generator, n, share=0.2):
    y = (generator.random(n) < share).astype(int)
    scores = 2 * (generator.normal(size=n) + 2 * y) - 2 + np.log(share / (1 - share))
    return 1 / (1 + np.exp(-scores)), y


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_with_confidence_new_rows_satisfy_the_constraint(confidence):
    generator = np.random.default_rng(1)
    new, truth = two(generator, 100_000)
    kept = {None: 0, confidence: 0}
    for _ in range(120):
        p, y = two(generator, 1000)
        for margin in kept:
            guess = fit_rule(p, y, "recall", "precision >= 0.8", confidence=margin).predict(new)
            kept[margin] += truth[guess == 1].mean() >= 0.8
    # Three standard errors of 120 draws below the confidence.
    error = 3 * np.sqrt(confidence * (1 - confidence) / 120)
    assert kept[confidence] / 120 >= confidence - error
    assert kept[None] / 120 <= 0.65


def test_with_confidence_constraints_on_more_classes_are_satisfied_more_often():
    generator = np.random.default_rng(2)
    new, truth = many(generator, 20_000)
    recall, precision = (
        metrics.metric(lambda c, name=name: getattr(c, name)[3], name=name + " of the last")
        for name in ("recall", "precision")
    )
    kept = {None: 0, 0.9: 0}
    for _ in range(8):
        p, y = many(generator, 300)
        for margin in kept:
            guess = fit_rule(p, y, recall, precision >= 0.8, confidence=margin).predict(new)
            kept[margin] += (truth[guess == 3] == 3).mean() >= 0.8
    assert kept[0.9] >= kept[None] + 2


def test_three_right_out_of_three_do_not_count_as_certainty():
    p = np.array([0.9, 0.8, 0.85])
    plain, sure = (
        fit_rule(p, [1, 1, 1], "recall", "precision >= 0.9", confidence=c, classes=[0, 1])
        for c in (None, 0.9)
    )
    assert plain.feasible
    assert list(sure.violations) == ["precision() >= 0.9"]
    assert sure.violations["precision() >= 0.9"] > 0.1
    assert fit_rule(
        np.tile(p, 30), [1] * 90, "recall", "precision >= 0.9", confidence=0.9, classes=[0, 1]
    ).feasible


def test_confidence_counts_rows_not_the_size_of_weights():
    generator = np.random.default_rng(3)
    p, y = two(generator, 300)
    one, thousand = (
        fit_rule(p, y, "recall", "precision >= 0.8", np.full(300, w), confidence=0.9).threshold
        for w in (1, 1000)
    )
    assert one == thousand


def test_a_constraint_without_gradient_is_satisfied_without_margin():
    flat = metrics.metric(lambda c: c.precision.detach()[1], name="flat")
    p, y = two(np.random.default_rng(4), 300)
    rule = fit_rule(p, y, "recall", flat >= 0.8, confidence=0.9)
    assert y[rule.predict(p) == 1].mean() >= 0.8


def test_a_constraint_that_is_never_finite_is_refused():
    with pytest.raises(ValueError, match="Expected `constraints` to be finite"):
        fit_rule([0.1, 0.8], [0, 1], "f1", metrics.metric(lambda c: 0 * c.tp / 0, name="n") >= 0.5)


def rows_of_three(seed=0, rows=400):
    generator = np.random.default_rng(seed)
    y = generator.choice(3, rows, p=[0.6, 0.3, 0.1])
    p = generator.dirichlet(np.ones(3), rows) + 0.7 * np.eye(3)[y]
    return p / p.sum(1, keepdims=True), np.array(["common", "middling", "rare"])[y]


@pytest.mark.parametrize("bound", [0, 1, 3, 10, 25])
def test_a_bound_on_a_count_is_satisfied_exactly(bound):
    generator = np.random.default_rng(5)
    y = (generator.random(200) < 0.4).astype(int)
    p = (y + generator.random(200)) / 2
    rule = fit_rule(p, y, "recall", f"fp <= {bound}")
    allowed = [cut for cut in [*p, 2.0] if ((p >= cut) & (y == 0)).sum() <= bound]
    best = max(((p >= cut) & (y == 1)).sum() / y.sum() for cut in allowed)
    guess = rule.predict(p)
    assert ((guess == 1) & (y == 0)).sum() <= bound
    assert rule.value == pytest.approx(best)
    shares = fit_rule(p, y, "recall", f"fp <= {bound} / 200 * total")
    assert shares.threshold == rule.threshold


@pytest.mark.parametrize("metric", ["tp", "tp - 2 * fp", "sum(tp)"])
def test_a_count_may_be_the_goal(metric):
    rule = fit_rule([0.1, 0.3, 0.35, 0.8], [0, 1, 0, 1], metric)
    assert rule.value == {"tp": 2, "tp - 2 * fp": 1, "sum(tp)": 3}[metric]


@pytest.mark.parametrize("text", ["recall['rare'] >= 0.9", "recall[2] >= 0.9"])
def test_a_bound_on_one_class_by_label_or_index(text):
    p, y = rows_of_three()
    free, bound = fit_rule(p, y, "accuracy"), fit_rule(p, y, "accuracy", text)
    found = {rule: (rule.predict(p)[y == "rare"] == "rare").mean() for rule in (free, bound)}
    assert found[free] < 0.9 <= found[bound]
    assert bound.feasible
    rule = fit_rule(p, y, text.partition(" ")[0])
    assert rule.metric == text.partition(" ")[0]
    assert rule.value == 1


def test_costs_by_label_are_those_in_the_order_of_the_classes():
    p, y = rows_of_three(1)
    table = np.array([[0, 1, 2], [3, 0, 1], [9, 4, 0]])
    order = [2, 0, 1]
    names = ["rare", "common", "middling"]
    by_label = fit_rule(p, y, metrics.cost(table[order][:, order], classes=names))
    assert by_label.value == pytest.approx(fit_rule(p, y, metrics.cost(table)).value)


def test_a_label_that_does_not_exist_is_refused():
    p, y = rows_of_three()
    with pytest.raises(ValueError, match="Expected `class` to be one of .* but got 'seldom'"):
        fit_rule(p, y, "accuracy", "recall['seldom'] >= 0.9")
    with pytest.raises(ValueError, match="Expected `class` in 0..2, but got 3"):
        fit_rule(p, y, "recall[3]")


def test_a_bound_on_one_label_of_several():
    generator = np.random.default_rng(6)
    y = (generator.random((300, 3)) < 0.3).astype(int)
    p = (y + 1.5 * generator.random((300, 3))) / 2.5
    rule = fit_rule(p, y, "f1", "recall[1] >= 0.99")
    guess = rule.predict(p)
    assert (guess[:, 1] & y[:, 1]).sum() / y[:, 1].sum() >= 0.99
    with pytest.raises(ValueError, match=r"Call with_classes\(classes\) first"):
        fit_rule(p, y, "f1", "recall['a'] >= 0.9")
