"""`MetricDecision`: a rule from held-out probabilities for any classifier."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import f1_score, precision_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from evalign import metrics
from evalign.decisions import fit_rule
from evalign.estimators import MetricDecision


@parametrize_with_checks([MetricDecision(LogisticRegression(), cv=2), MetricDecision(LinearSVC(), cv=2)])
def test_check(estimator, check):
    if isinstance(estimator.estimator, LinearSVC) and "sparse" in str(check):
        pytest.skip("the first one is checked with all kinds of sparse tables; these take long")
    check(estimator)


def rare(classes=2, rows=900, seed=0):
    weights = [0.9, 0.1] if classes == 2 else [0.75, 0.15, 0.1]
    return make_classification(
        rows, 10, n_informative=4, n_classes=classes, weights=weights, flip_y=0.05, random_state=seed
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_the_rule_is_that_of_out_of_fold_probabilities(classes):
    X, y = rare(classes)
    model = MetricDecision(GaussianNB(), "f1", cv=4, random_state=7).fit(X, y)
    folds = StratifiedKFold(4, shuffle=True, random_state=7)
    p = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")
    held = np.concatenate([index for _, index in folds.split(X, y)])
    expected = fit_rule(p[held], y[held], "f1")
    np.testing.assert_allclose(model.rule_.weights, expected.weights)
    assert model.rule_.value == expected.value
    np.testing.assert_array_equal(model.predict(X), expected.predict(GaussianNB().fit(X, y).predict_proba(X)))
    assert len(model.fold_rules_) == 4


def test_at_least_as_good_as_the_search_of_scikit_learn():
    X, y = rare()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    theirs = TunedThresholdClassifierCV(GaussianNB(), scoring="f1", cv=folds, thresholds=200).fit(X, y)
    ours = MetricDecision(GaussianNB(), "f1", cv=folds, evidence="labels").fit(X, y)
    p = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")[:, 1]
    assert ours.rule_.value >= f1_score(y, p >= theirs.best_threshold_)
    assert len(ours.thresholds_) == 5
    assert ours.threshold_spread_ == pytest.approx(np.std([rule.threshold for rule in ours.fold_rules_]))


def test_better_than_argmax_where_classes_are_rare():
    X, y = rare(3, 3000)
    plain = LogisticRegression().fit(X[:2000], y[:2000])
    ours = MetricDecision(LogisticRegression(), "f1", random_state=0).fit(X[:2000], y[:2000])
    score = metrics.f1().score
    assert score(y[2000:], ours.predict(X[2000:])) > score(y[2000:], plain.predict(X[2000:])) + 0.02


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", [LinearSVC(), Perceptron()])
def test_scores_become_probabilities(estimator, classes):
    X, y = rare(classes)
    labels = np.array(["a", "b", "c"])[y]
    model = MetricDecision(estimator, "f1", random_state=0).fit(X, labels)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    assert model.calibration_.method == ("platt" if classes == 2 else "temperature")
    np.testing.assert_array_equal(model.predict(X), model.rule_.predict(p))
    plain = clone(estimator).fit(X, labels).predict(X)
    assert metrics.f1().score(labels, model.predict(X)) >= metrics.f1().score(labels, plain) - 0.02


def test_a_classifier_without_probabilities_and_scores_is_rejected():
    class Silent(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(
        ValueError, match="`estimator` with `predict_proba` or `decision_function`, but got Silent"
    ):
        MetricDecision(Silent()).fit(*rare())


def test_prefit_and_one_split():
    X, y = rare()
    fitted = GaussianNB().fit(X[:500], y[:500])
    model = MetricDecision(fitted, "mcc", cv="prefit").fit(X[500:], y[500:])
    assert model.estimator_ is fitted
    assert model.rule_.value == fit_rule(fitted.predict_proba(X[500:]), y[500:], "mcc").value
    once = MetricDecision(GaussianNB(), cv=0.25, refit=False, random_state=0).fit(X, y)
    assert once.estimator_.class_count_.sum() == 675
    again = MetricDecision(GaussianNB(), cv=0.25, random_state=0).fit(X, y)
    assert again.estimator_.class_count_.sum() == 900
    assert again.rule_.threshold == once.rule_.threshold


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "bagged",
    [RandomForestClassifier(30, random_state=0), BaggingClassifier(GaussianNB(), 20, random_state=0)],
)
def test_a_forest_is_trained_once_and_evaluated_out_of_bag(bagged, classes):
    X, y = rare(classes)
    labels = np.array(["a", "b", "c"])[y]
    model = MetricDecision(bagged, "f1", cv="out_of_bag").fit(X, labels)
    alone = clone(bagged).set_params(oob_score=True).fit(X, labels)
    expected = fit_rule(alone.oob_decision_function_, labels, "f1", classes=list("abc"[:classes]))
    np.testing.assert_array_equal(model.rule_.weights, expected.weights)
    assert model.validation_score_ == expected.value
    assert [rule.value for rule in model.fold_rules_] == [expected.value]
    np.testing.assert_array_equal(model.predict(X), expected.predict(alone.predict_proba(X)))
    assert not hasattr(model.estimator_, "oob_decision_function_")
    assert not bagged.oob_score


@pytest.mark.parametrize("bagged", [RandomForestClassifier, BaggingClassifier])
def test_rows_that_are_never_out_of_bag_do_not_count(bagged):
    X, y = rare()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MetricDecision(bagged(n_estimators=2, random_state=0), cv="out_of_bag").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = bagged(n_estimators=2, oob_score=True, random_state=0).fit(X, y)
    p = alone.oob_decision_function_
    scored = np.isfinite(p).all(1) & (p.sum(1) > 0)
    assert 0.5 < scored.mean() < 0.7
    assert model.rule_.value == fit_rule(p[scored], y[scored], "f1").value


def test_out_of_bag_needs_a_bagged_classifier():
    X, y = rare()
    with pytest.raises(ValueError, match="'out_of_bag' with a forest or bagging only, but got a GaussianNB"):
        MetricDecision(GaussianNB(), cv="out_of_bag").fit(X, y)
    with pytest.raises(ValueError, match="bootstrap=True"):
        MetricDecision(RandomForestClassifier(bootstrap=False), cv="out_of_bag").fit(X, y)
    for weighted in (RandomForestClassifier(class_weight="balanced"), RandomForestClassifier()):
        weight = None if weighted.class_weight else np.ones(len(y))
        with pytest.raises(ValueError, match="`cv` to be folds with weights of rows or classes"):
            MetricDecision(weighted, cv="out_of_bag").fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="`estimator` with enough parts that some rows are out of bag"):
        MetricDecision(RandomForestClassifier(1, random_state=0), cv="out_of_bag").fit(X[:2], [0, 1])


def test_a_class_that_is_missing_in_a_fold_has_probability_0_there():
    X, y = rare(3, 300)
    rarest = np.flatnonzero(y == 2)
    rows = np.concatenate([np.flatnonzero(y != 2), rarest[:1]])
    with pytest.warns(UserWarning, match="Drew 2 folds instead of 5, since the rarest class has 1 row."):
        model = MetricDecision(GaussianNB(), "f1", random_state=0).fit(X[rows], y[rows])
    assert list(model.classes_) == [0, 1, 2]
    assert model.predict_proba(X).shape == (300, 3)


def test_constraints_are_satisfied_or_the_violation_is_reported():
    X, y = rare(2, 3000)
    model = MetricDecision(
        RandomForestClassifier(30, random_state=0), "recall", "precision >= 0.8", random_state=0
    )
    model.fit(X[:2000], y[:2000])
    assert model.rule_.feasible
    sure = clone(model).set_params(confidence=0.95).fit(X[:2000], y[:2000])
    assert sure.rule_.threshold > model.rule_.threshold
    assert precision_score(y[2000:], sure.predict(X[2000:])) >= 0.8
    with pytest.warns(UserWarning, match="violated: precision"):
        MetricDecision(GaussianNB(), "recall", ["precision >= 1", "recall >= 0.99"]).fit(X[:500], y[:500])


def test_a_class_is_named_by_its_label():
    X, y = rare(3)
    names = np.array(["common", "other", "rare"])[y]
    settings = {"estimator": LogisticRegression(), "cv": 3, "random_state": 0}
    bound = "recall['rare'] >= 0.95"
    model = MetricDecision(metric="accuracy", constraints=[bound], **settings).fit(X, names)
    by_index = MetricDecision(metric="accuracy", constraints=["recall[2] >= 0.95"], **settings).fit(X, y)
    assert model.rule_.feasible
    assert (model.predict(X)[y == 2] == "rare").mean() > 0.9
    np.testing.assert_array_equal(model.rule_.weights, by_index.rule_.weights)
    costs = pd.DataFrame([[0, 20], [1, 0]], index=["yes", "no"], columns=["yes", "no"])
    two = MetricDecision(metric=metrics.cost(costs), **settings).fit(X, np.where(y == 2, "yes", "no"))
    plain = MetricDecision(metric=metrics.cost([[0, 1], [20, 0]]), **settings).fit(X, y == 2)
    assert two.rule_.value == plain.rule_.value


def test_sample_weight_counts_in_classifier_and_rule():
    X, y = rare()
    weight = np.where(y == 1, 20.0, 1.0)
    model = MetricDecision(GaussianNB(), random_state=0).fit(X, y, sample_weight=weight)
    assert model.estimator_.class_prior_[1] == pytest.approx(weight[y == 1].sum() / weight.sum())
    assert model.rule_.value > MetricDecision(GaussianNB(), random_state=0).fit(X, y).rule_.value
    with pytest.raises(ValueError, match="`sample_weight` to be None, since KNeighborsClassifier"):
        MetricDecision(KNeighborsClassifier()).fit(X, y, sample_weight=weight)


def test_pandas_grid_search_clone_pickle():
    X, y = rare()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    labels = pd.Series(np.where(y == 1, "yes", "no"), index=np.arange(len(y))[::-1])
    model = MetricDecision(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(
        frame, labels
    )
    assert list(model.feature_names_in_) == list(frame.columns)
    assert set(model.predict(frame)) == {"yes", "no"}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame), model.predict(frame))
    grid = GridSearchCV(
        MetricDecision(LogisticRegression()), {"estimator__C": [0.01, 1.0]}, scoring="f1", cv=3
    ).fit(X, y)
    assert grid.best_params_["estimator__C"] in (0.01, 1.0)


def test_many_jobs_give_the_same_rule():
    X, y = rare()
    with parallel_config("threading"):
        one, two = (MetricDecision(GaussianNB(), n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    assert one.rule_.threshold == two.rule_.threshold


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cv": 1}, "`cv` to be a number of folds >= 2, .*, but got 1"),
        ({"cv": 1.5}, r"a fraction in \(0, 1\), .*, but got 1.5"),
        ({"cv": "fitted"}, "or 'prefit', but got 'fitted'"),
        ({"cv": object()}, r"a splitter or pairs \(train, test\), but got <object"),
        ({"refit": False}, "`refit` to be True"),
        ({"metric": "auroc"}, "one number"),
        ({"metric": "f11"}, "Did you mean 'f1'"),
        ({"constraints": "precision = 0.9"}, "`constraint"),
        ({"confidence": 2}, "`confidence` in"),
    ],
)
def test_wrong_settings_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        MetricDecision(GaussianNB(), **settings).fit(*rare())


def test_one_class_is_rejected():
    with pytest.raises(ValueError, match="at least two classes"):
        MetricDecision(GaussianNB()).fit(np.zeros((10, 2)), np.zeros(10))


def test_rows_with_labels_of_other_classes_are_rejected_when_prefit():
    X, y = rare()
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="`y` with labels of `classes` only"):
        MetricDecision(fitted, cv="prefit").fit(X, y + 1)


@pytest.mark.parametrize("kind", ["U1", object, bool, float, np.int32])
def test_predictions_have_the_type_of_the_classes(kind):
    X, y = make_classification(60, random_state=0)
    labels = (y.astype(str) if kind is object else y).astype(kind)
    model = MetricDecision(GaussianNB(), cv=2).fit(X, labels)
    assert model.predict(X).dtype == model.classes_.dtype == labels.dtype
