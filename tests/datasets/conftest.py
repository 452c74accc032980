"""A place for data of its own for every test: nothing of the machine's own data is seen."""

import pytest

from evalign.datasets import _places


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder EVALIGN_DATA; the cache is an empty folder beside it."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("EVALIGN_DATA", str(folder))
    monkeypatch.setattr(_places, "cache", lambda: tmp_path / "cache")
    return folder
