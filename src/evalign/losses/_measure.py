"""What a loss measures on a batch, and how measures of several batches or processes are combined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from evalign._errors import expected
from evalign._torch import as_number, world_size


@dataclass(frozen=True)
class Measure:
    """The confusion matrices and the cross-entropy of a batch, all as means over its weight."""

    task: str
    #: With sum 1: (d, d) for classes, (thresholds, labels, 2, 2) for labels.
    confusion: Tensor
    #: The mean cross-entropy; None if the loss has no anchor.
    entropy: Tensor | None
    #: The weight of all rows.
    total: Tensor | float
    #: The matrix of the predicted classes, of the shape of `confusion`; None if the loss has no constraints.
    hard: Tensor | None = None

    @classmethod
    def join(cls, measures: Iterable[Measure]) -> Measure:
        """Combine the measures of several batches into that of all their rows, without gradient.

        >>> first = Measure("multiclass", torch.eye(2) / 2, None, total=1)
        >>> second = Measure("multiclass", torch.ones(2, 2) / 4, None, total=3)
        >>> Measure.join([first, second]).confusion
        tensor([[0.3125, 0.1875],
                [0.1875, 0.3125]])
        """
        joint: Measure | None = None
        total: Tensor | float = 0.0
        for one in measures:
            confusion = one.confusion.detach() * one.total
            entropy = None if one.entropy is None else one.entropy.detach() * one.total
            hard = None if one.hard is None else one.hard * one.total
            if joint is not None:
                if joint.confusion.shape != confusion.shape:
                    wanted = f"to give matrices of one shape, {tuple(joint.confusion.shape)}"
                    raise expected("logits", wanted, f"{tuple(confusion.shape)}")
                confusion = joint.confusion + confusion
                entropy = None if entropy is None or joint.entropy is None else joint.entropy + entropy
                hard = None if hard is None or joint.hard is None else joint.hard + hard
            total = total + one.total
            joint = cls(one.task, confusion, entropy, total, hard)
        if joint is None:
            raise expected("inputs", "with at least one micro-batch", "none")
        scale = as_number(total, joint.confusion).clamp_min(torch.finfo(torch.float32).tiny)
        entropy = None if joint.entropy is None else joint.entropy / scale
        hard = None if joint.hard is None else joint.hard / scale
        return cls(joint.task, joint.confusion / scale, entropy, total, hard)

    def double(self) -> Measure:
        """The same without gradient and in double precision, in which any number of rows can be added up."""
        dtype = torch.float32 if self.confusion.device.type == "mps" else torch.float64
        confusion, entropy, hard = (
            None if part is None else part.detach().to(dtype)
            for part in (self.confusion, self.entropy, self.hard)
        )
        assert confusion is not None
        return Measure(self.task, confusion, entropy, self.total, hard)

    def pack(self) -> Tensor:
        """The sums over rows in one vector, which can be added to that of other rows; see `unpack`."""
        parts = [self.confusion, self.hard, self.entropy]
        means = torch.cat([part.flatten() for part in parts if part is not None])
        total = as_number(self.total, means)
        return torch.cat([total.view(1), means * total])

    @classmethod
    def unpack(cls, task: str, shape: Sequence[int], sums: Tensor) -> Measure:
        """The measure of what `pack` returned; `shape` is that of the confusion matrix.

        >>> one = Measure("multiclass", torch.eye(2) / 2, torch.tensor(0.5), total=4)
        >>> Measure.unpack("multiclass", (2, 2), one.pack()).entropy
        tensor(0.5000)
        """
        total, means = sums[0], sums[1:] / sums[0].clamp_min(torch.finfo(torch.float32).tiny)
        size = math.prod(shape)
        count = means.numel() // size  # one matrix or two
        confusion, hard = (*torch.split(means[: count * size], size), None)[:2]
        entropy = means[-1] if means.numel() % size else None
        assert confusion is not None
        return cls(task, confusion.view(*shape), entropy, total, None if hard is None else hard.view(*shape))

    def across_processes(self) -> Measure:
        """Combine the measures of all processes: d x d numbers are exchanged, not the data.

        The gradient is that of this process's batch times the number of processes, since
        DistributedDataParallel averages gradients where the sum is needed.
        """
        parts = [self.confusion, self.entropy, self.hard]
        means = torch.cat([part.flatten() for part in parts if part is not None])
        own = as_number(self.total, means).detach()
        packed = torch.cat([means.detach() * own, own.view(1)])
        dist.all_reduce(packed)
        total = packed[-1]
        scale = 1 / total.masked_fill(total == 0, 1.0)
        joint = packed[:-1] * scale + (world_size() * own * scale) * (means - means.detach())
        sizes = [0 if part is None else part.numel() for part in parts]
        confusion, entropy, hard = (
            None if part is None else values.view(part.shape)
            for part, values in zip(parts, torch.split(joint, sizes), strict=True)
        )
        assert confusion is not None
        return Measure(self.task, confusion, entropy, total, None if hard is None else hard.detach())


def remember(newest: Tensor, old: Tensor | None, memory: float) -> tuple[Tensor, Tensor]:
    """The running average of matrices, and the memory to keep for the next batch.

    >>> remember(torch.eye(2), torch.zeros(2, 2), memory=0.9)[0].diagonal()
    tensor([0.1000, 0.1000])
    """
    if old is not None and old.shape != newest.shape:
        wanted = f"to give a confusion matrix of shape {tuple(old.shape)}, as before"
        raise expected("logits", wanted, f"shape {tuple(newest.shape)}")
    average = newest if old is None else memory * old + (1 - memory) * newest
    if old is not None:
        average = torch.where(newest.sum() == 0, old, average)  # no row had weight
    # A NaN must show in the loss, but must not stay in the memory.
    fallback = torch.zeros_like(newest) if old is None else old
    return average, torch.where(average.isfinite().all(), average, fallback)
