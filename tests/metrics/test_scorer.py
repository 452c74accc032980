"""`Metric.scorer` inside scikit-learn's cross-validation and search."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.tree import DecisionTreeClassifier

from evalign import metrics


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=120, weights=[0.7], flip_y=0.1, random_state=0)


@pytest.mark.parametrize(("metric", "scoring"), [
    (metrics.accuracy(), "accuracy"), (metrics.balanced_accuracy(), "balanced_accuracy"),
    (metrics.f1(), "f1"),
    (metrics.precision(average="macro"), "precision_macro"), (metrics.jaccard(), "jaccard"),
    (metrics.mcc(), make_scorer(matthews_corrcoef)), (metrics.auroc(), "roc_auc"),
], ids=repr)  # fmt: skip
def test_cross_val_score_equals_sklearn(data, metric, scoring):
    model = LogisticRegression()
    ours = cross_val_score(model, *data, cv=4, scoring=metric.scorer())
    np.testing.assert_allclose(ours, cross_val_score(model, *data, cv=4, scoring=scoring), rtol=0, atol=1e-9)


def test_three_classes_equal_sklearn():
    model, (features, labels) = (
        DecisionTreeClassifier(max_depth=2, random_state=0),
        load_iris(return_X_y=True),
    )
    ours = cross_val_score(model, features, labels, scoring=metrics.f1().scorer())
    np.testing.assert_allclose(ours, cross_val_score(model, features, labels, scoring="f1_macro"), atol=1e-9)


def test_cost_is_negated():
    features, labels = np.zeros((10, 1)), np.array([0] * 8 + [1] * 2)
    model = DummyClassifier(strategy="constant", constant=0).fit(features, labels)
    assert metrics.cost([[0, 1], [10, 0]]).scorer()(model, features, labels) == pytest.approx(-2)


def test_grid_search_finds_the_cheapest():
    features, labels = np.zeros((20, 1)), np.array([0, 0, 0, 1] * 5)
    grid = {"constant": [0, 1]}
    cost = metrics.cost([[0, 1], [10, 0]])
    search = GridSearchCV(DummyClassifier(strategy="constant"), grid, scoring=cost.scorer(), cv=5)
    search.fit(features, labels)
    assert search.best_params_ == {"constant": 1}
    assert search.best_score_ == pytest.approx(-0.75)


def test_grid_search_finds_the_highest():
    features, labels = np.zeros((20, 1)), np.array([0, 0, 0, 1] * 5)
    scorer = metrics.accuracy().scorer()
    search = GridSearchCV(DummyClassifier(strategy="constant"), {"constant": [0, 1]}, scoring=scorer, cv=5)
    search.fit(features, labels)
    assert search.best_params_ == {"constant": 0}
    assert search.best_score_ == pytest.approx(0.75)


def test_labels_name_a_class_that_is_absent_from_a_fold():
    features, labels = np.zeros((4, 1)), np.array(["a", "b", "b", "b"])
    model = DummyClassifier(strategy="constant", constant="b").fit(features, labels)
    macro = (0 + 6 / 7) / 2  # of a and b; c neither occurs nor is predicted
    assert metrics.f1().scorer(labels=["a", "b", "c"])(model, features, labels) == pytest.approx(macro)
    assert metrics.f1().scorer()(model, features, labels) == pytest.approx(6 / 7)


def test_sample_weight_reaches_the_metric():
    features, labels = np.zeros((4, 1)), np.array([0, 0, 1, 1])
    model = DummyClassifier(strategy="constant", constant=1).fit(features, labels)
    value = metrics.accuracy().scorer()(model, features, labels, sample_weight=[1, 1, 4, 2])
    assert value == pytest.approx(6 / 8)
