"""Run by test_processes.py in each of two processes: Lightning and Hugging Face train and validate.

python two_frameworks.py RANK RENDEZVOUS_FILE RESULT_FILE
"""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from evalign import MetricLoss, StratifiedBatchSampler

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
BATCH = 8


def data(rows, seed):
    """One row in five is positive, and the first ones are all negative: a mean over batches is far off."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator)
    y = (x[:, 0] + torch.randn(rows, generator=generator) > 1).long()
    order = torch.cat([torch.argsort(y[: rows // 2], stable=True), torch.arange(rows // 2, rows)])
    return x[order], y[order]


def losses():
    return {
        "f1": MetricLoss("f1", anchor=0.3, class_weight=[1.0, 2.0]),
        "constraint": MetricLoss("recall", constraints=["precision >= 0.9"], memory=0.5),
    }


def evaluate(model, loss, x, y):
    """The loss and scikit-learn's F1 of all rows, in one batch and one process."""
    with torch.no_grad():
        logits = model(x)
        return {"loss": loss.eval()(logits, y).item(), "f1": float(f1_score(y, logits.argmax(1)))}


def run_lightning(loss):
    import lightning
    from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSampler

    from evalign.training.lightning import AnnealCallback, EpochMetric

    (x, y), (x_valid, y_valid) = data(200, 0), data(72, 1)

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.network, self.loss = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), loss
            self.valid_loss, self.valid_f1, self.batches = EpochMetric(loss), EpochMetric("f1"), []

        def train_dataloader(self):
            rows = TensorDataset(x, y, torch.arange(len(y)))
            return DataLoader(rows, batch_sampler=StratifiedBatchSampler(y, 10))

        def training_step(self, batch, _):
            self.batches.append(batch[2].tolist())
            return self.loss(self.network(batch[0]), batch[1])

        def validation_step(self, batch, _):
            logits = self.network(batch[0])
            for value, where in ((self.valid_loss, "val_loss"), (self.valid_f1, "val_f1")):
                value.update(logits, batch[1])
                self.log(where, value)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    model = Model()
    callback = AnnealCallback(loss, monitor="val_f1", decay=0.5, patience=1)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", devices=2, strategy="ddp", callbacks=[callback], **QUIET,
        enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    valid = DataLoader(TensorDataset(x_valid, y_valid), batch_size=BATCH)
    trainer.fit(model, val_dataloaders=valid)
    (logged,) = trainer.validate(model, valid, verbose=False)
    order = torch.argsort(y_valid, descending=True)[:65]  # the repeated row is positive, so that it matters
    odd = TensorDataset(x_valid[order], y_valid[order])
    samplers = {"repeated": None, "once": UnrepeatedDistributedSampler(odd, shuffle=False)}
    uneven = {}
    for name, sampler in samplers.items():
        loader = DataLoader(odd, batch_size=BATCH, sampler=sampler)
        uneven[name] = trainer.validate(model, loader, verbose=False)[0]["val_f1"]
    return {
        "uneven": uneven,
        "logged": {"loss": logged["val_loss"], "f1": logged["val_f1"]},
        "wanted": evaluate(model.network.eval(), loss, x_valid, y_valid),
        "wanted_uneven": {
            name: evaluate(model.network, loss, x_valid[rows], y_valid[rows])["f1"]
            for name, rows in (("repeated", torch.cat([order, order[:1]])), ("once", order))
        },
        "history": callback.anneal.history,
        "batches": model.batches,
        "positive": y.tolist(),
    }


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def forward(self, x, labels=None):
        return {"logits": self.layer(x)}


def run_transformers(loss, folder, average):
    import transformers

    from evalign.training.transformers import AnnealCallback, metric_loss, metric_scores

    (x, y), (x_valid, y_valid) = data(64, 0), data(69, 1)  # 69 rows do not fill the last batches
    train, valid = (
        [{"x": row, "labels": label} for row, label in zip(*part, strict=True)]
        for part in ((x, y), (x_valid, y_valid))
    )
    callback = AnnealCallback(loss, decay=0.5, patience=1)
    trainer = transformers.Trainer(
        Network(),
        transformers.TrainingArguments(
            folder, eval_strategy="epoch", save_strategy="no", num_train_epochs=3, learning_rate=0.1,
            per_device_train_batch_size=16, per_device_eval_batch_size=BATCH, use_cpu=True, report_to="none",
            disable_tqdm=True, batch_eval_metrics=True, average_tokens_across_devices=average,
        ),
        train_dataset=train, eval_dataset=valid, compute_loss_func=metric_loss(loss),
        compute_metrics=metric_scores(f1="f1"), callbacks=[callback],
    )  # fmt: skip
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    logged = trainer.evaluate()
    return {
        "logged": {"loss": logged["eval_loss"], "f1": logged["eval_f1"]},
        "wanted": evaluate(lambda rows: trainer.model(rows)["logits"], loss, x_valid, y_valid),
        "history": callback.anneal.history,
    }


def gradients(rank, average):
    """The gradient of a step on batches with different numbers of labels, and that of the joint batch."""
    from evalign.training.transformers import metric_loss

    x, y = data(24, 2)
    y[:9] = -100
    weight = torch.ones(4, 2, requires_grad=True)
    (wanted,) = torch.autograd.grad(MetricLoss("f1", sync=False)(x @ weight.cumsum(1), y), weight)
    part = slice(12 * rank, 12 * rank + 12)
    items = int((y if average else y[part]).ne(-100).sum())
    value = metric_loss(MetricLoss("f1"))(x[part] @ weight.cumsum(1), y[part], num_items_in_batch=items)
    (value * (2 if average else 1)).backward()  # as the Trainer multiplies
    dist.all_reduce(weight.grad)
    return {"wanted": wanted.tolist(), "logged": (weight.grad / 2).tolist()}  # as DDP averages


def main():
    rank, rendezvous, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # The frameworks look for these, and then use the group that exists.
    os.environ |= {"LOCAL_RANK": str(rank), "RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    results = {}
    for name, loss in losses().items():
        results[f"lightning-{name}"] = run_lightning(loss)
    for name, loss in losses().items():
        results[f"transformers-{name}"] = run_transformers(loss, f"{target}-{name}", average=name == "f1")
    results["gradients"] = [gradients(rank, average) for average in (True, False)]
    Path(target).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
