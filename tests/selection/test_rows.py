"""Weights, groups, splitters, tables and multilabel targets in `compare` and `AutoClassifier`."""

from functools import partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score, precision_score
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from evalign import AutoClassifier, MetricDecision, compare
from evalign.selection import Problem, build_methods
from evalign.selection._settings import use_one_thread

X, Y = make_classification(240, 6, n_informative=3, weights=[0.75], flip_y=0.1, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.2, 3, 240)
GROUPS = np.random.default_rng(1).integers(0, 20, 240)
BAYES = {"bayes": GaussianNB()}
SEED = np.random.RandomState(0).randint(2**31 - 1)


def scores(splits, estimator=None, weight=None, score=f1_score):
    """Fit and score on each split by hand."""
    values = []
    for train, test in splits:
        own = [] if weight is None else [weight[train]]
        model = clone(estimator or GaussianNB()).fit(X[train], Y[train], *own)
        test_weight = None if weight is None else weight[test]
        values.append(score(Y[test], model.predict(X[test]), sample_weight=test_weight))
    return pytest.approx(values)


def check_folds(model, name, splits, weight=None, score=f1_score, y=Y):
    """Check that a member was judged on these splits, by what it predicted there."""
    held_out = model.out_of_fold_[name]
    np.testing.assert_array_equal(held_out.rows, np.concatenate([test for _, test in splits]))
    ends = np.cumsum([len(test) for _, test in splits])[:-1]
    values = [
        score(y[test], predicted, sample_weight=None if weight is None else weight[test])
        for (_, test), predicted in zip(splits, np.split(held_out.predicted, ends), strict=True)
    ]
    assert list(model.comparison_.row(name).values) == pytest.approx(values)


def test_weights_count_in_the_fit_and_in_the_score():
    splits = list(StratifiedShuffleSplit(3, test_size=0.2, random_state=SEED).split(X, Y))
    comparison = compare(
        X, Y, "f1", "precision >= 0.5", methods=BAYES, n_repeats=3, sample_weight=list(WEIGHT)
    )
    assert list(comparison.rows[0].values) == scores(splits, weight=WEIGHT)
    precision = scores(splits, weight=WEIGHT, score=precision_score).expected
    assert comparison.rows[0].slack == pytest.approx(np.mean(precision) - 0.5)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=SEED).split(X, Y))
    model = AutoClassifier(methods=BAYES, cv=3, random_state=0).fit(X, Y, sample_weight=WEIGHT)
    check_folds(model, "bayes", folds, WEIGHT)
    for (train, _), own in zip(folds, model.members_[0].models, strict=True):
        np.testing.assert_allclose(own.theta_, GaussianNB().fit(X[train], Y[train], WEIGHT[train]).theta_)


@pytest.mark.parametrize("preprocessor", [None, StandardScaler()], ids=["plain", "preprocessor"])
@pytest.mark.parametrize("routing", [False, True], ids=["names", "routing"])
def test_weights_and_groups_reach_named_methods_in_pipelines(preprocessor, routing):
    holes = X.copy()
    holes[::9, 2] = np.nan  # networks get an imputer, which makes a pipeline of them
    if preprocessor is not None:
        holes = X
        preprocessor = clone(preprocessor)
    weight = np.where(Y == 1, 50.0, 1e-6)
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing and preprocessor is not None:
            preprocessor.set_fit_request(sample_weight=False)
        problem = Problem.check(holes, Y, preprocessor=preprocessor, sample_weight=weight, groups=GROUPS)
        builders = build_methods(["lightgbm", "random_forest_rule", "network"], problem)
        for name, build in builders.items():
            model = build(0)
            model.set_params(**{one: 2 for one in model.get_params() if one.endswith("max_epochs")})
            model.set_params(**{one: 10 for one in model.get_params() if one.endswith("n_estimators")})
            problem.fit(model)
            if name != "network":  # two epochs are too few to see anything
                assert model.predict(holes).mean() > 0.95, name


def test_a_method_that_does_not_accept_weights_is_named():
    methods = {**BAYES, "mine": make_pipeline(StandardScaler(), KNeighborsClassifier())}
    message = r"`sample_weight` to be None, since the method 'mine' does not accept it \(KNeighborsClassifier"
    with pytest.raises(ValueError, match=message):
        compare(X, Y, methods=methods, sample_weight=WEIGHT)
    with pytest.raises(ValueError, match=message):
        AutoClassifier(methods=methods).fit(X, Y, sample_weight=WEIGHT)


def test_wrong_weights_and_groups_are_rejected():
    with pytest.raises(ValueError, match="Negative values"):
        compare(X, Y, methods=BAYES, sample_weight=-WEIGHT)
    with pytest.raises(ValueError, match="sample_weight.shape"):
        AutoClassifier(methods=BAYES).fit(X, Y, sample_weight=WEIGHT[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        compare(X, Y, methods=BAYES, groups=GROUPS[:-1])
    with pytest.raises(ValueError, match="`groups` with at least two groups"):
        compare(X, Y, methods=BAYES, groups=np.zeros(240))


def test_weights_equal_repeated_rows():
    methods = {"bayes": GaussianNB(), "logistic": LogisticRegression(tol=1e-10, max_iter=1000)}
    weight = np.random.default_rng(2).integers(1, 4, 240)
    rows = np.repeat(np.arange(240), weight)
    folds = list(KFold(3).split(X))
    repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in folds]
    one = AutoClassifier("mcc", methods=methods, cv=folds).fit(X, Y, sample_weight=weight)
    two = AutoClassifier("mcc", methods=methods, cv=repeated).fit(X[rows], Y[rows])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-3)
    assert one.weights_ == pytest.approx(two.weights_, abs=1e-2)


@pytest.mark.parametrize(
    "cv",
    [
        GroupKFold(4), StratifiedGroupKFold(4), LeaveOneGroupOut(), TimeSeriesSplit(4),
        PredefinedSplit(np.arange(240) % 3 - 1), list(KFold(3).split(X)),
    ],
    ids=lambda cv: type(cv).__name__,
)  # fmt: skip
def test_splitters(cv):
    groups = GROUPS if "Group" in type(cv).__name__ else None
    splits = cv if isinstance(cv, list) else list(cv.split(X, Y, *[] if groups is None else [groups]))
    comparison = compare(X, Y, methods=BAYES, cv=cv, groups=groups)
    assert list(comparison.rows[0].values) == scores(splits)
    model = AutoClassifier(methods=BAYES, cv=cv).fit(X, Y, groups=groups)
    check_folds(model, "bayes", splits)


def test_the_interval_is_that_of_the_mean_ratio_of_test_to_training_rows():
    methods = {**BAYES, "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}
    row = compare(X, Y, methods=methods, cv=TimeSeriesSplit(3)).row("tree")
    gaps = np.array(scores(TimeSeriesSplit(3).split(X), methods["tree"]).expected)
    gaps -= scores(TimeSeriesSplit(3).split(X)).expected
    # 60 rows each are tested after 60, 120 and 180, so the mean ratio is (1 + 1/2 + 1/3) / 3 = 11/18.
    half = 4.302653 * np.sqrt(gaps.var(ddof=1) * (1 / 3 + 11 / 18))  # t(0.975, 2)
    assert row.interval == pytest.approx((gaps.mean() - half, gaps.mean() + half), abs=1e-6)


def test_one_split_is_enough():
    methods = {"guess": DummyClassifier(), **BAYES}
    model = AutoClassifier(methods=methods, cv=0.25, random_state=0).fit(X, Y)
    assert model.best_method_ == "bayes"
    (one,) = model.best_single_.members[0].models
    assert one.class_count_.sum() == 180
    # Weights and rule are judged on five parts of the 60 rows that were held out.
    assert len(model.out_of_fold_["bayes"].rows) == 60
    assert len(model.comparison_.row("bayes").values) == 5


def test_groups_without_a_splitter_are_kept_together():
    comparison = compare(X, Y, methods=BAYES, n_repeats=3, groups=pd.Series(GROUPS))
    splits = GroupShuffleSplit(3, test_size=0.2, random_state=SEED).split(X, Y, GROUPS)
    assert list(comparison.rows[0].values) == scores(splits)
    model = AutoClassifier(methods=BAYES, cv=4, random_state=0).fit(X, Y, groups=GROUPS)
    splits = list(StratifiedGroupKFold(4, shuffle=True, random_state=SEED).split(X, Y, GROUPS))
    check_folds(model, "bayes", splits)


class Grouped(GaussianNB):
    """Checks that its groups are those of its rows."""

    def fit(self, X, y, groups):
        np.testing.assert_array_equal(groups, np.asarray(X)[:, 0])
        return super().fit(X, y)


def test_groups_reach_methods_that_accept_them():
    rows = np.c_[GROUPS, X]
    methods = {"mine": Grouped(), "decided": MetricDecision(GaussianNB(), cv=StratifiedGroupKFold(2))}
    comparison = compare(rows, Y, methods=methods, n_repeats=2, groups=GROUPS)
    assert [row.error for row in comparison.rows] == [None, None]


def test_rare_classes_get_fewer_folds_in_compare():
    y = np.repeat([0, 1], [237, 3])
    with pytest.warns(UserWarning, match="Drew 3 folds instead of 5, since the rarest class has 3 rows."):
        comparison = compare(X, y, methods=BAYES, cv=5)
    assert len(comparison.rows[0].values) == 3


def test_a_class_may_be_absent_from_a_part():
    order = np.argsort(Y, kind="stable")
    with pytest.raises(ValueError, match="All methods failed: logistic: ValueError: This solver needs"):
        compare(X[order], Y[order], methods={"logistic": LogisticRegression()}, cv=TimeSeriesSplit(3))
    y = np.repeat(["a", "b", "c"], 80)
    cv = [(np.r_[0:160], np.r_[160:240]), (np.r_[0:40, 80:240], np.r_[40:80])]
    methods = {**BAYES, "lightgbm_rule": "lightgbm_rule"}
    comparison = compare(X, y, "accuracy", methods=methods, cv=cv)
    assert [row.error for row in comparison.rows] == [None, None]
    assert comparison.row("bayes").values[0] == 0  # class "c" is unknown to it
    assert comparison.row("bayes").values[1] == pytest.approx(
        np.mean(GaussianNB().fit(X[cv[1][0]], y[cv[1][0]]).predict(X[40:80]) == "a")
    )


def test_weights_and_groups_are_part_of_the_identity(tmp_path):
    plain = Problem.check(X, Y)
    others = [
        Problem.check(X, Y, sample_weight=WEIGHT), Problem.check(X, Y, sample_weight=WEIGHT + 1),
        Problem.check(X, Y, groups=GROUPS), Problem.check(X, Y, groups=GROUPS + 1),
    ]  # fmt: skip
    assert len({one.identity for one in [plain, *others]}) == 5
    assert others[0].identity == Problem.check(X, Y, sample_weight=WEIGHT.copy()).identity
    file = tmp_path / "trials.jsonl"
    compare(X, Y, methods=BAYES, n_repeats=1, trials_file=file)
    with pytest.raises(ValueError, match="`trials_file` of this data"):
        compare(X, Y, methods=BAYES, n_repeats=1, sample_weight=WEIGHT, trials_file=file)


# Tables and labels of any kind.

TABLE = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
ENCODER = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
TABLES = {
    "pandas": TABLE,
    "categories": TABLE.astype({"colour": "category"}),
    "polars": pl.DataFrame(TABLE.to_dict("list")),
}
NUMBERS = np.c_[TABLE["colour"] == "blue", TABLE["colour"] == "red", X[:, 0]].astype(float)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("labels", [list, np.array, pd.Series, pd.Categorical, pl.Series])
def test_own_classifiers_get_what_the_user_passed(table, labels):
    methods = {"mine": make_pipeline(ENCODER, GaussianNB())}
    y = labels(["yes" if one else "no" for one in Y])
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    wanted = [
        f1_score(Y[test], GaussianNB().fit(NUMBERS[train], Y[train]).predict(NUMBERS[test]))
        for train, test in splits
    ]
    assert compare(table, y, methods=methods, cv=splits).rows[0].values == pytest.approx(wanted)
    model = AutoClassifier(methods=methods, cv=splits).fit(table, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert f1_score(Y, model.predict(table) == "yes") > np.mean(wanted)
    for (train, _), own in zip(splits, model.members_[0].models, strict=True):
        np.testing.assert_allclose(own[-1].theta_, GaussianNB().fit(NUMBERS[train], Y[train]).theta_)
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["size", "colour"]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_named_methods_accept_tables_of_texts(table):
    names = ["lightgbm", "random_forest_rule", "network"]
    comparison = compare(table, Y, methods=names, n_repeats=1)
    assert {row.method: row.error for row in comparison.rows} == dict.fromkeys(names)
    model = AutoClassifier(methods=["extra_trees", "lightgbm"], cv=2).fit(table, Y)
    assert model.left_out_ == {}
    assert model.predict(table).shape == (240,)
    assert model.feature_names_in_.tolist() == ["size", "colour"]


def test_named_methods_do_not_accept_arrays_of_texts():
    message = "`X` to be a DataFrame or an array of numbers for named methods, .* Pass a DataFrame, `prepro"
    texts = np.array([["red"], ["blue"]] * 120)
    with pytest.raises(ValueError, match=message):
        compare(texts, Y, methods=["lightgbm"])
    with pytest.raises(ValueError, match=message):
        AutoClassifier(methods={"mine": make_pipeline(ENCODER, GaussianNB()), "other": "network"}).fit(
            texts, Y
        )


def test_named_methods_accept_nullable_columns_and_polars():
    whole = pd.DataFrame(X, columns=list("abcdef"))
    nullable = whole.astype("Float64")
    nullable.iloc[::7, 2] = pd.NA
    assert compare(nullable, Y, methods=["network", "random_forest_rule"], n_repeats=1).rows[0].error is None
    polars = pl.DataFrame({name: whole[name].to_numpy() for name in whole})
    one, two = (compare(table, Y, methods=["lightgbm"], n_repeats=1) for table in (whole, polars))
    assert one.rows[0].values == two.rows[0].values


def test_texts_with_a_preprocessor():
    texts = [f"{'good' if one else 'bad'} thing {number}" for number, one in enumerate(Y)]
    model = AutoClassifier(
        methods={"logistic": LogisticRegression()}, preprocessor=CountVectorizer(), cv=2
    ).fit(texts, Y)
    assert model.score(texts, Y) == 1
    assert not hasattr(model, "n_features_in_")


def test_no_deprecated_parameter_is_set_in_other_processes():
    linear = make_pipeline(StandardScaler(), MetricDecision(LogisticRegression()))
    assert {
        value for name, value in use_one_thread(linear).get_params().items() if name.endswith("n_jobs")
    } == {1, None}
    assert linear[-1].n_jobs == 1
    with joblib.parallel_config("threading"):
        comparison = compare(X, Y, methods={"logistic": LogisticRegression()}, n_repeats=2, n_jobs=2)
    assert comparison.rows[0].error is None  # warnings are errors


def test_workers_have_the_configuration_of_scikit_learn():
    with sklearn.config_context(enable_metadata_routing=True), joblib.parallel_config("threading"):
        steps = (
            StandardScaler().set_fit_request(sample_weight=True),
            LogisticRegression().set_fit_request(sample_weight=False),
        )
        methods = {"mine": make_pipeline(*steps)}
        comparison = compare(X, Y, methods=methods, n_repeats=2, sample_weight=WEIGHT, n_jobs=2)
    wanted = []
    for train, test in StratifiedShuffleSplit(2, test_size=0.2, random_state=SEED).split(X, Y):
        scaler = StandardScaler().fit(X[train], sample_weight=WEIGHT[train])
        model = LogisticRegression().fit(scaler.transform(X[train]), Y[train])
        predicted = model.predict(scaler.transform(X[test]))
        wanted.append(f1_score(Y[test], predicted, sample_weight=WEIGHT[test]))
    assert list(comparison.rows[0].values) == pytest.approx(wanted)


# Multilabel targets.

FEATURES, LABELS = make_multilabel_classification(150, 8, n_classes=3, n_labels=1, random_state=0)
FOREST = {"forest": RandomForestClassifier(10, random_state=0)}


def label_scores(splits):
    forest = FOREST["forest"]
    return pytest.approx(
        [
            f1_score(
                LABELS[test],
                clone(forest).fit(FEATURES[train], LABELS[train]).predict(FEATURES[test]),
                average="macro",
            )
            for train, test in splits
        ]
    )


def test_multilabel_targets_in_compare():
    comparison = compare(FEATURES, LABELS, methods=FOREST, n_repeats=2)
    splits = ShuffleSplit(2, test_size=0.2, random_state=SEED).split(FEATURES)
    assert list(comparison.rows[0].values) == label_scores(splits)
    groups = np.arange(150) // 5
    comparison = compare(FEATURES, LABELS, methods=FOREST, cv=GroupKFold(3), groups=groups)
    assert list(comparison.rows[0].values) == label_scores(GroupKFold(3).split(FEATURES, groups=groups))


def test_multilabel_targets_in_auto_classifier():
    methods = {
        **FOREST,
        "ruled": MetricDecision(FOREST["forest"], cv=2),
        "ridge": RidgeClassifier(),
        "bayes": GaussianNB(),
    }
    model = AutoClassifier(methods=methods, cv=3, random_state=0).fit(FEATURES, pd.DataFrame(LABELS))
    splits = list(KFold(3, shuffle=True, random_state=SEED).split(FEATURES))
    check_folds(model, "forest", splits, score=partial(f1_score, average="macro"), y=LABELS)
    assert "1d array" in model.left_out_["bayes"]
    assert "predict_proba" in model.left_out_["ridge"]
    assert model.predict(FEATURES).shape == model.predict_proba(FEATURES).shape == (150, 3)
    assert f1_score(LABELS, model.predict(FEATURES), average="macro") > 0.8
    assert model.classes_.tolist() == [0, 1, 2]


def test_named_members_accept_multilabel_targets():
    names = ["lightgbm", "extra_trees", "logistic"]
    model = AutoClassifier(methods=names, cv=2, random_state=0).fit(FEATURES, LABELS)
    assert model.left_out_ == {}
    assert model.comparison_.row("ensemble").mean > 0.5


def test_named_methods_accept_multilabel_targets():
    names = ["lightgbm_rule", "random_forest_rule", "network_rule", "lightgbm_balanced"]
    comparison = compare(FEATURES, LABELS, methods=names, n_repeats=1)
    assert "class_weight" in comparison.row("lightgbm_balanced").error  # it has no meaning for labels
    for name in names[:3]:
        assert comparison.row(name).mean > 0.3
