"""The real tables, where they are available: rows and positives as published."""

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


def real(name):
    try:
        return load(name, download=False)
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
