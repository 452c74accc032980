"""Rows to train on and to hold out, whole reports, and a browser."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parent))  # for _browser.py, which tests of other packages use too


@pytest.fixture(scope="session")
def two():
    """Rows of two unbalanced classes: features and labels to train on, and to hold out."""
    X, y = make_classification(900, 8, weights=[0.85], flip_y=0.05, class_sep=0.8, random_state=0)
    y = np.where(y == 1, "yes", "no")
    return X[:500], y[:500], X[500:], y[500:]


@pytest.fixture(scope="session")
def four():
    """The same with four classes."""
    X, y = make_classification(
        1000, 10, n_informative=6, n_classes=4, weights=[0.5, 0.3, 0.15], class_sep=0.9, random_state=1
    )
    y = np.array(["ant", "bee", "cat", "dog"])[y]
    return X[:600], y[:600], X[600:], y[600:]


class OfTable:
    """A classifier of arrays as one of tables."""

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_

    def predict(self, X):
        return self.model.predict(X.to_numpy())

    def predict_proba(self, X):
        return self.model.predict_proba(X.to_numpy())


@pytest.fixture(scope="session")
def reports(two, four):
    """Complete reports, of two classes and of four."""
    import pandas as pd

    from evalign import MetricClassifier, MetricDecision, compare
    from evalign.reports import (
        ColumnFacts,
        ComparisonFacts,
        DataFacts,
        MemberFacts,
        Report,
        Rival,
        TaskFacts,
        evidence,
        explain,
        measure_benefit,
        measure_groups,
        trace_learning,
    )
    from evalign.selection import Problem

    def build(rows, metric, constraints):
        X, y, new, truth = rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the constraint may be violated
            decision = MetricDecision(LogisticRegression(), metric, constraints, cv=3, random_state=0)
            decision.fit(X, y)
        network = MetricClassifier(metric, hidden=(8,), max_epochs=4, random_state=0).fit(X, y)
        methods = {"logistic": LogisticRegression(), "broken": LogisticRegression(C=-1)}
        methods["balanced"] = LogisticRegression(class_weight="balanced")
        comparison = compare(X, y, metric, constraints=constraints, methods=methods, n_repeats=3)
        held_out = (new, truth, metric, [*constraints, "specificity <= 0.9"])
        classes = tuple(sorted(set(y.tolist())))
        positive = 1 if len(classes) == 2 else None
        rivals = [Rival("LightGBM", "tuned", network), Rival("LightGBM", "plain", network)]
        table = pd.DataFrame(new, columns=[f"c{k}" for k in range(new.shape[1])])
        problem = Problem.check(np.concatenate([X, new]), np.concatenate([y, truth]), metric)
        split = (np.arange(len(y)), np.arange(len(y), len(y) + len(truth)))
        return Report(
            title="Insects & others",
            created="2025-06-01T10:05:00+00:00",
            command="evalign compare insects.csv --target species",
            versions={"evalign": "0.1.0"},
            seed=0,
            answer=comparison.advice,
            remarks=("It was tried.",),
            benefit=measure_benefit("the new model", decision, rivals, new, truth, metric, positive=positive),
            members=(
                MemberFacts("logistic", "a rule", 1.0, 0.5),
                MemberFacts("slow", "", 0.0, None, "no time"),
            ),
            explanation=explain(
                [OfTable(decision)],
                [np.arange(len(truth))],
                table,
                truth,
                metric,
                dict.fromkeys(table, "number"),
                seconds=9,
            ),
            learning=trace_learning(problem, split, "a line", LogisticRegression, seconds=9),
            groups=measure_groups(
                "side", np.where(new[:, 0] > 0, "left", "right"), decision, new, truth, metric
            ),
            task=TaskFacts("insects.csv", "species", metric, True, tuple(constraints), classes),
            data=DataFacts(
                rows=len(y),
                columns=(ColumnFacts("wings", "number", 3, 9),),
                class_counts={name: int((y == name).sum()) for name in classes},
                warnings=("12 duplicate rows were dropped.",),
            ),
            comparison=ComparisonFacts.from_comparison(comparison),
            models=(
                evidence("decision", decision, *held_out, role="best", description="a rule"),
                evidence("network", network, *held_out, role="cross-entropy"),
            ),
        )

    return {"two": build(two, "f1", ["precision >= 0.7"]), "four": build(four, "f1", [])}


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium for all tests of a process."""
    _browser = pytest.importorskip("_browser")
    if _browser.CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    one = _browser.Browser()
    yield one
    one.close()
