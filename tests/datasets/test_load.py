"""The bundled data."""

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
    np.testing.assert_allclose(data.X[0, :2], [0.23001961, 5.0725783])


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="Did you mean mammography"):
        datasets.load("mamography")
