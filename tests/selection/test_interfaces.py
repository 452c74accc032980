"""The same parameters have the same names, kinds and defaults in every estimator and in `compare`."""

import inspect

import pytest

import evalign as ev
from evalign.selection import compare_problem

ESTIMATORS = [ev.MetricClassifier, ev.MetricBooster, ev.MetricDecision, ev.AutoClassifier]
DEFAULTS = {
    "metric": "f1", "constraints": (), "rule": True, "confidence": None, "class_weight": None,
    "validation_fraction": 0.2, "preprocessor": None, "checkpoint": None, "n_jobs": None,
    "random_state": None, "methods": None,
}  # fmt: skip


def parameters(function):
    return inspect.signature(function).parameters


@pytest.mark.parametrize("function", [*ESTIMATORS, ev.compare])
def test_metric_and_constraints_come_first_and_all_else_is_by_keyword(function):
    names = [name for name in parameters(function) if name not in ("X", "y", "estimator")]
    assert names[:2] == ["metric", "constraints"]
    kinds = {parameters(function)[name].kind for name in names[2:]}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("function", [*ESTIMATORS, ev.compare])
def test_defaults_are_the_same(function):
    own = {name: one.default for name, one in parameters(function).items()}
    wanted = DEFAULTS | ({"random_state": 0} if function is ev.compare else {})
    shared = own.keys() & wanted.keys()
    assert {"metric", "constraints", "n_jobs", "random_state"} <= shared
    assert {name: own[name] for name in shared} == {name: wanted[name] for name in shared}


def test_compare_problem_has_the_parameters_of_compare():
    checked = {"X", "y", "metric", "constraints", "preprocessor", "sample_weight", "groups"}
    rest = {name: one.default for name, one in parameters(ev.compare).items() if name not in checked}
    own = {name: one.default for name, one in parameters(compare_problem).items() if name != "problem"}
    assert own == rest
