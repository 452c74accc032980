"""What a loss measures on a batch, and how the measures of many batches or processes become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from evalign._errors import expected


@dataclass(frozen=True)
class Measure:
    """The soft confusion matrix and the cross-entropy of a batch, both as means over its weight."""

    task: str
    #: With sum 1: (d, d) for classes, (thresholds, labels, 2, 2) for labels.
    confusion: Tensor
    #: The mean cross-entropy; None if the loss has no anchor.
    entropy: Tensor | None
    #: The weight of all rows.
    total: Tensor | float


def join(measures: Iterable[Measure]) -> Measure:
    """The measure of all batches together, without gradient.

    >>> first = Measure("multiclass", torch.eye(2) / 2, None, total=1)
    >>> second = Measure("multiclass", torch.ones(2, 2) / 4, None, total=3)
    >>> join([first, second]).confusion
    tensor([[0.3125, 0.1875],
            [0.1875, 0.3125]])
    """
    joint: Measure | None = None
    total: Tensor | float = 0.0
    for one in measures:
        confusion = one.confusion.detach() * one.total
        entropy = None if one.entropy is None else one.entropy.detach() * one.total
        if joint is not None:
            if joint.confusion.shape != confusion.shape:
                wanted = f"to give matrices of one shape, {tuple(joint.confusion.shape)}"
                raise expected("logits", wanted, f"{tuple(confusion.shape)}")
            confusion = joint.confusion + confusion
            entropy = None if entropy is None or joint.entropy is None else joint.entropy + entropy
        total = total + one.total
        joint = Measure(one.task, confusion, entropy, total)
    if joint is None:
        raise expected("inputs", "with at least one micro-batch", "none")
    scale = torch.as_tensor(total).clamp_min(torch.finfo(torch.float32).tiny).to(joint.confusion)
    entropy = None if joint.entropy is None else joint.entropy / scale
    return Measure(joint.task, joint.confusion / scale, entropy, total)


def processes() -> int:
    """How many processes train together; 1 without an initialised `torch.distributed` group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def across_processes(measure: Measure) -> Measure:
    """The measure of the batches of all processes together: d x d numbers are exchanged, not the data.

    The gradient is that of this process's batch times the number of processes, since
    DistributedDataParallel averages gradients where the sum is right.
    """
    confusion, entropy = measure.confusion, measure.entropy
    means = confusion.flatten() if entropy is None else torch.cat([confusion.flatten(), entropy.view(1)])
    mine = torch.as_tensor(measure.total).to(confusion).detach()
    packed = torch.cat([means.detach() * mine, mine.view(1)])
    dist.all_reduce(packed)
    total = packed[-1]
    scale = 1 / total.masked_fill(total == 0, 1.0)
    joint = packed[:-1] * scale + (processes() * mine * scale) * (means - means.detach())
    cells = confusion.numel()
    return Measure(
        measure.task,
        joint[:cells].view(confusion.shape),
        None if entropy is None else joint[cells],
        total,
    )
