"""The area under the ROC curve, from confusion matrices and from scores."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from evalign.metrics import auroc, f1


def curve(truth, scores, weight=None):
    """The confusion matrix at each distinct score, counted row by row: (thresholds, 2, 2)."""
    weight = np.ones(len(truth)) if weight is None else weight
    matrices = np.zeros((len(set(scores)), 2, 2))
    for matrix, threshold in zip(matrices, sorted(set(scores)), strict=True):
        for true, score, mass in zip(truth, scores, weight, strict=True):
            matrix[int(true), int(score >= threshold)] += mass
    return torch.tensor(matrices)


def random_scores(seed, ties=False):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 40)
    truth[:2] = 0, 1
    scores = rng.normal(truth, 1.0)
    return truth, scores.round(0) if ties else scores, rng.random(40)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_matrices_at_all_scores_equal_sklearn(seed, weighted, ties):
    truth, scores, weight = random_scores(seed, ties)
    weight = weight if weighted else None
    area = float(auroc()(curve(truth, scores, weight)))
    assert area == pytest.approx(roc_auc_score(truth, scores, sample_weight=weight), abs=1e-9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_score_equals_sklearn(seed, weighted, ties):
    truth, scores, weight = random_scores(seed, ties)
    weight = weight if weighted else None
    area = auroc().score(truth, scores, weight)
    assert area == pytest.approx(roc_auc_score(truth, scores, sample_weight=weight), abs=1e-9)


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (-1, 1), (3, 7)], ids=str)
def test_score_of_labels_of_any_type_equals_sklearn(labels):
    truth, scores, _ = random_scores(0)
    named = np.array(labels)[truth]
    wanted = roc_auc_score(truth, scores)
    assert auroc().score(named, scores) == pytest.approx(wanted, abs=1e-9)
    assert auroc().score(named.tolist(), scores.tolist(), labels=labels) == pytest.approx(wanted, abs=1e-9)


def test_score_of_multilabel_arrays_equals_sklearn():
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, (50, 3)), rng.random((50, 3)) * [1, 5, 0.1]
    assert auroc().score(truth, scores) == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)


@pytest.mark.parametrize("scores", [[0.0, 0.0, 0.0, 0.0], [0.5] * 4])
def test_constant_scores_give_one_half(scores):
    assert auroc().score([0, 1, 0, 1], scores) == 0.5


def test_order_of_thresholds_does_not_matter():
    matrices = curve(*random_scores(1))
    order = torch.randperm(len(matrices), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(auroc()(matrices[order]), auroc()(matrices))


def test_both_end_points_count():
    # One threshold: recall 0.9 at 0.4 false alarms. Triangle up to it, trapezoid to (1, 1).
    one = torch.tensor([[[6.0, 4.0], [1.0, 9.0]]], dtype=torch.float64)
    assert float(auroc()(one)) == pytest.approx(0.5 * 0.4 * 0.9 + 0.6 * (0.9 + 1) / 2)


@pytest.mark.parametrize("matrix", [[[4.0, 6.0], [0, 0]], [[0, 0], [4.0, 6.0]], [[0.0, 0], [0, 0]]])
def test_one_class_missing_gives_zero_with_finite_gradient(matrix):
    matrices = torch.tensor([matrix, matrix])
    assert float(auroc()(matrices)) == 0
    assert auroc().gradient(matrices).isfinite().all()


@pytest.mark.parametrize("truth", [[0, 0], [1, 1], ["a", "a"], [True, True], [-1, -1]], ids=str)
def test_score_of_one_class_is_zero(truth):
    assert auroc().score(truth, [0.1, 0.9]) == 0


def test_nan_gives_nan():
    matrices = curve(*random_scores(0))
    matrices[3, 0, 1] = torch.nan
    assert auroc()(matrices).isnan()


def test_gradcheck():
    matrices = 1 + torch.rand(2, 5, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(auroc(), matrices.requires_grad_())


def test_gradient_equals_autograd():
    matrices = curve(*random_scores(2)).requires_grad_()
    auroc()(matrices).backward()
    torch.testing.assert_close(auroc().gradient(matrices), matrices.grad)
    assert matrices.grad.isfinite().all()


def test_batch_equals_loop():
    batch = torch.rand(3, 4, 6, 2, 2, generator=torch.Generator().manual_seed(0))
    loop = [auroc()(matrices) for matrices in batch.reshape(12, 6, 2, 2)]
    torch.testing.assert_close(auroc()(batch), torch.stack(loop).reshape(3, 4))
    assert auroc().gradient(batch).shape == batch.shape


def test_labels_are_averaged():
    matrices = [
        curve(truth, scores.round(0).clip(-1, 2)) for truth, scores, _ in map(random_scores, range(3))
    ]
    assert len({len(matrix) for matrix in matrices}) == 1
    mean = sum(float(auroc()(matrix)) for matrix in matrices) / 3
    assert float(auroc().over_labels(torch.stack(matrices, dim=1))) == pytest.approx(mean)


def test_scorer_ranks_by_scores_not_labels():
    truth, scores, _ = random_scores(3)
    model = LogisticRegression().fit(scores[:, None], truth)
    assert auroc().scorer()(model, scores[:, None], truth) == pytest.approx(roc_auc_score(truth, scores))


@pytest.mark.parametrize("shape", [(2, 2), (4, 3, 3), (5, 1, 1)], ids=str)
def test_matrices_must_be_two_by_two(shape):
    with pytest.raises(ValueError, match="Expected `matrix` of shape"):
        auroc()(torch.ones(shape))


@pytest.mark.parametrize("shape", [(3, 2, 2), (4, 2, 3, 3)], ids=str)
def test_matrices_of_labels_must_have_thresholds(shape):
    with pytest.raises(ValueError, match="Expected `matrix` of shape"):
        auroc().over_labels(torch.ones(shape))


@pytest.mark.parametrize(("truth", "scores", "message"), [
    ([0, 1, 1], [0.1, 0.2], "Expected `y_pred` with one score for each of 3 rows"),
    ([0, 1], [[0.1, 0.9], [0.2, 0.8]], "Expected `y_pred` with one score for each of 2 rows"),
    ([], [], "Expected `y_"),
    ([0, 1, 2], [0.1, 0.2, 0.3], "Expected `y_pred` with one column of scores for each of 3 classes"),
    ([0, 1, 2], [[0.1, 0.9]] * 3, "Expected `y_pred` with one column of scores for each of 3 classes"),
    ([[0, 1], [1, 0]], [0.1, 0.2], "Expected `y_pred` with one score"),
    ([0, 1, 1], [0.1, np.nan, 0.2], "Expected `y_pred`"),
])  # fmt: skip
def test_wrong_scores_are_refused(truth, scores, message):
    with pytest.raises(ValueError, match=message):
        auroc().score(truth, scores)


def test_labels_must_name_every_class():
    with pytest.raises(ValueError, match="Expected `labels` to name every class"):
        auroc().score([0, 1, 2], [0.1, 0.2, 0.3], labels=[0, 1])


@pytest.mark.parametrize("weight", [[1, 1], [1, 1, 1, 1], [[1, 1, 1]]], ids=str)
def test_weights_must_fit_the_rows(weight):
    with pytest.raises(ValueError, match="sample_weight"):
        auroc().score([0, 1, 1], [0.1, 0.2, 0.3], weight)


@pytest.mark.parametrize("join", [lambda: 1 - auroc(), lambda: auroc() + f1(), lambda: -auroc()])
def test_a_curve_metric_cannot_be_combined(join):
    with pytest.raises(ValueError, match="Expected metrics of one matrix in .* but got auroc"):
        join()
