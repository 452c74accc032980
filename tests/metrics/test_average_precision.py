"""Average precision, and curves of several classes or labels, against scikit-learn."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_score

from evalign.metrics import as_metric, auroc, average_precision, sweep_thresholds

BOTH = {
    "auroc": (auroc, roc_auc_score, partial(roc_auc_score, multi_class="ovr")),
    "average_precision": (average_precision, average_precision_score, average_precision_score),
}
both = pytest.mark.parametrize("name", BOTH)


def binary(seed, ties=False, rows=60):
    rng = np.random.default_rng(seed)
    truth = (rng.random(rows) < 0.3).astype(int)
    truth[:2] = 0, 1
    scores = rng.normal(truth, 1.0)
    return truth, scores.round(0) if ties else scores, rng.random(rows)


def multiclass(seed, classes=4, rows=80):
    rng = np.random.default_rng(seed)
    truth = np.append(np.arange(classes), rng.integers(0, classes, rows - classes))
    scores = rng.random((rows, classes)) + np.eye(classes)[truth]
    return truth, scores / scores.sum(1, keepdims=True), rng.random(rows)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_score_and_matrices_at_all_thresholds_equal_sklearn(seed, weighted, ties):
    truth, scores, weight = binary(seed, ties)
    weight = weight if weighted else None
    wanted = average_precision_score(truth, scores, sample_weight=weight)
    assert average_precision().score(truth, scores, weight) == pytest.approx(wanted, abs=1e-12)
    matrices = sweep_thresholds(scores, truth == 1, weight).matrices
    shuffled = matrices[torch.randperm(len(matrices), generator=torch.Generator().manual_seed(0))]
    assert float(average_precision()(shuffled)) == pytest.approx(wanted, abs=1e-12)


@both
@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("weighted", [False, True])
def test_score_of_more_classes_equals_sklearn(name, average, weighted):
    make, _, reference = BOTH[name]
    truth, scores, weight = multiclass(0)
    weight = weight if weighted else None
    wanted = reference(truth, scores, average=average, sample_weight=weight)
    assert make(average=average).score(truth, scores, weight) == pytest.approx(wanted, abs=1e-12)
    names = np.array(["a", "b", "c", "d"])[truth]
    assert make(average).score(names, scores, weight) == pytest.approx(wanted, abs=1e-12)


def test_micro_score_of_more_classes_equals_sklearn():
    truth, scores, _ = multiclass(1)
    wanted = roc_auc_score(truth, scores, multi_class="ovr", average="micro")
    assert auroc(average="micro").score(truth, scores) == pytest.approx(wanted, abs=1e-12)


@both
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_score_of_labels_equals_sklearn(name, average):
    make, reference, _ = BOTH[name]
    rng = np.random.default_rng(2)
    truth, scores, weight = rng.integers(0, 2, (70, 5)), rng.random((70, 5)), rng.random(70)
    wanted = reference(truth, scores, average=average, sample_weight=weight)
    assert make(average=average).score(truth, scores, weight) == pytest.approx(wanted, abs=1e-12)


@both
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_matrices_of_labels_at_all_thresholds_equal_sklearn(name, average):
    make, reference, _ = BOTH[name]
    rng = np.random.default_rng(3)
    truth, scores = rng.integers(0, 2, (40, 3)), rng.integers(0, 8, (40, 3)) / 8
    matrices = torch.zeros(10, 3, 2, 2, dtype=torch.float64)
    for number, threshold in enumerate(np.arange(10) / 8):
        for row, label in np.ndindex(40, 3):
            matrices[number, label, truth[row, label], int(scores[row, label] >= threshold)] += 1
    wanted = reference(truth, scores, average=average)
    assert float(make(average=average).over_labels(matrices)) == pytest.approx(wanted, abs=1e-12)
    batch = torch.stack([matrices, 2 * matrices])
    assert make(average=average).over_labels(batch).tolist() == pytest.approx([wanted, wanted])


def test_a_coarse_curve_ends_where_all_rows_are_positive():
    # One threshold: recall 0.9 at precision 9/13; the rest of the recall at the share of positives.
    one = torch.tensor([[[6.0, 4.0], [1.0, 9.0]]], dtype=torch.float64)
    assert float(average_precision()(one)) == pytest.approx(0.9 * 9 / 13 + 0.1 * 0.5)


@pytest.mark.parametrize(("matrix", "value"), [
    ([[4.0, 6.0], [0, 0]], 0), ([[0, 0], [4.0, 6.0]], 1), ([[0.0, 0], [0, 0]], 0),
])  # fmt: skip
def test_one_class_missing_has_a_finite_gradient(matrix, value):
    matrices = torch.tensor([matrix, matrix])
    assert float(average_precision()(matrices)) == pytest.approx(value)
    assert average_precision().gradient(matrices).isfinite().all()


def test_labels_without_positives_are_left_out_of_a_loss():
    rng = np.random.default_rng(4)
    matrices = torch.from_numpy(rng.random((6, 2, 2, 2)))
    matrices[:, 1, 1] = 0
    one = float(average_precision()(matrices[:, 0]))
    assert float(average_precision().over_labels(matrices)) == pytest.approx(one / 2)
    assert float(average_precision().over_labels(matrices, skip_absent=True)) == pytest.approx(one)


def test_nan_gives_nan():
    matrices = torch.rand(5, 2, 2, generator=torch.Generator().manual_seed(0))
    matrices[3, 0, 1] = torch.nan
    assert average_precision()(matrices).isnan()


@both
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_gradcheck(name, average):
    made = BOTH[name][0](average=average)
    generator = torch.Generator().manual_seed(0)
    matrices = 1 + torch.rand(2, 5, 3, 2, 2, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradcheck(made.over_labels, matrices.requires_grad_())
    assert torch.autograd.gradcheck(made, matrices.detach()[:, :, 0].clone().requires_grad_())


@both
def test_cross_validation_of_three_classes_equals_sklearn(name):
    features, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500)
    ours = cross_val_score(model, features, labels, cv=3, scoring=BOTH[name][0]().scorer())
    reference = BOTH[name][2]

    def score(fitted, x, y):
        return reference(y, fitted.predict_proba(x))

    np.testing.assert_allclose(
        ours, cross_val_score(model, features, labels, cv=3, scoring=score), atol=1e-12
    )


@pytest.mark.parametrize("average", [None, "binary", "auto", "samples", 1])
def test_other_averages_are_refused(average):
    for make in (auroc, average_precision):
        with pytest.raises(ValueError, match="Expected `average` to be 'macro', 'micro' or 'weighted'"):
            make(average=average)


def test_by_name():
    truth, scores, _ = binary(5)
    assert as_metric("average_precision").score(truth, scores) == pytest.approx(
        average_precision_score(truth, scores)
    )
    assert as_metric("auroc(average='weighted')").average == "weighted"
