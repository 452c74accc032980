"""The callback for Lightning, in real training runs."""

import importlib
import sys

import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from evalign import MetricLoss, StratifiedBatchSampler

pytest.importorskip("lightning")
import lightning
from lightning.pytorch.callbacks import ModelCheckpoint

from evalign.training.lightning import AnnealCallback, EpochMetric

pytestmark = pytest.mark.filterwarnings("ignore")

COOL = {"decay": 0.5, "patience": 3, "rounds": 2}


class Model(lightning.LightningModule):
    def __init__(self, name="val_loss"):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
        self.loss = MetricLoss("f1")
        self.name = name

    def forward(self, batch):
        return self.loss(self.network(batch[0]), batch[1])

    def training_step(self, batch, _):
        return self(batch)

    def validation_step(self, batch, _):
        self.log(self.name, self(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.03)


def loader(seed):
    """Noisy labels, so that training overfits."""
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(80, 6, generator=generator), torch.randn(80, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] + noise > 0.5).long()), batch_size=80)


TRAIN, VALID = loader(0), loader(1)


def fit(model, callback, epochs=200, ckpt_path=None, more=(), valid=VALID):
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[callback, *more], enable_checkpointing=bool(more),
        logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, TRAIN, valid, ckpt_path=ckpt_path)
    return trainer


def validation_loss(model):
    with torch.no_grad():
        return model(next(iter(VALID))).item()


def test_it_cools_stops_and_restores_the_best_epoch():
    model = Model()
    callback = AnnealCallback(model.loss, **COOL)
    trainer = fit(model, callback)
    temperatures, losses = zip(*callback.anneal.history, strict=True)
    assert temperatures[0] == 0.2
    assert list(temperatures) == sorted(temperatures, reverse=True)
    assert len(set(temperatures)) >= 3
    assert callback.anneal.done
    assert len(losses) == trainer.current_epoch < 200, "one step an epoch, none for the sanity check"
    assert min(losses) < losses[-1]
    assert validation_loss(model) == pytest.approx(min(losses))
    assert trainer.callback_metrics["temperature"].item() == pytest.approx(temperatures[-1])
    trainer.validate(model, VALID, verbose=False)
    assert len(callback.anneal.history) == len(losses), "validating by hand is no epoch"


def test_a_loss_outside_the_module_is_cooled_and_restored_too():
    class Outside(Model):
        def __init__(self):
            super().__init__()
            loss, self.loss = self.loss, None
            object.__setattr__(self, "criterion", loss)

        def forward(self, batch):
            return self.criterion(self.network(batch[0]), batch[1])

    model = Outside()
    assert not [name for name in model.state_dict() if "loss" in name or "criterion" in name]
    callback = AnnealCallback(model.criterion, **COOL)
    fit(model, callback)
    assert callback.anneal.history[-1][0] < 0.1
    assert validation_loss(model) == pytest.approx(callback.anneal.best)


def test_without_restore_best_the_last_weights_remain():
    model = Model()
    callback = AnnealCallback(model.loss, restore_best=False, **COOL)
    fit(model, callback)
    model.loss.temperature, last = callback.anneal.history[-1]
    assert validation_loss(model) == pytest.approx(last)
    assert last > callback.anneal.best + 1e-3


def test_values_logged_at_the_end_of_the_epoch_belong_to_this_epoch():
    class LogsLater(Model):
        def __init__(self):
            super().__init__()
            self.logged = []

        def validation_step(self, batch, _):
            self.value = self(batch)

        def on_validation_epoch_end(self):
            self.log("val_loss", self.value)
            if not self.trainer.sanity_checking:
                self.logged.append(self.value.item())

    model = LogsLater()
    callback = AnnealCallback(model.loss)
    fit(model, callback, epochs=5)
    assert [loss for _, loss in callback.anneal.history] == pytest.approx(model.logged)


@pytest.mark.parametrize("best_before", [True, False])
def test_resuming_from_a_checkpoint_equals_no_interruption(tmp_path, best_before):
    whole = Model()
    callback = AnnealCallback(whole.loss, **COOL)
    epochs = fit(whole, callback).current_epoch
    losses = [loss for _, loss in callback.anneal.history]
    best = losses.index(min(losses))
    assert 3 < best < epochs - 3
    pause = best + 3 if best_before else best - 2

    first = Model()
    checkpoint = ModelCheckpoint(tmp_path, filename="pause", save_top_k=-1)
    fit(first, AnnealCallback(first.loss, **COOL), pause, more=[checkpoint])
    second = Model()
    resumed = AnnealCallback(second.loss, **COOL)
    trainer = fit(second, resumed, ckpt_path=tmp_path / "pause.ckpt", more=[ModelCheckpoint(tmp_path)])

    assert trainer.current_epoch == epochs
    assert resumed.anneal.state_dict() == callback.anneal.state_dict()
    for name, weight in whole.network.state_dict().items():
        torch.testing.assert_close(second.network.state_dict()[name], weight)


def test_a_resumed_run_draws_the_stratified_batches_of_the_same_epochs(tmp_path):
    class Records(Model):
        def __init__(self):
            super().__init__()
            self.batches = []

        def training_step(self, batch, _):
            self.batches.append(batch[0][:, 0].tolist())
            return self(batch)

    def run(epochs, ckpt_path=None):
        model = Records()
        sampler = StratifiedBatchSampler(TRAIN.dataset.tensors[1], 20)
        callback = ModelCheckpoint(tmp_path, filename=f"{epochs}", save_top_k=-1)
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", callbacks=[callback], logger=False,
            enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0,
        )  # fmt: skip
        trainer.fit(model, DataLoader(TRAIN.dataset, batch_sampler=sampler), ckpt_path=ckpt_path)
        return model.batches

    whole, first = run(3), run(2)
    assert whole == first + run(3, ckpt_path=tmp_path / "2.ckpt")
    assert whole[:4] != whole[4:8]


def test_checkpoints_load_without_executing_anything(tmp_path):
    model = Model()
    callback = AnnealCallback(model.loss, decay=0.5, patience=1)
    trainer = fit(model, callback, epochs=12, more=[ModelCheckpoint(tmp_path)])
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    state = torch.load(tmp_path / "end.ckpt", weights_only=True)["callbacks"][callback.state_key]
    other = AnnealCallback(MetricLoss("f1"), decay=0.5, patience=1)
    other.load_state_dict(state)
    assert other.anneal.history == callback.anneal.history
    assert other.anneal.temperature == callback.anneal.temperature


class LogsAllRows(Model):
    def __init__(self, **settings):
        super().__init__()
        self.loss = MetricLoss(**{"metric": "f1", **settings})
        self.valid_loss, self.valid_f1 = EpochMetric(self.loss), EpochMetric("f1")

    def validation_step(self, batch, _):
        logits = self.network(batch[0])
        self.valid_loss.update(logits, batch[1])
        self.valid_f1(logits, batch[1])
        self.log("val_loss", self.valid_loss)
        self.log("val_f1", self.valid_f1)


LOSSES = {
    "f1": {},
    "anchor": {"anchor": 0.5, "memory": 0.9},
    "constraint": {"metric": "recall", "constraints": ["precision >= 0.9"]},
}


@pytest.mark.filterwarnings("error:.*seems to be a mean")
@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES)
def test_small_validation_batches_give_the_loss_of_all_rows(settings):
    model = LogsAllRows(**settings)
    callback = AnnealCallback(model.loss, decay=0.5, patience=1, rounds=9, tolerance=0.02)
    trainer = fit(model, callback, epochs=12, valid=DataLoader(VALID.dataset, batch_size=7))
    temperatures, losses = zip(*callback.anneal.history, strict=True)
    assert temperatures[-1] < 0.2
    assert validation_loss(model.eval()) == pytest.approx(min(losses), abs=1e-6)
    (logged,) = trainer.validate(model, DataLoader(VALID.dataset, batch_size=7), verbose=False)
    assert logged["val_loss"] == pytest.approx(min(losses), abs=1e-6)
    x, y = VALID.dataset.tensors
    assert logged["val_f1"] == pytest.approx(f1_score(y, model.network(x).argmax(1)), abs=1e-6)


def test_an_epoch_metric_adds_nothing_to_the_weights():
    assert LogsAllRows().state_dict().keys() == Model().state_dict().keys()


def test_a_mean_over_batches_is_reported():
    model = Model()
    callback = AnnealCallback(model.loss, patience=1)
    with pytest.warns(
        UserWarning, match=r"'val_loss' seems to be a mean .* 12 times.* EpochMetric"
    ) as caught:
        fit(model, callback, epochs=2, valid=DataLoader(VALID.dataset, batch_size=7))
    assert len([one for one in caught if "EpochMetric" in str(one.message)]) == 1, "once is enough"
    assert not model.loss._forward_hooks


def test_a_loss_outside_the_module_is_validated_in_eval_mode():
    loss = MetricLoss("recall", constraints=["precision >= 0.99"], multiplier_learning_rate=5.0)

    class Outside(Model):
        def forward(self, batch):
            return loss(self.network(batch[0]), batch[1])

    model = Outside()
    callback = AnnealCallback(loss, restore_best=False)
    trainer = fit(model, callback, epochs=5)
    assert loss.multipliers.item() > 1
    assert loss.training
    assert callback.anneal.history[-1][1] == pytest.approx(validation_loss_of(model, loss.eval()))
    assert abs(callback.anneal.history[-1][1] - validation_loss_of(model, loss.train())) > 0.1
    assert trainer.current_epoch == 5


def validation_loss_of(model, loss):
    x, y = VALID.dataset.tensors
    with torch.no_grad():
        return loss(model.network(x), y).item()


class LogsAccuracy(Model):
    def validation_step(self, batch, _):
        self.log("val_acc", (self.network(batch[0]).argmax(1) == batch[1]).float().mean())


@pytest.mark.parametrize(("settings", "best"), [({}, max), ({"mode": "max"}, max), ({"mode": "min"}, min)])
def test_a_monitored_metric_is_maximised_by_default(settings, best):
    model = LogsAccuracy()
    callback = AnnealCallback(model.loss, monitor="val_acc", **settings, **COOL)
    trainer = fit(model, callback)
    scores = [value for _, value in callback.anneal.history]
    assert min(scores) < max(scores)
    (logged,) = trainer.validate(model, VALID, verbose=False)
    assert logged["val_acc"] == pytest.approx(best(scores))


def test_an_unknown_monitor_needs_a_mode():
    with pytest.raises(
        ValueError, match="Expected `mode` to be 'min' or 'max' for the monitor 'val_quality'"
    ):
        AnnealCallback(MetricLoss("f1"), monitor="val_quality")


def test_a_nan_loss_does_not_count_as_an_improvement():
    class Broken(Model):
        def validation_step(self, batch, _):
            self.log("val_loss", self(batch) * torch.nan)

    model = Broken()
    trainer = fit(model, AnnealCallback(model.loss, patience=2, rounds=3))
    assert trainer.current_epoch == 6
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_missing_monitor_is_reported_with_what_is_available():
    model = Model("validation_loss")
    with pytest.raises(ValueError, match=r"Expected `monitor` to be a logged .* 'val_loss'.*validation_loss"):
        fit(model, AnnealCallback(model.loss))


def test_training_without_validation_is_refused():
    model = Model()
    with pytest.raises(ValueError, match="Expected `trainer` to validate"):
        fit(model, AnnealCallback(model.loss), valid=None)


def test_without_lightning_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "evalign.training.lightning")
    with pytest.raises(ImportError, match=r"pip install 'evalign\[lightning\]'"):
        importlib.import_module("evalign.training.lightning")
