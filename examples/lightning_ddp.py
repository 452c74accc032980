"""Train with Lightning in two processes as if they were one: they share the confusion matrix, not the data.

The same network is trained with cross-entropy and with `MetricLoss("f1")`, cooled by a callback, on the bundled
mammography data (2.3 % positives). `StratifiedBatchSampler` puts positives into every batch, and `EpochMetric` counts
the rows of both processes. F1 on test rows is printed for both. Requires the extra `lightning`.

python examples/lightning_ddp.py
"""

import sys

import lightning
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evalign as ev
from evalign.training.lightning import AnnealCallback, EpochMetric


class Classifier(lightning.LightningModule):
    """A small network with its data."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 2))
        self.loss, self.valid_f1 = loss, EpochMetric("f1")
        data = ev.datasets.load("mammography")
        X = ((data.X - data.X.mean(0)) / data.X.std(0)).astype("float32")
        x, x_rest, self.y, y_rest = train_test_split(
            X, data.y, test_size=0.5, stratify=data.y, random_state=0
        )
        parts = train_test_split(x_rest, y_rest, test_size=0.6, stratify=y_rest, random_state=0)
        x_valid, x_test, y_valid, y_test = map(torch.from_numpy, parts)
        self.rows = TensorDataset(torch.from_numpy(x), torch.from_numpy(self.y))
        self.valid, self.test = TensorDataset(x_valid, y_valid), TensorDataset(x_test, y_test)

    def train_dataloader(self) -> DataLoader:  # here, so that Lightning divides the batches
        return DataLoader(self.rows, batch_sampler=ev.StratifiedBatchSampler(self.y, batch_size=512))

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.valid, batch_size=1000)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self.loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.valid_f1.update(self.layers(batch[0]), batch[1])
        self.log("val_f1", self.valid_f1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


def train(loss: nn.Module, epochs: int) -> float:
    """Train in two processes; return F1 on the test rows."""
    torch.manual_seed(0)
    cool = [AnnealCallback(loss, monitor="val_f1", patience=3)] if isinstance(loss, ev.MetricLoss) else []
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=2, strategy="ddp_fork", callbacks=cool, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0,
    )  # fmt: skip
    model = Classifier(loss)
    trainer.fit(model)
    with torch.no_grad():
        x, y = model.test.tensors
        return f1_score(y, model.layers(x).argmax(1))


def main(small: bool) -> None:
    torch.set_num_threads(1)
    epochs = 3 if small else 30
    print("F1 on test rows")
    print(f"cross-entropy     {train(nn.CrossEntropyLoss(), epochs):.3f}")
    print(f"MetricLoss('f1')  {train(ev.MetricLoss('f1'), epochs):.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
