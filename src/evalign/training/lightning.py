"""Annealing in Lightning: a callback that cools the loss when the validation loss stalls."""

from __future__ import annotations

import copy
from typing import Any

from evalign._errors import expected
from evalign.training._anneal import Anneal, HasTemperature
from evalign.training._monitor import resolve_mode

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn
except ImportError as error:
    needs = "evalign.training.lightning requires lightning: pip install 'evalign[lightning]'."
    raise ImportError(needs) from error


class AnnealCallback(Callback):
    """Cool a loss when the validation loss stalls, and stop when that no longer helps.

    The temperature is logged. When fitting ends, the module's weights and the temperature of the best
    validation are restored. Checkpoints contain the state and the best weights, so `fit(ckpt_path=...)`
    resumes as if there had been no interruption. See `Anneal` for when it cools and stops.

    A metric is not a mean over batches: use one large validation batch, or log the loss of all batches in
    `on_validation_epoch_end`.

    Args:
        loss: The loss object that the module trains with. As an attribute of the module, it moves to the
            module's device.
        monitor: The logged value that decides when to cool and which weights are best.
        mode: Whether to minimise (`"min"`) or maximise (`"max"`) it. `"auto"` knows losses and common
            metrics by their names, such as `"val_loss"`, `"val_acc"` and `"val_f1"`.
        restore_best: Whether to keep and restore the best weights.
        **settings: Settings of `Anneal`, such as `decay` and `patience`.

    Attributes:
        anneal: The `Anneal`, with its `history`.

    >>> import lightning
    >>> import torch
    >>> from evalign import MetricLoss
    >>> class Model(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer, self.loss = torch.nn.Linear(2, 2), MetricLoss("f1")
    ...     def training_step(self, batch, _):
    ...         return self.loss(self.layer(batch[0]), batch[1])
    ...     def validation_step(self, batch, _):
    ...         self.log("val_loss", self.loss(self.layer(batch[0]), batch[1]))
    ...     def configure_optimizers(self):
    ...         return torch.optim.Adam(self.parameters(), lr=0.1)
    >>> model = Model()  # fit it with lightning.Trainer(callbacks=[callback])
    >>> callback = AnnealCallback(model.loss, patience=2)
    >>> callback.anneal
    Anneal(temperature=0.2, best=inf, done=False)
    """

    def __init__(
        self,
        loss: HasTemperature,
        monitor: str = "val_loss",
        mode: str = "auto",
        restore_best: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.restore_best = restore_best
        self.anneal = Anneal(loss, mode=resolve_mode(mode, monitor), **settings)
        self._best: dict[str, Any] | None = None

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint."""
        return self._generate_state_key(monitor=self.monitor)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse to train without validation, since the loss would never be cooled."""
        if not trainer.enable_validation:
            raise expected("trainer", "to validate: with `validation_step` and validation data", "neither")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the temperature of the epoch."""
        if _is_fitting(trainer):
            pl_module.log("temperature", self.anneal.temperature, sync_dist=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Cool the loss or stop, depending on the monitored value.

        This is the first hook that sees what the module logs in its own `on_validation_epoch_end`.
        """
        if not _is_fitting(trainer):
            return
        metrics = trainer.callback_metrics
        if self.monitor not in metrics:
            there = f"Available: {', '.join(sorted(metrics))}."
            raise expected("monitor", "to be a logged value", repr(self.monitor), there)
        # The same number in every process, so that all processes cool and stop together.
        value = trainer.strategy.reduce(metrics[self.monitor].clone(), reduce_op="mean")
        temperature = self.anneal.temperature
        self.anneal.step(float(value))
        if self.anneal.improved and self.restore_best:
            self._best = {"temperature": temperature, "weights": copy.deepcopy(pl_module.state_dict())}
        trainer.should_stop = trainer.should_stop or self.anneal.done

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the best weights, after the last checkpoint has been written."""
        if self._best is not None:
            pl_module.load_state_dict(self._best["weights"])
            self.anneal.loss.temperature = self._best["temperature"]

    def state_dict(self) -> dict[str, Any]:
        """The state of `anneal` and the best weights, for a checkpoint."""
        return {"anneal": self.anneal.state_dict(), "best": self._best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.anneal.load_state_dict(state_dict["anneal"])
        self._best = state_dict["best"]


def _is_fitting(trainer: Trainer) -> bool:
    return trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
