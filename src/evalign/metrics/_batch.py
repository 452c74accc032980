"""The first step of every loss and every accumulator: check a batch, and flatten it to rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evalign._errors import expected, show
from evalign._torch import Constant, check_range, poison, value_range

TASKS = ("auto", "multiclass", "binary", "multilabel")


@dataclass(frozen=True)
class Batch:
    """A batch as rows, with one column per class, or per label for binary and multilabel tasks.

    Ignored rows (for labels: cells) have target 0 and weight 0.
    """

    task: str
    #: (n, columns), or (N, S, columns) with N S rows: a view of the logits, at least float32.
    values: Tensor
    #: Class indices (n,), soft class targets (n, d), or labels (n, columns) as floats.
    targets: Tensor
    #: Weights (n,) for classes, (n, columns) for labels; a mask if some are ignored; None if all are 1.
    weight: Tensor | None

    @property
    def logits(self) -> Tensor:
        """The logits as (n, columns); a copy if they are dense, (N, columns, ...)."""
        return self.values.flatten(0, -2)

    def shares(self) -> tuple[Tensor, Tensor | float]:
        """The weights divided by their sum (all 0 if the sum is 0), and the sum."""
        if self.weight is None:
            shape = self.targets.shape[:1] if self.task == "multiclass" else self.targets.shape
            return self.values.new_full(shape, 1 / max(shape.numel(), 1)), shape.numel()
        weight = self.weight.to(self.values.dtype)
        total = weight.sum()
        return weight / total.clamp_min(torch.finfo(total.dtype).tiny), total

    def one_against_rest(self) -> Batch:
        """Classes as labels: the log-odds of each class against the rest; of two classes, of the second.

        >>> rows = as_batch(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([2]))
        >>> rows.one_against_rest().logits.sigmoid(), rows.one_against_rest().targets
        (tensor([[0.3333, 0.3333, 0.3333]]), tensor([[0., 0., 1.]]))
        """
        if self.task != "multiclass":
            return self
        logits, d = self.logits, self.logits.shape[1]
        soft = self.targets.ndim == 2
        labels = self.targets if soft else F.one_hot(self.targets, d).to(logits.dtype)
        if d == 2:
            logits, labels = (logits[:, 1] - logits[:, 0]).unsqueeze(1), labels[:, 1:]
        else:
            logits = _log_odds(logits)
        weight = None if self.weight is None else self.weight.unsqueeze(1).expand_as(logits)
        return Batch("binary" if d == 2 else "multilabel", logits, labels, weight)


def _log_odds(logits: Tensor) -> Tensor:
    """The log-odds of each class against the rest: the sum over the rest is 1 - p, but for the largest."""
    top = logits.argmax(-1, keepdim=True)
    is_top = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, top, value=True)
    whole = logits.logsumexp(-1, keepdim=True)
    rest = whole + torch.log1p(-(logits - whole).exp().masked_fill(is_top, 0.0))
    rest_of_top = logits.masked_fill(is_top, -torch.inf).logsumexp(-1, keepdim=True)
    return logits - torch.where(is_top, rest_of_top, rest)


def as_batch(
    logits: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None = None,
    *,
    task: str = "auto",
    class_weight: Constant | None = None,
    ignore_index: int | None = None,
) -> Batch:
    """Check a batch and flatten it to rows.

    >>> rows = as_batch(torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long))
    >>> rows.task, rows.logits.shape, rows.targets.shape
    ('multiclass', torch.Size([32, 3]), torch.Size([32]))
    """
    _check_tensors(logits.device, targets=targets, sample_weight=sample_weight)
    if not logits.is_floating_point() or logits.ndim == 0:
        raise expected(
            "logits", "of a floating type with one row per target", f"{logits.dtype}, {logits.ndim}-d"
        )
    task = _task(logits, targets) if task == "auto" else task
    values = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    if task == "multiclass":
        rows = _classes(values, targets, class_weight, ignore_index)
        cells: Sequence[int] = (logits.shape[0], *logits.shape[2:])
    else:
        rows = _labels(task, values, targets, class_weight, ignore_index)
        cells = targets.shape
    if sample_weight is None:
        return rows
    weight = _cell_weight(sample_weight.to(values.dtype), cells)
    shape = rows.targets.shape if task != "multiclass" else rows.targets.shape[:1]
    weight = _flatten(weight) if task == "multilabel" else weight.reshape(shape)
    weight = weight if rows.weight is None else weight * rows.weight
    return Batch(rows.task, rows.values, rows.targets, weight)


@torch.no_grad()
def count_batch(rows: Batch, weight: Tensor, levels: Tensor | float = 0.5) -> Tensor:
    """The confusion matrix of predicted classes: by the largest logit, or for labels by the thresholds.

    (d, d) for classes, (thresholds, labels, 2, 2) for labels, in the type of `weight`, which weights rows or
    cells. It is NaN if a logit is NaN.

    >>> rows = as_batch(torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 1, 1]))
    >>> count_batch(rows, torch.ones(3))
    tensor([[1., 0.],
            [1., 1.]])
    """
    if rows.task != "multiclass":
        thresholds = torch.as_tensor(levels, dtype=rows.logits.dtype, device=rows.logits.device).view(
            -1, 1, 1
        )
        inside = (rows.logits.sigmoid().mT >= thresholds).to(weight.dtype)
        truth = rows.targets.mT.to(weight.dtype)
        actual = torch.stack([1 - truth, truth], -2) * weight.mT.unsqueeze(-2)
        return actual @ torch.stack([1 - inside, inside], -1) + poison(rows.logits).to(weight.dtype)
    d, predicted = rows.logits.shape[1], rows.logits.argmax(-1)
    if rows.targets.ndim == 2:
        mass = (rows.targets.to(weight.dtype) * weight.unsqueeze(-1)).mT
        matrix = weight.new_zeros(d, d).index_add(1, predicted, mass)
    else:
        matrix = weight.new_zeros(d * d).index_add(0, rows.targets * d + predicted, weight).view(d, d)
    return matrix + poison(rows.logits.amax(-1)).to(weight.dtype)


def check_class_weights(class_weight: Sequence[float] | Tensor | None) -> Constant | None:
    """Check class weights: one per class, none negative, not all 0.

    >>> check_class_weights([1, 5]).values
    [1.0, 5.0]
    """
    if class_weight is None:
        return None
    wanted = "with one weight >= 0 per class"
    try:
        given = class_weight.tolist() if isinstance(class_weight, Tensor) else class_weight
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        hint = "See class_balanced_weights." if class_weight == "balanced" else ""
        raise expected("class_weight", wanted, show(class_weight), hint) from None
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise expected("class_weight", wanted, weights.tolist())
    return Constant(weights)


def _check_tensors(device: torch.device, **tensors: Tensor | None) -> None:
    """Refuse what is not a tensor or is on another device, which PyTorch does not notice everywhere."""
    for name, value in tensors.items():
        if value is not None and not isinstance(value, Tensor):
            raise expected(name, "to be a tensor", f"a {type(value).__name__}")
        if value is not None and value.device != device:
            raise expected(name, f"on the device of the logits, {device}", f"{value.device}")


def _task(logits: Tensor, targets: Tensor) -> str:
    if logits.ndim == 1 or logits.shape[1] == 1:
        return "binary"
    if logits.shape != targets.shape:
        return "multiclass"
    raise expected(
        "task", "to be set for targets of the logits' shape", "'auto'",
        "Use task='multilabel' for labels; for one class per row, use class indices, or task='multiclass' "
        "with soft or one-hot targets as floats.",
    )  # fmt: skip


def _classes(
    logits: Tensor, targets: Tensor, class_weight: Constant | None, ignore_index: int | None
) -> Batch:
    if logits.ndim < 2 or logits.shape[1] < 2:
        raise expected("logits", "of shape (N, d, ...) with d >= 2", f"shape {tuple(logits.shape)}")
    d, cells = logits.shape[1], (logits.shape[0], *logits.shape[2:])
    if class_weight is not None and len(class_weight.values) != d:
        raise expected("class_weight", f"with one weight for each of {d} classes", len(class_weight.values))
    flat = logits if logits.ndim == 2 else logits.flatten(2).movedim(1, -1)
    if targets.shape == logits.shape and targets.is_floating_point():
        soft = _flatten(targets).to(flat.dtype)
        check_range("targets", soft, 0, 1)
        soft = soft if class_weight is None else soft * class_weight.like(soft)
        mass = soft.sum(-1)
        return Batch("multiclass", flat, soft / mass.masked_fill(mass == 0, 1.0).unsqueeze(-1), mass)
    if targets.shape != cells:
        raise expected("targets", f"of shape {cells}", f"shape {tuple(targets.shape)}")
    if targets.is_floating_point():
        raise expected("targets", "to be class indices of an integer type", targets.dtype)
    indices = (targets if targets.ndim == 1 else targets.reshape(-1)).long()
    indices, weight = _mask_ignored(indices, d - 1, ignore_index)
    if class_weight is not None:
        of_class = class_weight.like(flat)[indices]
        weight = of_class if weight is None else weight * of_class
    return Batch("multiclass", flat, indices, weight)


def _labels(
    task: str, logits: Tensor, targets: Tensor, class_weight: Constant | None, ignore_index: int | None
) -> Batch:
    if class_weight is not None and len(class_weight.values) != 2:
        raise expected("class_weight", "with two weights, for 0 and for 1", len(class_weight.values))
    if task == "binary":
        logits = _one_logit(logits, targets)
        flat, labels = logits.reshape(-1, 1), targets.reshape(-1, 1)
    else:
        if logits.ndim < 2 or logits.shape != targets.shape:
            wanted = f"of the logits' shape {tuple(logits.shape)}, (N, labels, ...)"
            raise expected("targets", wanted, f"shape {tuple(targets.shape)}")
        flat, labels = _flatten(logits), _flatten(targets)
    labels, weight = _mask_ignored(labels.to(flat.dtype), 1, ignore_index)
    if class_weight is not None:
        of_zero, of_one = class_weight.like(flat)
        of_class = of_zero + (of_one - of_zero) * labels
        weight = of_class if weight is None else weight * of_class
    return Batch(task, flat, labels, weight)


def _one_logit(logits: Tensor, targets: Tensor) -> Tensor:
    """One logit per target; of two logits, as a softmax network has them, the difference."""
    if logits.shape == targets.shape:
        return logits
    if logits.ndim > 1 and targets.shape == (logits.shape[0], *logits.shape[2:]):
        if logits.shape[1] == 1:
            return logits.squeeze(1)
        if logits.shape[1] == 2:
            return logits[:, 1] - logits[:, 0]
    raise expected(
        "targets", f"to match binary logits of shape {tuple(logits.shape)}", f"shape {tuple(targets.shape)}"
    )


def _mask_ignored(targets: Tensor, highest: int, ignore_index: int | None) -> tuple[Tensor, Tensor | None]:
    """The targets with 0 where they are ignored, and a mask of the others; None if none is ignored."""
    extremes = value_range(targets)
    inside = extremes is not None and extremes[0] >= 0 and extremes[1] <= highest
    if ignore_index is None or (inside and not 0 <= ignore_index <= highest):
        keep = None
    else:
        keep = targets != ignore_index
        targets = targets * keep
    # An accelerator itself stops the program at a class index out of range.
    if not inside and (extremes is not None or targets.is_floating_point()):
        check_range("targets", targets, 0, highest, f"ignore_index is {ignore_index}.")
    return targets, keep


def _cell_weight(sample_weight: Tensor, cells: Sequence[int]) -> Tensor:
    if sample_weight.shape == (cells[0],) and len(cells) > 1:
        sample_weight = sample_weight.view(-1, *[1] * (len(cells) - 1)).expand(*cells)
    if sample_weight.shape != tuple(cells):
        wanted = f"of shape {(cells[0],)}" + (f" or {tuple(cells)}" if len(cells) > 1 else "")
        raise expected("sample_weight", wanted, f"shape {tuple(sample_weight.shape)}")
    largest = torch.finfo(sample_weight.dtype).max
    check_range("sample_weight", sample_weight, 0, largest, wanted="to be finite numbers >= 0")
    return sample_weight


def _flatten(values: Tensor) -> Tensor:
    """Flatten (N, columns, ...) to (n, columns)."""
    return values if values.ndim == 2 else values.movedim(1, -1).reshape(-1, values.shape[1])
