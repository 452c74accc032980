"""The sweep over thresholds against naive counting."""

import numpy as np
import pytest
import torch

from evalign.metrics import sweep_thresholds, thresholds_between

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("levels", [2, 5, 1000], ids=["ties", "some ties", "distinct"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_matrix_equals_counting_row_by_row(levels, weighted):
    scores = RNG.integers(0, levels, 50) / levels
    positive = RNG.random(50) < 0.4
    weight = RNG.random(50) if weighted else None
    sweep = sweep_thresholds(scores, positive, weight)
    assert len(sweep.thresholds) == len(sweep.matrices) == len(np.unique(scores)) + 1
    for threshold, matrix in zip(sweep.thresholds, sweep.matrices, strict=True):
        counts = np.zeros((2, 2))
        for row in range(50):
            counts[int(positive[row]), int(scores[row] >= threshold)] += 1 if weight is None else weight[row]
        np.testing.assert_allclose(matrix, counts, atol=1e-12)
        torch.testing.assert_close(sweep.at(threshold), matrix)


def test_scores_outside_the_unit_interval_have_matrices_too():
    sweep = sweep_thresholds(np.array([-3.0, 8.0]), np.array([False, True]))
    assert sweep.at(np.array([-4.0, 0.0, 9.0]))[:, 1, 1].tolist() == [1, 1, 0]


def test_thresholds_separate_neighbouring_numbers():
    high = 0.5
    low = np.nextafter(high, 0)
    thresholds = thresholds_between(np.array([high, low]))
    assert [(high >= one, low >= one) for one in thresholds] == [
        (False, False),
        (True, False),
        (True, True),
    ]
