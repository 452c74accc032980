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
    from evalign.experiments import reproduce

    def run(table, **settings):
        given = {"storage": storage, "out": tmp_path / "out", "progress": False, "interval": 1, "grace": 3}
        return reproduce(table, **{**given, **settings})

    return run


@pytest.fixture
def trials(storage):
    """The trials of a study in the storage, as Optuna tells them."""
    import optuna

    from evalign.experiments._storage import Storage

    def trials(name="toy small seed 0", url=storage):
        opened = Storage(url)
        try:
            return optuna.load_study(study_name=name, storage=opened.rdb).get_trials()
        finally:
            opened.close()

    return trials
