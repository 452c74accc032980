"""`AutoClassifier`: the choice, its evidence, and scikit-learn's own checks."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import evalign as ev
from evalign.selection import METHODS, AutoClassifier, Comparison, Row
from evalign.selection.auto import is_clear, simplest_near_best

X, Y = make_classification(240, 6, weights=[0.7], flip_y=0.05, random_state=0)
CHEAP = {"tree": DecisionTreeClassifier(max_depth=3), "logistic": LogisticRegression()}


REASON = "It compares `decision_function`, which the tree that is chosen does not have."


@parametrize_with_checks(
    [AutoClassifier("balanced_accuracy", methods=CHEAP, cv=3, random_state=0)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": REASON for kind in ("dense", "sparse")
    },
    xfail_strict=True,
)
def test_check(estimator, check):
    check(estimator)


def comparison(higher_is_better=True, constraints=(), **values):
    slacks = values.pop("slacks", {})
    rows = tuple(
        Row(name, tuple(own), float(np.mean(own)), 0.0, slack=slacks.get(name))
        if own
        else Row(name, error="RuntimeError: no")
        for name, own in values.items()
    )
    return Comparison("f1", higher_is_better, rows[0].method, constraints, rows)


def test_the_simplest_within_one_standard_error_of_the_best_is_taken():
    # `near` has the gaps 0.00 and 0.01 to the best: mean 0.005, standard error 0.005, so it is as good;
    # `far` has 0.004 and 0.006: mean 0.005, standard error 0.001; `dear` has 0.00 and 0.04, within its
    # standard error of 0.02, but that is more than 1 % of the best.
    far, near, dear, best = (0.696, 0.734), (0.70, 0.73), (0.70, 0.70), (0.70, 0.74)
    result = comparison(far=far, near=near, dear=dear, best=best)
    assert result.best == "best"
    assert simplest_near_best(result, ["far", "dear", "near", "best"]) == "near"
    assert simplest_near_best(result, ["best", "near", "far"]) == "best"
    assert simplest_near_best(comparison(far=far, best=best), ["far", "best"]) == "best"
    assert simplest_near_best(comparison(dear=dear, best=best), ["dear", "best"]) == "best"


def test_the_choice_with_lower_metrics_failures_and_constraints():
    lower = comparison(False, high=(0.70, 0.74), near=(0.60, 0.61), low=(0.60, 0.60))
    assert simplest_near_best(lower, ["high", "near", "low"]) == "near"
    values = {"near": (0.70, 0.73), "best": (0.70, 0.74)}
    failed = comparison(bad=(), **values)
    assert simplest_near_best(failed, ["bad", "near", "best"]) == "near"
    breaks = comparison(constraints=("c",), slacks={"near": -0.1, "best": 0.1}, **values)
    assert simplest_near_best(breaks, ["near", "best"]) == "best"
    none = comparison(constraints=("c",), slacks={"near": -0.2, "best": -0.1}, **values)
    assert simplest_near_best(none, ["near", "best"]) == "best"


def test_the_choice_is_that_of_its_comparison_and_fitted_on_all_rows():
    methods = {"guess": DummyClassifier(), **CHEAP}
    model = AutoClassifier("f1", methods=methods, n_repeats=1, random_state=0).fit(X, Y)
    assert model.best_method_ == simplest_near_best(model.comparison_, methods) != "guess"
    assert all(len(row.values) == 5 for row in model.comparison_.rows)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    alone = clone(methods[model.best_method_]).set_params(random_state=seed).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_folds_are_drawn_again_until_the_choice_is_clear():
    clear = AutoClassifier(methods={"guess": DummyClassifier(), "bayes": GaussianNB()}).fit(X, Y)
    assert [len(row.values) for row in clear.comparison_.rows] == [5, 5]
    alike = {str(depth): DecisionTreeClassifier(max_features=1, max_depth=depth) for depth in (4, 5)}
    one, two, three = (
        AutoClassifier(methods=alike, n_repeats=repeats, random_state=0).fit(X, Y) for repeats in (1, 2, 3)
    )
    for row in one.comparison_.rows:
        longer, longest = (model.comparison_.row(row.method).values for model in (two, three))
        assert (len(row.values), len(longer), len(longest)) == (5, 10, 15)
        assert longest[:10] == longer
        assert longer[:5] == row.values != longer[5:]
    assert not is_clear(two.comparison_)


def test_when_the_choice_is_clear():
    best = (0.70, 0.74, 0.72)
    assert is_clear(comparison(best=best))
    assert is_clear(comparison(best=best, bad=()))
    assert is_clear(comparison(best=best, worse=(0.60, 0.66, 0.62)))  # behind by 0.093, standard error 0.007
    assert is_clear(comparison(best=best, close=(0.70, 0.73, 0.72)))  # known to 0.003, 1 % is 0.0072
    assert not is_clear(comparison(best=best, maybe=(0.72, 0.70, 0.71)))  # 0.01, standard error 0.017
    assert is_clear(comparison(False, best=(0.1, 0.1), worse=(0.3, 0.31)))
    assert not is_clear(comparison(False, best=(0.1, 0.1), maybe=(0.09, 0.14)))


def test_named_methods_are_ordered_by_simplicity_and_dictionaries_as_given():
    same = {"first": GaussianNB(), "second": GaussianNB()}
    assert AutoClassifier(methods=same).fit(X, Y).best_method_ == "first"
    easy = X + 20 * Y[:, None]  # both are perfect
    model = AutoClassifier(methods=["lightgbm_balanced", "lightgbm"], cv=2, random_state=0).fit(easy, Y)
    assert [row.method for row in model.comparison_.rows] == ["lightgbm_balanced", "lightgbm"]
    assert [row.mean for row in model.comparison_.rows] == [1.0, 1.0]
    assert model.best_method_ == "lightgbm"


def test_all_methods_compete_by_default():
    X, y = make_classification(90, 4, weights=[0.7], random_state=0)
    model = AutoClassifier(cv=2, n_repeats=1, random_state=0).fit(X, y)
    assert {row.method: row.error for row in model.comparison_.rows} == dict.fromkeys(METHODS)
    assert model.score(X, y) > 0.8


def test_probabilities_and_scores_exist_if_the_best_method_has_them():
    unfitted = AutoClassifier(methods=CHEAP)
    for name in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(unfitted, name)(X)
    ridge = AutoClassifier(methods={"ridge": RidgeClassifier()}).fit(X, Y)
    np.testing.assert_array_equal(ridge.decision_function(X) > 0, ridge.predict(X) == 1)
    assert not hasattr(ridge, "predict_proba")
    tree = AutoClassifier(methods={"tree": CHEAP["tree"]}).fit(X, Y)
    assert not hasattr(tree, "decision_function")
    assert tree.predict_proba(X).shape == (240, 2)


def test_constraints_decide_before_the_metric():
    methods = {"all": DummyClassifier(strategy="constant", constant=1), "bayes": GaussianNB()}
    assert AutoClassifier("recall", methods=methods).fit(X, Y).best_method_ == "all"
    bound = AutoClassifier("recall", ["precision >= 0.5"], methods=methods).fit(X, Y)
    assert bound.best_method_ == "bayes"
    assert bound.comparison_.constraints == ("precision() >= 0.5",)


@pytest.mark.parametrize(("rows", "folds", "have"), [(3, 3, "3 rows"), (1, 2, "1 row")])
def test_rare_classes_get_fewer_folds_with_a_warning(rows, folds, have):
    y = np.r_[np.zeros(60), np.ones(60), np.full(rows, 2.0)]
    warning = f"Drew {folds} folds instead of 5, since the rarest class has {have}."
    with pytest.warns(UserWarning, match=warning):
        model = AutoClassifier(methods=CHEAP, cv=5, n_repeats=1).fit(X[: len(y)], y)
    assert len(model.comparison_.rows[0].values) == folds
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "wanted"), [("cv", "a number of folds >= 2, a fraction"), ("n_repeats", "an integer >= 1")]
)
@pytest.mark.parametrize("value", [0, 2.5, True, "five"])
def test_folds_are_integers(name, wanted, value):
    with pytest.raises(ValueError, match=f"`{name}` to be {wanted}"):
        AutoClassifier(methods=CHEAP, **{name: value}).fit(X, Y)


def test_labels_may_be_strings_and_features_have_names():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = AutoClassifier(methods=CHEAP, random_state=0).fit(frame, np.array(["no", "yes"])[Y])
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(frame)) == {"no", "yes"}
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.n_features_in_ == 6
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])


def test_missing_values_are_imputed_for_networks():
    holes = X.copy()
    holes[::5, 1] = np.nan
    model = AutoClassifier(methods=["network"], cv=2, random_state=0).fit(holes, Y)
    assert model.predict(holes).shape == (240,)
    with pytest.raises(ValueError, match="All methods failed: logistic: ValueError: Input X contains NaN"):
        AutoClassifier(methods={"logistic": LogisticRegression()}).fit(holes, Y)


def test_sparse_features():
    model = AutoClassifier(methods=CHEAP, random_state=0).fit(sparse.csr_matrix(X), Y)
    np.testing.assert_array_equal(model.predict(sparse.csr_matrix(X)), model.predict(X))


def test_two_processes_choose_what_one_chooses():
    one, two = (AutoClassifier(methods=CHEAP, n_jobs=jobs, random_state=0).fit(X, Y) for jobs in (None, 2))
    assert [row.values for row in one.comparison_.rows] == [row.values for row in two.comparison_.rows]
    assert one.best_method_ == two.best_method_


def test_it_can_be_pickled_and_cloned():
    model = AutoClassifier(ev.metrics.fbeta(beta=2), methods=CHEAP, random_state=0).fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.comparison_ == model.comparison_
    copy = clone(model)
    assert not hasattr(copy, "best_estimator_")
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))


def test_progress_is_shown_only_if_verbose(capsys):
    AutoClassifier(methods=CHEAP).fit(X, Y)
    assert capsys.readouterr().err == ""
    AutoClassifier(methods=CHEAP, n_repeats=1, verbose=1).fit(X, Y)
    assert "10 of 10 trials" in capsys.readouterr().err
