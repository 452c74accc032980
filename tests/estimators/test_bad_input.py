"""Invalid settings and data raise an error that names them; an exploding loss leaves a usable model."""

import re

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from torch import nn

import evalign as ev
from evalign import metrics

STRATEGIES = [
    "aligned",
    "cross_entropy",
    "weighted_cross_entropy",
    "focal",
    "softset",
    "east",
    "surrogate_fbeta",
]
X, Y = make_classification(200, n_features=6, n_informative=4, weights=[0.7], random_state=0)
THREE = np.arange(200) % 3


def name(value):
    """A test id that is the same in every process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def classifier(metric="f1", strategy="aligned", **settings):
    small = {
        "rule": False,
        "hidden": (8,),
        "learning_rate": 0.02,
        "max_epochs": 3,
        "patience": 2,
        "random_state": 0,
    }
    return ev.MetricClassifier(metric, strategy=strategy, **(small | settings))


def assert_rejected(model, match, features=X, labels=Y, **data):
    """Check that `fit` raises an error in our words or scikit-learn's, and leaves no model."""
    with pytest.raises(ValueError, match=match) as caught:
        model.fit(features, labels, **data)
    assert "np." not in str(caught.value), "a value is shown as NumPy writes it"
    with pytest.raises(NotFittedError):
        model.predict(X)


# Settings


BAD = {
    "learning_rate": [0, -1, None, "fast", np.nan, np.inf, True],
    "max_epochs": [0, -1, 2.5, None, "10", True],
    "patience": [0, -1, 2.5, None, "10", True],
    "batch_size": [0, -1, 2.5, None, "all", True, [32], np.array([32, 64])],
    "validation_fraction": [0, 1, -0.2, 1.5, None, "half", np.nan, True],
    "dropout": [-0.1, 1, 1.5, None, "half", np.nan],
    "hidden": [(0,), (8, -1), (2.5,), "8", 8, None, (None,)],
    "class_weight": [
        "auto", {0: 1, 5: 2}, {0: -1}, {0: np.nan}, {0: np.inf}, {0: "heavy"}, {0: None}, {0: 0, 1: 0},
        [0, 1], [1.0, 2.0], 3, np.array([1.0, 2.0]),
    ],
    "strategy": ["best", "", None, 3, ["aligned"]],
    "metric": ["nonsense", "", None, 3, "f1(", "f1() if 1 else 2", "__import__('os')"],
    "device": ["gpu", "cpu:x", "cuda:99"],
    "network": [3, "mlp", nn.Linear(5, 2), nn.Linear(6, 3), nn.BatchNorm1d(5), lambda f, c: None,
                lambda f, c: nn.ReLU(), lambda f, c: nn.Linear(f, 1), lambda f, c: nn.Linear(f, c + 1)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]], ids=name)
def test_bad_settings(name, value):
    assert_rejected(classifier(**{name: value}), f"Expected `{name}` .*but got")


@pytest.mark.parametrize(("settings", "hint"), [
    ({"strategy": "alligned"}, "Did you mean 'aligned'"), ({"strategy": "Focal"}, "Did you mean 'focal'"),
    ({"strategy": "crossentropy"}, "Did you mean 'cross_entropy'"), ({"metric": "f11"}, "Did you mean 'f1'"),
    ({"metric": "balanced_acuracy"}, "Did you mean 'balanced_accuracy'"),
    ({"strategy": "xyz"}, "Choose from 'aligned', 'cross_entropy'"),
    ({"metric": "xyz"}, "Choose from 'accuracy'"),
], ids=name)  # fmt: skip
def test_misspelt_names_get_a_suggestion(settings, hint):
    assert_rejected(classifier(**settings), hint)


@pytest.mark.parametrize("metric", ["auroc", metrics.auroc, metrics.auroc(), "f1(average=None)"], ids=name)
def test_metrics_without_one_number(metric):
    assert_rejected(classifier(metric), "Expected `metric` that gives one number")


@pytest.mark.parametrize("strategy", ["aligned", "cross_entropy", "east"])
@pytest.mark.parametrize(("metric", "match"), [
    ("f1(average='binary')", "other than 'binary' for more than two classes, but got 3"),
    ("cost([[0, 1], [5, 0]])", "costs for 3 classes, but got 2"),
    ("fbeta(beta=[1, 2])", "beta` with one value for each of 3 classes"),
])  # fmt: skip
def test_metrics_for_two_classes_reject_three(metric, match, strategy):
    assert_rejected(classifier(metric, strategy), match, labels=THREE)


def test_surrogate_needs_one_beta_and_no_weights():
    assert_rejected(classifier("fbeta(beta=[1, 2])", "surrogate_fbeta"), "one beta > 0")
    assert_rejected(classifier("f1", "surrogate_fbeta", class_weight="balanced"), "`class_weight` to be None")


@pytest.mark.parametrize("settings", [
    {"learning_rate": np.float32(0.01), "dropout": np.float32(0.1), "validation_fraction": np.float32(0.3)},
    {"max_epochs": np.int64(2), "patience": np.int32(1), "batch_size": np.uint16(50)},
    {"hidden": np.array([8, 4])}, {"hidden": [np.int64(8)]}, {"hidden": ()},
    {"class_weight": {np.int64(0): np.float32(1), np.int64(1): 2}}, {"class_weight": {}},
], ids=name)  # fmt: skip
def test_settings_may_be_numpy_numbers(settings):
    """As from a search over `np.arange`, `np.logspace` or `scipy.stats`."""
    assert classifier(**settings).fit(X, Y).n_iter_ > 0


# Data


def test_one_class():
    assert_rejected(classifier(), "at least two classes, but got 1 class: 1", labels=np.ones(200, int))
    assert_rejected(classifier(), "at least two classes, but got 1 class: 'a'", labels=["a"] * 200)


def test_too_few_rows():
    assert_rejected(classifier(), "1 sample", X[:1], Y[:1])
    assert_rejected(classifier(), "two rows of some class", X[:2], [0, 1])
    assert_rejected(classifier(), "two rows of some class", X[:5], ["a", "b", "c", "d", "e"])


def test_fewer_rows_than_classes_by_one():
    """Four classes in five rows: only the class with two rows is validated."""
    model = classifier().fit(X[:5], ["a", "b", "c", "d", "d"])
    assert model.predict_proba(X).shape == (200, 4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_with_one_row_trains(strategy):
    labels = np.r_[1, np.zeros(39, int)]
    model = classifier("f1", strategy).fit(X[:40], labels)
    assert model.classes_.tolist() == [0, 1]
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_third_class_with_one_row_trains():
    model = classifier().fit(X, np.r_[2, Y[1:]])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (200, 3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_missing_and_infinite_features(wrong, kind):
    spoilt = X.copy()
    spoilt[3, 2] = wrong
    assert_rejected(classifier(), "NaN|infinity", kind(spoilt))
    model = classifier().fit(X, Y)
    with pytest.raises(ValueError, match="NaN|infinity"):
        model.predict(kind(spoilt))
    with pytest.raises(ValueError, match="NaN|infinity"):
        classifier().fit(X, Y, validation_data=(kind(spoilt), Y))


def test_features_of_another_shape_or_type():
    assert_rejected(classifier(), "could not convert string to float", X.astype(str).astype(object) + "x")
    assert_rejected(classifier(), "Expected 2D array", X[:, 0])
    assert_rejected(classifier(), "0 feature", X[:, :0])
    model = classifier().fit(X, Y)
    with pytest.raises(ValueError, match="5 features, but MetricClassifier is expecting 6"):
        model.predict(X[:, :5])


def test_labels_of_another_shape_or_type():
    assert_rejected(classifier(), "continuous", labels=X[:, 0])
    assert_rejected(classifier(), "1d array", labels=np.c_[Y, Y + 1])
    assert_rejected(classifier(), "inconsistent numbers of samples", labels=Y[:-1])
    assert_rejected(classifier(), "NaN", labels=np.where(Y, np.nan, 0))
    assert_rejected(classifier(), "requires y", labels=None)
    gap = np.where(np.arange(len(Y)) == 3, None, Y)
    assert_rejected(classifier(), "`y` without missing labels, but got None in row 3", labels=gap)
    mixed = np.array(["yes" if label else 0 for label in Y], dtype=object)
    assert_rejected(classifier(), "`y` with labels of one type", labels=mixed)


@pytest.mark.parametrize(("weight", "match"), [
    (-np.ones(200), "sample_weight"), (np.r_[-1, np.ones(199)], "sample_weight"), (np.zeros(200), "non-zero"),
    (np.full(200, np.nan), "NaN"), (np.ones(199), "inconsistent|shape"), (np.ones((200, 2)), "1D|scalar"),
], ids=["negative", "one negative", "zero", "NaN", "short", "2-d"])  # fmt: skip
def test_bad_sample_weight(weight, match):
    assert_rejected(classifier(), match, sample_weight=weight)


@pytest.mark.parametrize(("held", "match"), [
    ((X, Y + 1), "validation_data` with classes of `y` only, but got 2"),
    ((X, np.where(Y, "a", "b")), "validation_data` with classes of `y` only, but got 'a'"),
    ((X[:, :5], Y), "5 features"), ((X, Y[:-1]), "inconsistent numbers of samples"),
    ((X, Y, Y, Y), "Expected `validation_data`"), ((X, Y, -1.0 - Y), "Negative values"),
    (X, "Expected `validation_data`"),
    ((X,), "Expected `validation_data`"), (0.2, "Expected `validation_data`"), ((X[:0], Y[:0]), "0 sample"),
], ids=["unknown", "type", "columns", "rows", "four", "weight", "X", "one", "number", "none"])  # fmt: skip
def test_bad_validation_data(held, match):
    assert_rejected(classifier(), match, validation_data=held)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "save"])
def test_not_fitted(method, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(classifier(), method)(tmp_path / "model" if method == "save" else X)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("settings", [
    {"strategy": "softset"}, {"metric": "f1(average='binary')"}, {"dropout": 2},
], ids=name)  # fmt: skip
def test_a_rejected_refit_leaves_no_mixed_model(settings):
    """Neither old weights under new labels nor new features for old weights: the old model, or none."""
    model = classifier().fit(X, np.array(["b", "c"])[Y])
    before = model.predict(X)
    with pytest.raises(ValueError, match="Expected"):
        model.set_params(**settings).fit(X, np.array(["a", "b", "c"])[THREE])
    try:
        after = model.predict(X)
    except NotFittedError:
        pass
    else:
        np.testing.assert_array_equal(after, before)


# A loss that is not finite


class Explosive(nn.Module):
    """Linear; after a given number of training batches its logits are NaN."""

    def __init__(self, features, classes, batches):
        super().__init__()
        self.linear, self.left = nn.Linear(features, classes), batches

    def forward(self, x):
        self.left -= self.training
        return self.linear(x) * (torch.nan if self.training and self.left < 0 else 1.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_explosion_in_the_first_epoch(strategy):
    """Nothing was learnt, but the model has no NaN, and a warning explains why it is poor."""
    with pytest.warns(UserWarning, match="not finite in epoch 0 .*Try a lower `learning_rate`"):
        model = classifier("f1", strategy, learning_rate=1e30).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.decision_function(X)).all()


def test_explosion_later_on_restores_the_best():
    """200 rows in batches of 50 are four batches per epoch, so 13 batches end in the fourth epoch."""
    model = classifier("f1", "cross_entropy", batch_size=50, max_epochs=9, patience=9,
                       network=lambda f, c: Explosive(f, c, batches=13))  # fmt: skip
    with pytest.warns(
        UserWarning, match="not finite in epoch 3 of phase 'cross-entropy'.*restored.*`learning_rate`"
    ):
        model.fit(X, Y, validation_data=(X, Y))
    assert [row["epoch"] for row in model.history_] == [0, 1, 2, 3]
    losses = [row["valid_loss"] for row in model.history_[:3]]
    assert log_loss(Y, model.predict_proba(X)) == pytest.approx(min(losses), rel=1e-4)


def test_explosion_in_the_second_phase_keeps_the_first():
    """Three epochs of four batches are cross-entropy; the 14th batch is the second of the next phase."""
    settings = {"batch_size": 50, "max_epochs": 3, "patience": 3, "network": lambda f, c: Explosive(f, c, 13)}
    with pytest.warns(UserWarning, match="not finite in epoch 0 of phase 'metric, anchored'.*restored"):
        model = classifier("f1", **settings).fit(X, Y, validation_data=(X, Y))
    plain = classifier("f1", "cross_entropy", **settings).fit(X, Y, validation_data=(X, Y))
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_exploded_weights_are_not_kept():
    """One batch per epoch: its loss is finite, the weights after it are not, and argmax of NaN is class 0."""
    with pytest.warns(UserWarning, match="not finite"):
        model = classifier("recall(positive=0)", learning_rate=1e30, batch_size=200).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("big", [1e30, 1e100, 1e200])
def test_huge_features_train_or_are_rejected(big):
    """A feature too large to be scaled in float64 may be rejected, but must not give a useless model."""
    rows = np.c_[X[:, :5], X[:, 5] * big]
    try:
        model = classifier().fit(rows, Y)
    except ValueError as error:
        assert "X" in str(error)
    else:
        assert np.isfinite(model.predict_proba(rows)).all()
        assert len(set(model.predict(rows))) == 2
