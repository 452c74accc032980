"""`preprocessor` in `compare` and `AutoClassifier`; methods that share their training."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evalign import AutoClassifier, MetricBooster, MetricClassifier, compare
from evalign.selection.trials import TrialTask

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame({"size": RANDOM.normal(size=200), "colour": RANDOM.choice(["red", "blue"], 200)})
Y = np.where(TABLE["size"] + 2 * (TABLE["colour"] == "red") + RANDOM.normal(size=200) > 1.5, "yes", "no")


class Spy(StandardScaler):
    """Records the number of rows it was fitted on."""

    seen: ClassVar[list[int]] = []

    def fit(self, X, y=None, sample_weight=None):
        Spy.seen.append(len(X))
        return super().fit(X, y, sample_weight)


PREPROCESSOR = make_column_transformer((Spy(), ["size"]), (OneHotEncoder(), ["colour"]))
METHODS = {"guess": DummyClassifier(), "logistic": LogisticRegression()}


def test_the_preprocessor_is_fitted_on_training_rows_only():
    Spy.seen.clear()
    comparison = compare(
        TABLE, Y, "balanced_accuracy", methods=METHODS, n_repeats=2, preprocessor=PREPROCESSOR
    )
    assert comparison.best == "logistic"
    assert Spy.seen == [160] * 4
    assert not hasattr(PREPROCESSOR, "transformers_")


def test_auto_classifier_predicts_from_the_table_itself(tmp_path):
    settings = {"methods": METHODS, "cv": 3, "random_state": 0, "preprocessor": PREPROCESSOR}
    Spy.seen.clear()
    model = AutoClassifier("balanced_accuracy", **settings, checkpoint=tmp_path / "folds").fit(TABLE, Y)
    assert sorted(Spy.seen) == [133, 133, 134]  # once without each fold, for both members
    assert model.best_method_ == "logistic"
    assert set(model.predict(TABLE[:20])) == {"yes", "no"}
    assert model.predict_proba(TABLE[:3]).shape == (3, 2)
    assert len(list((tmp_path / "folds").glob("*.json"))) == 6
    again = AutoClassifier("balanced_accuracy", **settings, checkpoint=tmp_path / "folds").fit(TABLE, Y)
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))


def test_invalid_preprocessors_are_rejected():
    with pytest.raises(ValueError, match="Expected `preprocessor` to be a scikit-learn transformer"):
        compare(TABLE, Y, "f1", methods=METHODS, preprocessor="scale")


NETWORK = {"hidden": (8,), "max_epochs": 5}
TREES = {"n_estimators": 20, "n_bags": 1, "n_jobs": 1}


@pytest.mark.parametrize("preprocessor", [None, StandardScaler()], ids=["plain", "preprocessor"])
@pytest.mark.parametrize(
    ("kind", "strategy", "other", "settings"),
    [(MetricClassifier, "cross_entropy", "focal", NETWORK), (MetricBooster, "log_loss", "metric", TREES)],
)
def test_methods_that_differ_only_in_the_rule_are_trained_once(
    kind, strategy, other, settings, preprocessor, monkeypatch
):
    X = np.stack([TABLE["size"], TABLE["colour"] == "red"], axis=1).astype(float)
    methods = {
        "plain": kind("f1", strategy=strategy, rule=False, **settings),
        "ruled": kind("f1", strategy=strategy, rule=True, **settings),
        "other": kind("f1", strategy=other, rule=True, **settings),
    }
    alone = {
        name: compare(X, Y, "f1", methods={name: one}, n_repeats=2, preprocessor=preprocessor).rows[0].values
        for name, one in methods.items()
    }
    fitted, fit = [], kind.fit
    monkeypatch.setattr(kind, "fit", lambda self, *rows: (fitted.append(self.rule), fit(self, *rows))[1])
    comparison = compare(X, Y, "f1", methods=methods, n_repeats=2, preprocessor=preprocessor)
    assert {row.method: row.values for row in comparison.rows} == alone
    assert fitted == [True] * 4
    assert alone["plain"] != alone["ruled"] or kind is MetricClassifier  # where the rule is no better


def test_an_error_in_a_shared_training_is_reported_for_each_method():
    X = TABLE[["size"]].to_numpy()
    methods = {
        rule: MetricClassifier("f1", strategy="cross_entropy", rule=rule == "ruled", learning_rate=-1.0)
        for rule in ("plain", "ruled")
    }
    with pytest.raises(
        ValueError,
        match=r"plain: ValueError: Expected `learning_rate`.*ruled: ValueError: Expected `learning_rate`",
    ):
        compare(X, Y, "f1", methods=methods, n_repeats=1)
    assert TrialTask("broken", 0, lambda: 1 / 0, X, X).training == "broken cannot be built"
