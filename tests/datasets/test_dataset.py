"""Splits and scaling: shares, seeds, official parts, and statistics of the training part only."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from evalign.datasets import Dataset, load, normalise, standardise


def dataset(y, **options):
    y = np.asarray(y)
    return Dataset("toy", np.zeros((len(y), 2)), y, ("a", "b"), ("no", "yes"), "nobody", **options)


def test_a_split_has_64_16_20_percent_of_every_class():
    data = dataset(np.repeat([0, 1, 2], [1000, 200, 50]))
    parts = data.split(seed=3)
    assert [np.bincount(data.y[rows]).tolist() for rows in parts] == [
        [640, 128, 32],
        [160, 32, 8],
        [200, 40, 10],
    ]
    assert sorted(np.concatenate(parts)) == list(range(1250))


def test_a_split_depends_on_its_seed_only():
    data = dataset(np.tile([0, 1], 100))
    first, again, other = data.split(seed=1), data.split(seed=1), data.split(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.test, other.test)
    assert np.array_equal(data.split().train, data.split(seed=np.int64(0)).train)


def test_a_split_equals_two_calls_of_train_test_split():
    data = load("mammography")
    rest, test = train_test_split(np.arange(len(data.y)), test_size=0.2, stratify=data.y, random_state=5)
    train, valid = train_test_split(rest, test_size=0.2, stratify=data.y[rest], random_state=5)
    for mine, theirs in zip(data.split(seed=5), (train, valid, test), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_official_test_part_is_used_and_the_rest_split():
    data = dataset(np.tile([0, 1], 100), official_test=np.arange(150, 200))
    train, valid, test = data.split(seed=7)
    assert test.tolist() == list(range(150, 200))
    assert (len(train), len(valid)) == (120, 30)
    assert sorted([*train, *valid]) == list(range(150))
    assert [len(rows) for rows in data.split(official=False)] == [128, 32, 40]


def test_splits_are_stratified_by_strata_if_there_are_any():
    strata = np.repeat([1, 2], [80, 20])
    data = Dataset("graph", np.zeros((100, 6, 3)), np.zeros((100, 6, 6)), (), (), "", strata=strata)
    assert [np.bincount(strata[rows])[1:].tolist() for rows in data.split()] == [[51, 13], [13, 3], [16, 4]]


@pytest.mark.parametrize("y", [[0, 1], [0] * 50 + [1], []])
def test_too_few_rows_to_split_are_rejected(y):
    with pytest.raises(ValueError, match="Expected `toy` to have enough rows of every class to split"):
        dataset(y).split()


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "0", None, True])
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="Expected `seed` to be a whole number"):
        dataset([0, 1] * 20).split(seed=seed)


def test_standardise_uses_the_training_rows_only():
    rng = np.random.default_rng(0)
    X, train = rng.normal(3, 5, (100, 4)), np.arange(60)
    scaled = standardise(X, train)
    expected = (X - X[train].mean(0)) / X[train].std(0)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, expected, atol=1e-5)
    X[60:] = 1e6
    np.testing.assert_array_equal(standardise(X, train)[:60], scaled[:60])
    np.testing.assert_array_equal(standardise(X, np.arange(100) < 60)[:60], scaled[:60])


def test_standardise_only_centres_a_constant_feature():
    X = np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0], [0.3, 9.0]])
    np.testing.assert_allclose(standardise(X, [0, 1, 2])[:, 0], [0, 0, 0, 0.2], atol=1e-6)


def test_standardise_scales_the_last_axis_of_images_and_graphs():
    X = np.random.default_rng(1).integers(0, 256, (20, 4, 5, 3)).astype(np.uint8)
    scaled = standardise(X, np.arange(10))
    np.testing.assert_allclose(scaled[:10].mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(scaled[:10].std((0, 1, 2)), 1, atol=1e-5)
    assert scaled.shape == X.shape


def test_standardise_rejects_data_without_rows():
    with pytest.raises(ValueError, match="Expected `train` to select at least one row"):
        standardise(np.zeros((3, 2)), np.array([], dtype=int))
    with pytest.raises(ValueError, match="Expected `X` with rows and features"):
        standardise(np.zeros(3), np.array([0]))


def test_normalise_puts_channels_first_and_pixels_in_minus_one_to_one():
    images = np.random.default_rng(2).integers(0, 256, (5, 4, 6, 3)).astype(np.uint8)
    x = normalise(images)
    assert x.shape == (5, 3, 4, 6)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x[2, 1, 3, 5], (images[2, 3, 5, 1] / 255 - 0.5) / 0.5, rtol=1e-6)


def test_normalise_subtracts_the_mean_of_each_pixel_of_the_training_rows():
    images = np.random.default_rng(3).integers(0, 256, (9, 2, 2, 1)).astype(np.uint8)
    x = normalise(images, train=np.arange(6), channels=3)
    expected = images[..., 0] / 255 - images[:6, ..., 0].mean(0) / 255
    for channel in range(3):
        np.testing.assert_allclose(x[:, channel], expected, atol=1e-6)


@pytest.mark.parametrize("images", [np.zeros((2, 3, 3)), np.zeros((2, 3, 3, 1)), np.zeros((2, 3), np.uint8)])
def test_normalise_rejects_anything_but_images(images):
    with pytest.raises(ValueError, match="Expected `images` to be uint8 of shape"):
        normalise(images)


def test_normalise_repeats_only_grey_images():
    with pytest.raises(ValueError, match="Expected `channels` to be 3"):
        normalise(np.zeros((1, 2, 2, 3), np.uint8), channels=1)
    with pytest.raises(ValueError, match="Expected `channels` to be at least 1"):
        normalise(np.zeros((1, 2, 2, 1), np.uint8), channels=0)
