"""Lightning: a callback that cools the loss when validation stalls, and values of a whole epoch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from torch import Tensor, nn

from evalign._errors import expected
from evalign._typing import MetricLike
from evalign.losses import MetricLoss
from evalign.metrics import as_metric
from evalign.training._anneal import Anneal, HasTemperature
from evalign.training._monitor import resolve_mode

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn
    from torchmetrics import Metric  # Lightning requires it
except ImportError as error:
    needs = "evalign.training.lightning requires lightning: pip install 'evalign[lightning]'."
    raise ImportError(needs) from error


class EpochMetric(Metric):
    """A loss or metric of all batches and processes of an epoch, for `self.log` of a `LightningModule`.

    A metric is not a mean over batches, which is what Lightning logs for a number: the F1 of all rows is not
    the mean F1 of the batches. This object counts the batches, and Lightning asks it for the value at the end
    of the epoch. Create it in `__init__` of the module, as any `torchmetrics.Metric`.

    With several processes, Lightning's `DistributedSampler` repeats rows if the processes would otherwise
    have different numbers of them; these count twice, unless the `DataLoader` for validation has a sampler
    without repetitions: `UnrepeatedDistributedSampler` of `lightning.pytorch.overrides.distributed`.

    Args:
        metric: A `MetricLoss`, whose value is that in `eval()` mode, or anything that is a metric: `"f1"`.
        **settings: Settings of `MetricAccumulator` for a metric, such as `thresholds`.

    >>> import torch
    >>> from evalign import MetricLoss
    >>> loss = MetricLoss("f1")
    >>> valid_loss, valid_f1 = EpochMetric(loss), EpochMetric("f1")
    >>> logits, targets = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> for rows in (slice(0, 1), slice(1, 3)):
    ...     for value in (valid_loss, valid_f1):  # in a module: self.log("val_f1", self.valid_f1)
    ...         value.update(logits[rows], targets[rows])
    >>> torch.isclose(valid_loss.compute(), loss.eval()(logits, targets)), valid_f1.compute()
    (tensor(True), tensor(0.6667))
    """

    full_state_update = False

    def __init__(self, metric: MetricLoss | MetricLike, **settings: Any) -> None:
        super().__init__()
        # In a tuple, the loss does not become a part of this module, whose state would contain it twice.
        self._source = (metric if isinstance(metric, MetricLoss) else as_metric(metric),)
        self._settings = settings
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        super().reset()
        (source,) = self._source
        self._accumulators = [source.accumulator(**self._settings)]

    def update(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> None:
        """Count a batch."""
        self._accumulators[0].update(logits, targets, sample_weight)

    def compute(self) -> Tensor:
        """The value of all rows of all processes."""
        value: Tensor = self._accumulators[0].compute()
        return value.float()

    def forward(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch, as `update` does."""
        self.update(*args, **kwargs)


class AnnealCallback(Callback):
    """Cool a loss when validation stalls, and stop when that no longer helps.

    The temperature is logged. When fitting ends, the module's weights and the temperature of the best
    validation are restored. Checkpoints contain the state and the best weights, so `fit(ckpt_path=...)`
    resumes as if there had been no interruption. See `Anneal` for when it cools and stops.

    Log an `EpochMetric`: of a plain number, Lightning logs the mean over batches, and a metric is no mean.

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
    ...         self.valid_loss = EpochMetric(self.loss)
    ...     def training_step(self, batch, _):
    ...         return self.loss(self.layer(batch[0]), batch[1])
    ...     def validation_step(self, batch, _):
    ...         self.valid_loss.update(self.layer(batch[0]), batch[1])
    ...         self.log("val_loss", self.valid_loss)
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
        self._watch: _Watch | None = None

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint."""
        return self._generate_state_key(monitor=self.monitor)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse to train without validation, since the loss would never be cooled."""
        if not trainer.enable_validation:
            raise expected("trainer", "to validate: with `validation_step` and validation data", "neither")

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the loss in `eval()` mode, wherever it is."""
        if isinstance(self.anneal.loss, nn.Module):
            self._watch = _Watch(self.anneal.loss)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the temperature of the epoch."""
        if _is_fitting(trainer):
            pl_module.log("temperature", self.anneal.temperature, sync_dist=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Cool the loss or stop, depending on the monitored value.

        This is the first hook that sees what the module logs in its own `on_validation_epoch_end`.
        """
        batches = 0 if self._watch is None else self._watch.stop()
        if not _is_fitting(trainer):
            return
        if batches * trainer.world_size > 1 and len(self.anneal.history) == 0:
            self._warn_of_a_mean(batches)
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

    def _warn_of_a_mean(self, batches: int) -> None:
        """Warn that the monitored loss is a mean over batches, at the first validation."""
        if "loss" in self.monitor and isinstance(self.anneal.loss, MetricLoss):
            warnings.warn(
                f"{self.monitor!r} seems to be a mean over batches or processes, not the loss of all rows: "
                f"the loss was called {batches} times. In `__init__` of the module, create "
                "self.valid_loss = EpochMetric(self.loss); in `validation_step`, call "
                f"self.valid_loss.update(logits, targets) and self.log({self.monitor!r}, self.valid_loss).",
                stacklevel=2,
            )

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


class _Watch:
    """Puts a loss in `eval()` mode for a validation, and counts how often it is called."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss, self.was_training, self.calls = loss, loss.training, 0
        self._hook = loss.eval().register_forward_hook(self._count)

    def _count(self, *args: Any) -> None:
        self.calls += 1

    def stop(self) -> int:
        """Restore the mode, and return the number of calls."""
        self._hook.remove()
        self.loss.train(self.was_training)
        return self.calls


def _is_fitting(trainer: Trainer) -> bool:
    return trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
