"""`validation_data` of the booster and the network: the rows that stop them, with weights."""

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.metrics import f1_score, log_loss

from evalign import MetricBooster, MetricClassifier
from evalign.estimators import pack_classifier, unpack_classifier

X, Y = make_classification(500, 6, n_informative=4, weights=[0.7], flip_y=0.1, random_state=0)
TRAIN, VALID = slice(0, 300), slice(300, None)
TREES = {"n_estimators": 60, "patience": 5, "n_jobs": 1, "random_state": 0}


def booster(**settings):
    return MetricBooster("f1", **{**TREES, **settings})


def test_trees_are_stopped_by_the_given_rows():
    model = booster(strategy="log_loss", rule=False)
    model.fit(X[TRAIN], Y[TRAIN], validation_data=(X[VALID], Y[VALID]))
    settings = {"objective": "binary", "learning_rate": 0.05, "min_data_in_leaf": 15}
    settings |= {"verbosity": -1, "num_threads": 1}
    data = lightgbm.Dataset(X[TRAIN], Y[TRAIN])
    held_out = lightgbm.Dataset(X[VALID], Y[VALID], reference=data)
    stop = lightgbm.early_stopping(5, verbose=False)
    plain = lightgbm.train(settings, data, 60, valid_sets=[held_out], callbacks=[stop])
    assert model.rounds_ == [(plain.best_iteration, 0)]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], plain.predict(X), rtol=1e-6)


def test_the_rule_and_the_score_are_those_of_the_given_rows():
    model = booster().fit(X[TRAIN], Y[TRAIN], validation_data=(X[VALID], Y[VALID]))
    assert model.validation_score_ == pytest.approx(f1_score(Y[VALID], model.predict(X[VALID])))
    assert len(model.stages_) == 1


@pytest.mark.parametrize("kind", ["booster", "network"])
def test_rows_without_weight_do_not_count(kind):
    def fit(*data):
        if kind == "booster":
            return booster().fit(X[TRAIN], Y[TRAIN], validation_data=data)
        network = MetricClassifier("f1", hidden=(8,), max_epochs=8, random_state=0)
        return network.fit(X[TRAIN], Y[TRAIN], validation_data=data)

    weight = np.ones(200)
    weight[120:] = 0
    wrong = np.where(weight > 0, Y[VALID], 1 - Y[VALID])
    with_zeros, without = fit(X[VALID], wrong, weight), fit(X[VALID][:120], Y[VALID][:120])
    # The shrinkage of a calibration counts all rows, and thresholds lie between neighbours.
    np.testing.assert_allclose(with_zeros.predict_proba(X), without.predict_proba(X), atol=5e-3)
    rows = X[VALID][:120]
    np.testing.assert_array_equal(with_zeros.predict(rows), without.predict(rows))


def test_labels_and_wrong_data():
    features, labels = make_multilabel_classification(200, 6, n_classes=3, random_state=0)
    held_out = features[150:], labels[150:]
    model = booster(strategy="log_loss").fit(features[:150], labels[:150], validation_data=held_out)
    p = model.predict_proba(features[150:])
    assert log_loss(labels[150:].ravel(), p.ravel()) < 0.6
    with pytest.raises(ValueError, match="`validation_data` with 3 labels per row"):
        booster().fit(features, labels, validation_data=(features, labels[:, :2]))
    with pytest.raises(ValueError, match="`validation_data` with classes of `y` only, but got 2"):
        booster().fit(X, Y, validation_data=(X, Y + 1))


def test_a_packed_classifier_predicts_the_same():
    for model in (booster(n_estimators=5), MetricClassifier("f1", hidden=(4,), max_epochs=2, random_state=0)):
        facts, parts = pack_classifier(model.fit(X, Y))
        again = unpack_classifier(facts, parts)
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))
        assert {name.rpartition(".")[1:][1] for name in parts} == {model._part_suffix[1:]}
    with pytest.raises(ValueError, match="of the kind arrays or skops, or ours, but got .Pickle."):
        unpack_classifier({"kind": "Pickle"}, {})
