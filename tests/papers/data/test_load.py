"""Names and options of the papers' data, and the message for missing files."""

import pytest

from evalign import datasets
from evalign.papers.data import NAMES, SYNTHETIC, _load, load


def test_the_tables_of_evalign_are_among_the_names():
    assert set(datasets.NAMES) < set(NAMES)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mamography", "Did you mean 'mammography'"),
        ("cifar10_frogs", "Did you mean 'cifar10_frog'"),
        ("CIFAR10", "Did you mean 'cifar10'"),
        ("zzz", "Choose from 'mammography', 'adult'"),
        (None, "Choose from 'mammography', 'adult'"),
        (["adult"], "Did you mean 'adult'"),
    ],
)
def test_unknown_names_are_rejected_with_a_hint(name, hint):
    with pytest.raises(ValueError, match=f"Expected `name` to be a known dataset, but got .*{hint}"):
        load(name)


@pytest.mark.parametrize("name", ["mammography", "adult", "cifar10_frog"])
def test_a_size_is_rejected_where_it_has_no_effect(name, data_home):
    with pytest.raises(ValueError, match="Expected `size` only with caltech256_images"):
        load(name, size=32)


@pytest.mark.parametrize("size", [0, -1, 2000, 32.0, True, "64"])
def test_invalid_sizes_are_rejected(size, data_home):
    with pytest.raises(ValueError, match="Expected `size` to be a whole number from 1 to 1024"):
        load("caltech256_images", size=size)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"mammography", *SYNTHETIC}))
def test_the_error_for_missing_data_explains_what_to_put_where(name, data_home):
    with pytest.raises(FileNotFoundError, match=f"{data_home.name}/.*nothing there") as caught:
        load(name, download=False)
    assert "Put " in str(caught.value)
    assert "EVALIGN_DATA" in str(caught.value)


def test_every_download_is_a_complete_set_of_files():
    for entry in _load._ENTRIES.values():
        if entry.source.remote:
            assert tuple(name.removesuffix(".gz") for name in entry.source.remote) in {
                tuple(name.removesuffix(".gz") for name in form) for form in entry.source.forms
            }
            for url, sha256 in entry.source.remote.values():
                assert url.startswith("https://")
                assert len(bytes.fromhex(sha256)) == 32
