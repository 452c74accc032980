"""`AutoClassifier`: members, weights and rule, their evidence, and scikit-learn's own checks."""

import json
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import evalign as ev
from evalign.decisions import fit_rule, fit_scaling
from evalign.selection import MEMBERS, AutoClassifier, Comparison, auto, mixture
from evalign.selection.comparison import Row, corrected_interval

X, Y = make_classification(240, 6, weights=[0.7], flip_y=0.05, random_state=0)
CHEAP = {"tree": DecisionTreeClassifier(max_depth=3), "logistic": LogisticRegression()}
SEED = np.random.RandomState(0).randint(2**31 - 1)


@parametrize_with_checks(
    [AutoClassifier("balanced_accuracy", methods=CHEAP, cv=2, random_state=0)],
)
def test_check(estimator, check):
    check(estimator)


def log_odds(model, rows):
    return np.log(np.clip(model.predict_proba(X[rows]), 1e-4, 1)) @ [-1, 1]


def fit_folds(model, n_folds=3):
    """The folds, and the models that were fitted without them."""
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=SEED).split(X, Y))
    return [(test, clone(model).fit(X[train], Y[train])) for train, test in folds]


def test_a_member_is_judged_by_a_calibration_and_a_rule_of_other_folds():
    model = AutoClassifier("f1", methods={"bayes": GaussianNB()}, cv=3, random_state=0).fit(X, Y)
    folds = fit_folds(GaussianNB())
    values = []
    for number, (test, _) in enumerate(folds):
        others = [fold for place, fold in enumerate(folds) if place != number]
        rows = np.concatenate([rows for rows, _ in others])
        scores = np.concatenate([log_odds(bayes, own) for own, bayes in others])
        scaling = fit_scaling(scores, Y[rows])
        rule = fit_rule(1 / (1 + np.exp(-scaling.apply(scores))), Y[rows], "f1")
        own = 1 / (1 + np.exp(-scaling.apply(log_odds(folds[number][1], test))))
        values.append(f1_score(Y[test], rule.predict(own)))
    assert list(model.comparison_.row("bayes").values) == pytest.approx(values, abs=0.02)
    assert [row.method for row in model.comparison_.rows] == ["bayes"]  # one member is no ensemble
    assert (model.best_method_, model.weights_) == ("bayes", {"bayes": 1.0})


def test_probabilities_are_the_weighted_mean_of_calibrated_models_of_the_folds():
    model = AutoClassifier("f1", methods=TWO_EYES, cv=3, random_state=0).fit(SEEN, TRUTH)
    assert set(model.weights_) == {"left", "right"}
    assert sum(model.weights_.values()) == pytest.approx(1)
    total = 0
    for member in model.members_:
        assert len(member.models) == 3
        (scaling,) = member.calibrator.scalings
        for one in member.models:
            logs = np.log(np.clip(one.predict_proba(SEEN), 1e-4, 1))
            centred = logs - logs.mean(1, keepdims=True)
            total = total + member.weight / 3 * softmax(scaling.slope * centred + scaling.offsets, axis=1)
    (final,) = model.ensemble_.final.scalings
    logs = np.log(np.clip(total, 1e-4, 1))
    p = softmax(final.slope * (logs - logs.mean(1, keepdims=True)) + final.offsets, axis=1)
    np.testing.assert_allclose(model.predict_proba(SEEN), p)
    np.testing.assert_array_equal(model.predict(SEEN), model.rule_.predict(p))
    np.testing.assert_array_equal(model.decision_function(SEEN) >= 0, model.predict(SEEN) == 1)


# Each of two members sees one of the two features that the class depends on.
SEEN = np.random.default_rng(0).normal(size=(600, 2))
TRUTH = (SEEN.sum(1) + 0.3 * np.random.default_rng(1).normal(size=600) > 1).astype(int)


def take_column(X, place):
    return np.asarray(X)[:, [place]]


TWO_EYES = {
    name: make_pipeline(FunctionTransformer(take_column, kw_args={"place": place}), LogisticRegression())
    for place, name in enumerate(["left", "right"])
}


def test_mixing_beats_each_member_on_new_rows():
    model = AutoClassifier("f1", methods=TWO_EYES, random_state=0).fit(SEEN[:300], TRUTH[:300])
    assert model.answer_ == "ensemble"
    assert min(model.weights_.values()) > 0.2
    mixed, single = (f1_score(TRUTH[300:], one.predict(SEEN[300:])) for one in (model, model.best_single_))
    assert mixed > single + 0.05
    row = model.comparison_.row("ensemble")
    assert row.difference == pytest.approx(row.mean - model.comparison_.row(model.best_method_).mean)


def test_the_single_member_is_the_answer_where_mixing_does_not_help():
    noise = np.random.default_rng(5).normal(size=(240, 1))
    methods = {
        "logistic": LogisticRegression(),
        "noise": make_pipeline(FunctionTransformer(lambda X: noise[: len(X)]), DecisionTreeClassifier()),
    }
    model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, Y)
    assert model.weights_ == {"logistic": 1.0}
    assert model.best_method_ == "logistic"
    np.testing.assert_array_equal(model.predict(X), model.best_single_.predict(X))


@pytest.mark.parametrize(
    ("n_members", "gap", "answer"),
    [(1, 0.02, "ensemble"), (1, 0.05, "m0"), (9, 0.05, "ensemble"), (9, 0.09, "m0")],
)
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_best_of_many_members_must_be_better_by_more(n_members, gap, answer, higher_is_better):
    """By 2.8 standard errors of five folds for one member, by 5.0 for the best of nine."""
    noise = np.array([-0.02, 0.02, 0.0, -0.01, 0.01])  # a standard error of 0.0106, with 1/5 + 1/4
    sign = 1 if higher_is_better else -1
    gaps = noise - sign * gap
    best = Row("m0", (0.5,) * 5, 0.5, 0.0)
    others = [replace(best, method=f"m{number}") for number in range(1, n_members)]
    mixed = Row("ensemble", tuple(0.5 + gaps), 0.5 - sign * gap, 0.0, float(gaps.mean()))
    mixed = replace(mixed, interval=corrected_interval(gaps, 0.25))
    comparison = Comparison("f1", higher_is_better, "m0", (), (best, *others, mixed))
    assert auto.choose_answer(comparison) == answer


def test_a_row_is_never_judged_by_a_model_that_saw_it():
    shuffled = np.random.default_rng(0).permutation(Y)
    methods = {"nearest": KNeighborsClassifier(1)}
    model = AutoClassifier("accuracy", methods=methods, random_state=0).fit(X, shuffled)
    assert (
        model.comparison_.row("nearest").mean < 0.75
    )  # the share of the first class; seen rows would give 1
    held_out = model.out_of_fold_["nearest"]
    assert sorted(held_out.rows) == list(range(240))
    assert (held_out.predicted == shuffled[held_out.rows]).mean() < 0.75


def test_max_models_limits_the_members():
    model = AutoClassifier("f1", methods=TWO_EYES, max_models=1, random_state=0).fit(SEEN, TRUTH)
    assert list(model.weights_.values()) == [1.0]
    with pytest.raises(ValueError, match="`max_models` to be an integer >= 1, but got 0"):
        AutoClassifier(methods=CHEAP, max_models=0).fit(X, Y)


def test_refit_fits_one_model_per_member_on_all_rows():
    model = AutoClassifier("f1", methods=TWO_EYES, refit=True, random_state=0).fit(SEEN, TRUTH)
    for member in model.members_:
        (one,) = member.models
        alone = clone(TWO_EYES[member.name]).fit(SEEN, TRUTH)
        np.testing.assert_allclose(one[-1].coef_, alone[-1].coef_)
    assert f1_score(TRUTH, model.predict(SEEN)) > f1_score(TRUTH, model.best_single_.predict(SEEN)) + 0.05


def test_refit_boosts_the_mean_number_of_rounds():
    settings = {"methods": ["lightgbm"], "cv": 3, "random_state": 0}
    folds = AutoClassifier("f1", **settings).fit(X, Y)
    rounds = np.mean([one.n_iter_ for one in folds.members_[0].models])
    (one,) = AutoClassifier("f1", refit=True, **settings).fit(X, Y).members_[0].models
    assert one.n_iter_ == round(rounds)


def test_all_members_are_mixed_saved_and_loaded(tmp_path, monkeypatch):
    X, y = make_classification(90, 4, weights=[0.7], random_state=0)
    monkeypatch.setattr(mixture, "choose_weights", lambda p, *_: np.full(len(p), 1 / len(p)))
    monkeypatch.setattr(Comparison, "best", property(lambda self: self.rows[-1].method))
    model = AutoClassifier(cv=2, random_state=0).fit(X, y)
    assert {row.method: row.error for row in model.comparison_.rows} == dict.fromkeys([*MEMBERS, "ensemble"])
    assert model.left_out_ == {}
    assert model.weights_ == dict.fromkeys(MEMBERS, 1 / len(MEMBERS))
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "m")
    again = AutoClassifier.load(tmp_path / "m")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert (again.weights_, again.comparison_) == (model.weights_, model.comparison_)
    assert (again.best_method_, again.left_out_) == (model.best_method_, model.left_out_)


def test_a_forged_ensemble_is_rejected(tmp_path):
    AutoClassifier("f1", methods={"bayes": GaussianNB()}, cv=2, random_state=0).fit(X, Y).save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())

    def load(**changes):
        (tmp_path / "model.json").write_text(json.dumps({**facts, **changes}))
        return AutoClassifier.load(tmp_path)

    ensemble = facts["ensemble"]
    (member,) = ensemble["members"]
    assert load().weights_ == {member["name"]: 1.0}
    for change, message in (
        ({"members": []}, "with members and a rule"),
        ({"members": [{**member, "weight": 0.5}]}, "with weights that sum to 1"),
        ({"members": [{**member, "models": []}]}, "as many models and preprocessors"),
        ({"members": [{**member, "calibration": [[1.0, [0.0, 0.0, 0.0]]]}]}, "a calibration for the classes"),
        ({"members": [{**member, "models": [{"kind": "Pickle"}] * 2}]}, "with classifiers of the kind"),
        ({"members": 3}, "with a complete model.json"),
    ):
        with pytest.raises(ValueError, match=f"Expected `folder` .*{message}"):
            load(ensemble={**ensemble, **change})


def test_a_method_that_cannot_be_saved_is_named(tmp_path):
    model = AutoClassifier("f1", methods={"mine": Counted()}, cv=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="Expected `methods` that can be saved, but got 'mine'"):
        model.save(tmp_path / "m")


def test_a_preprocessor_is_saved_with_each_fold(tmp_path):
    settings = {"methods": {"logistic": LogisticRegression()}, "preprocessor": StandardScaler()}
    model = AutoClassifier("f1", **settings, cv=2, random_state=0).fit(X, Y)
    one, other = model.ensemble_.preprocessors
    assert one.mean_[0] != other.mean_[0]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        AutoClassifier.load(tmp_path / "m").predict_proba(X), model.predict_proba(X)
    )


def test_constraints_come_before_the_metric():
    bound = AutoClassifier("recall", ["precision >= 0.6"], methods=CHEAP, random_state=0).fit(X, Y)
    free = AutoClassifier("recall", methods=CHEAP, random_state=0).fit(X, Y)
    assert bound.comparison_.constraints == ("precision() >= 0.6",)
    assert bound.predict(X).sum() < free.predict(X).sum()
    assert bound.comparison_.row(bound.comparison_.best).slack > -0.05
    with pytest.warns(UserWarning, match="No rule satisfies the constraints on the held-out rows"):
        AutoClassifier("recall", "precision >= 0.99", methods={"guess": DummyClassifier()}).fit(X, Y)


@pytest.mark.parametrize("rows", [3, 1])
def test_a_rare_class_does_not_reduce_the_folds(rows):
    y = np.r_[np.zeros(60), np.ones(60), np.full(rows, 2.0)]
    model = AutoClassifier("accuracy", methods=CHEAP, cv=5, random_state=0).fit(X[: len(y)], y)
    assert len(model.members_[0].models) == 5
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (240, 3)


@pytest.mark.parametrize("value", [0, 2.5, True, "five"])
def test_folds_are_integers(value):
    with pytest.raises(ValueError, match="`cv` to be a number of folds >= 2, a fraction"):
        AutoClassifier(methods=CHEAP, cv=value).fit(X, Y)


def test_names_of_methods():
    with pytest.raises(ValueError, match="Did you mean 'lightgbm'"):
        AutoClassifier(methods=["lightgb"]).fit(X, Y)
    with pytest.raises(ValueError, match="with other names than 'ensemble'"):
        AutoClassifier(methods={"ensemble": GaussianNB()}).fit(X, Y)
    model = AutoClassifier(methods={"mine": "lightgbm_rule", "bayes": GaussianNB()}, cv=2).fit(X, Y)
    assert [row.method for row in model.comparison_.rows] == ["mine", "bayes", "ensemble"]


def test_scores_become_probabilities():
    unfitted = AutoClassifier(methods=CHEAP)
    for name in ("predict", "predict_proba", "decision_function", "save"):
        with pytest.raises(NotFittedError):
            getattr(unfitted, name)(X)
    ridge = AutoClassifier(methods={"ridge": RidgeClassifier()}, random_state=0).fit(X, Y)
    p = ridge.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    assert ((p[:, 1] > 0.5) == RidgeClassifier().fit(X, Y).predict(X)).mean() > 0.95


def test_labels_may_be_strings_and_features_have_names():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = AutoClassifier(methods=CHEAP, random_state=0).fit(frame, np.array(["no", "yes"])[Y])
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(frame)) == {"no", "yes"}
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.n_features_in_ == 6
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])


def test_missing_values_are_imputed_for_named_members_only():
    holes = X.copy()
    holes[::5, 1] = np.nan
    model = AutoClassifier(methods=["logistic", "extra_trees"], cv=2, random_state=0).fit(holes, Y)
    assert model.predict(holes).shape == (240,)
    assert model.left_out_ == {}
    with pytest.raises(ValueError, match="All methods failed: logistic: ValueError: Input X contains NaN"):
        AutoClassifier(methods={"logistic": LogisticRegression()}).fit(holes, Y)


def test_a_failing_member_is_left_out_with_its_error():
    methods = {"bad": LogisticRegression(C=-1.0), "bayes": GaussianNB()}
    model = AutoClassifier(methods=methods, random_state=0).fit(X, Y)
    assert model.weights_ == {"bayes": 1.0}
    assert model.left_out_["bad"].startswith("failed: InvalidParameterError")


def test_sparse_features():
    model = AutoClassifier(methods=CHEAP, random_state=0).fit(sparse.csr_matrix(X), Y)
    np.testing.assert_array_equal(model.predict(sparse.csr_matrix(X)), model.predict(X))


def test_two_processes_fit_what_one_fits():
    one, two = (AutoClassifier(methods=CHEAP, n_jobs=jobs, random_state=0).fit(X, Y) for jobs in (None, 2))
    assert [row.values for row in one.comparison_.rows] == [row.values for row in two.comparison_.rows]
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_another_backend_of_joblib_fits_the_same():
    one = AutoClassifier(methods=CHEAP, cv=2, random_state=0).fit(X, Y)
    with joblib.parallel_config("threading"):
        two = AutoClassifier(methods=CHEAP, cv=2, n_jobs=2, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_it_can_be_pickled_and_cloned():
    model = AutoClassifier(ev.metrics.fbeta(beta=2), methods=CHEAP, random_state=0).fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.comparison_ == model.comparison_
    copy = clone(model)
    assert not hasattr(copy, "ensemble_")
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))


def test_progress_is_shown_only_if_verbose(capsys):
    AutoClassifier(methods=CHEAP).fit(X, Y)
    assert capsys.readouterr().err == ""
    AutoClassifier(methods=CHEAP, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["tree", "logistic"]
    assert all("s for 5 models" in line and " f1 0." in line for line in lines)


class Counted(ClassifierMixin, BaseEstimator):
    """Logistic regression that records the rows of each fit, and may be interrupted in one of them."""

    rows: list = []  # noqa: RUF012

    def __init__(self, interrupt=None, guess=False):
        self.interrupt = interrupt
        self.guess = guess

    def fit(self, X, y):
        Counted.rows.append(len(X))
        if len(Counted.rows) == self.interrupt:
            raise KeyboardInterrupt
        self.model_ = (DummyClassifier() if self.guess else LogisticRegression()).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def test_many_rows_are_seen_by_the_members_that_a_sample_chose(monkeypatch):
    monkeypatch.setattr(auto, "MANY_ROWS", 200)
    monkeypatch.setattr(auto, "SAMPLE", 100)
    monkeypatch.setattr(auto.draw_sample, "__defaults__", (10,))
    Counted.rows.clear()
    methods = {"guess": DummyClassifier(), "counted": Counted()}
    model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, Y)
    assert Counted.rows == [80] * 5 + [192] * 5
    assert model.weights_ == {"counted": 1.0}
    assert model.left_out_ == {"guess": "not in the mixture of a sample of 100 rows"}


def test_a_member_that_cannot_help_is_dropped_after_one_fold(monkeypatch):
    monkeypatch.setattr(auto, "ENOUGH_ROWS", 40)
    Counted.rows.clear()
    methods = {"logistic": LogisticRegression(), "counted": Counted(guess=True)}
    model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, Y)
    assert len(Counted.rows) == 1
    assert model.left_out_ == {"counted": "its first fold shows that it does not help"}


def test_ctrl_c_ends_with_the_members_that_are_complete():
    Counted.rows.clear()
    methods = {"bayes": GaussianNB(), "counted": Counted(interrupt=2)}
    model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, Y)
    assert model.weights_ == {"bayes": 1.0}
    assert model.left_out_ == {"counted": "interrupted"}
    Counted.rows.clear()
    with pytest.raises(KeyboardInterrupt):
        AutoClassifier("f1", methods={"counted": Counted(interrupt=2)}).fit(X, Y)


def test_a_time_limit_leaves_out_what_does_not_fit():
    Counted.rows.clear()
    methods = {"counted": Counted(), "bayes": GaussianNB()}
    model = AutoClassifier("f1", methods=methods, time_limit=1e-3, random_state=0).fit(X, Y)
    assert len(Counted.rows) == 1  # the least there can be
    assert list(model.weights_) == ["counted"]
    assert list(model.left_out_) == ["bayes"]
    assert len(model.out_of_fold_["counted"].rows) == 48
    assert model.predict(X).shape == (240,)
    plenty = AutoClassifier("f1", methods=methods, time_limit="1h", random_state=0).fit(X, Y)
    assert plenty.left_out_ == {}


@pytest.mark.parametrize("kind", ["U3", object, bool, np.int32])
def test_predictions_have_the_type_of_the_classes(kind):
    labels = (np.where(Y == 1, "yes", "no") if kind in ("U3", object) else Y).astype(kind)
    model = AutoClassifier("f1", methods=CHEAP, cv=2, random_state=0).fit(X, labels)
    predicted = model.predict(X[:3])
    assert predicted.dtype == model.classes_.dtype == labels.dtype
    assert set(predicted) <= set(labels)
