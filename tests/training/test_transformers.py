"""The loss and the callback for the `Trainer` of Hugging Face, in real training runs."""

import importlib
import sys

import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef
from torch import nn

from evalign import MetricLoss, metrics

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from accelerate.state import GradientState
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from evalign.training.transformers import AnnealCallback, metric_loss, metric_scores

pytestmark = pytest.mark.filterwarnings("ignore")

COOL = {"decay": 0.5, "patience": 2, "rounds": 2}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def sentences(rows, seed):
    """Token ids that are higher for class 1; some labels are wrong, so that training overfits."""
    generator = torch.Generator().manual_seed(seed)
    classes = (torch.rand(rows, generator=generator) < 0.3).long()
    tokens = torch.randint(1, 20, (rows, 8), generator=generator) + 10 * classes[:, None]
    labels = classes ^ (torch.rand(rows, generator=generator) < 0.1).long()
    return [{"input_ids": ids, "labels": label} for ids, label in zip(tokens, labels, strict=True)]


TRAIN, VALID = sentences(64, 0), sentences(64, 1)


def bert(**settings):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **settings,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def make(folder, loss, callbacks=(), model=None, valid=VALID, compute_metrics=None, **settings):
    defaults = {
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "logging_strategy": "no",
        "num_train_epochs": 60,
        "per_device_train_batch_size": 64,
        "per_device_eval_batch_size": 64,
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "disable_tqdm": True,
        "report_to": "none",
        "use_cpu": True,
        "seed": 0,
    }
    return Trainer(
        bert() if model is None else model,
        TrainingArguments(output_dir=str(folder), **{**defaults, **settings}),
        train_dataset=TRAIN,
        eval_dataset=valid,
        compute_loss_func=metric_loss(loss),
        compute_metrics=compute_metrics,
        callbacks=list(callbacks),
    )


def whole(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels")}


def loss_of(model, loss, rows):
    batch = whole(rows)
    with torch.no_grad():
        return loss(model.eval()(batch["input_ids"]).logits, batch["labels"]).item()


def test_it_cools_stops_and_restores_the_best_weights(tmp_path):
    loss = MetricLoss("f1")
    callback = AnnealCallback(loss, **COOL)
    trainer = make(tmp_path, loss, [callback])
    trainer.train()
    temperatures, losses = zip(*callback.anneal.history, strict=True)
    assert temperatures[0] == 0.2
    assert list(temperatures) == sorted(temperatures, reverse=True)
    assert len(set(temperatures)) >= 3
    assert callback.anneal.done
    assert len(losses) == trainer.state.epoch < 60
    assert min(losses) < losses[-1]
    assert loss_of(trainer.model, loss, VALID) == pytest.approx(min(losses))
    assert trainer.evaluate()["eval_loss"] == pytest.approx(min(losses))
    assert trainer.evaluate(TRAIN, metric_key_prefix="train")["train_loss"] > 0
    assert len(callback.anneal.history) == len(losses), "evaluating by hand is no epoch"


def test_without_restore_best_the_last_weights_remain(tmp_path):
    loss = MetricLoss("f1")
    callback = AnnealCallback(loss, restore_best=False, **COOL)
    trainer = make(tmp_path, loss, [callback])
    trainer.train()
    loss.temperature, last = callback.anneal.history[-1]
    assert loss_of(trainer.model, loss, VALID) == pytest.approx(last)
    assert last > callback.anneal.best + 1e-3


LOSSES = {
    "f1": {"metric": "f1"},
    "mcc": {"metric": "mcc", "temperature": 0.1, "class_weight": [1.0, 3.0], "memory": 0.9},
    "anchor": {"metric": "f1", "anchor": 0.5},
    "constraint": {"metric": "recall", "constraints": ["precision >= 0.9"]},
}


@pytest.mark.parametrize("batch_size", [64, 32, 8, 7])
@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES)
def test_the_evaluation_loss_is_that_of_all_rows(tmp_path, settings, batch_size):
    """However many batches there are, in every evaluation."""
    loss, model = MetricLoss(**settings), bert()
    trainer = make(tmp_path, loss, model=model, per_device_eval_batch_size=batch_size)
    wanted = loss_of(model, loss.eval(), VALID)
    for _ in range(2):
        assert trainer.evaluate()["eval_loss"] == pytest.approx(wanted, abs=1e-6)
    assert trainer.predict(VALID).metrics["test_loss"] == pytest.approx(wanted, abs=1e-6)


def test_small_batches_anneal_as_one_batch(tmp_path):
    histories = []
    for batch_size in (64, 7):
        loss = MetricLoss("f1")
        callback = AnnealCallback(loss, **COOL)
        make(tmp_path, loss, [callback], num_train_epochs=12, per_device_eval_batch_size=batch_size).train()
        histories.append(callback.anneal.history)
    assert histories[0][-1][0] < 0.2
    for one, many in zip(*histories, strict=True):
        assert one == pytest.approx(many, abs=1e-6)


def test_an_interrupted_evaluation_does_not_count(tmp_path):
    class Interrupted(type(bert())):
        calls = 0

        def forward(self, input_ids, labels=None):
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt
            return super().forward(input_ids)

    loss, model = MetricLoss("f1"), Interrupted(bert().config)
    model.load_state_dict(bert().state_dict())
    trainer = make(tmp_path, loss, model=model, per_device_eval_batch_size=8)
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(loss_of(bert(), loss, VALID), abs=1e-6)
    GradientState._reset_state()  # it still contains the interrupted loader


def test_a_loader_that_is_used_again(tmp_path, monkeypatch):
    loss, model = MetricLoss("f1"), bert()
    trainer = make(tmp_path, loss, model=model, per_device_eval_batch_size=8)
    loader = trainer.get_eval_dataloader()
    monkeypatch.setattr(trainer, "get_eval_dataloader", lambda *_: loader)
    first = trainer.evaluate()["eval_loss"]
    model.classifier.bias.data = torch.tensor([0.0, 1.0])
    second = trainer.evaluate()["eval_loss"]
    assert second == pytest.approx(loss_of(model, loss, VALID), abs=1e-6)
    assert abs(first - second) > 1e-3


def test_outside_of_an_evaluation_the_loss_is_that_of_the_batch():
    loss = MetricLoss("f1")
    compute, logits, labels = metric_loss(loss), torch.randn(12, 3), torch.randint(3, (12,))
    with torch.no_grad():
        for rows in (slice(0, 5), slice(5, 12)):
            value = compute(logits[rows], labels[rows])
            torch.testing.assert_close(value, loss(logits[rows], labels[rows]))


def tagged(rows, seed):
    """Sentences with a label for each token, of different numbers of tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 30, (rows, 8), generator=generator)
    labels = (ids > 14).long() ^ (torch.rand(rows, 8, generator=generator) < 0.1).long()
    labels[torch.arange(8) >= torch.randint(1, 9, (rows, 1), generator=generator)] = -100
    return [{"input_ids": row, "labels": label} for row, label in zip(ids, labels, strict=True)]


def test_labels_for_tokens_in_small_batches(tmp_path):
    torch.manual_seed(0)
    model, loss, rows = BertForTokenClassification(bert().config), MetricLoss("f1"), tagged(30, 0)
    trainer = make(tmp_path, loss, model=model, valid=rows, per_device_eval_batch_size=8)
    batch = whole(rows)
    with torch.no_grad():
        wanted = loss(model.eval()(batch["input_ids"]).logits.mT, batch["labels"]).item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("settings", [{}, {"batch_eval_metrics": True}, {"eval_accumulation_steps": 2}])
def test_metrics_of_all_rows(tmp_path, settings):
    model, scores = bert(), metric_scores(f1="f1", mcc=metrics.mcc())
    settings = {"compute_metrics": scores, "per_device_eval_batch_size": 7, **settings}
    trainer = make(tmp_path, MetricLoss("f1"), model=model, **settings)
    batch = whole(VALID)
    with torch.no_grad():
        predicted = model.eval()(batch["input_ids"]).logits.argmax(1)
    for _ in range(2):
        logged = trainer.evaluate()
        assert logged["eval_f1"] == pytest.approx(f1_score(batch["labels"], predicted), abs=1e-6)
        assert logged["eval_mcc"] == pytest.approx(matthews_corrcoef(batch["labels"], predicted), abs=1e-6)


def test_metrics_of_tokens(tmp_path):
    torch.manual_seed(0)
    model, rows = BertForTokenClassification(bert().config), tagged(30, 0)
    settings = {"compute_metrics": metric_scores(f1="f1"), "batch_eval_metrics": True}
    trainer = make(
        tmp_path, MetricLoss("f1"), model=model, valid=rows, per_device_eval_batch_size=8, **settings
    )
    batch = whole(rows)
    keep = batch["labels"] != -100
    with torch.no_grad():
        predicted = model.eval()(batch["input_ids"]).logits.argmax(-1)
    assert trainer.evaluate()["eval_f1"] == pytest.approx(f1_score(batch["labels"][keep], predicted[keep]))


@pytest.mark.parametrize("sizes", [(32, 2), (16, 4)])
def test_accumulated_batches_give_the_gradient_of_their_mean(tmp_path, sizes):
    """The Trainer does not divide by the number of steps when it is given a loss."""
    size, steps = sizes
    settings = {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0, "max_steps": 1}
    model, twin, loss = bert(), bert(), MetricLoss("f1")
    trainer = make(
        tmp_path, loss, model=model, train_sampling_strategy="sequential",
        per_device_train_batch_size=size, gradient_accumulation_steps=steps, **settings,
    )  # fmt: skip
    trainer.train()
    twin.train()
    for start in range(0, 64, size):
        batch = whole(TRAIN[start : start + size])
        (loss(twin(batch["input_ids"]).logits, batch["labels"]) / steps).backward()
    for (name, after), before in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(after, before - before.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_a_model_that_returns_a_tuple(tmp_path):
    loss = MetricLoss("f1")
    callback = AnnealCallback(loss)
    trainer = make(tmp_path, loss, [callback], model=bert(return_dict=False), num_train_epochs=3)
    trainer.train()
    reference = AnnealCallback(loss)
    make(tmp_path, loss, [reference], num_train_epochs=3).train()
    assert callback.anneal.history == reference.anneal.history


def test_the_forms_of_outputs():
    loss = MetricLoss("f1")
    compute = metric_loss(loss)
    logits, labels = torch.randn(12, 3), torch.randint(3, (12,))
    wanted = loss(logits, labels)
    for outputs in (SequenceClassifierOutput(logits=logits), {"logits": logits}, (logits, None), logits):
        torch.testing.assert_close(compute(outputs, labels), wanted)
    with pytest.raises(ValueError, match="Expected `outputs` with 'logits', but got hidden"):
        compute({"hidden": logits}, labels)
    with pytest.raises(ValueError, match="Expected `labels` in every batch, but got None.*label_names"):
        compute(logits, None)


def test_a_label_for_each_token():
    loss = MetricLoss("f1")
    logits, labels = torch.randn(4, 5, 3), torch.randint(3, (4, 5))
    labels[:, 0] = -100
    wanted = loss(logits.reshape(20, 3), labels.reshape(20))
    torch.testing.assert_close(metric_loss(loss)({"logits": logits}, labels), wanted)
    share = metric_loss(loss)({"logits": logits}, labels, num_items_in_batch=torch.tensor(32))
    torch.testing.assert_close(share, wanted / 2)


def test_a_batch_with_only_ignored_labels():
    logits = torch.randn(4, 3, requires_grad=True)
    value = metric_loss(MetricLoss("f1"))(logits, torch.full((4,), -100), num_items_in_batch=torch.tensor(0))
    value.backward()
    assert value.isfinite()
    assert (logits.grad == 0).all()


def test_evaluation_leaves_the_multipliers_out(tmp_path):
    """With and without the callback, also for a loss that was left in the wrong mode."""
    loss = MetricLoss("recall", constraints=["precision >= 0.99"], multiplier_learning_rate=5.0)
    trainer = make(tmp_path, loss, num_train_epochs=4)
    trainer.train()
    assert loss.multipliers.item() > 1
    for mode in (True, False):
        loss.train(mode)
        value = trainer.evaluate()["eval_loss"]
        assert value == pytest.approx(loss_of(trainer.model, loss.eval(), VALID))
        assert abs(value - loss_of(trainer.model, loss.train(), VALID)) > 0.1
    before = loss.eval().multipliers.clone()
    trainer.train()
    assert not torch.equal(loss.multipliers, before), "after an evaluation the loss learns again"


RESUMED = {"decay": 0.7, "patience": 2, "rounds": 3}


def resumable_loss():
    return MetricLoss("f1", memory=0.9, constraints=["precision >= 0.9"], multiplier_learning_rate=0.5)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A whole run with a checkpoint of every epoch."""
    folder, loss = tmp_path_factory.mktemp("whole"), resumable_loss()
    callback = AnnealCallback(loss, **RESUMED)
    settings = {"save_strategy": "epoch", "per_device_train_batch_size": 32, "learning_rate": 0.02}
    trainer = make(folder, loss, [callback], num_train_epochs=10, **settings)
    trainer.train()
    losses = [value for _, value in callback.anneal.history]
    return folder, trainer, callback, losses.index(min(losses)), settings


@pytest.mark.parametrize("pause", ["before the best", "at the best", "after the best"])
def test_resuming_from_a_checkpoint_equals_no_interruption(uninterrupted, pause):
    """Temperature, memory, multipliers, the best weights so far, and everything that depends on them."""
    folder, whole, callback, best, settings = uninterrupted
    assert 2 <= best <= len(callback.anneal.history) - 4
    epoch = best + 1 + {"before the best": -1, "at the best": 0, "after the best": 2}[pause]
    checkpoint = folder / f"checkpoint-{2 * epoch}"
    assert (checkpoint / "best.safetensors").exists() == (pause == "after the best")
    loss = resumable_loss()
    resumed = AnnealCallback(loss, **RESUMED)
    trainer = make(folder, loss, [resumed], num_train_epochs=10, **{**settings, "save_strategy": "no"})
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.anneal.history == callback.anneal.history
    assert loss.temperature == callback.anneal.loss.temperature
    for name in ("running_confusion", "running_hard", "multipliers"):
        torch.testing.assert_close(getattr(loss, name), getattr(callback.anneal.loss, name), rtol=0, atol=0)
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(trainer.model.state_dict()[name], weight, rtol=0, atol=0)


def test_a_checkpoint_moved_elsewhere_warns_that_the_best_weights_are_missing(uninterrupted, tmp_path):
    folder, _, _, best, settings = uninterrupted
    loss = resumable_loss()
    trainer = make(tmp_path, loss, [AnnealCallback(loss, **RESUMED)], num_train_epochs=best + 4, **settings)
    with pytest.warns(UserWarning, match=f"best.safetensors with the best weights .* step {2 * best + 2}"):
        trainer.train(resume_from_checkpoint=str(folder / f"checkpoint-{2 * (best + 3)}"))


def test_two_callbacks_resume_from_their_own_states(tmp_path):
    def callbacks(loss):
        return [
            AnnealCallback(loss, restore_best=False),
            AnnealCallback(other, monitor="eval_runtime", mode="min"),
        ]

    loss, other = MetricLoss("f1", memory=0.9), MetricLoss("mcc", temperature=0.1, memory=0.5)
    other(torch.randn(8, 3), torch.randint(3, (8,)))
    make(tmp_path, loss, callbacks(loss), save_strategy="epoch", num_train_epochs=2).train()
    wanted = loss.running_confusion, other.running_confusion
    loss, other = MetricLoss("f1", memory=0.9), MetricLoss("mcc", memory=0.5)
    trainer = make(tmp_path, loss, callbacks(loss), num_train_epochs=2)
    trainer.train(resume_from_checkpoint=True)
    assert torch.equal(loss.running_confusion, wanted[0])
    assert torch.equal(other.running_confusion, wanted[1])


def test_callbacks_made_from_a_checkpoint_are_refused(uninterrupted):
    folder, *_, settings = uninterrupted
    loss = resumable_loss()
    trainer = make(
        folder, loss, [AnnealCallback(loss)], restore_callback_states_from_checkpoint=True, **settings
    )
    with pytest.raises(ValueError, match=r"Use restore_callback_states_from_checkpoint=False"):
        trainer.train(resume_from_checkpoint=str(folder / "checkpoint-2"))


def test_two_ways_to_restore_the_best_weights_are_refused(tmp_path):
    loss = MetricLoss("f1")
    settings = {"save_strategy": "epoch", "load_best_model_at_end": True, "num_train_epochs": 2}
    trainer = make(tmp_path, loss, [AnnealCallback(loss)], **settings)
    with pytest.raises(ValueError, match="Expected `restore_best` to be False with load_best_model_at_end"):
        trainer.train()
    make(tmp_path, loss, [AnnealCallback(loss, restore_best=False)], **settings).train()


@pytest.mark.parametrize(("monitor", "mode"), [("eval_accuracy", "auto"), ("eval_quality", "max")])
def test_a_monitored_metric_is_maximised(tmp_path, monitor, mode):
    name = monitor.removeprefix("eval_")

    def accuracy(prediction):
        return {name: (prediction.predictions.argmax(1) == prediction.label_ids).mean()}

    loss = MetricLoss("f1")
    callback = AnnealCallback(loss, monitor=monitor, mode=mode, **COOL)
    trainer = make(tmp_path, loss, [callback], compute_metrics=accuracy)
    trainer.train()
    scores = [value for _, value in callback.anneal.history]
    assert callback.anneal.best == max(scores) > min(scores)
    assert trainer.evaluate()[monitor] == max(scores)


def test_an_unknown_monitor_needs_a_mode():
    with pytest.raises(
        ValueError, match="Expected `mode` to be 'min' or 'max' for the monitor 'eval_quality'"
    ):
        AnnealCallback(MetricLoss("f1"), monitor="eval_quality")


def test_each_training_starts_at_the_highest_temperature(tmp_path):
    loss = MetricLoss("f1")
    callback = AnnealCallback(loss, decay=0.8, patience=1, rounds=20)
    trainer = make(tmp_path, loss, [callback], num_train_epochs=20)
    for _ in range(2):
        trainer.train()
        assert callback.anneal.history[0][0] == 0.2
        assert len(callback.anneal.history) == 20
        assert callback.anneal.history[-1][0] < 0.2


def test_one_of_several_evaluation_sets(tmp_path):
    loss = MetricLoss("f1")
    callback = AnnealCallback(loss, monitor="eval_b_loss")
    trainer = make(tmp_path, loss, [callback], valid={"a": TRAIN, "b": VALID}, num_train_epochs=3)
    trainer.train()
    logged = [entry["eval_b_loss"] for entry in trainer.state.log_history if "eval_b_loss" in entry]
    assert [value for _, value in callback.anneal.history] == logged
    assert len(logged) == 3


class Broken(nn.Linear):
    def forward(self, input_ids, labels=None):
        logits = super().forward(input_ids.float())
        return {"logits": logits if self.training else logits * torch.nan}


def test_a_nan_loss_does_not_count_as_an_improvement(tmp_path):
    loss = MetricLoss("f1")
    trainer = make(tmp_path, loss, [AnnealCallback(loss, patience=2, rounds=3)], model=Broken(8, 2))
    trainer.train()
    assert trainer.state.epoch == 6
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_missing_monitor_is_reported_with_what_is_available(tmp_path, epochs):
    loss = MetricLoss("f1")
    trainer = make(tmp_path, loss, [AnnealCallback(loss, monitor="eval_f1")], num_train_epochs=epochs)
    with pytest.raises(ValueError, match=r"Expected `monitor` to be a metric .* 'eval_f1'.*eval_loss"):
        trainer.train()
    assert trainer.state.global_step == 1


def test_training_without_evaluation_is_refused(tmp_path):
    loss = MetricLoss("f1")
    trainer = make(tmp_path, loss, [AnnealCallback(loss)], eval_strategy="no")
    with pytest.raises(ValueError, match="Expected `eval_strategy` to be 'epoch' or 'steps', but got 'no'"):
        trainer.train()


def test_without_transformers_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "evalign.training.transformers")
    with pytest.raises(ImportError, match=r"pip install 'evalign\[transformers\]'"):
        importlib.import_module("evalign.training.transformers")
