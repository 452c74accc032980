"""Train with Lightning in two processes as if they were one: they share the confusion matrix, not the data.

The same network is trained with cross-entropy and with `MetricLoss("f1")`, cooled by a callback, on the
bundled mammography data (2.3 % positives). `StratifiedBatchSampler` puts positives into every batch, and
`EpochMetric` counts the rows of both processes. F1 on test rows is printed for both. Requires the extra
`lightning`.

python examples/lightning_ddp.py
"""

# ruff: noqa: D101, D102

import sys

import lightning
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evalign as ev
from evalign.training.lightning import AnnealCallback, EpochMetric


def load_parts() -> list[TensorDataset]:
    """Half of the rows for training, a quarter for validation and a quarter for the test."""
    data = ev.datasets.load("mammography")
    x = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0)).float()
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    parts = rows[::2], rows[1::4], rows[3::4]
    return [TensorDataset(x[part], torch.from_numpy(data.y)[part]) for part in parts]


class Classifier(lightning.LightningModule):
    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 2))
        self.loss, self.valid_f1 = loss, EpochMetric("f1")
        self.train_rows, self.valid_rows, self.test_rows = load_parts()

    def train_dataloader(self) -> DataLoader:  # here, so that Lightning divides the batches
        sampler = ev.StratifiedBatchSampler(self.train_rows.tensors[1], batch_size=512)
        return DataLoader(self.train_rows, batch_sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.valid_rows, batch_size=1000)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self.loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.valid_f1.update(self.layers(batch[0]), batch[1])
        self.log("val_f1", self.valid_f1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


def train(loss: nn.Module, epochs: int) -> float:
    torch.manual_seed(0)
    cool = [AnnealCallback(loss, monitor="val_f1", patience=3)] if isinstance(loss, ev.MetricLoss) else []
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=2, strategy="ddp_fork", callbacks=cool, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model := Classifier(loss))
    x, y = model.test_rows.tensors
    return f1_score(y, model.layers(x).argmax(1))


def main(small: bool) -> None:
    epochs = 3 if small else 30
    print("F1 on test rows")
    print(f"cross-entropy     {train(nn.CrossEntropyLoss(), epochs):.3f}")
    print(f"MetricLoss('f1')  {train(ev.MetricLoss('f1'), epochs):.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
