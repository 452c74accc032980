"""Annealing in skorch: a callback that cools the criterion when validation stalls."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable
from typing import Any

from torch import Tensor

from evalign._errors import expected
from evalign.losses import MetricLoss
from evalign.training._anneal import Anneal
from evalign.training._monitor import resolve_mode
from evalign.training._running import RunningLoss

try:
    from skorch.callbacks import Callback
    from skorch.dataset import get_len
except ImportError as error:
    raise ImportError("evalign.training.skorch requires skorch: pip install 'evalign[skorch]'.") from error


class AnnealCallback(Callback):  # type: ignore[misc]
    """Cool the criterion of a net when validation stalls, and stop when that no longer helps.

    Each `fit` starts at the highest temperature. The history of the net gets a column `temperature`, and
    `valid_loss` is the `MetricLoss` of all validation rows, however many batches they are in. At the end, the
    module's weights and the temperature of the best epoch are restored. See `Anneal` for when it cools and
    stops.

    Any skorch net whose module returns logits works. skorch does not know `MetricLoss`, so
    `NeuralNetClassifier.predict_proba` needs `predict_nonlinearity=torch.nn.Softmax(dim=-1)`; `predict`
    does not.

    Args:
        anneal: A function that makes the `Anneal` of a criterion, such as `Anneal.east`. Default: `Anneal`.
        monitor: The column of the history that decides when to cool and which epoch is best.
        mode: Whether to minimise (`"min"`) or maximise (`"max"`) it. `"auto"` knows losses and common
            metrics by their names, such as `"valid_loss"`, `"valid_acc"` and `"valid_f1"`.
        restore_best: Whether to restore the best epoch.
        **settings: Settings of `anneal`, such as `decay` and `patience`.

    Attributes:
        anneal_: The `Anneal` of the last `fit`.

    >>> import torch
    >>> from skorch import NeuralNetClassifier
    >>> from evalign import MetricLoss
    >>> _ = torch.manual_seed(0)
    >>> X = torch.randn(200, 2)
    >>> y = (X.sum(1) + torch.randn(200) > 1).long()
    >>> net = NeuralNetClassifier(
    ...     torch.nn.Linear, module__in_features=2, module__out_features=2, lr=10.0, max_epochs=100,
    ...     criterion=MetricLoss, criterion__metric="f1", verbose=0,
    ...     callbacks=[AnnealCallback(decay=0.5, patience=3, rounds=3)],
    ... )
    >>> history = net.fit(X, y).history
    >>> len(history) < 100, history[0, "temperature"], history[-1, "temperature"] < 0.1
    (True, 0.2, True)
    """

    def __init__(
        self,
        anneal: Callable[..., Anneal] | None = None,
        monitor: str = "valid_loss",
        mode: str = "auto",
        restore_best: bool = True,
        **settings: Any,
    ) -> None:
        self.anneal = anneal
        self.monitor = monitor
        self.mode = mode
        self.restore_best = restore_best
        self.__dict__.update(settings)  # each is a parameter, for `clone` and for a grid search
        self.anneal_: Anneal | None = None
        self.best_: tuple[float, dict[str, Any]] | None = None
        self.running_: RunningLoss | None = None
        self.hook_: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # The criterion and the weights in the state would not move with the net to another device.
        return {**vars(self), "anneal_": None, "best_": None, "running_": None, "hook_": None}

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Reset the state of the last `fit`."""
        self.anneal_ = self.best_ = self.running_ = None

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """Create the `Anneal`; in `on_train_begin`, other callbacks may still replace the criterion."""
        if self.anneal_ is None:
            own = ("anneal", "monitor", "mode", "restore_best")
            settings = {name: value for name, value in self.get_params().items() if name not in own}
            if resolve_mode(self.mode, self.monitor) == "max":  # a function may not know the default
                settings["mode"] = "max"
            self.anneal_ = (self.anneal or Anneal)(net.criterion_, **settings)

        self.running_ = RunningLoss(net.criterion_) if isinstance(net.criterion_, MetricLoss) else None

    def on_batch_begin(self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any) -> None:
        """Let the criterion return values of which skorch's mean over batches is the loss of all rows."""
        running = self.running_
        if training or running is None:
            return
        rows = get_len(batch[0] if isinstance(batch, tuple | list) else batch)

        def replace(criterion: Any, args: Any, kwargs: Any, value: Tensor) -> Tensor:
            return running.update(*args, **kwargs, rows=rows).to(value)

        self.hook_ = net.criterion_.register_forward_hook(replace, with_kwargs=True)

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any) -> None:
        """Let the criterion return its own values again."""
        if self.hook_ is not None:
            self.hook_.remove()
            self.hook_ = None

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Cool the criterion or stop, depending on the monitored value."""
        assert self.anneal_ is not None
        value, temperature = _monitored(net.history[-1], self.monitor), self.anneal_.temperature
        self.anneal_.step(value)
        net.history.record("temperature", temperature)
        if self.anneal_.improved and self.restore_best:
            self.best_ = temperature, copy.deepcopy(net.module_.state_dict())
        if self.anneal_.done:
            raise KeyboardInterrupt  # how a skorch callback stops training

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Restore the best epoch."""
        self.on_batch_end(net)  # after Ctrl-C
        self.running_ = None
        if self.best_ is not None:
            net.criterion_.temperature, weights = self.best_
            net.module_.load_state_dict(weights)
            self.best_ = None


def _monitored(epoch: dict[str, Any], monitor: str) -> float:
    """The monitored value of an epoch."""
    scores = {
        name: float(value)
        for name, value in epoch.items()
        if isinstance(value, numbers.Real) and not isinstance(value, bool)
    }
    if monitor not in scores:
        there = f"Available: {', '.join(sorted(scores))}. Is there validation data (`train_split`)?"
        raise expected("monitor", "to be a number in the history", repr(monitor), there)
    return scores[monitor]
