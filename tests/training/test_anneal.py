"""Annealing: when it cools, when it is done, and that its state is complete."""

import json
import math

import pytest

from evalign import MetricLoss
from evalign.metrics import NAMED
from evalign.softsets import SigmoidStep
from evalign.training import Anneal
from evalign.training._monitor import resolve_mode


def run(values, **settings):
    anneal = Anneal(MetricLoss("f1"), **settings)
    temperatures = []
    for value in values:
        anneal.step(value)
        temperatures.append(round(anneal.temperature, 6))
    return anneal, temperatures


def test_it_starts_at_the_highest_temperature():
    loss = MetricLoss("f1", temperature=0.05)
    Anneal(loss, start=0.3)
    assert loss.temperature == 0.3


def test_it_cools_when_the_loss_stalls_at_this_temperature():
    _, temperatures = run([0.9, 0.8, 0.8, 0.85, 0.7, 0.7, 0.7], decay=0.5, patience=2, floor=0.01)
    assert temperatures == [0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05]


def test_improvement_is_counted_anew_at_each_temperature():
    """After cooling the loss may be higher; only stalling there matters."""
    _, temperatures = run([0.5, 0.6, 0.9, 0.8, 0.7, 0.65, 0.66], decay=0.5, patience=1)
    assert temperatures == [0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05]


def test_done_after_rounds_without_a_better_model():
    anneal, _ = run([0.5, 0.6, 0.6, 0.6, 0.6, 0.6], decay=0.9, patience=1, rounds=2)
    assert anneal.done
    assert anneal.best == 0.5
    better, _ = run([0.5, 0.6, 0.6, 0.7, 0.4, 0.7, 0.6, 0.7], decay=0.9, patience=1, rounds=2)
    assert not better.done, "a better model starts the count of rounds anew"


def test_the_coldest_temperature_is_the_floor_and_then_it_is_done():
    anneal, temperatures = run([0.5 - 0.01 * (k // 2) for k in range(40)], decay=0.5, patience=1, floor=0.03)
    assert min(temperatures) == 0.03
    assert anneal.done
    stopped = temperatures.index(0.03) + 2
    assert set(temperatures[stopped:]) == {0.03}


def test_improved_marks_the_best_so_far():
    anneal = Anneal(MetricLoss("f1"))
    marks = []
    for value in (0.5, 0.6, 0.4, math.nan, 0.4, 0.3):
        anneal.step(value)
        marks.append(anneal.improved)
    assert marks == [True, False, True, False, False, True]


def test_a_tiny_gain_counts_as_best_but_does_not_delay_cooling():
    anneal, temperatures = run([0.5, 0.499999, 0.499998], patience=2, decay=0.5)
    assert temperatures == [0.2, 0.2, 0.1]
    assert anneal.improved
    assert anneal.best == 0.499998
    _, patient = run([0.5, 0.499999, 0.499998], patience=2, decay=0.5, tolerance=0)
    assert patient == [0.2, 0.2, 0.2]


def test_nan_does_not_count_as_an_improvement():
    anneal, temperatures = run([math.nan] * 3, patience=3)
    assert temperatures[-1] == pytest.approx(0.18)
    assert anneal.best == math.inf


def test_history_pairs_temperatures_and_losses():
    anneal, _ = run([0.5, 0.6, 0.4], patience=1, decay=0.5)
    assert anneal.history == [(0.2, 0.5), (0.2, 0.6), (0.1, 0.4)]


def test_resumed_equals_uninterrupted():
    values = [
        0.9,
        0.8,
        0.85,
        0.84,
        0.7,
        0.75,
        0.76,
        0.6,
        0.61,
        0.62,
        0.63,
        0.64,
        0.65,
        0.66,
        0.67,
        0.68,
        0.69,
    ]
    settings = {"decay": 0.7, "patience": 2, "rounds": 2}
    whole, _ = run(values, **settings)
    first, _ = run(values[:7], **settings)
    state = json.loads(json.dumps(first.state_dict()))
    second = Anneal(MetricLoss("f1"), **settings)
    second.load_state_dict(state)
    for value in values[7:]:
        second.step(value)
    assert second.state_dict() == whole.state_dict()
    assert second.done


def test_the_papers_values():
    anneal = Anneal.east(MetricLoss("f1"), decay=0.8)
    assert (anneal.start, anneal.decay, anneal.patience) == (0.2, 0.8, 50)
    for _ in range(50):
        anneal.step(0.5)
    assert anneal.temperature == 0.2
    anneal.step(0.5)
    assert anneal.temperature == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"start": 0.5}, "temperature"),
        ({"decay": 1}, "decay"),
        ({"decay": 0}, "decay"),
        ({"patience": 0}, "patience"),
        ({"patience": 1.5}, "patience"),
        ({"rounds": True}, "rounds"),
        ({"floor": 0.3}, "floor"),
        ({"floor": 0}, "floor"),
        ({"tolerance": -1}, "tolerance"),
    ],
)
def test_bad_settings_are_refused(settings, name):
    with pytest.raises(ValueError, match=f"Expected `{name}`"):
        Anneal(MetricLoss("f1"), **settings)


def test_a_foreign_state_is_refused():
    anneal = Anneal(MetricLoss("f1"))
    with pytest.raises(ValueError, match="Expected `state`"):
        anneal.load_state_dict({"best": 1})


def test_a_loss_with_a_fixed_step_cannot_be_annealed():
    with pytest.raises(ValueError, match="`step` is fixed"):
        Anneal(MetricLoss("f1", step=SigmoidStep()))


def test_repr():
    assert repr(Anneal(MetricLoss("f1"))) == "Anneal(temperature=0.2, best=inf, done=False)"


def test_maximising_is_minimising_the_negative():
    values = [0.1, 0.3, 0.3, 0.2, 0.35, 0.3, 0.3, 0.36, 0.2, 0.2, 0.2, 0.2]
    settings = {"decay": 0.5, "patience": 2, "rounds": 2}
    highest, warm = run(values, mode="max", **settings)
    lowest, cool = run([-value for value in values], **settings)
    assert warm == cool
    assert warm[-1] < 0.2
    assert highest.best == -lowest.best == 0.36
    assert highest.done == lowest.done
    restored = Anneal(MetricLoss("f1"), mode="max", **settings)
    restored.load_state_dict(json.loads(json.dumps(highest.state_dict())))
    assert restored.state_dict() == highest.state_dict()


@pytest.mark.parametrize(
    ("names", "mode"),
    [
        ("val_loss valid_loss eval_loss loss eval_b_loss train/loss_epoch hammingLoss f1_loss", "min"),
        ("val_error test_error_rate valid_err val_cost eval_perplexity brier_score val/fpr", "min"),
        ("val_f1 eval_f1 valid_acc val_acc eval_accuracy test_f1_macro macro_f1 f1 val/F1", "max"),
        ("val_auc val_auroc roc_auc val_balanced_accuracy eval_matthews_corrcoef val_mcc f1-score", "max"),
        ("val_MulticlassF1Score BinaryAUROC val_acc/dataloader_idx_0 neg_log_loss weighted_recall", "max"),
    ],
)  # fmt: skip
def test_the_mode_of_a_monitored_value(names, mode):
    assert {name: resolve_mode("auto", name) for name in names.split()} == dict.fromkeys(names.split(), mode)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_metric_of_the_library_is_known(name):
    metric = NAMED[name]([[0, 1], [1, 0]]) if name == "cost" else NAMED[name]()
    wanted = "max" if metric.higher_is_better else "min"
    for monitor in (name, f"val_{name}", f"valid_{name}", f"eval_{name}_macro", f"test/{name}"):
        assert resolve_mode("auto", monitor) == wanted


@pytest.mark.parametrize("name", ["val_quality", "1-f1", "val_f1_std", "eval_gap", "temperature", "", "val"])
def test_what_is_not_known_must_be_said(name):
    with pytest.raises(ValueError, match=f"Expected `mode` to be 'min' or 'max' for the monitor '{name}'"):
        resolve_mode("auto", name)
    assert [resolve_mode(mode, name) for mode in ("min", "max")] == ["min", "max"]


def test_a_wrong_mode_is_refused():
    with pytest.raises(ValueError, match="Expected `mode` to be 'min' or 'max', but got 'auto'"):
        Anneal(MetricLoss("f1"), mode="auto")
    with pytest.raises(ValueError, match="Expected `mode` to be 'auto', 'min' or 'max', but got 'up'"):
        resolve_mode("up", "val_loss")
