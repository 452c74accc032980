"""What a rule is fitted for: the best metric among the rules that satisfy the constraints."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from evalign.metrics import Constraint, Metric

#: The most numbers of confusion matrices evaluated at once; more are evaluated in parts to bound memory.
BLOCK = 1 << 22

#: Smaller differences of values and slacks are rounding; a smaller violation counts as satisfied.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Standing:
    """How good a rule is: rules that satisfy the constraints rank above all that do not."""

    slack: float
    value: float

    @property
    def feasible(self) -> bool:
        """Whether the constraints are satisfied."""
        return self.slack >= 0

    def above(self, other: Standing) -> bool:
        """Whether this is better by more than rounding.

        >>> Standing(slack=0.0, value=0.1).above(Standing(slack=-0.1, value=0.9))
        True
        """
        # Among rules that satisfy the constraints, the amount of slack does not matter.
        own, others = min(self.slack, 0.0), min(other.slack, 0.0)
        if own != others and not abs(own - others) <= ROUNDING:
            return own > others
        if not math.isfinite(other.value):
            return self.value > other.value
        return self.value > other.value + 1e-12 * max(1.0, abs(other.value))


@dataclass(frozen=True)
class Goal:
    """A metric and its constraints; with `labels`, matrices are (..., L, 2, 2).

    With `confidence`, a constraint must be satisfied not only on the rows at hand but, at that confidence,
    on new rows: its slack is reduced by the normal quantile times its standard error. This is the error of
    a multinomial sample of `rows` rows by the delta method (treating labels as independent), at counts
    shrunk towards the middle class by class, as Agresti and Coull do, so that three right out of three do
    not count as certainty.

    With `sample`, thresholds are judged by the metric that a sample with this share of the rows can be
    expected to have; see `fit_rule`.

    References:
        Agresti and Coull (1998), Approximate is better than "exact" for interval estimation of
        binomial proportions.
    """

    metric: Metric
    constraints: tuple[Constraint, ...] = ()
    confidence: float | None = None
    rows: float = math.inf
    labels: bool = False
    sample: float = 0.0

    def evaluate(self, matrices: Tensor, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The slack of the tightest constraint and the value (higher is better) of each matrix in a batch.

        Constraints are judged by the matrices `counted` by labels, if the others are not.
        """
        block = max(1, BLOCK // matrices[0].numel())
        sides = matrices, matrices if counted is None else counted
        if len(matrices) <= block:
            return self._evaluate(*sides)
        parts = zip(*(torch.split(side, block) for side in sides), strict=True)
        slacks, values = zip(*(self._evaluate(*part) for part in parts), strict=True)
        return torch.cat(slacks), torch.cat(values)

    def standing(self, matrix: Tensor) -> Standing:
        """The standing of one matrix."""
        slack, value = self.evaluate(matrix[None])
        return Standing(float(slack[0]), float(value[0]))

    def best(self, matrices: Tensor, prefer: Tensor, counted: Tensor | None = None) -> int:
        """The index of the best matrix; among equals, the one with the smallest `prefer`."""
        return self.choose(*self.evaluate(matrices, counted), prefer)

    def choose(self, slack: Tensor, value: Tensor, prefer: Tensor) -> int:
        """The index of the best pair of slack and value; among equals, the one with the smallest `prefer`."""
        if self.constraints:
            tied = _top(slack.clamp_max(0.0), ROUNDING)
            tied &= _top(value.masked_fill(~tied, -math.inf), 1e-12)
        else:
            tied = _top(value, 1e-12)
        return int(torch.where(tied, prefer.to(value), math.inf).argmin())

    def value(self, matrix: Tensor) -> float:
        """The metric itself, without a change of sign."""
        return float(self._of(self.metric)(matrix))

    def _evaluate(self, matrices: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
        value = self.metric.sign * self._of(self.metric)(matrices)
        slack = torch.full_like(value, math.inf)
        for constraint in self.constraints:
            slack = torch.minimum(slack, self.slack(constraint, counted))
        if self.constraints:
            slack = slack.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
            slack = slack.masked_fill(slack.abs() <= ROUNDING, 0.0)
        # A metric that is not finite is undefined, and ranks below everything else.
        return slack, value.masked_fill(~value.isfinite(), -math.inf)

    def slack(self, constraint: Constraint, matrices: Tensor) -> Tensor:
        """The slack of a constraint for each matrix; negative where it is violated."""
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
        confident = constraint.sign * (middle.detach() - constraint.bound) - z * variance.clamp_min(0).sqrt()
        return torch.minimum(plain, confident)

    def _of(self, metric: Metric) -> Callable[[Tensor], Tensor]:
        return metric.over_labels if self.labels else metric


def _top(scores: Tensor, rounding: float) -> Tensor:
    """Which scores are the largest, up to rounding."""
    top = float(scores.max())
    return scores == top if math.isinf(top) else scores >= top - rounding * max(1.0, abs(top))


def _middle(matrices: Tensor) -> Tensor:
    """Half a right row per class, and half a wrong row spread over the other classes."""
    d = matrices.shape[-1]
    wrong = torch.full((d, d), 0.5 / (d - 1), dtype=matrices.dtype, device=matrices.device)
    return wrong.fill_diagonal_(0.5)
