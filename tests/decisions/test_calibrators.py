"""Platt, isotonic and temperature scaling against scikit-learn's and by their properties."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from evalign.decisions import Calibration, fit_calibration

METHODS = ("temperature", "platt", "isotonic")


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose scores are its inputs."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int) if X.shape[1] == 1 else X.argmax(1)]


def rows(n=400, d=2, seed=0):
    generator = np.random.default_rng(seed)
    y = generator.integers(0, d, n)
    scores = generator.normal(size=(n, d)) * 2
    scores[np.arange(n), y] += 1.5
    return (scores[:, 1] - scores[:, 0] if d == 2 else scores), y, generator.exponential(size=n)


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")
@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), [("platt", "sigmoid"), ("isotonic", "isotonic")])
def test_as_scikit_learn_on_a_frozen_classifier(d, weighted, ours, theirs):
    scores, y, w = rows(d=d)
    x = scores.reshape(len(y), -1)
    w = w if weighted else None
    reference = CalibratedClassifierCV(FrozenEstimator(Scores().fit(x, y)), method=theirs, ensemble=False)
    reference.fit(x, y, sample_weight=w)
    mine = fit_calibration(scores, y, ours, w).predict_proba(scores)
    np.testing.assert_allclose(mine, reference.predict_proba(x), atol=1e-3)


def test_isotonic_is_scikit_learns_regression():
    scores, y, w = rows()
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, y, w)
    new = np.linspace(-20, 20, 101)
    mine = fit_calibration(scores, y, "isotonic", w).predict_proba(new)[:, 1]
    np.testing.assert_allclose(mine, curve.predict(new), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d", [2, 3])
def test_rows_sum_to_one(method, d):
    scores, y, _ = rows(d=d)
    new = 30 * rows(d=d, seed=1)[0]
    p = fit_calibration(scores, y, method).predict_proba(new)
    assert p.shape == (400, d)
    np.testing.assert_allclose(p.sum(1), 1)
    assert p.min() >= 0


@pytest.mark.parametrize("factor", [0.1, 1.0, 20.0])
def test_temperature_changes_no_decision(factor):
    scores, y, _ = rows(d=5)
    p = fit_calibration(factor * scores, y).predict_proba(factor * scores)
    np.testing.assert_array_equal(p.argmax(1), scores.argmax(1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_separable_scores_stay_finite(method, size):
    scores = size * np.array([-2.0, -1.0, 1.0, 2.0])
    p = fit_calibration(scores, [0, 0, 1, 1], method).predict_proba(scores)
    assert np.isfinite(p).all()
    if size == 1.0:
        assert (p[:, 1] > 0.5).tolist() == [False, False, True, True]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d", [2, 3])
def test_weights_equal_repeated_rows(method, d):
    scores, y, _ = rows(n=150, d=d)
    times = np.random.default_rng(1).integers(1, 4, 150)
    weighted = fit_calibration(scores, y, method, times).predict_proba(scores)
    repeated = fit_calibration(np.repeat(scores, times, 0), np.repeat(y, times), method).predict_proba(scores)
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)


@pytest.mark.parametrize("outlier", [30.0, 1e3])
def test_an_outlier_does_not_stop_platt(outlier):
    scores, y, _ = rows()
    scores, y = np.append(scores, outlier), np.append(y, 1)
    mine = fit_calibration(scores, y, "platt").predict_proba(scores)[:, 1]

    def entropy(p):
        high, low = (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2)
        goal = np.where(y == 1, high, low)
        return -(goal * np.log(p) + (1 - goal) * np.log1p(-p)).mean()

    on_a_grid = min(
        entropy(1 / (1 + np.exp(-np.clip(slope * scores + offset, -30, 30))))
        for slope in np.geomspace(1e-4, 3, 200)
        for offset in np.linspace(-2, 2, 41)
    )
    assert entropy(mine.clip(1e-13, 1 - 1e-13)) <= on_a_grid + 1e-6


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_a_class_without_rows_gets_little_probability(method):
    scores, y, _ = rows(d=3)
    kept = y != 2
    p = fit_calibration(scores[kept], y[kept], method).predict_proba(scores)
    assert np.isfinite(p).all()
    assert p[:, 2].mean() < 0.05


def test_tensors_lists_and_labels_of_any_type():
    scores, y, _ = rows()
    names = np.array(["no", "yes"])[y]
    wanted = fit_calibration(scores, y).predict_proba(scores)
    for given in (torch.tensor(scores, requires_grad=True), scores.tolist(), scores[:, None]):
        found = fit_calibration(given, names)
        assert found.classes.tolist() == ["no", "yes"]
        np.testing.assert_allclose(found.predict_proba(given), wanted)


@pytest.mark.parametrize(
    ("scores", "y", "options", "name"),
    [
        ([0.1, 0.2], [0, 1], {"method": "plat"}, "method"), ([0.1, 0.2], [0, 1], {"method": 3}, "method"),
        ([np.nan, 0.2], [0, 1], {}, "scores"), ([[np.inf, 1], [0, 1]], [0, 1], {}, "scores"),
        (["a", "b"], [0, 1], {}, "scores"), ([], [], {}, "scores"),
        (np.zeros((2, 2, 2)), [0, 1], {}, "scores"),
        ([0.1, 0.2], [0, 1, 1], {}, "y"), ([0.1, 0.2], [0, np.nan], {}, "y"),
        ([0.1, 0.2], ["a", None], {}, "y"),
        (np.zeros((2, 3)), ["a", "b"], {}, "y"),
        ([0.1, 0.2], [0, 1], {"sample_weight": [1]}, "sample_weight"),
        ([0.1, 0.2], [0, 1], {"sample_weight": ["a", "b"]}, "sample_weight"),
        ([0.1, 0.2], [0, 1], {"sample_weight": [0, 0]}, "sample_weight"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(scores, y, options, name):
    with pytest.raises(ValueError, match=f"^Expected `{name}` "):
        fit_calibration(scores, y, **options)


def test_scores_of_another_width_are_refused():
    scores, y, _ = rows(d=3)
    with pytest.raises(ValueError, match="Expected `scores` of 3 classes, but got 2"):
        fit_calibration(scores, y).predict_proba(scores[:, :2])


@pytest.mark.parametrize(("method", "d"), [("temperature", 2), ("temperature", 3), ("platt", 2)])
def test_a_calibration_is_restored_from_its_numbers(method, d):
    scores, y, _ = rows(d=d)
    calibration = fit_calibration(scores, y, method)
    again = Calibration.from_dict(calibration.to_dict(), calibration.classes)
    assert again.method == method
    np.testing.assert_array_equal(again.predict_proba(scores), calibration.predict_proba(scores))


@pytest.mark.parametrize(("method", "d"), [("isotonic", 2), ("platt", 3)])
def test_a_calibration_without_a_few_numbers_cannot_be_saved(method, d):
    with pytest.raises(ValueError, match="Expected `method` to be 'temperature', or 'platt' for two classes"):
        fit_calibration(*rows(d=d)[:2], method).to_dict()
