"""Multilabel targets in `MetricClassifier` and `MetricBooster`."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier

from evalign import MetricLoss, metrics
from evalign.boosting import BoostingPlan, LabelledRows, objective, train_label_stages, train_stages
from evalign.boosting._labels import LabelObjective
from evalign.decisions import Goal
from evalign.estimators import MetricBooster, MetricClassifier
from evalign.estimators._rows import Targets
from evalign.metrics import label_confusion, paired_error
from evalign.training import TrainingData

NETWORK = MetricClassifier("f1", hidden=(16,), dropout=0.0, max_epochs=10, learning_rate=0.01, random_state=0)

BOOSTER = MetricBooster(
    "f1", n_estimators=40, metric_rounds=20, patience=10, num_leaves=7, n_bags=2, n_jobs=1, random_state=0
)
MODELS = [pytest.param(NETWORK, id="network"), pytest.param(BOOSTER, id="booster")]


def make_labels(rows=600, seed=0):
    """Three labels with about 30, 15 and 6 % positives."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 5))
    scores = X[:, :3] + 0.5 * X[:, [1, 2, 0]] + 0.4 * generator.normal(size=(rows, 3))
    return X, (scores > [0.6, 1.2, 1.8]).astype(int)


@pytest.fixture(scope="module")
def data():
    X, y = make_labels(1200)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.mark.parametrize("model", MODELS)
def test_shapes_are_those_of_scikit_learn(data, model):
    X, y, X_test, y_test = data
    ours = clone(model).fit(X, y)
    theirs = MLPClassifier((4,), max_iter=5, early_stopping=False)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        theirs.fit(X, y)
    assert ours.multilabel_
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    for method in ("predict", "predict_proba"):
        assert getattr(ours, method)(X_test).shape == getattr(theirs, method)(X_test).shape == y_test.shape
    predicted = ours.predict(X_test)
    np.testing.assert_array_equal(predicted, ours.predict_proba(X_test) >= ours.rule_.thresholds)
    np.testing.assert_array_equal(predicted, ours.decision_function(X_test) >= 0)
    # All positive is below 0.3.
    assert f1_score(y_test, predicted, average="macro") > 0.65


def test_scikit_learn_cross_validates_labels(data):
    model = clone(NETWORK).set_params(max_epochs=5)
    assert cross_val_score(model, data[0], data[1], scoring="f1_macro", cv=2).min() > 0.4


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_the_score_of_the_rule_is_that_of_scikit_learn(data, average):
    X, y, X_test, y_test = data
    model = clone(NETWORK).set_params(metric=metrics.f1(average=average), max_epochs=5)
    model.fit(X, y, validation_data=(X_test, y_test))
    wanted = f1_score(y_test, model.predict(X_test), average=average)
    assert model.validation_score_ == pytest.approx(wanted, rel=1e-6)
    plain = model.without_rule()
    np.testing.assert_array_equal(plain.predict(X_test), plain.predict_proba(X_test) >= 0.5)
    assert wanted >= f1_score(y_test, plain.predict(X_test), average=average)


@pytest.mark.parametrize("strategy", ["cross_entropy", "weighted_cross_entropy", "focal", "softset", "east"])
def test_every_strategy_learns_labels(data, strategy):
    X, y, X_test, y_test = data
    model = clone(NETWORK).set_params(strategy=strategy).fit(X, y)
    assert f1_score(y_test, model.predict(X_test), average="macro") > 0.6


def test_the_metric_improves_on_cross_entropy_without_a_rule(data):
    X, y, X_test, y_test = data
    model = clone(NETWORK).set_params(hidden=(), rule=False, max_epochs=30, learning_rate=0.003)
    first, second = (
        f1_score(y_test, clone(model).set_params(strategy=one).fit(X, y).predict(X_test), average="macro")
        for one in ("cross_entropy", "aligned")
    )
    assert second > first + 0.02


def test_surrogate_fbeta_is_for_two_classes_only(data):
    with pytest.raises(ValueError, match="two classes for strategy 'surrogate_fbeta', but got 3 labels"):
        clone(NETWORK).set_params(strategy="surrogate_fbeta").fit(data[0], data[1])


def test_saving_bags_calibration_and_constraints(data, tmp_path):
    X, y, X_test, _ = data
    settings = {"n_bags": 2, "calibrate": True, "constraints": ["precision >= 0.5"], "max_epochs": 10}
    model = clone(NETWORK).set_params(metric="recall", class_weight={0: 1.0, 1: 2.0}, **settings)
    model.fit(X, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    assert model.satisfaction_["precision() >= 0.5"]["satisfied"]
    assert model.calibration_error_[1] <= model.calibration_error_[0] + 0.02
    model.save(tmp_path)
    loaded = MetricClassifier.load(tmp_path)
    assert loaded.multilabel_
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(loaded, method)(X_test), getattr(model, method)(X_test))


def test_calibration_is_that_of_the_cells_as_two_classes(data):
    X, y, _, _ = data
    model = clone(NETWORK).set_params(calibrate=True, strategy="east").fit(X, y, validation_data=(X, y))
    z = torch.from_numpy(model._logits(X).numpy())

    def entropy(temperature):
        return torch.nn.functional.binary_cross_entropy_with_logits(z / temperature, torch.tensor(y).double())

    best = model.softmax_temperature_
    assert entropy(best) < min(entropy(best * 0.95), entropy(best * 1.05))


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_the_booster_is_never_below_the_log_loss_on_held_out_rows(data, average):
    X, y, X_test, y_test = data
    metric = metrics.f1(average=average)
    plain, ours = (
        clone(BOOSTER).set_params(metric=metric, strategy=one, n_bags=3).fit(X, y)
        for one in ("log_loss", "metric")
    )
    assert ours.validation_score_ >= plain.validation_score_
    assert plain.rounds_[0][1] == 0
    assert ours.rounds_[0][0] > 0
    assert f1_score(y_test, ours.predict(X_test), average=average) > 0.6


def test_labels_are_boosted_on_the_log_loss_one_by_one(data):
    X, y, X_test, y_test = data
    settings = {"num_leaves": 7, "num_threads": 1, "verbosity": -1, "seed": 0}
    plan = BoostingPlan(
        Goal(metrics.f1()), 2, settings, rounds=30, patience=5, metric_rounds=0, temperature=0.2
    )
    rows, held = LabelledRows(X, y), LabelledRows(X_test, y_test)
    (together,) = train_label_stages([(rows, held)], plan)
    for place in range(3):
        parts = [(LabelledRows(X, y[:, place]), LabelledRows(X_test, y_test[:, place]))]
        (alone,) = train_stages(parts, plan)
        np.testing.assert_array_equal(together.scores(X_test)[:, place], alone.scores(X_test))


def test_the_gradient_of_a_label_is_that_of_the_metric_of_all(data):
    _, y, _, _ = data
    generator = np.random.default_rng(0)
    clear = np.array([3, 0, 3]) * (2 * y - 1)  # the other labels are easy
    scores = torch.from_numpy(generator.normal(size=y.shape) + clear).requires_grad_()
    metric = metrics.f1(average="micro")
    loss = MetricLoss(metric, task="multilabel", temperature=objective(metric).loss.temperature)
    truth = torch.from_numpy(y)
    measure = loss.measure(scores, truth)
    (wanted,) = torch.autograd.grad(loss.objective(measure.confusion, "multilabel"), scores)
    others = measure.confusion.detach()[0] * y.shape[1]  # each label with sum 1
    label = scores.detach().numpy()[:, 1], y[:, 1]
    gradient, hessian = LabelObjective(metric, 0.2, others, 1).gradients(*label)
    ratio = gradient / wanted[:, 1].numpy()
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)  # up to the scale that boosting needs
    assert ratio[0] > 0
    assert (hessian > 0).all()
    alone, _ = objective(metric).gradients(*label)
    assert np.ptp(alone / gradient) > 0.1  # a label on its own has another one


def test_saving_and_constraints_of_the_booster(data, tmp_path):
    X, y, X_test, _ = data
    model = clone(BOOSTER).set_params(metric="recall", constraints=["precision >= 0.5"])
    model.fit(X, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    assert model.rule_.feasible
    for number, fitted in enumerate((model, clone(BOOSTER).set_params(rule=False).fit(X, y))):
        fitted.save(tmp_path / str(number))
        loaded = MetricBooster.load(tmp_path / str(number))
        assert loaded.rounds_ == fitted.rounds_
        for method in ("predict", "predict_proba", "decision_function"):
            np.testing.assert_array_equal(getattr(loaded, method)(X_test), getattr(fitted, method)(X_test))


def test_a_label_without_positives_is_never_predicted(data):
    X, y, X_test, _ = data
    y = np.c_[y[:, :2], np.zeros(len(y), dtype=int)]
    for model in (BOOSTER, NETWORK):
        predicted = clone(model).fit(X, y).predict(X_test)
        assert predicted[:, 2].sum() == 0
        assert predicted[:, 0].any()


def test_the_booster_has_no_class_weights_for_labels(data):
    with pytest.raises(ValueError, match="`class_weight` to be None for multilabel targets"):
        clone(BOOSTER).set_params(class_weight="balanced").fit(data[0], data[1])


@pytest.mark.parametrize("form", [sparse.csr_matrix, lambda y: y.tolist(), lambda y: y.astype(bool)])
def test_every_form_of_labels_gives_the_same_model(data, form):
    X, y, X_test, _ = data
    model = clone(NETWORK).set_params(max_epochs=2)
    wanted = clone(model).fit(X, y).predict_proba(X_test)
    np.testing.assert_array_equal(clone(model).fit(X, form(y)).predict_proba(X_test), wanted)


def test_a_booster_accepts_sparse_labels(data):
    X, y, X_test, _ = data
    model = clone(BOOSTER).set_params(n_estimators=3, metric_rounds=1)
    sparse_labels = clone(model).fit(X, sparse.csr_matrix(y)).predict_proba(X_test)
    np.testing.assert_array_equal(sparse_labels, model.fit(X, y).predict_proba(X_test))


def test_wrong_labels_are_refused(data):
    X, y, X_test, y_test = data
    with pytest.raises(ValueError, match="or 0 and 1 for each of several labels"):
        clone(NETWORK).fit(X, y + 1)
    with pytest.raises(ValueError, match="`validation_data` with 3 labels per row"):
        clone(NETWORK).fit(X, y, validation_data=(X_test, y_test[:, :2]))
    model = clone(NETWORK).set_params(warm_start=True, max_epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="`y` with the labels of the last fit"):
        model.fit(X, y.sum(1).clip(0, 2))


def test_rare_labels_are_in_every_part():
    y = np.zeros((100, 3), dtype=int)
    y[:60, 0] = y[10:20, 1] = y[12:16, 2] = 1
    for _, valid in Targets.read(y).split(4, 0.25, seed=0):
        assert (y[valid].sum(0) >= [13, 1, 1]).all()
    ((train, valid),) = Targets.read(y).split(1, 0.25, seed=0)
    assert y[valid].sum(0)[2] == 1
    assert y[train].sum(0)[2] == 3


def test_hard_counts_and_their_error_are_those_of_each_label(data):
    _, y, _, y_test = data
    truth, one, two = (torch.from_numpy(side) for side in (y, y_test, 1 - y))
    rows = TrainingData(None, truth, multilabel=True)
    np.testing.assert_array_equal(rows.confusion(one, 3), label_confusion(y, y_test))
    middle = (rows.confusion(one, 3) + rows.confusion(two, 3)) / 2
    # The mean accuracy over labels changes by (right - wrong) / (n L) per row.
    moves = ((one == truth).double() - (two == truth).double()).sum(1) / truth.numel()
    error = paired_error(metrics.accuracy(), middle, truth, one, two)
    assert error == pytest.approx(float(moves.square().sum().sqrt()), rel=1e-9)
