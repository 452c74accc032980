"""Made-up data: the true probabilities are those of the labels."""

import numpy as np
import pytest

from evalign.papers.data import SYNTHETIC, Synthetic, prepare
from evalign.papers.tables import Protocol


@pytest.mark.parametrize("spec", [Synthetic(share=0.03), Synthetic(classes=3, share=0.07, bend=0.0)])
def test_labels_follow_the_true_probabilities(spec):
    data = spec.draw("toy", 1)
    p = spec.probabilities(data.X.astype(float))
    assert np.allclose(p.sum(1), 1)
    rare = np.bincount(data.y).argmin()
    assert rare == spec.classes - 1
    assert (data.y == rare).mean() == pytest.approx(spec.share, abs=0.005)
    order = p[:, rare].argsort()
    for tenth in np.array_split(order, 10):
        assert (data.y[tenth] == rare).mean() == pytest.approx(p[tenth, rare].mean(), abs=0.03)


@pytest.mark.parametrize(("bend", "linear"), [(0.0, True), (1.0, False)])
def test_a_linear_model_can_represent_the_probabilities_without_bend_only(bend, linear):
    x = np.random.default_rng(0).normal(size=(500, 6))
    p = Synthetic(bend=bend).probabilities(x)
    odds, design = np.log(p[:, 1] / p[:, 0]), np.column_stack([x, np.ones(500)])
    left = odds - design @ np.linalg.lstsq(design, odds, rcond=None)[0]
    assert (np.abs(left).max() < 1e-9) == linear


def test_only_labels_outside_the_test_part_are_wrong():
    clean, noisy = (Synthetic(noise=noise, classes=3, share=0.05).draw("toy", 5) for noise in (0.0, 0.3))
    wrong = clean.y != noisy.y
    assert np.array_equal(clean.X, noisy.X)
    assert not wrong[clean.official_test].any()
    assert wrong[: clean.official_test[0]].mean() == pytest.approx(0.3, abs=0.03)


def test_each_trial_draws_its_own_rows():
    name = "synthetic linear, rows 500"
    first, second, again = prepare(name, None, (1, 2, 1), Protocol())
    assert len(first.train) + len(first.valid) == SYNTHETIC[name].rows == 500
    assert len(first.test) == 20000
    assert not np.array_equal(first.test.x, second.test.x)
    assert np.array_equal(first.test.x, again.test.x)
