"""Every named metric against scikit-learn, or against its formula in numpy, on random confusion matrices."""

import functools
import warnings
from functools import partial

import numpy as np
import pytest
import sklearn.metrics as sk
import torch

from evalign import metrics


def random_matrices():
    """100 matrices of 2 to 20 classes; most lack the truth, the predictions or both of one class."""
    rng = np.random.default_rng(0)
    for index in range(100):
        classes = 2 if index % 4 == 0 else int(rng.integers(3, 21))
        matrix = rng.integers(0, 50, (classes, classes)) + 20.0 * np.eye(classes)
        if index % 2:
            matrix *= rng.random((classes, classes))
        odd, kind = rng.integers(classes), (index // 4) % 4
        if kind == 1 or (kind == 3 and classes > 3):
            matrix[odd] = 0
        if kind == 2 or (kind == 3 and classes > 3):
            matrix[:, odd] = 0
        yield matrix


MATRICES = tuple(random_matrices())
AVERAGES = ("auto", "macro", "micro", "weighted", None)


def as_batch(matrix):
    """One weighted row for each filled cell: true labels, predicted labels, weights."""
    truth, guess = matrix.nonzero()
    return truth, guess, matrix[truth, guess]


@functools.cache
def precision_recall_fbeta(index, average, beta):
    truth, guess, weight = as_batch(MATRICES[index])
    return sk.precision_recall_fscore_support(
        truth, guess, beta=beta, average=average, sample_weight=weight, zero_division=0
    )[:3]


def precision(index, average):
    return precision_recall_fbeta(index, average, 1)[0]


def recall(index, average):
    return precision_recall_fbeta(index, average, 1)[1]


def fbeta(index, average, beta):
    return precision_recall_fbeta(index, average, beta)[2]


@functools.cache
def jaccard(index, average):
    truth, guess, weight = as_batch(MATRICES[index])
    return sk.jaccard_score(truth, guess, average=average, sample_weight=weight, zero_division=0)


@functools.cache
def one_against_rest(index):
    truth, guess, weight = as_batch(MATRICES[index])
    return sk.multilabel_confusion_matrix(truth, guess, sample_weight=weight)


def ratio(numerator, denominator):
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def specificity(index, average, plus_recall=0, minus=0):
    """From scikit-learn's counts of one class against the rest, averaged as scikit-learn averages."""
    counts = one_against_rest(index)
    counts = counts.sum(0, keepdims=True) if average == "micro" else counts
    (tn, fp), (fn, tp) = counts.transpose(1, 2, 0)
    values = ratio(tn, tn + fp) + plus_recall * ratio(tp, tp + fn) - minus
    if average == "binary":
        return values[1]
    return (
        values if average is None else np.average(values, weights=tp + fn if average == "weighted" else None)
    )


informedness = partial(specificity, plus_recall=1, minus=1)

PER_CLASS = {
    "precision": (metrics.precision, precision),
    "recall": (metrics.recall, recall),
    "specificity": (metrics.specificity, specificity),
    "f1": (metrics.f1, partial(fbeta, beta=1)),
    "fbeta(0.5)": (partial(metrics.fbeta, 0.5), partial(fbeta, beta=0.5)),
    "fbeta(1)": (partial(metrics.fbeta, 1), partial(fbeta, beta=1)),
    "fbeta(2)": (partial(metrics.fbeta, 2), partial(fbeta, beta=2)),
    "jaccard": (metrics.jaccard, jaccard),
    "informedness": (metrics.informedness, informedness),
}


def balanced_accuracy(truth, guess, sample_weight):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        return sk.balanced_accuracy_score(truth, guess, sample_weight=sample_weight)


def gmean(truth, guess, sample_weight):
    recalls = [
        sample_weight[(truth == k) & (guess == k)].sum() / sample_weight[truth == k].sum() for k in set(truth)
    ]
    return np.prod(recalls) ** (1 / len(recalls))


def weighted_kappa(truth, guess, sample_weight, weights):
    labels = np.arange(max(truth.max(), guess.max()) + 1)  # a grade that does not occur keeps its distance
    return sk.cohen_kappa_score(truth, guess, labels=labels, weights=weights, sample_weight=sample_weight)


WHOLE = {
    "accuracy": (metrics.accuracy, sk.accuracy_score),
    "balanced_accuracy": (metrics.balanced_accuracy, balanced_accuracy),
    "mcc": (metrics.mcc, sk.matthews_corrcoef),
    "cohen_kappa": (metrics.cohen_kappa, sk.cohen_kappa_score),
    "cohen_kappa linear": (
        partial(metrics.cohen_kappa, weights="linear"),
        partial(weighted_kappa, weights="linear"),
    ),
    "cohen_kappa quadratic": (
        partial(metrics.cohen_kappa, "quadratic"),
        partial(weighted_kappa, weights="quadratic"),
    ),
    "gmean": (metrics.gmean, gmean),
}
every_case = pytest.mark.parametrize(
    ("name", "average"),
    [(name, None) for name in WHOLE] + [(name, average) for name in PER_CLASS for average in AVERAGES],
)


def make(name, average):
    return WHOLE[name][0]() if name in WHOLE else PER_CLASS[name][0](average=average)


@functools.cache
def reference(name, average, index):
    if name in PER_CLASS:
        if average == "auto":
            average = "binary" if len(MATRICES[index]) == 2 else "macro"
        return PER_CLASS[name][1](index, average)
    truth, guess, weight = as_batch(MATRICES[index])
    return WHOLE[name][1](truth, guess, sample_weight=weight)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-5)])
@every_case
def test_value_of_a_matrix_equals_sklearn(name, average, dtype, tolerance):
    metric, values, wanted = make(name, average), [], []
    for index, matrix in enumerate(MATRICES):
        value = metric(matrix.astype(dtype)).numpy()
        if value.ndim:  # scikit-learn does not list the classes that neither occur nor are predicted
            value = value[(matrix.sum(0) + matrix.sum(1)) > 0]
        values.append(value)
        wanted.append(reference(name, average, index))
    np.testing.assert_allclose(np.hstack(values), np.hstack(wanted), rtol=0, atol=tolerance)


@every_case
def test_score_of_weighted_labels_equals_sklearn(name, average):
    metric = make(name, average)
    for index in range(0, len(MATRICES), 5):
        if "cohen_kappa " in name and not MATRICES[index].sum(0).all() | MATRICES[index].sum(1).all():
            continue  # `score` counts only the grades that occur
        value = metric.score(*as_batch(MATRICES[index]))
        np.testing.assert_allclose(value, reference(name, average, index), rtol=0, atol=1e-6)


@every_case
def test_score_without_weights_equals_sklearn(name, average):
    index = 2  # a matrix of whole numbers
    truth, guess, weight = as_batch(MATRICES[index])
    count = weight.astype(int)
    value = make(name, average).score(truth.repeat(count), guess.repeat(count))
    np.testing.assert_allclose(value, reference(name, average, index), rtol=0, atol=1e-6)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_of_grades_equals_sklearn_to_rounding(weights):
    rng = np.random.default_rng(4)
    for classes in (2, 3, 5, 8):
        truth, noise = rng.integers(0, classes, 500), rng.integers(-1, 2, 500)
        guess = (truth + noise).clip(0, classes - 1)
        wanted = sk.cohen_kappa_score(truth, guess, weights=weights)
        assert metrics.cohen_kappa(weights=weights).score(truth, guess) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("wrong", ["cubic", 2, "none", True, []])
def test_other_weights_of_kappa_are_refused(wrong):
    with pytest.raises(ValueError, match="Expected `weights` to be None, 'linear' or 'quadratic'"):
        metrics.cohen_kappa(wrong)


def test_cost_equals_its_formula():
    rng = np.random.default_rng(1)
    for matrix in MATRICES:
        table = rng.normal(size=matrix.shape)
        total = sum(table[i, j] * matrix[i, j] for i, j in np.ndindex(matrix.shape))
        metric = metrics.cost(table)
        assert float(metric(matrix)) == pytest.approx(total / matrix.sum(), abs=1e-6)
        assert float(metric(matrix.astype(np.float32))) == pytest.approx(total / matrix.sum(), abs=1e-5)
        assert metric.score(*as_batch(matrix), labels=range(len(matrix))) == pytest.approx(
            total / matrix.sum()
        )


def test_one_beta_per_class_equals_sklearn_class_by_class():
    betas = [0.5, 1, 3, 0]
    matrices = [matrix for matrix in MATRICES if len(matrix) == 4]
    assert matrices
    for matrix in matrices:
        truth, guess, weight = as_batch(matrix)
        alone = [
            sk.fbeta_score(
                truth, guess, beta=beta, labels=[k], average=None, sample_weight=weight, zero_division=0
            )
            for k, beta in enumerate(betas)
            if k in truth or k in guess
        ]
        assert float(metrics.fbeta(betas)(matrix)) == pytest.approx(np.mean(alone), abs=1e-6)


SKLEARN = {
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "f1": sk.f1_score,
    "fbeta(2)": partial(sk.fbeta_score, beta=2),
    "jaccard": sk.jaccard_score,
}


@pytest.mark.parametrize("average", ["auto", "binary"])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("name", SKLEARN)
def test_positive_equals_sklearn_pos_label(name, positive, average):
    metric = PER_CLASS[name][0](average=average, positive=positive)
    for matrix in [matrix for matrix in MATRICES if len(matrix) == 2][:16]:
        truth, guess, weight = as_batch(matrix)
        wanted = SKLEARN[name](truth, guess, pos_label=positive, sample_weight=weight, zero_division=0)
        assert float(metric(matrix)) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("positive", [0, 1])
def test_specificity_and_informedness_of_either_class_equal_sklearn(positive):
    matrix = MATRICES[0]
    truth, guess, weight = as_batch(matrix)
    recall_of_other = sk.recall_score(truth, guess, pos_label=1 - positive, sample_weight=weight)
    adjusted = sk.balanced_accuracy_score(truth, guess, sample_weight=weight, adjusted=True)
    assert float(metrics.specificity(positive=positive)(matrix)) == pytest.approx(recall_of_other, abs=1e-6)
    assert float(metrics.informedness(positive=positive)(matrix)) == pytest.approx(adjusted, abs=1e-6)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
@pytest.mark.parametrize("name", SKLEARN)
def test_multilabel_score_equals_sklearn(name, average):
    rng = np.random.default_rng(2)
    truth, guess = rng.integers(0, 2, (2, 60, 5))
    truth[:, 1] = guess[:, 1] = 0  # a label without any positive counts 0
    truth[:, 2] = guess[:, 3] = 0
    weight = rng.random(60)
    wanted = SKLEARN[name](truth, guess, average=average, sample_weight=weight, zero_division=0)
    value = PER_CLASS[name][0](average=average).score(truth, guess, weight)
    np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (-1, 1), (0.0, 1.0), (3, 7)], ids=str)
@pytest.mark.parametrize("name", SKLEARN)
def test_labels_of_any_type_equal_sklearn(name, labels):
    truth, guess = np.random.default_rng(3).choice(labels, (2, 50))
    wanted = SKLEARN[name](truth, guess, pos_label=labels[1], zero_division=0)
    metric = PER_CLASS[name][0]()
    assert metric.score(truth, guess) == pytest.approx(wanted, abs=1e-6)
    assert metric.score(truth.tolist(), guess.tolist()) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("rows", [10**4, 10**6])
@pytest.mark.parametrize("name", WHOLE)
def test_ten_positives_among_many_in_float32_equal_sklearn(name, rows):
    matrix = np.array([[rows - 10, 3], [2, 5]], dtype=np.float64)
    truth, guess, weight = as_batch(matrix)
    wanted = WHOLE[name][1](truth, guess, sample_weight=weight)
    assert float(make(name, None)(torch.tensor(matrix).float())) == pytest.approx(wanted, abs=1e-5)
