"""`Problem`: checked once and passed on to `compare_problem` and `fit_problem`."""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evalign import metrics
from evalign.selection import AutoClassifier, Problem, build_methods, compare, compare_problem

X, Y = make_classification(240, 4, weights=[0.7], random_state=0)
TABLE = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
METHODS = {"guess": DummyClassifier(), "logistic": LogisticRegression()}
PREPROCESSOR = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(), ["colour"]))


@pytest.mark.parametrize(
    ("data", "preprocessor"), [(X, None), (TABLE, PREPROCESSOR)], ids=["numbers", "table"]
)
def test_a_problem_gives_what_its_arguments_give(data, preprocessor):
    problem = Problem.check(data, Y, "mcc", "precision >= 0.3", preprocessor)
    settings = {"methods": METHODS, "random_state": 3}
    by_keyword = {
        **settings,
        "metric": "mcc",
        "constraints": "precision >= 0.3",
        "preprocessor": preprocessor,
    }
    with mock.patch.object(Problem, "check", side_effect=AssertionError("checked twice")):
        comparison = compare_problem(problem, n_repeats=3, **settings)
        model = AutoClassifier(**settings).fit_problem(problem)
    rows = compare(
        data, Y, "mcc", "precision >= 0.3", preprocessor=preprocessor, n_repeats=3, **settings
    ).rows
    assert [row.values for row in comparison.rows] == [row.values for row in rows]
    assert comparison.constraints == ("precision() >= 0.3",)
    again = AutoClassifier(**by_keyword).fit(data, Y)
    assert model.comparison_.metric == again.comparison_.metric == "mcc"
    assert model.best_method_ == again.best_method_
    np.testing.assert_array_equal(model.predict(data), again.predict(data))
    assert model.n_features_in_ == data.shape[1]


def test_a_refit_with_a_preprocessor_accepts_tables():
    model = AutoClassifier(methods=METHODS, random_state=0).fit(X, Y)
    model.fit_problem(Problem.check(TABLE, Y, preprocessor=PREPROCESSOR))
    assert model.predict(TABLE).shape == (240,)


def test_builders_make_unfitted_classifiers_of_the_problem():
    problem = Problem.check(TABLE, Y, "f1", preprocessor=PREPROCESSOR)
    pipeline = build_methods(["network_rule"], problem)["network_rule"](5)
    assert pipeline[-1].metric is problem.metric
    assert pipeline[-1].random_state == 5
    assert not hasattr(pipeline[0], "transformers_")


def test_the_identity_is_that_of_data_metric_constraints_and_preprocessor():
    one = Problem.check(X, Y, "f1")
    assert one.identity == Problem.check(X.copy(), Y.copy(), "f1").identity
    others = [
        Problem.check(X + 1, Y, "f1"), Problem.check(X, 1 - Y, "f1"), Problem.check(X, Y, "mcc"),
        Problem.check(X, Y, "f1", "recall >= 0.1"), Problem.check(X, Y, "f1", preprocessor=StandardScaler()),
    ]  # fmt: skip
    assert len({one.identity, *(other.identity for other in others)}) == 6


@pytest.mark.parametrize("labels", [["no", "yes"], [7, 3], [False, True]])
def test_labels_in_the_metric_mean_their_classes(labels):
    y, names = np.array(labels)[Y], sorted(labels)
    table = np.array([[0, 1], [9, 0]])
    frame = pd.DataFrame(table, index=names, columns=names).iloc[::-1]
    for named, indexed, bound in (
        (f"f1[{str(names[0])!r}]", "f1[0]", "recall[{}] >= 0.1"),
        (metrics.cost(frame), metrics.cost(table), "precision[{}] >= 0.1"),
    ):
        settings = {"methods": {"own": LogisticRegression(), "named": "lightgbm_rule"}, "random_state": 0}
        rows, best = [], []
        for metric, key in ((named, repr(str(names[1]))), (indexed, 1)):
            constraint = bound.format(key)
            rows.append(compare(X, y, metric, constraint, n_repeats=2, **settings).rows)
            model = AutoClassifier(metric, constraint, cv=2, **settings).fit(X, y)
            best.append((model.best_method_, model.predict(X).tolist()))
        for one, other in zip(*rows, strict=True):
            assert (one.values, one.slack, one.error) == (other.values, other.slack, None)
        assert best[0] == best[1]


def test_an_unknown_label_gives_a_hint():
    with pytest.raises(ValueError, match="but got 'yess'. Did you mean 'yes'?"):
        Problem.check(X, np.where(Y == 1, "yes", "no"), "recall['yess']")
