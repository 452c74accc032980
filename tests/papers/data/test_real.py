"""The real images and graphs, where they are available: shapes, classes and positives as published."""

import os
from pathlib import Path

import numpy as np
import pytest

from evalign.papers.data import load

BESIDE = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(autouse=True)
def _real(monkeypatch):
    if not os.environ.get("EVALIGN_DATA"):
        if not BESIDE.is_dir():
            pytest.skip("no real data on this machine")
        monkeypatch.setenv("EVALIGN_DATA", str(BESIDE))


def real(name, **options):
    try:
        return load(name, download=False, **options)
    except FileNotFoundError:
        pytest.skip(f"{name} is not on this machine")


def test_the_graphs_agree_with_the_pairs():
    graph, pairs = real("cocktailparty_graph"), real("cocktailparty")
    assert graph.X.shape == (320, 6, 3)
    upper = np.triu_indices(6, 1)
    different = 1 - graph.y[:, upper[0], upper[1]]
    assert int(different.sum()) == 1454
    # Both have the pairs of a frame in the same order; dyad1_x is half the distance of a pair.
    np.testing.assert_array_equal(different.ravel(), pairs.y)
    distance = np.linalg.norm(graph.X[:, upper[0], :2] - graph.X[:, upper[1], :2], axis=-1)
    np.testing.assert_allclose(distance.ravel() / 2, pairs.X[:, 0], atol=0.02)
    assert [len(rows) for rows in graph.split()] == [204, 52, 64]


def test_cifar10_has_ten_classes_of_equal_size():
    data = real("cifar10")
    assert data.X.shape[1:] == (32, 32, 3)
    assert len(set(np.bincount(data.y))) == 1
    assert len(set(np.bincount(data.y[data.official_test]))) == 1
    assert data.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert data.X[0, 0, 0].tolist() == [59, 62, 63]
    assert real("cifar10_transportation").y.mean() == pytest.approx(0.4)
    assert real("cifar10_frog").y.mean() == pytest.approx(0.1)


def test_fashion_mnist_has_7000_of_each_class():
    data = real("fashion_mnist")
    assert data.X.shape == (70000, 28, 28, 1)
    assert np.bincount(data.y).tolist() == [7000] * 10
    assert np.bincount(data.y[data.official_test]).tolist() == [1000] * 10
    assert int(real("fashion_mnist_tshirt").y.sum()) == 7000


def test_caltech256_has_257_classes():
    data = real("caltech256")
    assert data.X.shape == (7556, 512)
    assert len(data.class_names) == 257
    assert (np.bincount(data.y).min(), np.bincount(data.y).max()) == (20, 206)
    assert data.official_test is None
    assert data.class_names[55].endswith("dog")
    assert data.class_names[79].endswith("frog")
    assert min(len(np.unique(data.y[rows])) for rows in data.split()) == 257


def test_caltech256_images_match_the_archive():
    pytest.importorskip("PIL")
    data = real("caltech256_images", size=32)
    assert data.X.shape[1:] == (32, 32, 3)
    if data.source == "caltech256_10class_128px.zip":
        assert data.class_names[0] == "003.backpack"
        assert np.bincount(data.y).tolist() == [151, 100, 87, 85, 133, 94, 138, 128, 110, 97]
