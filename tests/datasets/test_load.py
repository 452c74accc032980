"""Names, the bundled data, and what a user is told when a name or an option is wrong."""

from importlib import resources

import numpy as np
import pytest

from evalign import datasets


def test_mammography_is_what_the_papers_use():
    data = datasets.load("mammography")
    assert data.X.shape == (11183, 6)
    assert data.X.dtype == np.float32
    assert np.bincount(data.y).tolist() == [10923, 260]
    assert np.isfinite(data.X).all()
    assert data.feature_names == tuple(f"attr{i}" for i in range(1, 7))
    assert data.source == "bundled"
    assert data.official_test is None
    np.testing.assert_allclose(data.X[0, :2], [0.23001961, 5.0725783])


def test_only_mammography_is_bundled():
    folder = resources.files("evalign.datasets").joinpath("data")
    assert [item.name for item in folder.iterdir()] == ["mammography.csv.gz"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mamography", "Did you mean 'mammography'"),
        ("cifar10_frogs", "Did you mean 'cifar10_frog'"),
        ("CIFAR10", "Did you mean 'cifar10'"),
        ("zzz", "Known: adult, caltech256"),
        (None, "Known: adult, caltech256"),
        (["adult"], "Did you mean 'adult'"),
    ],
)
def test_unknown_names_are_refused_with_a_hint(name, hint):
    with pytest.raises(ValueError, match=f"Expected `name` to be a known dataset, but got .*{hint}"):
        datasets.load(name)


@pytest.mark.parametrize("name", ["mammography", "adult", "cifar10_frog"])
def test_a_size_is_refused_where_it_means_nothing(name, home):
    with pytest.raises(ValueError, match="Expected `size` only with caltech256_images"):
        datasets.load(name, size=32)


@pytest.mark.parametrize("size", [0, -1, 2000, 32.0, True, "64"])
def test_bad_sizes_are_refused(size, home):
    with pytest.raises(ValueError, match="Expected `size` to be a whole number from 1 to 1024"):
        datasets.load("caltech256_images", size=size)


@pytest.mark.parametrize("name", sorted(set(datasets.NAMES) - {"mammography"}))
def test_missing_data_says_what_to_put_where(name, home):
    with pytest.raises(FileNotFoundError, match=f"{home.name}/.*nothing there") as caught:
        datasets.load(name, download=False)
    assert "Put " in str(caught.value)
    assert "EVALIGN_DATA" in str(caught.value)
