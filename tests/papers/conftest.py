import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for toys.py, which is a script as well


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


@pytest.fixture
def run(storage, tmp_path):
    """Run a table on the storage of this test, with heartbeats that fit a test."""
    from evalign.papers import reproduce

    def run(table, **settings):
        given = {"storage": storage, "out": tmp_path / "out", "progress": False, "interval": 1, "grace": 3}
        return reproduce(table, **{**given, **settings})

    return run


@pytest.fixture
def trials(storage):
    """The trials of a study in the storage, as Optuna tells them."""
    import optuna

    from evalign.papers._storage import Storage

    def trials(name="toy small seed 0", url=storage):
        opened = StudyStorage(url)
        try:
            return optuna.load_study(study_name=name, storage=opened.rdb).get_trials()
        finally:
            opened.close()

    return trials


@pytest.fixture
def photos(monkeypatch):
    """In place of every dataset: 120 small images, 20 of them positive and bright, an official test part."""
    import numpy as np

    from evalign.datasets import Dataset
    from evalign.papers import _data

    y = np.arange(120) % 6 == 0
    bright = np.where(y, 160, 90)[:, None, None, None]
    X = np.random.default_rng(0).integers(0, 60, (120, 28, 28, 1)) + bright
    names = ("rest", "bright")
    data = Dataset(
        "made", X.astype(np.uint8), y.astype(np.int64), ("grey",), names, "", official_test=np.arange(24)
    )
    monkeypatch.setattr(_data, "load", lambda name: data)
    _data.prepare_photos.cache_clear()
    yield data
    _data.prepare_photos.cache_clear()
