"""`MetricClassifier`: what it learns, what it reports, and how it works with scikit-learn."""

import itertools
import json
import re

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from torch import nn

import evalign as ev
from evalign import metrics

ANY_CLASSES = ["aligned", "cross_entropy", "weighted_cross_entropy", "focal", "east"]
TWO_CLASSES = ["softset", "surrogate_fbeta"]
COST = "cost(matrix=[[0, 1], [5, 0]])"


def name(value):
    """A test id that is the same in every process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def classifier(metric="f1", strategy="aligned", **settings):
    small = {
        "rule": False,
        "hidden": (8,),
        "learning_rate": 0.02,
        "max_epochs": 15,
        "patience": 3,
        "random_state": 0,
    }
    return ev.MetricClassifier(metric, strategy=strategy, **(small | settings))


def sample(rows, classes=2, **settings):
    """Training and test rows of one problem."""
    settings = {"n_features": 6, "n_informative": 4, "class_sep": 1.5, "random_state": 3} | settings
    features, labels = make_classification(2 * rows, n_classes=classes, **settings)
    return features[:rows], labels[:rows], features[rows:], labels[rows:]


@pytest.fixture(scope="module")
def two():
    return sample(240, weights=[0.8], flip_y=0.05)


@pytest.fixture(scope="module")
def three():
    return sample(300, classes=3, weights=[0.6, 0.3], flip_y=0.05)


@pytest.fixture(scope="module")
def noisy():
    """Classes that overlap, so that every metric has another best boundary."""
    return sample(600, weights=[0.7], class_sep=0.5, flip_y=0.1)


# What it learns


@pytest.mark.parametrize("strategy", ANY_CLASSES + TWO_CLASSES)
def test_every_strategy_beats_a_constant(two, strategy):
    features, labels, new, truth = two
    predicted = classifier("f1", strategy, max_epochs=30).fit(features, labels).predict(new)
    assert f1_score(truth, predicted) > f1_score(truth, np.ones_like(truth)) + 0.2


@pytest.mark.parametrize("strategy", ANY_CLASSES)
def test_three_classes(three, strategy):
    features, labels, new, truth = three
    model = classifier("f1", strategy, max_epochs=30).fit(features, labels)
    best = max(f1_score(truth, np.full_like(truth, label), average="macro") for label in range(3))
    assert f1_score(truth, model.predict(new), average="macro") > best + 0.2


@pytest.mark.parametrize("strategy", TWO_CLASSES)
def test_strategies_for_two_classes_reject_three(three, strategy):
    with pytest.raises(ValueError, match=f"two classes for strategy '{strategy}', but got 3"):
        classifier("f1", strategy).fit(*three[:2])


@pytest.mark.parametrize("metric", [
    "mcc", "balanced_accuracy", "gmean", "fbeta(beta=2)", "f1(positive=0)", "tp / (tp + fp + fn)",
    "0.5*f1() + 0.5*mcc()", metrics.jaccard(), metrics.cohen_kappa, lambda c: c.recall * c.precision, COST,
], ids=name)  # fmt: skip
def test_any_metric_beats_both_constants(two, metric):
    features, labels, new, truth = two
    metric = metrics.as_metric(metric)
    value = metric.score(truth, classifier(metric).fit(features, labels).predict(new))
    for label in (0, 1):
        constant = metric.score(truth, np.full_like(truth, label))
        assert value > constant if metric.higher_is_better else value < constant


@pytest.mark.parametrize("strategy", ["aligned", "softset", "east", "surrogate_fbeta"])
def test_the_metric_moves_the_boundary(noisy, strategy):
    """A metric that rewards recall ends with more positives than one that rewards precision."""
    features, labels, new, _ = noisy
    shares = [
        classifier(f"fbeta(beta={beta})", strategy).fit(features, labels).predict(new).mean()
        for beta in (0.3, 3)
    ]
    assert shares[1] > shares[0] + 0.1


def test_the_surrogate_is_for_class_1(noisy):
    with pytest.raises(ValueError, match="positive=1 for strategy 'surrogate_fbeta'"):
        classifier("f1(positive=0)", "surrogate_fbeta").fit(*noisy[:2])


@pytest.mark.parametrize("positive", [0, 1])
def test_soft_sets_use_the_positive_class_of_the_metric(noisy, positive):
    features, labels, new, _ = noisy
    predicted = classifier(f"recall(positive={positive})", "softset").fit(features, labels).predict(new)
    assert (predicted == positive).mean() > 0.95  # a constant is best for recall alone


# Labels


@pytest.mark.parametrize("names", [
    np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object), np.array([False, True]),
    np.array([-5, 3]), np.array([-1.0, 1.0]), np.array([7, 200], dtype=np.uint8),
    np.array([2**62, 2**62 + 1]),
], ids=lambda names: names.dtype.str)  # fmt: skip
def test_labels_of_any_type(two, names):
    features, labels, new, _ = two
    plain = classifier(max_epochs=5).fit(features, labels)
    model = classifier(max_epochs=5).fit(features, names[labels])
    assert model.classes_.tolist() == names.tolist()
    assert model.predict(new).dtype == names.dtype
    np.testing.assert_array_equal(model.predict(new), names[plain.predict(new)])


def test_classes_are_sorted_and_columns_follow_them(three):
    features, labels, new, truth = three
    names = np.array(["pear", "apple", "melon"])
    model = classifier(max_epochs=30).fit(features, names[labels])
    assert model.classes_.tolist() == ["apple", "melon", "pear"]
    likely = model.predict_proba(new)[np.arange(len(new)), np.searchsorted(model.classes_, names[truth])]
    assert likely.mean() > 0.6
    assert (model.predict(new) == names[truth]).mean() > 0.7


def test_the_second_class_is_the_positive_one(two):
    """As for scikit-learn's f1 with `pos_label` set to it."""
    features, labels, new, truth = two
    names = np.array(["sick", "healthy"])  # sorted the other way round
    model = classifier().fit(features, names[labels], validation_data=(new, names[truth]))
    score = f1_score(names[truth], model.predict(new), pos_label="sick")
    assert model.validation_score_ == pytest.approx(score)


# Outputs


def test_outputs_for_two_classes_agree(two):
    model = classifier().fit(*two[:2])
    margin, shares, predicted = (
        method(two[2]) for method in (model.decision_function, model.predict_proba, model.predict)
    )
    assert margin.shape == (240,)
    assert shares.shape == (240, 2)
    np.testing.assert_allclose(shares.sum(1), 1)
    np.testing.assert_allclose(shares[:, 1], expit(margin))
    np.testing.assert_array_equal(predicted, margin > 0)
    np.testing.assert_array_equal(predicted, shares.argmax(1))
    assert set(predicted) == {0, 1}


def test_outputs_for_three_classes_agree(three):
    model = classifier().fit(*three[:2])
    logits, shares = model.decision_function(three[2]), model.predict_proba(three[2])
    assert logits.shape == (300, 3)
    np.testing.assert_allclose(shares, softmax(logits, axis=1))
    np.testing.assert_array_equal(model.predict(three[2]), logits.argmax(1))


def test_a_prediction_does_not_depend_on_other_rows(two):
    """Neither the block of 16384 rows nor the neighbours matter, and dropout is off."""
    model = classifier(dropout=0.5).fit(*two[:2])
    many = np.tile(two[2], (70, 1))
    whole = model.decision_function(many)
    np.testing.assert_allclose(whole, np.tile(model.decision_function(two[2]), 70), atol=1e-5)
    np.testing.assert_allclose(
        whole[:5], [model.decision_function(row[None])[0] for row in many[:5]], atol=1e-5
    )
    np.testing.assert_allclose(model.decision_function(sparse.csr_matrix(many)), whole, atol=1e-5)


def test_features_are_scaled_inside(two):
    features, labels, new, _ = two
    scale, shift = np.array([1e-6, 1e6, 1, 30, 2, 5]), np.array([0, 1e6, -1e3, 1, 2, 3])
    plain = classifier(max_epochs=5).fit(features, labels).predict_proba(new)
    moved = classifier(max_epochs=5).fit(features * scale + shift, labels).predict_proba(new * scale + shift)
    np.testing.assert_allclose(moved, plain, atol=1e-3)


@pytest.mark.parametrize("value", [1e12, 1e40, -1e300])
def test_far_away_rows_get_finite_probabilities(two, value):
    model = classifier(max_epochs=3).fit(*two[:2])
    shares = model.predict_proba(np.full((1, 6), value))
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)


# Randomness


@pytest.mark.parametrize("strategy", ["aligned", "softset"])
def test_the_seed_decides(two, strategy):
    one, same, other = (
        classifier(strategy=strategy, max_epochs=4, random_state=seed).fit(*two[:2]).predict_proba(two[2])
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3


def test_fitting_again_starts_from_scratch(two):
    model = classifier(max_epochs=4).fit(*two[:2])
    first = model.predict_proba(two[2])
    np.testing.assert_array_equal(model.fit(*two[:2]).predict_proba(two[2]), first)


def test_a_random_state_object_advances(two):
    state = np.random.RandomState(0)
    one, other = (
        classifier(max_epochs=3, random_state=state).fit(*two[:2]).predict_proba(two[2]) for _ in range(2)
    )
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("strategy", ["aligned", "softset"])
def test_global_random_states_are_neither_used_nor_changed(two, strategy):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
        results.append(classifier(strategy=strategy, max_epochs=3).fit(*two[:2]).predict_proba(two[2]))
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    np.testing.assert_array_equal(*results)


# Sparse features and tables


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_equals_dense_up_to_centring(two, kind):
    features, labels, new, truth = two
    features = features - features.mean(0)  # nothing is left to centre
    dense = classifier(max_epochs=4).fit(features, labels, validation_data=(new, truth))
    model = classifier(max_epochs=4).fit(kind(features), labels, validation_data=(kind(new), truth))
    np.testing.assert_allclose(model.predict_proba(kind(new)), dense.predict_proba(new), atol=1e-4)


def test_sparse_features_are_not_centred(two):
    """So a feature that is 0 stays 0, and adds nothing to any logit."""
    rows = sparse.csr_matrix(two[0] + 5)
    model = classifier("f1", "cross_entropy", hidden=(), max_epochs=2).fit(rows, two[1])
    bias = model.decision_function(sparse.csr_matrix((1, 6)))
    np.testing.assert_allclose(model.decision_function(np.zeros((1, 6))), bias)
    network = model.networks_[0][0]
    np.testing.assert_allclose(bias, (network.bias[1] - network.bias[0]).item(), rtol=1e-6)


def test_sparse_and_dense_rows_are_predicted_alike(two):
    for fitted in (two[0], sparse.csr_matrix(two[0])):
        model = classifier(max_epochs=3).fit(fitted, two[1])
        sparse_rows = model.predict_proba(sparse.csc_matrix(two[2]))
        np.testing.assert_allclose(sparse_rows, model.predict_proba(two[2]), atol=1e-6)


def test_tables_of_pandas(two):
    pd = pytest.importorskip("pandas")
    names = list("abcdef")
    table, new = (pd.DataFrame(part, columns=names) for part in (two[0], two[2]))
    labels = pd.Series(np.where(two[1], "yes", "no"), index=range(1000, 1240))
    model = classifier(max_epochs=3).fit(table, labels)
    assert model.feature_names_in_.tolist() == names
    plain = classifier(max_epochs=3).fit(two[0], two[1])
    np.testing.assert_array_equal(model.predict_proba(new), plain.predict_proba(two[2]))
    np.testing.assert_array_equal(model.predict(new) == "yes", plain.predict(two[2]) == 1)
    for wrong in (new[names[::-1]], new.rename(columns={"a": "z"}), new.drop(columns="a")):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(wrong)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(two[2])


# Weights


@pytest.mark.parametrize("label", [0, 1])
def test_sample_weight_shifts_predictions(noisy, label):
    """And the score: with all the weight on one class, accuracy is the recall of that class."""
    features, labels, new, _ = noisy
    weight = np.where(labels == label, 100, 1)
    model = classifier("accuracy").fit(features, labels, sample_weight=weight)
    assert (model.predict(new) == label).mean() > 0.9
    assert model.validation_score_ > 0.95


@pytest.mark.parametrize("strategy", ["cross_entropy", "weighted_cross_entropy", "focal", "east", "softset"])
def test_weights_of_classes_are_weights_of_their_rows(noisy, strategy):
    features, labels, new, _ = noisy
    one = classifier("f1", strategy, max_epochs=3, class_weight={0: 1, 1: 4}).fit(features, labels)
    other = classifier("f1", strategy, max_epochs=3)
    other.fit(features, labels, sample_weight=np.where(labels == 1, 4, 1))
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), atol=1e-4)


@pytest.mark.parametrize("unit", [1, 3, 1e30, 1e-60])
def test_only_ratios_of_sample_weights_matter(two, unit):
    plain = classifier(max_epochs=3).fit(*two[:2]).predict_proba(two[2])
    model = classifier(max_epochs=3).fit(*two[:2], sample_weight=np.full(240, unit))
    np.testing.assert_allclose(model.predict_proba(two[2]), plain, atol=1e-4)


@pytest.mark.parametrize("strategy", ["aligned", "cross_entropy", "softset"])
def test_features_of_rows_without_weight_do_not_matter(two, strategy):
    """Labels still do: they decide which rows are held out."""
    features, labels, new, _ = two
    weight = np.arange(240) % 3 > 0
    spoilt = np.where(weight[:, None], features, 1e4)
    results = [
        classifier("f1", strategy, max_epochs=3).fit(rows, labels, sample_weight=weight).predict_proba(new)
        for rows in (features, spoilt)
    ]
    np.testing.assert_allclose(*results, atol=1e-4)


def test_batches_without_weight_are_skipped(two):
    """The loss of a batch without weight is not 0/0."""
    weight = np.zeros(240)
    weight[::12] = 1
    model = classifier(batch_size=4, max_epochs=2).fit(*two[:2], sample_weight=weight)
    assert np.isfinite([row["train_loss"] for row in model.history_]).all()
    assert np.isfinite(model.predict_proba(two[2])).all()


@pytest.mark.parametrize("row", range(0, 240, 40))
def test_one_row_with_weight(two, row):
    """It trains or validates by chance; either way there is a model, or an error that says why not."""
    weight = np.zeros(240)
    weight[row] = 1
    try:
        model = classifier(max_epochs=2, validation_fraction=0.5).fit(*two[:2], sample_weight=weight)
    except ValueError as error:
        assert "sample_weight" in str(error)
    else:
        assert np.isfinite(model.predict_proba(two[2])).all()


def test_balanced_is_the_inverse_of_class_frequencies(two):
    features, labels, new, truth = two
    counts = np.bincount(labels)
    by_hand = {label: 240 / (2 * counts[label]) for label in (0, 1)}
    results = [
        classifier(max_epochs=4, class_weight=weight)
        .fit(features, labels, validation_data=(new, truth)).predict_proba(new)
        for weight in ("balanced", by_hand)
    ]  # fmt: skip
    np.testing.assert_allclose(*results, atol=1e-5)


def test_weighted_cross_entropy_is_balanced_cross_entropy(noisy):
    features, labels, new, _ = noisy
    one = classifier("f1", "weighted_cross_entropy", max_epochs=4).fit(features, labels)
    other = classifier("f1", "cross_entropy", max_epochs=4, class_weight="balanced").fit(features, labels)
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), atol=1e-4)
    plain = classifier("f1", "cross_entropy", max_epochs=4).fit(features, labels)
    assert one.predict(new).mean() > plain.predict(new).mean() + 0.05


def test_class_weight_by_label(noisy):
    features, labels, new, _ = noisy
    names = np.array(["bad", "good"])
    shares = [
        (classifier("accuracy", "cross_entropy", class_weight=weight).fit(features, names[labels])
         .predict(new) == "good").mean()
        for weight in ({"bad": 50}, {"bad": 1, "good": 50})
    ]  # fmt: skip
    assert shares[0] < 0.1
    assert shares[1] > 0.9


# Validation


@pytest.mark.parametrize("metric", ["f1", "mcc", "tp / (tp + fp)", COST])
@pytest.mark.parametrize("strategy", ["aligned", "cross_entropy", "east"])
def test_validation_score_is_the_metric_on_validation_rows(noisy, metric, strategy):
    features, labels, new, truth = noisy
    model = classifier(metric, strategy, max_epochs=4).fit(features, labels, validation_data=(new, truth))
    assert model.validation_score_ == pytest.approx(
        metrics.as_metric(metric).score(truth, model.predict(new))
    )


@pytest.mark.parametrize("metric", ["f1", "mcc", COST, "fbeta(beta=3)"])
@pytest.mark.parametrize("seed", range(3))
def test_aligned_is_never_below_its_cross_entropy(noisy, metric, seed):
    """Nor below any epoch of its second phase: it ends with the best of them all."""
    features, labels, *held = noisy
    model = classifier(metric, random_state=seed).fit(features, labels, validation_data=held)
    groups = itertools.groupby(model.history_, key=lambda row: row["phase"])
    first, second = (list(rows) for _, rows in groups)
    start = min(first, key=lambda row: row["valid_loss"])["valid_metric"]
    best = max if metrics.as_metric(metric).higher_is_better else min
    candidates = [start] + [row["valid_metric"] for row in second]
    assert model.validation_score_ == pytest.approx(best(candidates))


class Fickle(nn.Module):
    """Linear; after a given number of training batches it learns the opposite."""

    def __init__(self, features, classes, batches):
        super().__init__()
        self.linear, self.left = nn.Linear(features, classes), batches

    def forward(self, x):
        self.left -= self.training
        return self.linear(x) * (-1 if self.training and self.left < 0 else 1)


def test_aligned_falls_back_to_its_cross_entropy(two):
    """240 rows in batches of 40 are 6 batches per epoch; all but the first 5 epochs make it worse."""
    features, labels, *held = two
    settings = {"network": lambda f, c: Fickle(f, c, 5 * 6), "batch_size": 40, "max_epochs": 5, "patience": 5}
    plain = classifier("f1", "cross_entropy", **settings).fit(features, labels, validation_data=held)
    model = classifier("f1", "aligned", **settings).fit(features, labels, validation_data=held)
    assert max(row["valid_metric"] for row in model.history_[5:]) < plain.validation_score_
    np.testing.assert_array_equal(model.predict_proba(held[0]), plain.predict_proba(held[0]))


def test_history_contains_the_metric_itself(noisy):
    """A cost, which is better when lower, keeps its sign."""
    features, labels, *held = noisy
    model = classifier(COST, "cross_entropy", max_epochs=4).fit(features, labels, validation_data=held)
    start = min(model.history_, key=lambda row: row["valid_loss"])
    assert start["valid_metric"] == pytest.approx(model.validation_score_)
    assert model.validation_score_ > 0


@pytest.mark.parametrize("settings", [{}, {"class_weight": {0: 1, 1: 6}}], ids=["plain", "weighted"])
def test_cross_entropy_ends_with_its_lowest_validation_loss(noisy, settings):
    features, labels, new, truth = noisy
    model = classifier("f1", "cross_entropy", learning_rate=0.1, max_epochs=20, **settings)
    model.fit(features, labels, validation_data=(new, truth))
    losses = [row["valid_loss"] for row in model.history_]
    assert min(losses) < losses[-1], "the last epoch was the best: nothing to restore"
    weight = np.where(truth == 1, 6, 1) if settings else None
    value = log_loss(truth, model.predict_proba(new), sample_weight=weight)
    assert min(losses) == pytest.approx(value, rel=1e-4)


def test_training_stops_after_patience(noisy):
    features, labels, *held = noisy
    model = classifier("f1", "cross_entropy", learning_rate=0.1, max_epochs=100, patience=4)
    losses = [row["valid_loss"] for row in model.fit(features, labels, validation_data=held).history_]
    assert len(losses) == np.argmin(losses) + 1 + 4 < 100


def test_validation_rows_do_not_train(two):
    """Nor do they scale: other validation rows do not change the weights of any epoch."""
    features, labels, new, truth = two
    settings = {"max_epochs": 1, "patience": 50}
    results = [
        classifier("f1", "cross_entropy", **settings).fit(features, labels, validation_data=held)
        .predict_proba(new)
        for held in ((new, truth), (new * 100 + 7, 1 - truth))
    ]  # fmt: skip
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("strategy", ANY_CLASSES + TWO_CLASSES)
@pytest.mark.parametrize("label", [0, 1])
def test_validation_part_of_one_class(two, strategy, label):
    features, labels, new, truth = two
    held = new[truth == label], truth[truth == label]
    model = classifier("f1", strategy, max_epochs=3).fit(features, labels, validation_data=held)
    assert np.isfinite([row["valid_loss"] for row in model.history_]).all()
    assert np.isfinite(model.predict_proba(new)).all()
    assert model.validation_score_ == f1_score(held[1], model.predict(held[0]), zero_division=0)


def test_validation_data_of_another_kind(two):
    features, labels, new, truth = two
    plain = classifier(max_epochs=3).fit(features, labels, validation_data=(new, truth))
    for held in ((sparse.csr_matrix(new), truth), (new.tolist(), truth.tolist()), [new, truth]):
        model = classifier(max_epochs=3).fit(features, labels, validation_data=held)
        np.testing.assert_allclose(model.predict_proba(new), plain.predict_proba(new), atol=1e-5)


@pytest.mark.parametrize("fraction", [1e-6, 0.5, 0.9999])
def test_any_fraction_trains(two, fraction):
    model = classifier(max_epochs=2, validation_fraction=fraction).fit(*two[:2])
    assert 0 <= model.validation_score_ <= 1


# History


def test_history_is_complete(two):
    model = classifier(max_epochs=6).fit(*two[:2])
    numbers = ["train_loss", "valid_loss", "valid_metric"]
    for row in model.history_:
        assert {"phase", "epoch", "temperature", *numbers} <= row.keys()
        assert np.isfinite([row[name] for name in numbers]).all()
    assert json.loads(json.dumps(model.history_)) == model.history_
    phases = [(name, [row["epoch"] for row in rows]) for name, rows
              in itertools.groupby(model.history_, key=lambda row: row["phase"])]  # fmt: skip
    assert [name for name, _ in phases] == ["cross-entropy", "metric, anchored"]
    assert all(epochs == list(range(len(epochs))) for _, epochs in phases)
    assert model.n_iter_ == len(model.history_) <= 12


@pytest.mark.parametrize("strategy", ["aligned", "east"])
def test_temperature_cools(two, strategy):
    """From 0.2, by a factor of 0.8 whenever the loss stalls."""
    model = classifier("f1", strategy, max_epochs=60, patience=1).fit(*two[:2])
    course = [row["temperature"] for row in model.history_ if row["temperature"] is not None]
    assert course[0] == 0.2
    assert model.temperature_ == course[-1] < 0.2
    for before, after in itertools.pairwise(course):
        assert after == before or after == pytest.approx(max(0.8 * before, 0.02))


@pytest.mark.parametrize("strategy", ["cross_entropy", "weighted_cross_entropy", "focal", "surrogate_fbeta"])
def test_no_temperature_without_a_metric_loss(two, strategy):
    model = classifier("f1", strategy, max_epochs=2).fit(*two[:2])
    assert model.temperature_ is None
    assert {row["temperature"] for row in model.history_} == {None}


def test_verbose(two, capsys):
    classifier(max_epochs=2).fit(*two[:2])
    assert capsys.readouterr() == ("", "")
    classifier(max_epochs=2, verbose=1).fit(*two[:2])
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"cross-entropy: 100%.* 2/2 .*validation loss \d", err)
    assert re.search(r"metric, anchored: 100%.* 2/2 .*temperature 0\.200", err)
    assert err.count("\n") == 2, "one line per phase"
    assert err.endswith("\n")


# Custom networks and warm starts


def test_own_network(three):
    calls = []

    def network(features, classes):
        calls.append((features, classes))
        return nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, classes))

    features, labels, new, truth = three
    model = classifier(network=network, hidden="ignored", max_epochs=30).fit(features, labels)
    assert calls == [(6, 3)]
    assert (model.predict(new) == truth).mean() > 0.7
    assert not any(part.training for part in model.networks_)


def test_own_network_as_a_module(two):
    """It is copied, so that it can be used again and every fit starts from its weights."""
    features, labels, new, _ = two
    network = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    before = [value.clone() for value in network.parameters()]
    models = [classifier(network=network, max_epochs=3).fit(features, labels) for _ in range(2)]
    assert all(torch.equal(*pair) for pair in zip(network.parameters(), before, strict=True))
    assert not torch.equal(models[0].networks_[0][0].weight, network[0].weight)
    models.append(clone(models[0]).fit(features, labels))
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(new), models[0].predict_proba(new))


def test_there_is_no_batch_of_one_row_for_batch_norm(two):
    """`BatchNorm1d` cannot train on one row, which is what a batch size may leave over."""
    features, labels, new, truth = two

    def network(features, classes):
        return nn.Sequential(nn.BatchNorm1d(features), nn.Linear(features, classes))

    model = classifier(network=network, batch_size=239, max_epochs=2)
    model.fit(features, labels, validation_data=(new, truth))
    assert np.isfinite(model.predict_proba(new)).all()


def test_warm_start_continues(noisy):
    features, labels, new, _ = noisy
    model = classifier("f1", "cross_entropy", learning_rate=0.005, max_epochs=80, warm_start=True).fit(
        features, labels
    )
    first, loss, epochs = model.predict_proba(new), model.history_[0]["train_loss"], model.n_iter_
    model.fit(features, labels)
    assert np.abs(model.predict_proba(new) - first).max() > 1e-6
    assert model.history_[0]["train_loss"] < loss
    assert model.n_iter_ < epochs


def test_cold_start_does_not_continue(two):
    model = classifier("f1", "cross_entropy", max_epochs=3).fit(*two[:2])
    loss = model.history_[0]["train_loss"]
    assert model.fit(*two[:2]).history_[0]["train_loss"] == loss


def test_warm_start_keeps_the_scaling(two):
    """Weights learnt on scaled features would be worthless on features scaled otherwise."""
    features, labels, new, _ = two
    model = classifier("f1", "cross_entropy", learning_rate=1e-9, max_epochs=1, warm_start=True).fit(
        features, labels
    )
    first = model.predict_proba(new)
    model.fit(features * 5 + 3, labels)
    np.testing.assert_allclose(model.predict_proba(new), first, atol=1e-5)


@pytest.mark.parametrize("wrong", [{"classes": [0, 1, 2]}, {"classes": [1, 2]}, {"columns": 5}], ids=name)
def test_warm_start_rejects_another_problem(two, wrong):
    features, labels = two[:2]
    model = classifier(max_epochs=2, warm_start=True).fit(features, labels)
    before = model.predict_proba(features)
    names = np.array(wrong.get("classes", [0, 1]))
    other = names[np.arange(240) % len(names)]
    with pytest.raises(ValueError, match="classes of the last fit|is expecting 6 features"):
        model.fit(features[:, : wrong.get("columns", 6)], other)
    np.testing.assert_array_equal(model.predict_proba(features), before)


def test_warm_start_rejects_another_shape(two):
    """The layers cannot change, and the setting must not be ignored silently."""
    model = classifier(max_epochs=2, warm_start=True).fit(*two[:2])
    with pytest.raises(ValueError, match="`hidden`"):
        model.set_params(hidden=(4,)).fit(*two[:2])


# In scikit-learn


def test_grid_search_over_metrics_and_strategies(two):
    grid = {"metric": ["f1", metrics.mcc(), lambda c: c.recall], "strategy": ["aligned", "focal"]}
    scorer = metrics.f1().scorer()
    search = GridSearchCV(classifier(max_epochs=3), grid, scoring=scorer, cv=2, error_score="raise")
    search.fit(*two[:2])
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert search.best_estimator_.n_iter_ > 0


def test_pipeline(two):
    pipeline = make_pipeline(QuantileTransformer(n_quantiles=50), classifier())
    pipeline.fit(*two[:2])
    assert f1_score(two[3], pipeline.predict(two[2])) > 0.5
    assert clone(pipeline).get_params()["metricclassifier__hidden"] == (8,)


def test_cross_val_score_with_the_metric_s_scorer(two):
    ours = cross_val_score(classifier(max_epochs=4), *two[:2], cv=3, scoring=metrics.f1().scorer())
    np.testing.assert_allclose(ours, cross_val_score(classifier(max_epochs=4), *two[:2], cv=3, scoring="f1"))


def test_scores_that_need_probabilities(two):
    scoring = ["roc_auc", "average_precision", "neg_log_loss"]
    model = classifier("f1", max_epochs=8)
    scores = cross_validate(model, *two[:2], cv=2, scoring=scoring, error_score="raise")
    assert scores["test_roc_auc"].mean() > 0.8


def test_clone_of_a_fitted_model_is_not_fitted(two):
    model = classifier(metrics.fbeta(beta=2), max_epochs=2).fit(*two[:2])
    copy = clone(model)
    assert not hasattr(copy, "classes_")
    np.testing.assert_array_equal(copy.fit(*two[:2]).predict_proba(two[2]), model.predict_proba(two[2]))
