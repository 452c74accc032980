"""Importance and dependence of columns against scikit-learn; learning curves; groups."""

import re
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from evalign.reports import explain, measure_groups, trace_learning
from evalign.reports._groups import OTHERS
from evalign.selection import Problem


@pytest.fixture(scope="module")
def table():
    """Columns of four kinds, of which two decide the class."""
    generator = np.random.default_rng(0)
    n = 1200
    X = pd.DataFrame({"signal": generator.normal(size=n), "noise": generator.normal(size=n)})
    X["flag"] = (generator.random(n) < 0.3).astype(float)
    X["city"] = generator.choice(["Oslo", "Rome", "Bonn"], n, p=[0.5, 0.3, 0.2])
    X["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 300, n), "D")
    X.loc[5:9, "signal"] = np.nan
    score = np.nan_to_num(X["signal"]) + 1.5 * (X["city"] == "Rome")
    y = (score + generator.normal(0, 0.3, n) > 0.7).astype(int)
    return X, y.to_numpy()


KINDS = {"signal": "number", "noise": "number", "flag": "boolean", "city": "category", "day": "date"}


class Forest:
    """A forest of a table with texts and dates; it counts the rows that it predicts."""

    def __init__(self, X, y):
        self.forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(self.encode(X), y)
        self.classes_, self.rows = self.forest.classes_, 0

    def encode(self, X):
        numbers = X[["signal", "noise", "flag"]].fillna(0.0).to_numpy()
        return np.column_stack([numbers, X["city"] == "Rome", X["day"].astype("int64") / 1e15])

    def predict(self, X):
        self.rows += len(X)
        return self.forest.predict(self.encode(X))

    def predict_proba(self, X):
        return self.forest.predict_proba(self.encode(X))


class Accurate(Forest):
    """A fitted forest as scikit-learn expects it."""

    def __init__(self, forest):
        self.forest, self.rows = forest, 0

    def fit(self, X, y):
        return self

    def score(self, X, y):
        return float((self.predict(X) == y).mean())


@pytest.fixture(scope="module")
def forest(table):
    X, y = table
    return Forest(X[:600], y[:600])


def test_importance_equals_that_of_scikit_learn(table, forest):
    X, y = table
    rows = np.arange(600, 1200)
    facts = explain([forest], [rows], X, y, "accuracy", KINDS, seconds=60)
    assert (facts.rows, facts.repeats, facts.columns, facts.skipped) == (600, 5, 5, None)
    model = Accurate(forest.forest)
    wanted = permutation_importance(model, X.iloc[rows], y[rows], n_repeats=10, random_state=1)
    found = {one.column: one for one in facts.importances}
    assert [one.column for one in facts.importances][:2] == ["signal", "city"]
    for name, mean in zip(X, wanted.importances_mean, strict=True):
        assert found[name].value == pytest.approx(mean, abs=0.02)
        assert found[name].low <= found[name].value <= found[name].high
    assert found["signal"].low > 0.1
    assert found["noise"].low <= 0 <= found["noise"].high


def test_dependence_equals_that_of_scikit_learn(table):
    X, y = table
    numbers = X[["noise", "signal"]].fillna(0.0)
    model = LogisticRegression().fit(numbers, y)
    facts = explain([model], [np.arange(1200)], numbers, y, "f1", KINDS, seconds=60)
    one = next(one for one in facts.dependences if one.column == "signal")
    assert list(one.probabilities) == ["1"]
    few = numbers.iloc[np.random.default_rng(0).permutation(1200)[:200]]  # the rows that are drawn
    wanted = partial_dependence(
        model, few, ["signal"], custom_values={"signal": np.array(one.positions)}, method="brute",
        response_method="predict_proba",
    )  # fmt: skip
    np.testing.assert_allclose(one.probabilities["1"], wanted["average"][0], atol=1e-9)
    assert len(one.labels) == len(one.positions) == 10
    assert one.positions[0] == pytest.approx(np.quantile(numbers["signal"], 0.02), abs=0.02)


def test_values_of_every_kind_of_column(table, forest):
    X, y = table
    names = ["flag", "city", "day", "signal"]
    kinds = {name: KINDS[name] for name in names}
    facts = explain([forest], [np.arange(600, 1200)], X, y, "f1", kinds, seconds=60)
    shown = {one.column: one for one in facts.dependences}
    assert set(shown) == set(names)
    assert shown["city"].labels == ("Oslo", "Rome", "Bonn")
    assert shown["city"].positions is None
    assert shown["city"].probabilities["1"][1] > shown["city"].probabilities["1"][0] + 0.3
    assert shown["flag"].labels == ("no", "yes")
    assert shown["day"].labels[0].startswith("2024-01")
    assert list(shown["day"].labels) == sorted(shown["day"].labels)


def test_every_part_is_explained_by_its_own_model(table, forest):
    X, y = table
    other = Forest(X[:600], y[:600])
    parts = [np.arange(600, 1100), np.arange(1100, 1200)]
    before = forest.rows
    facts = explain([forest, other], parts, X, y, "accuracy", KINDS, seconds=60)
    assert facts.rows == 600
    assert (forest.rows - before) / other.rows == pytest.approx(5, rel=0.05)  # as its part of the rows is


def test_the_most_important_of_many_columns_are_found():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(800, 60)), columns=[f"c{k}" for k in range(60)])
    y = (X["c40"] - X["c7"] > 0).astype(int).to_numpy()
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y)
    facts = explain([model], [np.arange(800)], X, y, "f1", dict.fromkeys(X, "number"), seconds=60)
    assert facts.columns == 60
    assert len(facts.importances) == 15
    assert {one.column for one in facts.importances[:2]} == {"c40", "c7"}


class Slow:
    """A classifier that takes its time."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        time.sleep(1e-4 * len(X))
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        return np.tile([1.0, 0.0], (len(self.predict(X)), 1))


def test_what_takes_too_long_is_skipped_with_the_reason(table):
    X, y = table
    facts = explain([Slow()], [np.arange(1200)], X, y, "f1", KINDS, seconds=0.15)
    assert facts.importances == ()
    assert re.fullmatch(r"it would take about [\d.]+ s, and there are only 0[.]1 s", facts.skipped)
    wide = pd.DataFrame(np.zeros((1200, 40)), columns=[f"c{k}" for k in range(40)])
    facts = explain([Slow()], [np.arange(1200)], wide, y, "f1", dict.fromkeys(wide, "number"), seconds=0.2)
    needed, spare = map(float, re.fullmatch(
        r"40 columns would take about ([\d.]+) s, and there are only ([\d.]+) s", facts.skipped
    ).groups())  # fmt: skip
    assert needed > spare


def test_more_rows_help_where_there_is_more_to_learn():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1500, 20))
    y = (X @ generator.normal(size=20) > 0).astype(int)
    problem = Problem.check(X, y, "accuracy")
    split = (np.arange(1000), np.arange(1000, 1500))
    seen = []

    class Remember(LogisticRegression):
        def fit(self, X, y):
            seen.append(X)
            return super().fit(X, y)

    facts = trace_learning(problem, split, "a line", lambda: Remember(C=100.0), seconds=60)
    assert [one.rows for one in facts.points] == [len(X) for X in seen]
    np.testing.assert_allclose([len(X) for X in seen], [125, 250, 500, 1000], atol=2)
    assert all(one.low <= one.value <= one.high for one in facts.points)
    assert facts.points[0].value < facts.points[-1].value
    assert facts.gain.value == pytest.approx(facts.points[-1].value - facts.points[-2].value)
    # A larger part contains the smaller ones, and none of them a row to judge by.
    rows = [{tuple(row) for row in X} for X in seen]
    assert rows[0] < rows[1] < rows[2] < rows[3]
    assert not rows[3] & {tuple(row) for row in X[1000:]}


def test_a_learning_curve_without_rows_or_time():
    X, y = np.arange(60.0)[:, None], np.arange(60) % 2
    problem, split = Problem.check(X, y, "accuracy"), (np.arange(30), np.arange(30, 60))
    facts = trace_learning(problem, split, "a line", LogisticRegression, seconds=9)
    assert (facts.points, facts.gain, facts.skipped) == ((), None, "there are too few rows")

    class Late(LogisticRegression):
        def fit(self, X, y):
            time.sleep(0.02)
            return super().fit(X, y)

    X, y = np.arange(1000.0)[:, None], np.arange(1000) % 2
    problem, split = Problem.check(X, y, "accuracy"), (np.arange(800), np.arange(800, 1000))
    facts = trace_learning(problem, split, "a line", Late, seconds=0.1)
    assert facts.gain is None
    assert re.fullmatch(
        r"training on up to 800 rows would take about [\d.]+ s, and there are only 0[.][01] s", facts.skipped
    )


def test_groups_equal_scikit_learn(two):
    X, y, new, truth = two
    model = LogisticRegression(class_weight="balanced").fit(X, y)
    names = np.array(["a", "b", "c"], dtype=object)[np.digitize(new[:, 1], [-0.5, 0.5])]
    names[:4] = "rare"
    facts = measure_groups("side", names, model, new, truth, "f1", positive=1)
    assert sum(one.rows for one in facts.groups) == len(truth)
    assert [one.name for one in facts.groups][-1] == OTHERS
    for one in facts.groups[:-1]:
        own, guess = truth[names == one.name], model.predict(new[names == one.name])
        assert (one.rows, one.cases) == (len(own), (own == "yes").sum())
        assert one.metric.value == pytest.approx(f1_score(own, guess, pos_label="yes"))
        assert one.metric.low <= one.metric.value <= one.metric.high
        assert one.found == pytest.approx((guess == "yes")[own == "yes"].mean())
    many = measure_groups("row", np.arange(len(truth)).astype(str), model, new, truth, "f1")
    assert [one.name for one in many.groups] == [OTHERS]
