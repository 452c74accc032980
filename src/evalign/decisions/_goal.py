"""What a rule is fitted for: the best value of a metric among the rules that keep its constraints."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from evalign.metrics import Constraint, Metric

#: So many numbers of matrices are judged at once; more are judged in parts, to bound the memory.
BLOCK = 1 << 22

#: Values and slacks that differ by less differ by rounding; a bound missed by less is kept.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Standing:
    """How good a rule is: one that keeps the constraints stands above all that do not."""

    slack: float
    value: float

    @property
    def feasible(self) -> bool:
        """Whether the constraints are kept."""
        return self.slack >= 0

    def above(self, other: Standing) -> bool:
        """Whether this is better by more than rounding.

        >>> Standing(slack=0.0, value=0.1).above(Standing(slack=-0.1, value=0.9))
        True
        """
        # Whoever keeps the constraints keeps them, no matter by how much.
        nearer, further = min(self.slack, 0.0), min(other.slack, 0.0)
        if nearer != further and not abs(nearer - further) <= ROUNDING:
            return nearer > further
        if not math.isfinite(other.value):
            return self.value > other.value
        return self.value > other.value + 1e-12 * max(1.0, abs(other.value))


@dataclass(frozen=True)
class Goal:
    """A metric and its constraints; `labels` says that matrices are (..., L, 2, 2).

    With `confidence`, a constraint must be kept not only by the rows at hand but, at that confidence,
    by new ones: its slack is reduced by the normal quantile times its standard error. The error is that
    of a multinomial sample of `rows` rows by the delta method (labels counting as independent), at counts
    moved towards the middle as Agresti and Coull do, class by class, so that three right out of three are
    no proof.

    References:
        Agresti and Coull (1998), Approximate is better than "exact" for interval estimation of
        binomial proportions.
    """

    metric: Metric
    constraints: tuple[Constraint, ...] = ()
    confidence: float | None = None
    rows: float = math.inf
    labels: bool = False

    def judge(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """The slack of the tightest constraint and the value, higher is better, of a batch of matrices."""
        block = max(1, BLOCK // matrices[0].numel())
        slacks, values = zip(*(self._judge(part) for part in torch.split(matrices, block)), strict=True)
        return torch.cat(slacks), torch.cat(values)

    def standing(self, matrix: Tensor) -> Standing:
        """How good one matrix is."""
        slack, value = self.judge(matrix[None])
        return Standing(float(slack[0]), float(value[0]))

    def best(self, matrices: Tensor, prefer: Tensor) -> int:
        """The index of the best matrix; among equals, the one with the smallest `prefer`."""
        slack, value = self.judge(matrices)
        tied = _top(slack.clamp_max(0.0), ROUNDING)
        tied &= _top(value.masked_fill(~tied, -math.inf), 1e-12)
        return int(torch.where(tied, prefer.to(value), math.inf).argmin())

    def value(self, matrix: Tensor) -> float:
        """The metric as the user knows it."""
        return float(self._of(self.metric)(matrix))

    def _judge(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        value = self.metric.sign * self._of(self.metric)(matrices)
        slack = torch.full_like(value, math.inf)
        for constraint in self.constraints:
            slack = torch.minimum(slack, self.slack(constraint, matrices))
        slack = slack.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        slack = slack.masked_fill(slack.abs() <= ROUNDING, 0.0)
        # Where a metric is no finite number, it is not defined, and nothing is worse.
        return slack, value.masked_fill(~value.isfinite(), -math.inf)

    def slack(self, constraint: Constraint, matrices: Tensor) -> Tensor:
        """By how much each matrix keeps a constraint; negative where it misses it."""
        measure = self._of(constraint.metric)
        plain = constraint.sign * (measure(matrices) - constraint.bound)
        if self.confidence is None:
            return plain
        z = NormalDist().inv_cdf(self.confidence)
        sides = (-3, -2, -1) if self.labels else (-2, -1)
        shares = matrices / matrices.sum((-2, -1), keepdim=True)
        counts = shares * self.rows + _middle(matrices) * z * z
        with torch.inference_mode(False), torch.enable_grad():
            point = counts.clone().requires_grad_()
            middle = measure(point)
            gradient = torch.zeros_like(point)
            if middle.requires_grad:
                (gradient,) = torch.autograd.grad(middle.sum(), point, materialize_grads=True)
        total = counts.sum((-2, -1), keepdim=True)
        mean = (counts * gradient).sum((-2, -1), keepdim=True) / total
        variance = (counts * (gradient - mean).square()).sum(sides)
        sure = constraint.sign * (middle.detach() - constraint.bound) - z * variance.clamp_min(0).sqrt()
        return torch.minimum(plain, sure)

    def _of(self, metric: Metric) -> Callable[[Tensor], Tensor]:
        return metric.over_labels if self.labels else metric


def _top(scores: Tensor, rounding: float) -> Tensor:
    """Which scores are the largest, up to rounding."""
    top = float(scores.max())
    return scores == top if math.isinf(top) else scores >= top - rounding * max(1.0, abs(top))


def _middle(matrices: Tensor) -> Tensor:
    """For each class half a right and half a wrong row, spread over the other classes."""
    d = matrices.shape[-1]
    wrong = torch.full((d, d), 0.5 / (d - 1), dtype=matrices.dtype, device=matrices.device)
    return wrong.fill_diagonal_(0.5)
