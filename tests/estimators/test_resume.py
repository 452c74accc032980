"""A fit that is killed in the middle and called again ends with the same model."""

import json
import signal
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

import evalign as ev

SCRIPT = Path(__file__).with_name("fit_and_save.py")


def epochs(folder):
    files = sorted(folder.glob("bag-*/checkpoint.json"))
    return sum(len(json.loads(file.read_text())["history"]) for file in files)


def kill_after(process, folder, count):
    """Kill -9 after this many epochs."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if epochs(folder) >= count:
            process.ended(signal.SIGKILL)
            return
        time.sleep(0.005)
    pytest.fail("the run ended before it could be killed")


def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(script, tmp_path):
    """Killed twice: in the cross-entropy phase of the first bag, and later on."""
    folder, whole, resumed = tmp_path / "run", tmp_path / "whole.npy", tmp_path / "resumed.npy"
    uninterrupted = script(SCRIPT, "none", whole)
    for count in (5, 20):
        kill_after(script(SCRIPT, folder, resumed), folder, count)
        assert not resumed.exists()
    for process in (uninterrupted, script(SCRIPT, folder, resumed)):
        assert process.wait() == 0, process.errors
    np.testing.assert_array_equal(np.load(resumed), np.load(whole))


def problem(seed=0, rows=200):
    data = np.random.default_rng(seed)
    x = data.normal(size=(rows, 4))
    return x, (x[:, 0] > 0.8).astype(int)


def settings(folder, **others):
    return {"rule": False, "hidden": (8,), "max_epochs": 5, "random_state": 0, "checkpoint": folder, **others}


def test_a_finished_run_is_not_run_again(tmp_path):
    x, y = problem()
    first = ev.MetricClassifier(**settings(tmp_path)).fit(x, y)
    before = (tmp_path / "bag-0" / "checkpoint.json").stat().st_mtime_ns
    second = ev.MetricClassifier(**settings(tmp_path)).fit(x, y)
    assert (tmp_path / "bag-0" / "checkpoint.json").stat().st_mtime_ns == before
    np.testing.assert_array_equal(first.decision_function(x), second.decision_function(x))
    assert first.history_ == second.history_


@pytest.mark.parametrize(
    "change", [{"learning_rate": 0.1}, {"hidden": (9,)}, {"metric": "mcc"}, {"strategy": "focal"}]
)
def test_a_checkpoint_of_other_settings_is_rejected_and_left_alone(tmp_path, change):
    x, y = problem()
    ev.MetricClassifier(**settings(tmp_path)).fit(x, y)
    content = (tmp_path / "bag-0" / "checkpoint.json").read_bytes()
    with pytest.raises(ValueError, match="Expected `checkpoint` of the same settings and data"):
        ev.MetricClassifier(**settings(tmp_path, **change)).fit(x, y)
    assert (tmp_path / "bag-0" / "checkpoint.json").read_bytes() == content


def test_a_checkpoint_of_other_data_is_rejected(tmp_path):
    x, y = problem()
    ev.MetricClassifier(**settings(tmp_path)).fit(x, y)
    x[3, 2] += 1e-3
    with pytest.raises(ValueError, match="of the same settings and data"):
        ev.MetricClassifier(**settings(tmp_path)).fit(x, y)


@pytest.mark.parametrize("damage", ["json", "tensors"])
def test_a_damaged_checkpoint_is_rejected(tmp_path, damage):
    x, y = problem()
    ev.MetricClassifier(**settings(tmp_path)).fit(x, y)
    pattern = "checkpoint.json" if damage == "json" else "*.safetensors"
    file = next((tmp_path / "bag-0").glob(pattern))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ValueError, match="Expected `folder`"):
        ev.MetricClassifier(**settings(tmp_path)).fit(x, y)


@pytest.mark.parametrize("others", [{"random_state": None}, {"warm_start": True}])
def test_checkpoints_need_a_seed_and_no_warm_start(tmp_path, others):
    with pytest.raises(ValueError, match="with `checkpoint`"):
        ev.MetricClassifier(**settings(tmp_path, **others)).fit(*problem())


def test_bags_average_logits_and_validate_every_row_once():
    x, y = problem(rows=300)
    small = {"rule": False, "hidden": (8,), "max_epochs": 15, "n_bags": 4, "random_state": 0}
    model = ev.MetricClassifier("f1", strategy="cross_entropy", **small).fit(x, y)
    assert len(model.networks_) == 4
    assert {row["bag"] for row in model.history_} == {0, 1, 2, 3}
    table = torch.from_numpy(model.scaler_.transform(x).astype(np.float32))
    logits = torch.stack([network.eval()(table) for network in model.networks_]).mean(0).detach().numpy()
    np.testing.assert_allclose(model.decision_function(x), logits[:, 1] - logits[:, 0], rtol=1e-4, atol=1e-5)
    with joblib.parallel_config("multiprocessing"):  # forked, so that nothing is imported again
        again = ev.MetricClassifier("f1", strategy="cross_entropy", n_jobs=2, **small).fit(x, y)
    np.testing.assert_allclose(again.decision_function(x), model.decision_function(x), rtol=1e-4, atol=1e-5)


def test_bags_are_at_most_the_rows_of_the_rarest_class(tmp_path):
    x, y = problem()
    y[:] = 0
    y[:3] = 1
    for rows, bags in ((3, 3), (1, 1)):
        y[rows:] = 0
        with pytest.warns(UserWarning, match=f"Drew {bags} bags instead of 4, since the rarest class has"):
            model = ev.MetricClassifier(n_bags=4, hidden=(4,), max_epochs=2, random_state=0).fit(x, y)
        assert len(model.networks_) == bags
        assert (model.scaler_.n_samples_seen_ == len(y)) == (bags > 1)  # one bag holds rows out
        model.save(tmp_path)
        loaded = ev.MetricClassifier.load(tmp_path)
        np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    with pytest.raises(ValueError, match="to be None with several bags"):
        ev.MetricClassifier(n_bags=2).fit(x, y, validation_data=(x, y))


def test_calibration_changes_probabilities_but_no_prediction(tmp_path):
    x, y = problem(rows=600)
    y = np.where(np.random.default_rng(1).random(600) < 0.2, 1 - y, y)
    options = {
        "rule": False,
        "hidden": (32,),
        "max_epochs": 60,
        "strategy": "east",
        "random_state": 0,
        "learning_rate": 0.01,
    }
    plain = ev.MetricClassifier("f1", **options).fit(x, y)
    model = ev.MetricClassifier("f1", calibrate=True, **options).fit(x, y)
    np.testing.assert_array_equal(plain.predict(x), model.predict(x))
    before, after = model.calibration_error_
    assert after < before
    assert model.softmax_temperature_ > 1
    assert model.predict_proba(x).max(1).mean() < plain.predict_proba(x).max(1).mean()
    model.save(tmp_path)
    loaded = ev.MetricClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    assert loaded.calibration_error_ == model.calibration_error_
