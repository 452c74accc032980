"""`MetricClassifier` with few or no hidden units is trained until it is trained."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.preprocessing import StandardScaler

import evalign as ev


def rare_classes(rows, seed):
    """Three Gaussian clouds in six dimensions, two of them rare: the best classifier is linear."""
    generator = np.random.default_rng(seed)
    y = generator.choice(3, rows, p=[0.9, 0.06, 0.04])
    X = generator.normal(size=(rows, 6))
    X[:, 0] += 3 * (y == 1)
    X[:, 1] += 3 * (y == 2)
    return X * [1, 1, 5, 0.1, 1, 1] + 3, y


def test_a_linear_network_reaches_the_optimum_of_logistic_regression():
    X, y = rare_classes(1500, seed=0)
    X_new, y_new = rare_classes(4000, seed=1)
    model = ev.MetricClassifier("f1", strategy="cross_entropy", hidden=(), random_state=0).fit(X, y)
    scaler = StandardScaler().fit(X)
    optimum = LogisticRegression(C=np.inf).fit(scaler.transform(X), y)
    best = log_loss(y_new, optimum.predict_proba(scaler.transform(X_new)))
    assert log_loss(y_new, model.predict_proba(X_new)) < 1.05 * best


def test_a_linear_network_on_the_metric_is_as_good_as_logistic_regression_with_a_rule():
    X, y = rare_classes(1500, seed=0)
    X_new, y_new = rare_classes(4000, seed=1)
    model = ev.MetricClassifier("f1", hidden=(), random_state=0).fit(X, y)
    ruled = ev.MetricDecision(LogisticRegression(max_iter=1000), "f1", random_state=0).fit(X, y)
    ours, theirs = (f1_score(y_new, one.predict(X_new), average="macro") for one in (model, ruled))
    assert ours > theirs - 0.03


def test_eight_hidden_units_learn_a_ring():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1200, 2))
    y = (np.square(X).sum(1) > 2.5).astype(int)
    model = ev.MetricClassifier("f1", strategy="cross_entropy", hidden=(8,), dropout=0.0, random_state=0)
    assert f1_score(y[800:], model.fit(X[:800], y[:800]).predict(X[800:])) > 0.9


@pytest.mark.parametrize(
    ("settings", "pace"),
    [
        ({"hidden": ()}, (0.03, 30)),
        ({"hidden": (8, 8)}, (0.01, 30)),
        ({"hidden": (17,)}, (1e-3, 10)),
        ({}, (1e-3, 10)),
        ({"network": lambda features, classes: None}, (1e-3, 10)),
        ({"hidden": (), "learning_rate": 0.5, "patience": 2}, (0.5, 2)),
    ],
)
def test_only_small_networks_have_a_pace_of_their_own(settings, pace):
    assert ev.MetricClassifier(**settings)._choose_pace() == pace


def test_bins_let_a_linear_model_follow_a_wave(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.uniform(-3, 3, (800, 2))
    y = (np.sin(3 * x[:, 0]) + 0.2 * generator.normal(size=800) > 0).astype(int)
    scores = []
    for n_bins in (0, 16):
        model = ev.MetricClassifier(
            "accuracy", strategy="cross_entropy", hidden=(), n_bins=n_bins, max_epochs=60, random_state=0
        ).fit(x[:600], y[:600])
        scores.append((model.predict(x[600:]) == y[600:]).mean())
    assert scores[0] < 0.7 < 0.88 < scores[1]
    model.save(tmp_path / "model")
    loaded = ev.MetricClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    edges = model.networks_[0][0].edges
    model.set_params(warm_start=True, max_epochs=1).fit(x[:600], y[:600])
    assert model.networks_[0][0].edges is edges


def test_bins_of_sparse_features_are_refused():
    x = sparse.csr_array(np.eye(40))
    with pytest.raises(ValueError, match="Expected `n_bins` to be 0 for sparse features, but got 4"):
        ev.MetricClassifier(n_bins=4).fit(x, np.arange(40) % 2)
