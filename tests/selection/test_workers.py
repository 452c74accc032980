"""Jobs in other processes: a killed worker loses only its job, and other backends of joblib do the same."""

import os
import signal
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from uuid import uuid4

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import evalign as ev
from evalign.selection.problem import Problem
from evalign.selection.workers import run_jobs


@pytest.fixture(scope="module")
def rows():
    return make_classification(300, 5, weights=[0.8], random_state=0)


class IsKilledOnce(LogisticRegression):
    """Is killed while it is fitted for the first time, as for lack of memory."""

    def __init__(self, marker=None):
        super().__init__()
        self.marker = marker

    def fit(self, X, y):
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def test_a_killed_worker_loses_only_its_job(rows, tmp_path):
    methods = {"bayes": GaussianNB(), "once": IsKilledOnce(str(tmp_path / "marker"))}
    model = ev.AutoClassifier("f1", methods=methods, cv=2, n_jobs=2, random_state=0).fit(*rows)
    assert (tmp_path / "marker").exists()
    assert set(model.out_of_fold_) == {"bayes", "once", "ensemble"}
    methods["once"] = LogisticRegression()
    plain = ev.AutoClassifier("f1", methods=methods, cv=2, random_state=0).fit(*rows)
    np.testing.assert_allclose(model.predict_proba(rows[0]), plain.predict_proba(rows[0]), atol=1e-9)


def test_a_job_that_kills_every_worker_is_given_up_and_the_others_are_not(monkeypatch, rows):
    """Both jobs of a broken pool are run again alone, and only the guilty one breaks it again."""

    class Pool:
        def __init__(self, n_jobs, **settings):
            pass

        def __call__(self, calls):
            for run, arguments, _ in list(calls):
                if arguments[-1] == "guilty":
                    raise BrokenProcessPool("killed")
                yield run(*arguments)

    monkeypatch.setattr(joblib, "Parallel", Pool)
    jobs = ["innocent", "guilty", "late"]
    results = run_jobs(
        lambda job, problem, one_thread: job,
        jobs,
        Problem.check(*rows),
        2,
        lambda job, error: f"{job} {error}",
    )
    assert sorted(results) == ["guilty killed", "innocent", "late"]


def test_dask_gives_what_one_process_gives(rows, tmp_path):
    distributed = pytest.importorskip("distributed")
    methods = {"bayes": GaussianNB(), "logistic": LogisticRegression()}
    local = ev.AutoClassifier("f1", methods=methods, random_state=0).fit(*rows)

    class Watched(GaussianNB):
        def fit(self, X, y):
            worker = distributed.get_worker().name  # an error where there is none
            (tmp_path / f"{worker}-{uuid4()}").touch()
            return super().fit(X, y)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        methods = {"bayes": Watched(), "logistic": LogisticRegression()}
        model = ev.AutoClassifier("f1", methods=methods, random_state=0).fit(*rows)
        comparison = ev.compare(*rows, "f1", methods=methods, n_repeats=2, reference="bayes")
    assert len(list(tmp_path.iterdir())) == 5 + 2, "every model was fitted by a worker"
    assert len(comparison.rows) == 2
    assert model.weights_ == pytest.approx(local.weights_)
    np.testing.assert_allclose(model.predict_proba(rows[0]), local.predict_proba(rows[0]), atol=1e-9)


def test_the_size_of_a_problem_is_that_of_its_data():
    """Dask sends what is larger than a kilobyte to a worker once."""
    X, y = np.zeros((1000, 5)), np.arange(1000) % 2
    assert Problem.check(X, y, "f1").__sizeof__() == X.nbytes + 3 * y.nbytes
