"""`MetricDecision`: weights, groups and splitters around pipelines, with and without metadata routing."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    PredefinedSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evalign.decisions import fit_rule
from evalign.estimators import MetricDecision

X, Y = make_classification(240, 6, n_informative=3, weights=[0.75], flip_y=0.1, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.2, 3, 240)
GROUPS = np.random.default_rng(1).integers(0, 20, 240)
FOLDS = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))


def pipeline():
    return make_pipeline(StandardScaler(), LogisticRegression())


def held_out_rule(splits, step_weight=None, rule_weight=None):
    """Fit each step by hand, and the rule on the rows that are tested."""
    p, rows = [], []
    for train, test in splits:
        scaler = StandardScaler().fit(X[train])
        weight = None if step_weight is None else step_weight[train]
        model = LogisticRegression().fit(scaler.transform(X[train]), Y[train], weight)
        p.append(model.predict_proba(scaler.transform(X[test])))
        rows.append(test)
    p, rows = np.concatenate(p), np.concatenate(rows)
    return fit_rule(p, Y[rows], "f1", (), None if rule_weight is None else rule_weight[rows])


def test_weights_reach_the_last_step_of_a_pipeline_and_the_rule():
    model = MetricDecision(pipeline(), cv=FOLDS).fit(X, Y, sample_weight=WEIGHT)
    wanted = held_out_rule(FOLDS, WEIGHT, WEIGHT)
    assert model.rule_.threshold == pytest.approx(wanted.threshold)
    assert model.validation_score_ == pytest.approx(wanted.value)
    whole = LogisticRegression().fit(StandardScaler().fit_transform(X), Y, WEIGHT)
    np.testing.assert_allclose(model.estimator_[-1].coef_, whole.coef_)
    nested = MetricDecision(Pipeline([("inner", pipeline())]), cv=FOLDS).fit(X, Y, sample_weight=list(WEIGHT))
    assert nested.rule_.threshold == model.rule_.threshold


def test_weights_of_a_step_are_divided_among_the_folds_and_not_for_the_rule():
    model = MetricDecision(pipeline(), cv=FOLDS).fit(X, Y, logisticregression__sample_weight=WEIGHT)
    wanted = held_out_rule(FOLDS, WEIGHT)
    assert model.rule_.threshold == pytest.approx(wanted.threshold)
    assert model.validation_score_ == pytest.approx(wanted.value)
    both = MetricDecision(pipeline(), cv=FOLDS).fit(
        X, Y, sample_weight=WEIGHT, logisticregression__sample_weight=np.ones(240)
    )
    assert both.validation_score_ == pytest.approx(held_out_rule(FOLDS, None, WEIGHT).value)


def test_weights_that_a_pipeline_cannot_use_are_rejected():
    model = MetricDecision(make_pipeline(StandardScaler(), KNeighborsClassifier()))
    with pytest.raises(ValueError, match="to be None, since KNeighborsClassifier.fit does not accept it"):
        model.fit(X, Y, sample_weight=WEIGHT)


class Listener(LogisticRegression):
    """Records the parameters of `fit`."""

    calls: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None, cost=None, groups=None, names=None):
        Listener.calls.append((np.asarray(X), cost, groups, names))
        return super().fit(X, y, sample_weight)


def test_any_parameter_with_a_value_per_row_is_divided():
    Listener.calls = []
    cost, names = pd.Series(X[:, 0] * 2), ["a", "b"]
    MetricDecision(Listener(), cv=GroupKFold(4)).fit(X, Y, groups=GROUPS, cost=cost, names=names)
    assert [len(call[0]) for call in Listener.calls] == [
        *(len(train) for train, _ in GroupKFold(4).split(X, Y, GROUPS)),
        240,
    ]
    group_of = dict(zip(X[:, 0], GROUPS, strict=True))
    for rows, own_cost, own_groups, own_names in Listener.calls:
        np.testing.assert_array_equal(own_cost, rows[:, 0] * 2)
        np.testing.assert_array_equal(own_groups, [group_of[row[0]] for row in rows])
        assert own_names == names


def test_groups_reach_the_splitter_of_a_search():
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(2))
    model = MetricDecision(search, cv=GroupKFold(3)).fit(X, Y, groups=pd.Series(GROUPS))
    by_hand = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(2)).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(
        model.estimator_.cv_results_["mean_test_score"], by_hand.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize(
    "cv",
    [
        GroupKFold(4), StratifiedGroupKFold(4), TimeSeriesSplit(4), FOLDS,
        PredefinedSplit(np.arange(240) % 3 - 1),
    ],
    ids=lambda cv: type(cv).__name__,
)  # fmt: skip
def test_splitters(cv):
    needs_groups = "Group" in type(cv).__name__
    splits = cv if isinstance(cv, list) else list(cv.split(X, Y, *[GROUPS] * needs_groups))
    model = MetricDecision(pipeline(), cv=cv).fit(X, Y, groups=GROUPS if needs_groups else None)
    wanted = held_out_rule(splits)  # TimeSeriesSplit and PredefinedSplit do not test all rows
    assert model.rule_.threshold == pytest.approx(wanted.threshold)
    assert model.validation_score_ == pytest.approx(wanted.value)
    assert len(model.fold_rules_) == len(splits)


def test_groups_without_a_splitter_are_kept_together():
    model = MetricDecision(pipeline(), cv=4, random_state=0).fit(X, Y, groups=GROUPS)
    splits = list(StratifiedGroupKFold(4, shuffle=True, random_state=0).split(X, Y, GROUPS))
    assert model.validation_score_ == pytest.approx(held_out_rule(splits).value)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MetricDecision(pipeline()).fit(X, Y, groups=GROUPS[:-1])
    forest = MetricDecision(RandomForestClassifier(5), cv="out_of_bag")
    with pytest.raises(ValueError, match="`cv` to be folds with groups, but got 'out_of_bag'"):
        forest.fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize("cv", [GroupKFold(4), FOLDS])
def test_a_splitter_is_not_part_of_a_saved_model(tmp_path, cv):
    model = MetricDecision(pipeline(), cv=cv).fit(X, Y, groups=None if cv is FOLDS else GROUPS)
    model.save(tmp_path)
    again = MetricDecision.load(tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert len(again.fold_rules_) == len(model.fold_rules_)
    assert again.cv is None


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_metadata_routing(n_jobs):
    steps = (
        StandardScaler().set_fit_request(sample_weight=False),
        LogisticRegression().set_fit_request(sample_weight=True),
    )
    model = MetricDecision(make_pipeline(*steps), cv=GroupKFold(4), n_jobs=n_jobs)
    with joblib.parallel_config("threading"):  # each thread has a configuration of its own, as a process has
        model.fit(X, Y, sample_weight=WEIGHT, groups=GROUPS)
    wanted = held_out_rule(GroupKFold(4).split(X, Y, GROUPS), WEIGHT, WEIGHT)
    assert model.rule_.threshold == pytest.approx(wanted.threshold)
    assert model.validation_score_ == pytest.approx(wanted.value)


@pytest.mark.usefixtures("_routing")
def test_metadata_routing_by_request_only():
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        MetricDecision(LogisticRegression(), cv=3).fit(X, Y, sample_weight=WEIGHT)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    alias = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=False),
        LogisticRegression().set_fit_request(sample_weight="importance"),
    )
    model = MetricDecision(alias, cv=folds).fit(X, Y, importance=WEIGHT)
    assert model.validation_score_ == pytest.approx(held_out_rule(FOLDS, WEIGHT).value)
    silent = pipeline().set_params(
        logisticregression=LogisticRegression().set_fit_request(sample_weight=False),
        standardscaler=StandardScaler().set_fit_request(sample_weight=False),
    )
    ruled = MetricDecision(silent, cv=folds).fit(X, Y, sample_weight=WEIGHT)
    assert ruled.validation_score_ == pytest.approx(held_out_rule(FOLDS, None, WEIGHT).value)


@pytest.mark.usefixtures("_routing")
def test_metadata_is_routed_through_a_search_to_the_decision():
    inner = MetricDecision(LogisticRegression().set_fit_request(sample_weight=True), cv=2, random_state=0)
    inner.set_fit_request(sample_weight=True, groups=True)
    scorer = get_scorer("accuracy").set_score_request(sample_weight=False)
    search = GridSearchCV(inner, {"estimator__C": [0.1]}, cv=GroupKFold(3), scoring=scorer)
    search.fit(X, Y, sample_weight=WEIGHT, groups=GROUPS)
    alone = MetricDecision(
        LogisticRegression(C=0.1).set_fit_request(sample_weight=True), cv=2, random_state=0
    ).fit(X, Y, sample_weight=WEIGHT, groups=GROUPS)
    assert search.best_estimator_.validation_score_ == alone.validation_score_


def test_a_fold_without_a_class():
    order = np.argsort(Y, kind="stable")
    with pytest.raises(
        ValueError, match="`cv` with two classes to train on in every fold, but got only 0 in"
    ):
        MetricDecision(pipeline(), cv=TimeSeriesSplit(3)).fit(X[order], Y[order])
    # The first training part has no class 2, and its test part has no other; the second test part has no 1.
    X3, y3 = make_classification(60, 6, n_informative=4, n_classes=3, random_state=0)
    order = np.argsort(y3, kind="stable")
    X3, y3 = X3[order], y3[order]
    parts = [(np.r_[0:40], np.r_[40:60]), (np.r_[10:50], np.r_[0:10, 50:60])]
    for estimator in (GaussianNB(), RidgeClassifier()):
        model = MetricDecision(estimator, cv=parts).fit(X3, y3)
        assert model.classes_.tolist() == [0, 1, 2]
        np.testing.assert_allclose(model.predict_proba(X3).sum(1), 1)
    (train, test), (other_train, other_test) = parts
    first = GaussianNB().fit(X3[train], y3[train]).predict_proba(X3[test])
    second = GaussianNB().fit(X3[other_train], y3[other_train]).predict_proba(X3[other_test])
    p = np.concatenate([np.c_[first, np.zeros(20)], second])
    rule = fit_rule(p, y3[np.r_[test, other_test]], "f1")
    model = MetricDecision(GaussianNB(), cv=parts).fit(X3, y3)
    np.testing.assert_allclose(model.rule_.weights, rule.weights)


def test_a_class_that_was_not_seen_has_the_lowest_score():
    class Sure(RidgeClassifier):
        def decision_function(self, X):
            scores = super().decision_function(X)
            return np.full(len(X), 20.0) if scores.ndim == 1 else scores

    from evalign.estimators._responses import predict_response

    model = Sure().fit(X, Y)
    response, is_probability = predict_response(model, X[:3], np.array([0, 1, 2]))
    assert not is_probability
    np.testing.assert_array_equal(response, [[-10, 10, -11]] * 3)


TABLE = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("labels", [pd.Series, pl.Series, pd.Categorical, list])
def test_tables_and_labels_of_any_kind(kind, labels):
    encoder = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    table = TABLE if kind is pd.DataFrame else pl.DataFrame(TABLE.to_dict("list"))
    names = ["yes" if one else "no" for one in Y]
    model = MetricDecision(make_pipeline(encoder, GaussianNB()), cv=FOLDS).fit(table, labels(names))
    numbers = np.c_[TABLE["colour"] == "blue", TABLE["colour"] == "red", X[:, 0]].astype(float)
    p = cross_val_predict(GaussianNB(), numbers, Y, cv=FOLDS, method="predict_proba")
    rows = np.concatenate([test for _, test in FOLDS])
    assert model.validation_score_ == pytest.approx(fit_rule(p[rows], Y[rows], "f1").value)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == ["size", "colour"]
    assert model.n_features_in_ == 2
    assert set(model.predict(table)) == {"no", "yes"}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["a", None] * 120, dtype=object), "`y` without missing labels, but got None in row 1"),
        (pd.Series(["a", pd.NA] * 120, dtype=object), "`y` without missing labels, but got <NA> in row 1"),
        (pd.Series([0, None] * 120), "contains NaN"),
        (np.array(["a", 1] * 120, dtype=object), "`y` with labels of one type, but got several"),
        (np.tile([0, 2], (240, 1)), "or 0 and 1 for each of several labels, but got 2 in 2 columns"),
        (np.tile(["a", "b"], (240, 1)), "or 0 and 1 for each of several labels, but got 'a' in 2 columns"),
        (np.linspace(0, 1, 240), "Unknown label type: continuous"),
    ],
)
def test_wrong_labels_are_rejected(labels, message):
    with pytest.raises(ValueError, match=message):
        MetricDecision(GaussianNB()).fit(X, labels)
