"""Training with the Hugging Face `Trainer`: a metric as its loss, and a callback that cools it."""

from __future__ import annotations

import copy
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evalign._errors import expected
from evalign._files import pack_tensors, unpack_tensors, write_file
from evalign._torch import world_size
from evalign._typing import MetricLike
from evalign.losses import MetricLoss
from evalign.metrics import MetricAccumulator
from evalign.training._anneal import Anneal, HasTemperature
from evalign.training._checkpoint import module_tensors, take_prefix
from evalign.training._monitor import resolve_mode
from evalign.training._running import RunningLoss

try:
    from accelerate.state import GradientState
    from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import ExportableState
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
except ImportError as error:
    needs = "evalign.training.transformers requires transformers: pip install 'evalign[transformers]'."
    raise ImportError(needs) from error

#: The file in a checkpoint that contains the best weights so far.
BEST = "best.safetensors"


def metric_loss(loss: nn.Module) -> Callable[..., Tensor]:
    """Turn a loss into the `compute_loss_func` of a `Trainer`, for training and evaluation.

    In training, the value is loss(logits, labels) * items / num_items_in_batch. The `Trainer` adds up the
    values of its micro-batches and processes, so each contributes its share, and the sum is their weighted
    mean.

    In evaluation, the loss is in `eval()` mode, and `eval_loss` is the `MetricLoss` of all rows of all
    batches and processes.

    >>> from evalign import MetricLoss
    >>> compute_loss = metric_loss(MetricLoss("f1"))
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> compute_loss({"logits": logits}, labels), compute_loss((logits,), labels, num_items_in_batch=6)
    (tensor(0.4134), tensor(0.2067))
    """
    evaluation = _Evaluation(loss) if isinstance(loss, MetricLoss) else None

    def compute_loss(
        outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        if labels is None:
            hint = "Does TrainingArguments need label_names=['labels']?"
            raise expected("labels", "in every batch", "None", hint)
        # A `Trainer` always evaluates without gradients, and nothing else here says that it evaluates.
        learns = torch.is_grad_enabled()
        loss.train(learns)
        logits = _class_logits(_logits(outputs), labels)
        loss.to(logits.device)  # the Trainer moves only the model
        if evaluation is not None and not learns and GradientState().in_dataloader:
            share = _share(labels, num_items_in_batch, joint=True)
            return evaluation.update(logits, labels) * (share if share else 1 / world_size())
        if evaluation is not None:
            evaluation.stop()
        value: Tensor = loss(logits, labels)
        return value * _share(labels, num_items_in_batch, joint=learns and getattr(loss, "sync", False))

    return compute_loss


class _Evaluation:
    """The loss of all rows of an evaluation, as values of which the `Trainer` takes the mean.

    The `Trainer` repeats the value of a batch for each of its rows, and gathers them from all processes. The
    last batch is filled up with rows of the first, which are left out here as in `gather_for_metrics`.
    """

    def __init__(self, loss: MetricLoss) -> None:
        self.loss = loss
        self._running: RunningLoss | None = None
        self._loader: Any = None

    def stop(self) -> None:
        """Forget an evaluation that was interrupted."""
        self._running = self._loader = None

    def update(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The value of the next batch."""
        state = GradientState()
        if self._running is None or state.active_dataloader is not self._loader:
            self._running, self._loader = RunningLoss(self.loss), state.active_dataloader
            self._batch_size = len(labels)
        rows, weight = self._batch_size * world_size(), None
        is_last = state.end_of_dataloader
        if is_last and state.remainder > 0:
            rows = state.remainder
            first = len(labels) * (dist.get_rank() if world_size() > 1 else 0)
            weight = (first + torch.arange(len(labels), device=logits.device) < rows).float()
        value = self._running.update(logits, labels, weight, rows=rows)
        if is_last:
            self.stop()
        return value.to(torch.float32)


def _share(labels: Tensor, items: Tensor | int | None, joint: bool) -> Tensor | float:
    """The share of a batch in the value of a step: its items divided by those of all micro-batches.

    A `joint` value is that of all processes, and so is its share. With `average_tokens_across_devices`, the
    items of all processes are counted in each of them, and the `Trainer` multiplies by their number.
    """
    if items is None:
        return 1.0
    both = torch.stack([labels.ne(-100).sum(), torch.as_tensor(items, device=labels.device)])
    if joint and world_size() > 1:
        dist.all_reduce(both)
    return both[0] / both[1].clamp_min(1)


def metric_scores(**metrics: MetricLike) -> Callable[..., dict[str, float]]:
    """Turn metrics into the `compute_metrics` of a `Trainer`, counted over all rows.

    With `TrainingArguments(batch_eval_metrics=True)`, batches are counted as they come, and the logits of the
    evaluation data are never collected in memory. The names become `eval_f1` and so on.

    >>> from transformers import EvalPrediction
    >>> compute_metrics = metric_scores(f1="f1", recall="recall")
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.5, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> compute_metrics(EvalPrediction(logits[:1], labels[:1]), compute_result=False)
    {}
    >>> compute_metrics(EvalPrediction(logits[1:], labels[1:]), compute_result=True)
    {'f1': 0.6666666666666666, 'recall': 0.5}
    """
    accumulator = MetricAccumulator(metrics)

    def compute_metrics(prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        labels = torch.as_tensor(prediction.label_ids)
        logits = torch.as_tensor(_logits(prediction.predictions))
        accumulator.update(_class_logits(logits, labels), labels)
        if not compute_result:
            return {}
        scores = {name: float(value) for name, value in accumulator.compute().items()}
        accumulator.reset()
        return scores

    return compute_metrics


def _class_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """The logits with the classes in the second dimension; with one label per token they come last."""
    return logits.mT if logits.ndim == 3 and labels.ndim == 2 else logits


def _logits(outputs: Any) -> Tensor:
    """The logits in a model's output: a dict or `ModelOutput`, a tuple without a loss, or a tensor."""
    if isinstance(outputs, dict):
        if "logits" not in outputs:
            raise expected("outputs", "with 'logits'", ", ".join(outputs) or "nothing")
        outputs = outputs["logits"]
    logits: Tensor = outputs[0] if isinstance(outputs, tuple | list) else outputs
    return logits


class AnnealCallback(TrainerCallback, ExportableState):
    """Cool a loss when evaluation stalls, and stop when that no longer helps.

    At the end, the model's weights and the temperature of the best evaluation are restored. See `Anneal` for
    when it cools and stops.

    Checkpoints contain the temperature, the memory and the multipliers of the loss (in `trainer_state.json`)
    and the best weights so far (in `best.safetensors`), so `train(resume_from_checkpoint=...)` resumes as if
    there had been no interruption.

    Args:
        loss: The loss object that was passed to `metric_loss`.
        monitor: The evaluation metric that decides when to cool and which weights are best.
        mode: Whether to minimise (`"min"`) or maximise (`"max"`) it. `"auto"` knows losses and common
            metrics by their names, such as `"eval_loss"`, `"eval_accuracy"` and `"eval_f1"`.
        restore_best: Whether to keep and restore the best weights. Use False with
            `load_best_model_at_end`, which restores weights of its own choice.
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
        self,
        loss: HasTemperature,
        monitor: str = "eval_loss",
        mode: str = "auto",
        restore_best: bool = True,
        **settings: Any,
    ) -> None:
        if loss is None:  # the Trainer is about to replace this callback by a copy made from `state`
            hint = "Use restore_callback_states_from_checkpoint=False: it restores its state by itself."
            raise expected("loss", "that was passed to `metric_loss`", None, hint)
        self.monitor = monitor
        self.restore_best = restore_best
        self.settings = {"mode": resolve_mode(mode, monitor), **settings}
        self.anneal = Anneal(loss, **self.settings)
        self._best: _Best | None = None
        self._seen: set[str] = set()
        self._is_training = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start at the highest temperature, or where the checkpoint was written."""
        if args.eval_strategy == "no":
            raise expected("eval_strategy", "to be 'epoch' or 'steps'", "'no'")
        if self.restore_best and args.load_best_model_at_end:
            hint = "Both restore weights at the end; the Trainer's choice is also kept as a checkpoint."
            raise expected("restore_best", "to be False with load_best_model_at_end=True", True, hint)
        self._best, self._seen, self._is_training = None, set(), True
        if state.global_step:
            self._resume(args, state, kwargs["model"])
        self.anneal = Anneal(self.anneal.loss, **self.settings)  # after the loss was restored
        for entry in state.log_history:
            if self.monitor in entry:
                self.anneal.step(entry[self.monitor])

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Cool the loss or stop, depending on the monitored value."""
        if not self._is_training:  # `evaluate` was called directly
            return
        metrics, temperature = kwargs["metrics"], self.anneal.temperature
        self._seen |= metrics.keys()
        if self.monitor not in metrics:  # another of several evaluation sets may have it
            return
        self.anneal.step(metrics[self.monitor])
        if self.anneal.improved and self.restore_best:
            weights = copy.deepcopy(kwargs["model"].state_dict())
            self._best = _Best(state.global_step, temperature, weights)
        control.should_training_stop = control.should_training_stop or self.anneal.done

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise an error if no evaluation set had the monitored value."""
        if self._seen and self.monitor not in self._seen:
            there = f"Available: {', '.join(sorted(self._seen))}."
            raise expected("monitor", "to be a metric of the evaluation", repr(self.monitor), there)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Store the best weights in the checkpoint, unless they are the checkpoint's own."""
        folder = _checkpoint_folder(args, state)
        best = self._best
        if best is not None and best.step != state.global_step and args.should_save and folder.is_dir():
            tensors = {name: value for name, value in best.weights.items() if isinstance(value, Tensor)}
            write_file(folder / BEST, pack_tensors(tensors))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restore the best weights."""
        self._is_training = False
        self.on_step_begin(args, state, control)
        if self._best is not None:
            self.anneal.loss.temperature = self._best.temperature
            kwargs["model"].load_state_dict(self._best.weights)
            self._best = None

    def state(self) -> dict[str, Any]:
        """What the `Trainer` stores in a checkpoint, as JSON."""
        best, loss = self._best, self.anneal.loss
        tensors = module_tensors(loss, "loss") if isinstance(loss, nn.Module) else {}
        attributes = {
            "monitor": self.monitor,
            "loss": b64encode(pack_tensors(tensors)).decode(),
            "best": None if best is None else {"step": best.step, "temperature": best.temperature},
        }
        return {"args": {"loss": None}, "attributes": attributes}

    def _resume(self, args: TrainingArguments, state: TrainerState, model: nn.Module) -> None:
        """Restore what `state` and `on_save` stored; the temperature follows from the log."""
        stored = _stored_state(state, type(self).__name__, self.monitor)
        if stored is None:  # the checkpoint was written without this callback
            return
        if isinstance(self.anneal.loss, nn.Module):
            tensors = unpack_tensors(b64decode(stored["loss"]))
            self.anneal.loss.load_state_dict(take_prefix(tensors, "loss"), strict=False)
        if stored["best"] is not None and self.restore_best:
            weights = _load_best(args, state, stored["best"]["step"], model)
            self._best = None if weights is None else _Best(**stored["best"], weights=weights)


@dataclass(frozen=True)
class _Best:
    """The best weights so far."""

    step: int
    temperature: float
    weights: dict[str, Any]


def _stored_state(state: TrainerState, name: str, monitor: str) -> dict[str, Any] | None:
    """The newest state that a callback of this name and monitor stored in a checkpoint."""
    callbacks: Any = state.stateful_callbacks
    stored = callbacks.get(name, [])
    for entry in reversed(stored if isinstance(stored, list) else [stored]):
        attributes: dict[str, Any] = entry["attributes"]
        if attributes["monitor"] == monitor:
            return attributes
    return None


def _checkpoint_folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def _load_best(
    args: TrainingArguments, state: TrainerState, step: int, model: nn.Module
) -> dict[str, Any] | None:
    """The best weights at the time of the checkpoint: the model's own, or those that `on_save` wrote."""
    weights = copy.deepcopy(model.state_dict())
    if step == state.global_step:
        return weights
    file = _checkpoint_folder(args, state) / BEST
    if not file.exists():
        warnings.warn(
            f"Found no {file} with the best weights so far, those of step {step}; only better ones will be "
            "restored at the end. Resume with the `output_dir` that contains the checkpoint.",
            stacklevel=2,
        )
        return None
    return {**weights, **unpack_tensors(file.read_bytes())}
