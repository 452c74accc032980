"""Codes as means of the target: by hand, without the row's own class, and for the methods that need them."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from evalign.estimators import MetricBooster, MetricLinear, TargetMeans, pack_classifier, unpack_classifier
from evalign.selection import Problem, build_methods


def draw_shops(n, seed, n_shops=120):
    """Each shop has a rate of its own, which nothing else tells."""
    rates = np.random.default_rng(99).beta(0.5, 1.5, n_shops)
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, n_shops, n)
    return np.column_stack([shop, rng.normal(size=(n, 2))]), (rng.random(n) < rates[shop]).astype(int)


def test_the_credibility_formula_by_hand():
    """Two codes of 4 rows with shares 1/4 and 3/4, and 1/2 of all rows."""
    X = np.array([[0.0]] * 4 + [[1.0]] * 4)
    y = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    within = (4 * 3 / 16 * 2) / (8 - 2)
    between = (8 / 16 - within) / (8 - 32 / 8)
    weight = 4 / (4 + within / between)
    (means,) = TargetMeans((0,)).fit(X, y).means_
    np.testing.assert_allclose(means, [[0.5 - weight / 4], [0.5 + weight / 4], [0.5]])


def test_a_row_does_not_see_its_own_class():
    """Every code occurs once: means of others say nothing, whereas the row's own class would say it all."""
    X = np.arange(60.0)[:, None]
    y = np.array([0, 1, 1] * 20)
    np.testing.assert_allclose(TargetMeans((0,)).fit_transform(X, y), 2 / 3, atol=1e-12)
    X, y = np.repeat(np.arange(30.0), 2)[:, None], np.random.default_rng(0).permutation(60) % 2
    cross_fitted = TargetMeans((0,)).fit_transform(X, y)[:, 0]
    assert abs(np.corrcoef(cross_fitted, y)[0, 1]) < 0.5
    flipped = y.copy()
    flipped[7] = 1 - flipped[7]
    assert TargetMeans((0,)).fit_transform(X, flipped)[7, 0] == pytest.approx(cross_fitted[7], abs=0.05)


def test_more_classes_have_a_column_each_and_unknown_codes_the_mean():
    X = np.column_stack([np.arange(90) % 3, np.arange(90), np.arange(90) % 2]).astype(float)
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    means = TargetMeans((0, 2)).fit(X, y)
    matrix = means.transform(X)
    assert matrix.shape == (90, 7)
    np.testing.assert_allclose(matrix[:3, :3], np.eye(3), atol=0.01)
    np.testing.assert_array_equal(matrix[:, 6], X[:, 1])
    np.testing.assert_allclose(means.transform([[9.0, 0.0, 9.0]])[0, :6], 1 / 3)
    with pytest.raises(ValueError, match="`X` with codes from 0 on, but got -1"):
        means.transform([[-1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="`X` with 3 features, but got 2"):
        means.transform([[1.0, 0.0]])


@pytest.mark.parametrize("method", ["linear", "random_forest_rule", "lightgbm_rule"])
def test_every_method_gets_codes_in_a_form_that_suits_it(method):
    X, y = draw_shops(2400, 0)
    new, truth = draw_shops(2000, 1)
    problem = Problem.check(X, y, "f1")
    plain = build_methods([method], problem)[method](0).fit(X, y)
    suited = Problem(X, y, problem.metric, categorical=(0,))
    model = build_methods([method], suited)[method](0).fit(X, y)
    values = [problem.metric.score(truth, one.predict(new)) for one in (plain, model)]
    assert values[1] > values[0] + (0.01 if method != "linear" else 0.1)
    assert values[1] > 0.5
    assert model[0].keep == isinstance(model[-1], MetricBooster)


@pytest.mark.parametrize("last", [MetricLinear("f1", random_state=0), LogisticRegression()])
def test_packed_with_its_classifier_it_is_the_same(last):
    X, y = draw_shops(300, 0, n_shops=20)
    model = make_pipeline(TargetMeans((0,)), last).fit(X, y)
    facts, parts = pack_classifier(model)
    again = unpack_classifier(facts, parts)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for forged in ({"categorical": [9]}, {"categorical": [-1]}, {"categorical": []}, {"n_features": 0}):
        with pytest.raises(ValueError, match="with means of its categories"):
            unpack_classifier({**facts, **forged}, parts)
    with pytest.raises(ValueError, match="means of its categories once"):
        unpack_classifier({**facts, "classifier": facts}, parts)


def test_effects_that_differ_between_categories_need_the_codes():
    """The sign of the effect of a number depends on the shop, of which the share says nothing."""
    rng = np.random.default_rng(0)
    shop, x = rng.integers(0, 60, 3000), rng.normal(size=3000)
    X, y = np.column_stack([shop, x]), (np.where(shop % 2, x, -x) + rng.normal(0, 0.3, 3000) > 0).astype(int)
    train, test = slice(0, 2000), slice(2000, None)
    scores = {}
    for keep in (False, True):
        booster = MetricBooster("accuracy", n_bags=1, strategy="log_loss", n_jobs=1, random_state=0)
        booster.set_params(categorical_features=(0,) * keep)
        model = make_pipeline(TargetMeans((0,), keep), booster).fit(X[train], y[train])
        scores[keep] = model.score(X[test], y[test])
        np.testing.assert_array_equal(unpack_classifier(*pack_classifier(model)).predict(X), model.predict(X))
    assert scores[True] > scores[False] + 0.15


def test_places_of_categories_are_checked():
    X, y = draw_shops(60, 0)
    for place in (3, -1, 0.5):
        with pytest.raises(ValueError, match=r"`categorical_features` in 0 \.\.\. 2"):
            MetricBooster(categorical_features=(place,)).fit(X, y)
