"""Names, the bundled data, and the message for a wrong name or missing files."""

from importlib import resources

import numpy as np
import pytest

from evalign import datasets


def test_mammography_is_the_table_of_the_papers():
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
        ("CREDITCARD", "Did you mean 'creditcard'"),
        ("zzz", "Choose from 'mammography', 'adult'"),
        (None, "Choose from 'mammography', 'adult'"),
        (["adult"], "Did you mean 'adult'"),
    ],
)
def test_unknown_names_are_rejected_with_a_hint(name, hint):
    with pytest.raises(ValueError, match=f"Expected `name` to be a known dataset, but got .*{hint}"):
        datasets.load(name)


@pytest.mark.parametrize("name", sorted(set(datasets.NAMES) - {"mammography"}))
def test_the_error_for_missing_data_explains_what_to_put_where(name, data_home):
    with pytest.raises(FileNotFoundError, match=f"{data_home.name}/.*nothing there") as caught:
        datasets.load(name, download=False)
    assert "Put " in str(caught.value)
    assert "EVALIGN_DATA" in str(caught.value)
