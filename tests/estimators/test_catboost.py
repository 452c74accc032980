"""`CatBoost`: its trees as arrays equal CatBoost's own predictions, are saved and loaded, and are checked."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

pytest.importorskip("catboost")

from evalign.estimators import CatBoost, pack_classifier, unpack_classifier


def draw(d, rows=240):
    X, y = make_classification(
        rows, 6, n_informative=4, n_redundant=0, n_classes=d, n_clusters_per_class=1, random_state=d
    )
    X[::7, 0] = np.nan
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_arrays_predict_what_catboost_predicts(d, weighted, monkeypatch):
    import catboost

    X, y = draw(d)
    weight = np.where(y == "a", 3.0, 1.0) if weighted else None
    kept = []
    fit = catboost.CatBoostClassifier.fit
    monkeypatch.setattr(
        catboost.CatBoostClassifier,
        "fit",
        lambda self, *args, **named: kept.append(fit(self, *args, **named)),
    )
    model = CatBoost(n_estimators=40, patience=5, n_jobs=1, random_state=0).fit(X, y, weight)
    new = np.random.default_rng(0).normal(size=(500, 6))
    new[:50, 1] = np.nan  # a feature that had no gaps
    np.testing.assert_allclose(model.predict_proba(new), kept[0].predict_proba(new), atol=1e-6)
    assert model.n_iter_ == kept[0].tree_count_
    np.testing.assert_array_equal(model.predict_proba(sparse.csr_array(X)), model.predict_proba(X))
    if weighted:
        plain = CatBoost(n_estimators=40, patience=5, n_jobs=1, random_state=0).fit(X, y)
        assert model.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.01


def test_validation_data_stop_the_rounds():
    X, y = draw(2)
    rng = np.random.default_rng(1)
    noise = rng.permutation(y)
    stopped = CatBoost(n_estimators=200, patience=3, n_jobs=1, random_state=0).fit(
        X, y, validation_data=(X, noise)
    )
    longer = CatBoost(n_estimators=200, patience=3, n_jobs=1, random_state=0).fit(
        X, y, validation_data=(X, y)
    )
    assert stopped.n_iter_ < 20 < longer.n_iter_
    with pytest.raises(
        ValueError, match=r"Expected `validation_data` with classes of `y` only, but got 'z'\."
    ):
        CatBoost(n_estimators=5).fit(X, y, validation_data=(X[:2], np.array(["a", "z"])))


def test_files_and_forged_ones():
    X, y = draw(3)
    model = CatBoost(n_estimators=10, n_jobs=1, random_state=0).fit(X, y)
    facts, parts = pack_classifier(model)
    assert list(parts) == ["estimator.skops"]
    loaded = unpack_classifier(facts, parts)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    trees = model.trees_
    for change in (
        {"features": trees.features + 6},
        {"features": -1 - trees.features},
        {"leaves": trees.leaves[:, :-1]},
        {"leaves": np.full_like(trees.leaves, np.nan)},
        {"borders": trees.borders[:, :-1]},
        {"bias": trees.bias[:-1]},
        {"features": trees.features.astype(float)},
    ):
        model.trees_ = replace(trees, **change)
        with pytest.raises(ValueError, match="with trees as CatBoost has them"):
            pack_classifier(model)
