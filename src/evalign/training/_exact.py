"""The exact gradient of a metric over any amount of data, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from evalign._errors import check_integer, expected
from evalign._torch import as_number, world_size
from evalign.losses import Measure, MetricLoss

MicroBatch = tuple[Tensor, Tensor, Tensor | None]
_TINY = torch.finfo(torch.float32).tiny


class ExactStep:
    """Backpropagate a metric over a batch of any size, one micro-batch at a time.

    A metric is not a mean over rows, so gradients of micro-batches cannot simply be added. Pass 1 counts
    the confusion matrix C of all rows without gradients; then W = dL/dC is computed once; pass 2
    backpropagates <W, C of the micro-batch> for each micro-batch. The sum is the gradient of one big batch.

    Pass 2 uses the random numbers of pass 1 again, so that dropout drops the same units, and the model's
    buffers (such as running means) are updated only once. A layer that mixes the rows of a batch, such as
    batch normalisation in training mode, still sees micro-batches rather than the whole batch.

    Under an initialised `torch.distributed` group, C is summed over all processes, and with a model in
    `DistributedDataParallel` the gradients are exchanged once, at the last micro-batch.

    Args:
        model: The network, called with the inputs of a micro-batch.
        loss: A `MetricLoss` with `memory=0`.
        micro_batch: Rows per micro-batch if `backward` receives whole tensors.
        scaler: The `torch.amp.GradScaler` of training in float16: gradients are scaled by it, so step the
            optimiser by `scaler.step(optimizer)` and `scaler.update()`.

    >>> from evalign import MetricLoss
    >>> _ = torch.manual_seed(0)
    >>> model, x, y = nn.Linear(3, 2), torch.randn(1000, 3), torch.randint(0, 2, (1000,))
    >>> value = ExactStep(model, MetricLoss("f1"), micro_batch=64).backward(x, y)
    >>> exact = model.weight.grad.clone()
    >>> model.zero_grad(); MetricLoss("f1")(model(x), y).backward()
    >>> torch.allclose(exact, model.weight.grad, atol=1e-6)
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: MetricLoss,
        micro_batch: int = 4096,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        if not isinstance(loss, MetricLoss):
            raise expected("loss", "to be a MetricLoss", type(loss).__name__)
        if loss.memory:
            raise expected("loss", "with memory=0, since every step sees all rows", loss.memory)
        check_integer(micro_batch=micro_batch)
        self.model, self.loss, self.micro_batch, self.scaler = model, loss, micro_batch, scaler

    def backward(
        self,
        inputs: Tensor | Iterable[Any],
        targets: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Add the gradient of the loss over all rows to the parameters; return the loss.

        Pass tensors of all rows, or as `inputs` an iterable that can be read twice (a list, a `DataLoader`)
        of (inputs, targets) or (inputs, targets, sample_weight).
        """
        batches = self._batches(inputs, targets, sample_weight)
        replay = _Replay(self.model)
        with torch.no_grad(), replay.record():
            whole = Measure.join(self.loss.measure(self.model(x), y, w) for x, y, w in batches)
        if self.loss.sync and world_size() > 1:
            whole = whole.across_processes()
        with torch.enable_grad():
            point = whole.confusion.requires_grad_()
            value = self.loss.objective(point, whole.task)
            (slope,) = torch.autograd.grad(value, point)
        self.loss.update_multipliers(whole)
        with replay.again():
            self._second_pass(batches, slope, whole.total)
        value = value.detach()
        return value if whole.entropy is None else value + self.loss.anchor * whole.entropy

    def _second_pass(self, batches: Iterable[MicroBatch], slope: Tensor, total: Tensor | float) -> None:
        """Backpropagate; DistributedDataParallel exchanges gradients only at the last micro-batch."""
        without_sync = getattr(self.model, "no_sync", nullcontext)
        waiting: MicroBatch | None = None
        for batch in batches:
            if waiting is not None:
                with without_sync():
                    self._backward_one(waiting, slope, total)
            waiting = batch
        if waiting is not None:
            self._backward_one(waiting, slope, total)

    def _backward_one(self, batch: MicroBatch, slope: Tensor, total: Tensor | float) -> None:
        inputs, targets, weight = batch
        part = self.loss.measure(self.model(inputs), targets, weight)
        value = (slope * part.confusion).sum()
        if part.entropy is not None:
            value = value + self.loss.anchor * part.entropy
        world = world_size() if self.loss.sync else 1
        # Without any weight the matrix and its gradient are 0; a test of the total would wait for the device.
        share = as_number(part.total, value) / as_number(total, value).clamp_min(_TINY)
        value = world * share.detach() * value
        value = value if self.scaler is None else self.scaler.scale(value)
        value.backward()  # type: ignore[no-untyped-call]

    def _batches(
        self, inputs: Tensor | Iterable[Any], targets: Tensor | None, sample_weight: Tensor | None
    ) -> Iterable[MicroBatch]:
        if isinstance(inputs, Tensor):
            if targets is None or inputs.shape[:1] != targets.shape[:1] or inputs.shape[0] == 0:
                got = None if targets is None else f"shape {tuple(targets.shape)}"
                raise expected("targets", f"with a row for each of {len(inputs)} inputs, at least one", got)
            return _Split(inputs, targets, sample_weight, self.micro_batch)
        if targets is not None or sample_weight is not None:
            raise expected("targets", "and `sample_weight` inside the micro-batches", "them as arguments")
        if isinstance(inputs, Iterator):
            raise expected("inputs", "that can be read twice, such as a list", type(inputs).__name__)
        return _Triples(inputs)


class _Split:
    """Tensors split into micro-batches, again on each iteration."""

    def __init__(self, inputs: Tensor, targets: Tensor, weight: Tensor | None, size: int) -> None:
        self.parts = (inputs, targets, weight)
        self.size = size

    def __iter__(self) -> Iterator[MicroBatch]:
        inputs, targets, weight = self.parts
        for start in range(0, inputs.shape[0], self.size):
            cut = slice(start, start + self.size)
            yield inputs[cut], targets[cut], None if weight is None else weight[cut]


class _Triples:
    """The user's micro-batches, with None if there is no weight."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[MicroBatch]:
        for batch in self.batches:
            if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
                raise expected(
                    "inputs", "to contain (inputs, targets) or (inputs, targets, weight)", type(batch)
                )
            yield batch[0], batch[1], batch[2] if len(batch) == 3 else None


class _Replay:
    """Run a model twice with the same random numbers and the same buffers."""

    def __init__(self, model: nn.Module) -> None:
        self.buffers = list(model.buffers())
        self.devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})

    @contextmanager
    def record(self) -> Iterator[None]:
        """Remember the random state and the buffers, and restore the buffers at the end."""
        self.cpu = torch.get_rng_state()
        self.cuda = [torch.cuda.get_rng_state(device) for device in self.devices]
        saved = [buffer.clone() for buffer in self.buffers]
        try:
            yield
        finally:
            for buffer, value in zip(self.buffers, saved, strict=True):
                buffer.copy_(value)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore the remembered random state."""
        torch.set_rng_state(self.cpu)
        for device, state in zip(self.devices, self.cuda, strict=True):
            torch.cuda.set_rng_state(state, device)
        yield
