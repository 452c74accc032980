"""A metric that names classes by their labels is fitted as the one that names them by their indices."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from evalign import MetricBooster, MetricClassifier, MetricDecision, metrics

X, Y = make_classification(120, 5, n_informative=4, n_classes=3, n_redundant=0, random_state=0)
TWO = X[Y < 2], Y[Y < 2]
LABELS = {"texts": ["no", "yes"], "integers": [7, 3], "booleans": [False, True], "three": ["b", "c", "a"]}
MODELS = {
    "network": lambda *goal: MetricClassifier(*goal, hidden=(8,), max_epochs=4, random_state=0),
    "booster": lambda *goal: MetricBooster(
        *goal, n_bags=1, n_estimators=10, metric_rounds=5, n_jobs=1, random_state=0
    ),
    "decision": lambda *goal: MetricDecision(LogisticRegression(), *goal, cv=3, random_state=0),
}


def rows(kind):
    """The rows, their labels, and the labels in sorted order."""
    features, y = (X, Y) if kind == "three" else TWO
    names = LABELS[kind]
    return features, np.array(names)[y], sorted(names)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("name", MODELS)
def test_a_label_is_the_index_of_its_class(name, kind, tmp_path):
    features, labels, names = rows(kind)
    goal = f"fbeta(beta=3)[{str(names[0])!r}]", [f"recall[{str(names[1])!r}] >= 0.1"]
    by_label = MODELS[name](*goal).fit(features, labels)
    by_index = MODELS[name]("fbeta(beta=3)[0]", ["recall[1] >= 0.1"]).fit(features, labels)
    np.testing.assert_array_equal(by_label.predict(features), by_index.predict(features))
    assert by_label.validation_score_ == by_index.validation_score_
    assert by_label.metric == goal[0]
    by_label.save(tmp_path)
    loaded = type(by_label).load(tmp_path)
    assert metrics.as_metric(loaded.metric).name == metrics.as_metric(goal[0]).name
    assert [one.name for one in loaded.constraints] == goal[1]
    np.testing.assert_array_equal(loaded.predict(features), by_label.predict(features))


@pytest.mark.parametrize("kind", ["booleans", "three"])
@pytest.mark.parametrize("name", MODELS)
def test_the_costs_of_a_frame_are_those_of_its_classes(name, kind, tmp_path):
    features, labels, names = rows(kind)
    table = np.array([[0, 1, 4], [9, 0, 2], [3, 5, 0]])[: len(names), : len(names)]
    frame = pd.DataFrame(table, index=names, columns=names).iloc[::-1]
    by_label = MODELS[name](metrics.cost(frame)).fit(features, labels)
    by_index = MODELS[name](metrics.cost(table)).fit(features, labels)
    np.testing.assert_array_equal(by_label.predict(features), by_index.predict(features))
    assert by_label.validation_score_ == by_index.validation_score_
    by_label.save(tmp_path)
    loaded = metrics.as_metric(type(by_label).load(tmp_path).metric)
    guess = by_label.predict(features)
    assert loaded.score(labels, guess) == pytest.approx(metrics.cost(table).score(labels, guess))


@pytest.mark.parametrize("name", MODELS)
def test_an_unknown_label_gives_a_hint(name):
    for goal in (("recall['yess']",), ("f1", ["recall['yess'] >= 0.5"])):
        with pytest.raises(ValueError, match=r"one of \['no', 'yes'\], but got 'yess'. Did you mean 'yes'?"):
            MODELS[name](*goal).fit(*rows("texts")[:2])


@pytest.mark.parametrize("name", ["network", "booster"])
def test_labels_of_a_multilabel_problem_are_their_places(name):
    table = np.stack([Y == 0, Y > 0, Y == 2], 1).astype(int)
    by_text, by_index = (MODELS[name](text).fit(X, table) for text in ("f1['2']", "f1[2]"))
    np.testing.assert_array_equal(by_text.predict(X), by_index.predict(X))
