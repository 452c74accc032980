"""The named methods: how they are built, and how classifiers of the user join them."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import evalign as ev
from evalign.selection import METHODS, Problem, build_methods, compare
from evalign.selection._settings import describe_settings

X, Y = make_classification(160, 5, weights=[0.7], random_state=0)
PROBLEM = Problem.check(X, Y, "f1", "recall >= 0.2")
HOLES = X.copy()
HOLES[::7, 2] = np.nan


def test_methods_are_ordered_from_simple_to_elaborate():
    assert list(METHODS) == [
        "linear", "lightgbm", "lightgbm_balanced", "lightgbm_rule", "booster", "random_forest_rule",
        "network", "network_balanced", "network_rule", "aligned", "aligned_rule",
    ]  # fmt: skip
    assert len({method.description for method in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_an_unfitted_classifier_for_the_metric(name):
    built = build_methods([name], PROBLEM)[name](3)
    assert is_classifier(built)
    parameters = built.get_params()
    assert parameters["metric"] is PROBLEM.metric
    assert parameters["constraints"] == PROBLEM.constraints
    assert parameters["random_state"] == 3
    assert describe_settings(built) != describe_settings(build_methods([name], PROBLEM)[name](4))


def test_methods_differ():
    built = {describe_settings(make(0)) for make in build_methods(None, PROBLEM).values()}
    assert len(built) == len(METHODS)


def test_all_methods_work_with_missing_values():
    """Without, they compete in test_auto.py."""
    comparison = compare(HOLES, Y, "f1", n_repeats=1, verbose=False)
    assert {row.method: row.error for row in comparison.rows} == dict.fromkeys(METHODS)
    assert all(row.mean > 0.5 for row in comparison.rows)
    assert comparison.reference == "network_rule"


def test_linear_models_and_networks_get_an_imputer_and_only_with_missing_values():
    holes = Problem.check(HOLES, Y, "f1", ())
    with_one = {name for name, make in build_methods(None, holes).items() if isinstance(make(0), Pipeline)}
    assert with_one == {"linear", "network", "network_balanced", "network_rule", "aligned", "aligned_rule"}
    assert not any(isinstance(make(0), Pipeline) for make in build_methods(None, PROBLEM).values())


def test_users_classifiers_are_cloned_and_seeded_deep_inside():
    given = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    built = build_methods({"mine": given}, PROBLEM)["mine"](9)
    assert built is not given
    assert built.get_params()["decisiontreeclassifier__random_state"] == 9
    assert given.get_params()["decisiontreeclassifier__random_state"] is None


def test_users_classifiers_and_named_methods_in_one_comparison():
    comparison = compare(X, Y, "f1", methods={"guess": DummyClassifier(), "boosted": "lightgbm"}, n_repeats=1)
    assert [row.method for row in comparison.rows] == ["guess", "boosted"]
    assert comparison.reference == "guess"
    assert (
        comparison.row("boosted").values
        == compare(X, Y, "f1", methods=["lightgbm"], n_repeats=1).rows[0].values
    )


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["boster"], "`methods` to be known names, but got 'boster'. Did you mean 'booster'?"),
        (["zzz"], "Choose from 'linear', 'lightgbm', 'lightgbm_balanced', 'lightgbm_rule'"),
        ({"mine": "boster"}, "Did you mean 'booster'?"),
        ("booster", "`methods` to be a list of names or a dictionary of classifiers, but got 'booster'"),
        (7, "`methods` to be a list of names or a dictionary of classifiers, but got 7"),
        ([], "`methods` with at least one method, but got none"),
        (["booster", "booster"], "`methods` to be different names, or classifiers in a dictionary"),
        ({"mine": 3}, "`methods` to be names or scikit-learn classifiers, but got 3"),
        ({"mine": RandomForestClassifier}, "`methods` to be names or scikit-learn classifiers"),
        ([RandomForestClassifier()], "or classifiers in a dictionary, but got .RandomForestClassifier"),
    ],
)
def test_unknown_methods_are_named(methods, message):
    with pytest.raises(ValueError, match=message):
        compare(X, Y, "f1", methods=methods)


def test_descriptions_of_settings_differ_if_results_may():
    def weighted(weight):
        return ev.metrics.metric(lambda c: weight * c.tp, name="hits")

    assert describe_settings(RandomForestClassifier()) == describe_settings(
        RandomForestClassifier(n_jobs=2, verbose=1)
    )
    assert describe_settings(RandomForestClassifier()) != describe_settings(
        RandomForestClassifier(max_depth=2)
    )
    assert describe_settings(weighted(1)) == describe_settings(weighted(1))
    assert describe_settings(weighted(1)) != describe_settings(weighted(2))
    assert describe_settings(ev.metrics.fbeta(beta=2)) != describe_settings(ev.metrics.fbeta(beta=3))
    assert describe_settings(ev.metrics.fbeta(beta=2)) == describe_settings(ev.metrics.fbeta(beta=2))
    one, other = (DummyClassifier(constant=np.array([value])) for value in (0, 1))
    assert describe_settings(one) != describe_settings(other)
