"""Two workers on one PostgreSQL (skipped where none can be started); on SQLite: test_studies.py."""

from collections import Counter
from pathlib import Path

from optuna.trial import TrialState
from toys import TOY

from evalign.papers import reproduce


def test_two_workers_share_a_study_and_run_each_point_once(script, postgresql, trials, tmp_path):
    url, toys = postgresql, Path(__file__).parents[1] / "toys.py"
    workers = [script(toys, url, tmp_path / "out", 0.2, stdout=tmp_path / f"{number}") for number in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert [(tmp_path / f"{number}").read_text() for number in range(2)] == ["done\n", "done\n"]
    complete = [trial for trial in trials(url=url) if trial.state == TrialState.COMPLETE]
    assert set(Counter(trial.user_attrs["key"] for trial in complete).values()) == {1}
    assert len(complete) == 2 * (2 + 1) + 2 + 2
    assert len({trial.user_attrs["worker"] for trial in complete}) == 2
    shared = reproduce(TOY, storage=url, out=tmp_path / "out", progress=False)
    alone = reproduce(TOY, storage=f"sqlite:///{tmp_path / 's.db'}", out=tmp_path / "alone", progress=False)
    assert [cell.scores for cell in shared.results.cells.values()] == [
        cell.scores for cell in alone.results.cells.values()
    ]
