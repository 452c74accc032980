import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for toys.py, which is also run as a script


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


@pytest.fixture
def run(storage, tmp_path):
    """Run a table on the storage of this test, with short heartbeats."""
    from evalign.papers import reproduce

    def run(table, **options):
        defaults = {"storage": storage, "out": tmp_path / "out", "progress": False, "interval": 1, "grace": 3}
        return reproduce(table, **{**defaults, **options})

    return run


@pytest.fixture
def trials(storage):
    """A function that returns the trials of a study in the storage."""
    import optuna

    from evalign.papers.studies._storage import StudyStorage

    def trials(name="toy small seed 0", url=storage):
        database = StudyStorage(url)
        try:
            return optuna.load_study(study_name=name, storage=database.rdb).get_trials()
        finally:
            database.close()

    return trials


@pytest.fixture
def photos(monkeypatch):
    """Replace every dataset by 120 small images, 20 of them positive and bright, with a test part."""
    import numpy as np

    from evalign.datasets import Dataset
    from evalign.papers.data import _parts

    y = np.arange(120) % 6 == 0
    bright = np.where(y, 160, 90)[:, None, None, None]
    X = np.random.default_rng(0).integers(0, 60, (120, 28, 28, 1)) + bright
    names = ("rest", "bright")
    data = Dataset(
        "toy", X.astype(np.uint8), y.astype(np.int64), ("grey",), names, "", official_test=np.arange(24)
    )
    monkeypatch.setattr(_parts, "load", lambda name: data)
    _parts.prepare_photos.cache_clear()
    yield data
    _parts.prepare_photos.cache_clear()
