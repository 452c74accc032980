"""Rules as JSON: every kind comes back the same, and nothing else is read."""

import json

import numpy as np
import pytest

from evalign._files import FORMAT
from evalign.decisions import DecisionRule, fit_rule

P3 = np.random.default_rng(0).dirichlet(np.ones(3), 12)


@pytest.mark.parametrize(
    "classes",
    [["no", "yes"], ["äö", "ü"], [0, 1], [-3, 7], [False, True], [0.5, 2.0], ["a", "b", "c"], [2, 3, 5],
     [0.1, 0.2, 0.3], np.array(["x", "y"], dtype=object), np.array([1, 2, 3], dtype=np.uint8)],
)  # fmt: skip
def test_rules_come_back_the_same(classes):
    classes = np.asarray(classes)
    d = len(classes)
    p = P3 if d == 3 else P3[:, :2] / P3[:, :2].sum(1, keepdims=True)
    rule = fit_rule(p, classes[np.arange(12) % d], "f1", "precision >= 0.95")
    again = DecisionRule.from_json(rule.to_json())
    assert again.classes.dtype == rule.classes.dtype
    np.testing.assert_array_equal(again.classes, classes)
    np.testing.assert_array_equal(again.weights, rule.weights)
    np.testing.assert_array_equal(again.predict(p), rule.predict(p))
    assert type(again.predict(p)[0]) is type(rule.predict(p)[0])
    assert (again.value, again.metric, again.violations) == (rule.value, rule.metric, rule.violations)


def test_multilabel_rules_come_back_the_same():
    rule = fit_rule(P3, (P3 > 0.3).astype(int), "f1(average='micro')")
    again = DecisionRule.from_json(rule.to_json())
    np.testing.assert_array_equal(again.thresholds, rule.thresholds)
    np.testing.assert_array_equal(again.predict(P3), rule.predict(P3))
    assert again.classes is None


def text(**changes):
    stored = json.loads(fit_rule([0.1, 0.3, 0.7], [0, 1, 1], "f1").to_json())
    return json.dumps({**stored, **changes})


BROKEN = {
    "empty": "", "no json": "{", "a number": "5", "a list": "[]", "another file": '{"name": "x"}',
    "none": None, "deep": "[" * 100_000, "cut": text()[:-10], "no utf-8": b"\xff{}",
    "old": text(format=0), "true": text(format=True), "text": text(format="1"),
    "nan": text(value=float("nan")), "infinity": text(thresholds=[float("inf")]),
    "huge": text(value=123).replace("123", "1e999"), "stray nan": text(more=float("-inf")),
    "violation nan": text(violations={"a": float("nan")}), "violation text": text(violations={"a": "b"}),
    "violations list": text(violations=[1]), "two thresholds": text(thresholds=[0.1, 0.2]),
    "no threshold": text(thresholds=None), "no weights": text(weights=None), "words": text(weights=[["a"]]),
    "ragged": text(weights=[[1], [1, 2]]), "flat": text(weights=[1, 2]), "empty weights": text(weights=[]),
    "three": text(weights=np.eye(3).tolist()), "bools": text(weights=[[True, False], [False, True]]),
    "one class": text(classes=[1]), "twice": text(classes=[1, 1]), "nested": text(classes=[[1], [2]]),
    "null": text(classes=[None, 1], dtype="|O"), "dict": text(classes={"a": 1, "b": 2}),
    "labels": text(classes=None), "words as numbers": text(classes=["a", "b"]),
    "cut labels": text(classes=["abc", "abd"], dtype="<U3").replace("U3", "U2"),
    "rounded": text(classes=[0.5, 1.5]), "type": text(dtype="zz"), "record": text(dtype=[["a", "i4"]]),
    "time": text(dtype="<M8[D]"), "void": text(dtype="V8"), "no type": text(dtype=None),
    "too large": text(classes=[1, 300], dtype="|u1"), "metric": text(metric=None), "value": text(value="x"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_texts_are_refused(name):
    with pytest.raises(ValueError, match=r"^Expected `text` ") as caught:
        DecisionRule.from_json(BROKEN[name])
    assert len(str(caught.value)) < 300


def test_newer_texts_ask_for_an_upgrade():
    with pytest.raises(ValueError, match=f"format {FORMAT} or older, but got 99. Upgrade"):
        DecisionRule.from_json(text(format=99))


def test_every_missing_key_is_refused():
    stored = json.loads(text())
    for key in stored:
        with pytest.raises(ValueError, match=r"^Expected `text`"):
            DecisionRule.from_json(json.dumps({k: v for k, v in stored.items() if k != key}))


@pytest.mark.parametrize(
    "labels",
    [np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), np.array([b"a", b"b"]), [0.0, np.inf]],
)
def test_labels_that_cannot_be_saved(labels):
    rule = fit_rule([0.2, 0.7], labels, "f1")
    assert rule.predict([0.9])[0] == labels[1]
    with pytest.raises(ValueError, match="Expected `classes` that are strings or numbers"):
        rule.to_json()
