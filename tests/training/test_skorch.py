"""The callback for skorch, in real training runs."""

import copy
import importlib
import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from evalign import MetricLoss
from evalign.training import Anneal

pytest.importorskip("skorch")
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier
from skorch.callbacks import Callback, InputShapeSetter
from skorch.dataset import Dataset
from skorch.helper import predefined_split

from evalign.training.skorch import AnnealCallback

pytestmark = pytest.mark.filterwarnings("ignore")


class Network(nn.Sequential):
    def __init__(self, input_dim=6, outputs=2):
        super().__init__(nn.Linear(input_dim, 16), nn.Tanh(), nn.Linear(16, outputs))


def data(rows, seed, features=6):
    """Noisy labels, so that training overfits."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, features)).astype(np.float32)
    return x, (x[:, 0] + random.normal(size=rows) > 0.5).astype(np.int64)


TRAIN, VALID = data(80, 0), data(80, 1)


def make(callback, kind=NeuralNetClassifier, **settings):
    torch.manual_seed(0)
    defaults = {
        "criterion": MetricLoss,
        "criterion__metric": "f1",
        "train_split": predefined_split(Dataset(*VALID)),
        "optimizer": torch.optim.Adam,
        "lr": 0.03,
        "iterator_valid__batch_size": -1,
        "max_epochs": 200,
        "verbose": 0,
        "callbacks": [callback],
    }
    return kind(Network, **{**defaults, **settings})


def validation_loss(net, valid=VALID):
    with torch.no_grad():
        return net.criterion_(net.forward(valid[0]), torch.as_tensor(valid[1])).item()


@pytest.mark.parametrize("kind", [NeuralNet, NeuralNetClassifier])
def test_it_cools_stops_and_restores_the_best_epoch(kind):
    net = make(AnnealCallback(decay=0.5, patience=3, rounds=2), kind).fit(*TRAIN)
    losses, temperatures = net.history[:, "valid_loss"], net.history[:, "temperature"]
    assert temperatures[0] == 0.2
    assert temperatures == sorted(temperatures, reverse=True)
    assert len(set(temperatures)) >= 3
    assert len(losses) < 200
    assert min(losses) < losses[-1]
    assert validation_loss(net) == pytest.approx(min(losses))
    assert net.callbacks_[-2][1].anneal_.history == list(zip(temperatures, losses, strict=True))


def test_the_history_is_what_annealing_by_hand_gives():
    net = make(AnnealCallback(decay=0.5, patience=3, rounds=2)).fit(*TRAIN)
    anneal = Anneal(MetricLoss("f1"), decay=0.5, patience=3, rounds=2)
    for loss, temperature in net.history[:, ("valid_loss", "temperature")]:
        assert not anneal.done
        assert anneal.temperature == temperature
        anneal.step(loss)
    assert anneal.done


SETTINGS = {
    "f1": {},
    "anchor": {"criterion__anchor": 0.5, "criterion__memory": 0.9},
    "constraint": {"criterion__metric": "recall", "criterion__constraints": ["precision >= 0.9"]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_small_validation_batches_give_the_loss_of_all_rows(settings):
    """The history with batches of 7 is that with one batch, for all columns that depend on the loss."""
    cool = {"decay": 0.5, "patience": 1, "rounds": 9, "tolerance": 0.02}
    one, many = (
        make(AnnealCallback(**cool), max_epochs=20, iterator_valid__batch_size=size, **settings).fit(*TRAIN)
        for size in (-1, 7)
    )
    assert len(one.history[-1]["batches"]) == 2
    assert len(many.history[-1]["batches"]) == 13
    assert one.history[-1, "temperature"] < 0.2
    assert many.history[:, "valid_loss"] == pytest.approx(one.history[:, "valid_loss"], abs=1e-6)
    for column in ("temperature", "valid_loss_best"):
        assert many.history[:, column] == one.history[:, column]
    assert validation_loss(many) == pytest.approx(min(many.history[:, "valid_loss"]), abs=1e-6)


def test_ctrl_c_during_validation_leaves_the_criterion_as_it_was():
    class Stop(Callback):
        def on_batch_begin(self, net, training=None, **kwargs):
            if len(net.history) == 3 and not training:
                raise KeyboardInterrupt

    net = make(None, callbacks=[AnnealCallback(restore_best=False), Stop()], iterator_valid__batch_size=9)
    net.fit(*TRAIN)
    assert len(net.history) == 2 or "valid_loss" not in net.history[-1]
    assert not net.criterion_._forward_hooks
    logits, targets = torch.randn(10, 2), torch.randint(2, (10,))
    assert net.criterion_(logits, targets) == MetricLoss("f1")(logits, targets)


def test_sample_weights_in_an_own_loss():
    class Weighted(NeuralNetClassifier):
        def get_loss(self, y_pred, y_true, X=None, training=False):
            return self.criterion_(y_pred, y_true, sample_weight=X[:, 1].abs()) + 1

    one, many = (
        make(AnnealCallback(), Weighted, max_epochs=3, iterator_valid__batch_size=size).fit(*TRAIN)
        for size in (-1, 7)
    )
    assert many.history[:, "valid_loss"] == pytest.approx(one.history[:, "valid_loss"], abs=1e-6)
    assert one.history[-1, "valid_loss"] > 1


def test_without_restore_best_the_last_weights_remain():
    net = make(AnnealCallback(restore_best=False, decay=0.5, patience=3, rounds=2)).fit(*TRAIN)
    net.criterion_.temperature = net.history[-1, "temperature"]
    assert validation_loss(net) == pytest.approx(net.history[-1, "valid_loss"])
    assert validation_loss(net) > min(net.history[:, "valid_loss"]) + 1e-3


class Interrupt(Callback):
    def on_batch_begin(self, net, training=None, **kwargs):
        if len(net.history) == 15 and training:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_the_best_epoch():
    net = make(AnnealCallback(), callbacks=[AnnealCallback(), Interrupt()], lr=0.3).fit(*TRAIN)
    losses = net.history[:, "valid_loss"]
    assert len(losses) == 14
    assert min(losses) < losses[-1]
    assert validation_loss(net) == pytest.approx(min(losses))


def test_each_fit_starts_at_the_highest_temperature_and_is_repeatable():
    net = make(AnnealCallback(decay=0.5, patience=2, rounds=1))
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        runs.append(net.fit(*TRAIN).history[:, ("valid_loss", "temperature")])
    assert runs[0] == runs[1]


def test_clone_and_set_params():
    callback = AnnealCallback(Anneal.east, decay=0.7)
    net = make(callback, callbacks=[("cool", callback)], max_epochs=1)
    twin = clone(net).set_params(callbacks__cool__decay=0.6)
    net.fit(*TRAIN)
    twin.fit(*TRAIN)
    anneals = [dict(fitted.callbacks_)["cool"].anneal_ for fitted in (net, twin)]
    assert [anneal.patience for anneal in anneals] == [50, 50]
    assert [anneal.decay for anneal in anneals] == [0.7, 0.6]
    assert anneals[0].loss is net.criterion_
    assert anneals[1].loss is twin.criterion_


def test_copies_and_pickles_predict_the_same_and_can_be_trained_further():
    net = make(AnnealCallback(patience=2), max_epochs=3).fit(*TRAIN)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(twin.predict(VALID[0]), net.predict(VALID[0]))
        assert twin.callbacks_[-2][1].anneal_ is None, "it would hold a criterion that is not the net's"
        twin.partial_fit(*TRAIN)
        assert len(twin.history) == 6


def test_a_criterion_replaced_when_training_begins_is_cooled():
    """skorch creates module and criterion again when `InputShapeSetter` finds another number of features."""
    train, valid = data(80, 0, features=9), data(80, 1, features=9)
    callbacks = [AnnealCallback(decay=0.5, patience=1, rounds=2, restore_best=False), InputShapeSetter()]
    net = make(None, callbacks=callbacks, train_split=predefined_split(Dataset(*valid))).fit(*train)
    assert net.criterion_.temperature < 0.2
    assert net.criterion_.temperature == net.history[-1, "temperature"]


def test_probabilities_of_a_classifier_need_a_nonlinearity():
    """As documented: skorch only handles cross-entropy by itself."""
    net = make(AnnealCallback(), max_epochs=2, predict_nonlinearity=nn.Softmax(dim=-1)).fit(*TRAIN)
    probabilities = net.predict_proba(VALID[0])
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    np.testing.assert_array_equal(net.predict(VALID[0]), probabilities.argmax(1))


def test_one_logit_per_row():
    def two_columns(logits):
        return torch.stack([-logits, logits], 1).sigmoid()

    callback = AnnealCallback(decay=0.5, patience=3, rounds=2)
    settings = {"module__outputs": 1, "predict_nonlinearity": two_columns}
    net = make(callback, NeuralNetBinaryClassifier, **settings).fit(*TRAIN)
    assert validation_loss(net) == pytest.approx(min(net.history[:, "valid_loss"]))
    assert set(net.predict(VALID[0])) == {0, 1}


class BrokenWhenEvaluated(Network):
    def forward(self, x):
        logits = super().forward(x)
        return logits if self.training else logits * torch.nan


def test_a_nan_loss_does_not_count_as_an_improvement():
    net = make(AnnealCallback(patience=2, rounds=3)).set_params(module=BrokenWhenEvaluated).fit(*TRAIN)
    assert len(net.history) == 6
    assert all(parameter.isfinite().all() for parameter in net.module_.parameters())


def test_a_missing_monitor_is_reported_with_what_is_available():
    net = make(AnnealCallback(), train_split=None)
    with pytest.raises(ValueError, match=r"Expected `monitor` to be a number .* 'valid_loss'.*train_loss"):
        net.fit(*TRAIN)


def test_a_wrong_setting_is_refused():
    with pytest.raises(ValueError, match="Expected `patience` to be an integer >= 1"):
        make(AnnealCallback(patience=0)).fit(*TRAIN)


def test_without_skorch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skorch.callbacks", None)
    monkeypatch.delitem(sys.modules, "evalign.training.skorch")
    with pytest.raises(ImportError, match=r"pip install 'evalign\[skorch\]'"):
        importlib.import_module("evalign.training.skorch")


@pytest.mark.parametrize(("settings", "best"), [({}, max), ({"mode": "max"}, max), ({"mode": "min"}, min)])
def test_a_monitored_metric_is_maximised_by_default(settings, best):
    callback = AnnealCallback(monitor="valid_acc", decay=0.5, patience=3, rounds=2, **settings)
    net = make(callback, predict_nonlinearity=None).fit(*TRAIN)
    scores = net.history[:, "valid_acc"]
    assert min(scores) < max(scores)
    assert (net.predict(VALID[0]) == VALID[1]).mean() == pytest.approx(best(scores))


def test_an_unknown_monitor_needs_a_mode():
    with pytest.raises(ValueError, match="Expected `mode` to be 'min' or 'max' for the monitor 'dur'"):
        make(AnnealCallback(monitor="dur")).fit(*TRAIN)


def test_the_values_of_the_paper_with_a_metric():
    net = make(AnnealCallback(Anneal.east, monitor="valid_acc"), max_epochs=2).fit(*TRAIN)
    assert net.callbacks_[-2][1].anneal_.mode == "max"
