"""`MetricDecision` with multilabel targets: one threshold per label."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evalign import MetricDecision, metrics
from evalign.decisions import fit_rule

X, Y = make_multilabel_classification(200, 8, n_classes=3, n_labels=1, random_state=0)
FOLDS = list(KFold(3, shuffle=True, random_state=0).split(X))
FOREST = RandomForestClassifier(10, random_state=0)


def label_probabilities(model, X):
    """The probability of each label: from one table per label, or from one table."""
    p = model.predict_proba(X)
    return np.stack([part[:, 1] for part in p], axis=1) if isinstance(p, list) else p


@pytest.mark.parametrize(
    "estimator",
    [
        FOREST,
        KNeighborsClassifier(),
        OneVsRestClassifier(LogisticRegression()),
        MultiOutputClassifier(GaussianNB()),
        ClassifierChain(LogisticRegression()),
        make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=20, solver="lbfgs", random_state=0)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_the_rule_is_that_of_out_of_fold_probabilities(estimator):
    from sklearn.base import clone

    model = MetricDecision(estimator, "f1", cv=FOLDS).fit(X, Y)
    parts = [label_probabilities(clone(estimator).fit(X[train], Y[train]), X[test]) for train, test in FOLDS]
    rows = np.concatenate([test for _, test in FOLDS])
    wanted = fit_rule(np.concatenate(parts), Y[rows], "f1")
    np.testing.assert_array_equal(model.rule_.thresholds, wanted.thresholds)
    p = label_probabilities(clone(estimator).fit(X, Y), X)
    np.testing.assert_array_equal(model.predict_proba(X), p)
    np.testing.assert_array_equal(model.predict(X), p >= wanted.thresholds)
    np.testing.assert_array_equal(model.decision_function(X), p - wanted.thresholds)
    held_out = np.concatenate(parts) >= wanted.thresholds
    assert model.validation_score_ == pytest.approx(f1_score(Y[rows], held_out, average="macro"))
    assert model.multilabel_
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.thresholds_.shape == (3, 3)
    np.testing.assert_allclose(model.threshold_spread_, np.std(model.thresholds_, axis=0))


def test_two_labels_are_not_two_classes():
    model = MetricDecision(FOREST, cv=FOLDS).fit(X, Y[:, :2])
    assert model.predict(X).shape == (200, 2)
    assert model.thresholds_.shape == (3, 2)


def test_folds_are_drawn_by_chance():
    drawn = MetricDecision(FOREST, cv=3, random_state=0).fit(X, Y)
    assert drawn.validation_score_ == MetricDecision(FOREST, cv=FOLDS).fit(X, Y).validation_score_


@pytest.mark.parametrize("kind", [pd.DataFrame, sparse.csr_matrix, list, np.asarray, lambda y: y == 1])
def test_targets_of_any_kind(kind):
    model = MetricDecision(FOREST, cv=FOLDS).fit(X, kind(Y.tolist() if kind is list else Y))
    np.testing.assert_array_equal(model.predict(X), MetricDecision(FOREST, cv=FOLDS).fit(X, Y).predict(X))


def test_out_of_bag_and_prefit():
    forest = RandomForestClassifier(50, random_state=0)
    model = MetricDecision(forest, "f1", cv="out_of_bag").fit(X, Y)
    p = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, Y).oob_decision_function_
    np.testing.assert_array_equal(model.rule_.thresholds, fit_rule(p[:, 1], Y, "f1").thresholds)
    fitted = RandomForestClassifier(10, random_state=0).fit(X[:100], Y[:100])
    prefit = MetricDecision(fitted, "f1", cv="prefit").fit(X[100:], Y[100:])
    wanted = fit_rule(label_probabilities(fitted, X[100:]), Y[100:], "f1")
    np.testing.assert_array_equal(prefit.rule_.thresholds, wanted.thresholds)


def test_weights_and_constraints():
    weight = np.random.default_rng(0).uniform(0.1, 5, 200)
    model = MetricDecision(FOREST, "recall", "precision >= 0.8", cv=FOLDS).fit(X, Y, sample_weight=weight)
    parts = []
    for train, test in FOLDS:
        forest = RandomForestClassifier(10, random_state=0).fit(X[train], Y[train], weight[train])
        parts.append(label_probabilities(forest, X[test]))
    rows = np.concatenate([test for _, test in FOLDS])
    p = np.concatenate(parts)
    wanted = fit_rule(p, Y[rows], "recall", "precision >= 0.8", weight[rows])
    np.testing.assert_array_equal(model.rule_.thresholds, wanted.thresholds)
    guess = model.rule_.predict(p)
    assert metrics.precision().score(Y[rows], guess, weight[rows]) >= 0.8 - 1e-9


def test_a_label_that_is_constant_in_training():
    y = Y.copy()
    y[:, 1] = 0
    y[FOLDS[0][1], 1] = 1  # only held-out rows of the first fold have label 1
    model = MetricDecision(DummyClassifier(strategy="prior"), "accuracy", cv=FOLDS).fit(X, y)
    assert model.predict_proba(X).shape == (200, 3)
    assert model.predict(X).shape == (200, 3)
    y[:, 1] = 0
    with pytest.raises(ValueError, match="`cv` to be folds with a label that is always 0 or always 1"):
        MetricDecision(FOREST, cv="out_of_bag").fit(X, y)


def test_scores_instead_of_probabilities_are_rejected():
    with pytest.raises(ValueError, match="with `predict_proba` for multilabel targets, but got Ridge"):
        MetricDecision(RidgeClassifier()).fit(X, Y)


def test_a_classifier_of_other_labels_is_rejected():
    fitted = RandomForestClassifier(5, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="with probabilities of 2 labels, but got RandomForest"):
        MetricDecision(fitted, cv="prefit").fit(X, Y[:, :2])


@pytest.mark.parametrize(
    "estimator",
    [FOREST, MultiOutputClassifier(LogisticRegression()), OneVsRestClassifier(LogisticRegression())],
    ids=lambda estimator: type(estimator).__name__,
)
def test_saved_and_loaded(tmp_path, estimator):
    model = MetricDecision(estimator, "f1", cv=2, random_state=0).fit(X, Y)
    model.save(tmp_path)
    again = MetricDecision.load(tmp_path)
    for name in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    assert again.multilabel_
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)
    assert again.validation_score_ == model.validation_score_
    np.testing.assert_array_equal(again.fit(X, Y).predict(X), model.predict(X))
