"""Training with the Hugging Face `Trainer`: a metric as its loss, and a callback that cools it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evalign._errors import expected
from evalign.training._anneal import Anneal, HasTemperature

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    needs = "evalign.training.transformers requires transformers: pip install 'evalign[transformers]'."
    raise ImportError(needs) from error


def metric_loss(loss: nn.Module) -> Callable[..., Tensor]:
    """Turn a loss into the `compute_loss_func` of a `Trainer`, for training and evaluation.

    The value is loss(logits, labels) * items / num_items_in_batch. The `Trainer` adds up the values of
    its micro-batches and processes, so each contributes its share, and the sum is their weighted mean.

    >>> from evalign import MetricLoss
    >>> compute_loss = metric_loss(MetricLoss("f1"))
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> compute_loss({"logits": logits}, labels), compute_loss((logits,), labels, num_items_in_batch=6)
    (tensor(0.4134), tensor(0.2067))
    """

    def compute_loss(
        outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        if labels is None:
            hint = "Does TrainingArguments need label_names=['labels']?"
            raise expected("labels", "in every batch", "None", hint)
        logits = _logits(outputs)
        if logits.ndim == 3 and labels.ndim == 2:  # one label per token: here the classes come last
            logits = logits.mT
        value: Tensor = loss.to(logits.device)(logits, labels)  # the Trainer moves only the model
        if num_items_in_batch is None:
            return value
        items = torch.as_tensor(num_items_in_batch, device=value.device).clamp_min(1)
        return value * (labels.ne(-100).sum() / items)

    return compute_loss


def _logits(outputs: Any) -> Tensor:
    """The logits in a model's output: a dict or `ModelOutput`, a tuple without a loss, or a tensor."""
    if isinstance(outputs, dict):
        if "logits" not in outputs:
            raise expected("outputs", "with 'logits'", ", ".join(outputs) or "nothing")
        outputs = outputs["logits"]
    logits: Tensor = outputs[0] if isinstance(outputs, tuple | list) else outputs
    return logits


class AnnealCallback(TrainerCallback):
    """Cool a loss when the evaluation loss stalls, and stop when that no longer helps.

    At the end, the model's weights and the temperature of the best evaluation are restored.
    `train(resume_from_checkpoint=...)` resumes at the right temperature, using the log in the checkpoint;
    the best weights are then those since the checkpoint. See `Anneal` for when it cools and stops.

    A metric is not a mean over batches: use a large `per_device_eval_batch_size`.

    Args:
        loss: The loss object that was passed to `metric_loss`.
        monitor: The evaluation metric to minimise.
        restore_best: Whether to keep and restore the best weights. Use False with
            `load_best_model_at_end`.
        **settings: Settings of `Anneal`, such as `decay` and `patience`.

    Attributes:
        anneal: The `Anneal` of the last `train`, with its `history`.

    >>> from evalign import MetricLoss
    >>> loss = MetricLoss("f1")
    >>> settings = {"compute_loss_func": metric_loss(loss), "callbacks": [AnnealCallback(loss, patience=2)]}
    >>> settings["callbacks"][0].anneal  # pass to Trainer(model, args, **settings)
    Anneal(temperature=0.2, best=inf, done=False)
    """

    def __init__(
        self, loss: HasTemperature, monitor: str = "eval_loss", restore_best: bool = True, **settings: Any
    ) -> None:
        self.monitor = monitor
        self.restore_best = restore_best
        self.settings = settings
        self.anneal = Anneal(loss, **settings)
        self._best: tuple[float, dict[str, Any]] | None = None
        self._seen: set[str] = set()
        self._is_training = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start at the highest temperature, or where the checkpoint was written."""
        if args.eval_strategy == "no":
            raise expected("eval_strategy", "to be 'epoch' or 'steps'", "'no'")
        self.anneal = Anneal(self.anneal.loss, **self.settings)
        for entry in state.log_history:
            if self.monitor in entry:
                self.anneal.step(entry[self.monitor])
        self._best, self._seen, self._is_training = None, set(), True

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Cool the loss or stop, depending on the evaluation loss."""
        if not self._is_training:  # `evaluate` was called directly
            return
        metrics, temperature = kwargs["metrics"], self.anneal.temperature
        self._seen |= metrics.keys()
        if self.monitor not in metrics:  # another of several evaluation sets may have it
            return
        self.anneal.step(metrics[self.monitor])
        if self.anneal.improved and self.restore_best:
            self._best = temperature, copy.deepcopy(kwargs["model"].state_dict())
        control.should_training_stop = control.should_training_stop or self.anneal.done

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise an error if no evaluation set had the monitored value."""
        if self._seen and self.monitor not in self._seen:
            there = f"Available: {', '.join(sorted(self._seen))}."
            raise expected("monitor", "to be a metric of the evaluation", repr(self.monitor), there)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restore the best weights."""
        self._is_training = False
        self.on_step_begin(args, state, control)
        if self._best is not None:
            self.anneal.loss.temperature, weights = self._best
            kwargs["model"].load_state_dict(weights)
            self._best = None
