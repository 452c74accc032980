"""The real files, where they are there: rows, positives and classes as published."""

import os
from pathlib import Path

import numpy as np
import pytest

from evalign.datasets import load

BESIDE = Path(__file__).parents[3] / "shared" / "data"


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


@pytest.mark.parametrize(
    ("name", "shape", "positives"),
    [
        ("adult", (48842, 13), 7841 + 3846),
        ("creditcard", (284807, 29), 492),
        ("cocktailparty", (4800, 22), 1454),
    ],
)
def test_tables_have_the_published_rows_and_positives(name, shape, positives):
    data = real(name)
    assert data.X.shape == shape
    assert data.X.dtype == np.float32
    assert np.isfinite(data.X).all()
    assert int(data.y.sum()) == positives
    assert len(data.feature_names) == shape[1]
    assert data.citation
    assert data.licence


def test_the_test_part_of_adult_is_its_second_file():
    data = real("adult")
    train, valid, test = data.split()
    assert (len(train), len(valid), len(test)) == (26048, 6513, 16281)
    assert int(data.y[test].sum()) == 3846
    assert data.X[0, 0] == 39
    assert data.X[test[0], 0] == 25


def test_the_graphs_agree_with_the_pairs():
    graph, pairs = real("cocktailparty_graph"), real("cocktailparty")
    assert graph.X.shape == (320, 6, 3)
    upper = np.triu_indices(6, 1)
    apart = 1 - graph.y[:, upper[0], upper[1]]
    assert int(apart.sum()) == 1454
    # Both list the pairs of a frame in the same order; a pair's dyad1_x is half its distance.
    np.testing.assert_array_equal(apart.ravel(), pairs.y)
    distance = np.linalg.norm(graph.X[:, upper[0], :2] - graph.X[:, upper[1], :2], axis=-1)
    np.testing.assert_allclose(distance.ravel() / 2, pairs.X[:, 0], atol=0.02)
    assert [len(rows) for rows in graph.split()] == [204, 52, 64]


def test_cifar10_has_equal_shares_of_ten_classes():
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


def test_caltech256_images_are_those_of_the_archive():
    pytest.importorskip("PIL")
    data = real("caltech256_images", size=32)
    assert data.X.shape[1:] == (32, 32, 3)
    if data.source == "caltech256_10class_128px.zip":
        assert data.class_names[0] == "003.backpack"
        assert np.bincount(data.y).tolist() == [151, 100, 87, 85, 133, 94, 138, 128, 110, 97]
