"""Forests and linear models as arrays: the same predictions, and forged trees are rejected."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evalign.estimators import pack_classifier, unpack_classifier
from evalign.estimators._arrays import pack_arrays_of, unpack_arrays_of

X, Y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
NEW = np.random.default_rng(1).normal(size=(500, 6)) * 2


@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"], [0.0, 1.0, 2.0]])
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(10, random_state=0),
        ExtraTreesClassifier(10, min_samples_leaf=3, random_state=0),
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=500)),
    ],
)
def test_predictions_are_exactly_the_same(model, names):
    model = model.fit(X, np.array(names)[Y])
    facts, arrays = pack_arrays_of(model)
    again = unpack_arrays_of(json.loads(json.dumps(facts)), arrays)
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    # At its thresholds, too, where rounding would show.
    if hasattr(model, "estimators_"):
        tree = model.estimators_[0].tree_
        edges = np.repeat(np.float32(tree.threshold[tree.feature >= 0])[:, None], 6, axis=1)
        for rows in (
            edges,
            np.nextafter(edges, np.float32(np.inf)),
            np.nextafter(edges, np.float32(-np.inf)),
        ):
            np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_missing_values_take_the_same_branch():
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = RandomForestClassifier(10, random_state=0).fit(gaps, Y)
    again = unpack_arrays_of(*pack_arrays_of(model))
    np.testing.assert_array_equal(again.predict_proba(gaps), model.predict_proba(gaps))


def test_what_has_no_form_as_arrays_is_left_to_skops():
    several = np.column_stack([Y, Y])
    for model in (
        GaussianNB().fit(X, Y),
        RandomForestClassifier(3, max_leaf_nodes=9, random_state=0).fit(X, Y),  # trees in another order
        RandomForestClassifier(3, random_state=np.random.RandomState(0)).fit(X, Y),
        RandomForestClassifier(3, random_state=0).fit(X, several),
    ):
        assert pack_arrays_of(model) is None
        facts, parts = pack_classifier(model)
        assert list(parts) == ["estimator.skops"]
        np.testing.assert_array_equal(unpack_classifier(facts, parts).predict(NEW), model.predict(NEW))


def put(name, place, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


def cut(name):
    return lambda arrays: arrays.__setitem__(name, arrays[name][:-1])


@pytest.mark.parametrize(
    "change",
    [
        put("right", 0, 10**6), put("right", 0, 0), put("right", 0, -1), put("right", 3, 1),
        put("feature", 0, 6), put("feature", 0, -1), put("leaf", 0, -1), put("leaf", 0, 10**6),
        put("threshold", 0, np.nan), put("values", 0, np.inf), put("kinds", 0, 0), put("kinds", 0, 7),
        put("kinds", -1, 1), put("sizes", 0, -5), put("sizes", 0, 10**12), put("sizes", 0, 2),
        cut("right"), cut("feature"), cut("threshold"), cut("leaf"), cut("kinds"), cut("sizes"),
        cut("depths"),
        lambda arrays: arrays.__setitem__("right", arrays["right"].astype(np.int64)),
        lambda arrays: arrays.__setitem__("values", arrays["values"][:, :2].copy()),
        lambda arrays: arrays.__setitem__("sizes", arrays["sizes"][:0]),
    ],
)  # fmt: skip
def test_forged_trees_are_rejected(change):
    facts, arrays = pack_arrays_of(RandomForestClassifier(3, max_depth=4, random_state=0).fit(X, Y))
    unpack_arrays_of(facts, arrays)
    change(arrays)
    with pytest.raises(ValueError, match="Expected `folder` with"):
        unpack_arrays_of(facts, arrays)


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "SVC"}, {"type": "Tree"}, {"n_features": 0}, {"n_features": 2}, {"n_features": "6"},
        {"classes_dtype": "O"}, {"classes_dtype": "<U500000000"}, {"classes": [0, 1]},
        {"settings": {"criterion": ["gini"]}},
    ],
)  # fmt: skip
def test_forged_facts_are_rejected(forged):
    facts, arrays = pack_arrays_of(RandomForestClassifier(3, max_depth=4, random_state=0).fit(X, Y))
    with pytest.raises(ValueError, match="Expected `folder` with"):
        unpack_arrays_of({**facts, **forged}, arrays)
