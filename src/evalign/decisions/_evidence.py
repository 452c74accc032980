"""What is believed about the true class of each row: its label, its calibrated probabilities, or both.

A confusion matrix counted by labels has the noise of few rows; one counted by probabilities has their
error. The mixture C[i, j] += s [y = i] + (1 - s) q_i, for a row predicted as j, has less of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Floats, Indices
from evalign.decisions._rule import DecisionRule
from evalign.decisions._scaling import Scaling, fit_scalings, logarithms

Evidence = Literal["mixed", "labels", "probabilities"]

#: The most rows that a calibration is fitted on; its few numbers need no more.
ENOUGH = 5_000

#: Probabilities are compared with labels in at most this many groups of rows per class.
GROUPS = 10


class Fitted(NamedTuple):
    """A rule whose value is not known yet, calibrated probabilities of all rows, and their calibration.

    `anchor` is where the threshold would be if labels said nothing.
    """

    rule: DecisionRule
    q: Floats
    start: Any = None
    anchor: float = math.nan


@dataclass(frozen=True, eq=False)
class Belief:
    """Calibrated probabilities (n, d) of rows, how they were calibrated, and the share of the labels."""

    scaling: Scaling
    q: Floats
    share: float

    def mix(self, truth: Floats) -> Floats:
        """The probability of each class (n, d) after its label is known, too."""
        return np.asarray(self.share * truth + (1 - self.share) * self.q)


def collect_evidence(
    p: Floats, y: Indices, weights: Floats, kind: Evidence, start: Scaling | None = None
) -> list[Belief]:
    """Calibrate probabilities (n, d) and weigh them against labels, for each row of weights (F, n).

    >>> generator = np.random.default_rng(0)
    >>> true = generator.dirichlet(np.ones(3), 300)
    >>> y = (true.cumsum(1) > generator.random((300, 1))).argmax(1)
    >>> off = np.sqrt(true) / np.sqrt(true).sum(1, keepdims=True)   # not certain enough
    >>> (evidence,) = collect_evidence(off, y, np.ones((1, 300)), "mixed")
    >>> round(evidence.scaling.slope, 1), round(evidence.share, 1)
    (1.8, 0.0)
    """
    kept, heavier = _thin(y)
    some = weights[:, kept] * heavier
    # A set without a class, or of rows that are too light to be kept, has nothing to calibrate.
    some[some.sum(1) == 0] = 1.0
    scalings = fit_scalings(logarithms(p[kept]), y[kept], some, start)
    return [
        _compare(scaling, scaling.calibrate(p), y, weight, kind)
        for scaling, weight in zip(scalings, weights, strict=True)
    ]


def _thin(y: Indices) -> tuple[Indices, Floats]:
    """Enough rows of each class for a calibration, and how many rows each of them stands for."""
    sizes = np.bincount(y)
    limit = max(1, ENOUGH // len(sizes))
    if len(y) <= ENOUGH:
        return np.arange(len(y)), np.ones(len(y))
    rows = [np.flatnonzero(y == k) for k in range(len(sizes))]
    rows = [own[:: -(-len(own) // limit)] if len(own) else own for own in rows]
    kept = np.sort(np.concatenate(rows))
    return kept, (sizes / np.array([max(1, len(own)) for own in rows]))[y[kept]]


def _compare(scaling: Scaling, q: Floats, y: Indices, weight: Floats, kind: Evidence) -> Belief:
    share = 0.0
    if kind == "mixed":
        # Of two classes, one says all.
        columns = range(1, 2) if q.shape[1] == 2 else range(q.shape[1])
        share = label_share([(q[:, k], y == k) for k in columns], weight)
    return Belief(scaling, q, share)


def label_share(columns: list[tuple[Floats, NDArray[np.bool_]]], weight: Floats) -> float:
    """How much of each count to take from labels, by James and Stein's estimate.

    In groups of rows with similar probabilities, labels and probabilities are counted. The differences
    are as large as chance alone makes them if the probabilities are right; the share is that of the excess.

    >>> q, generator = np.linspace(0.01, 0.99, 2000), np.random.default_rng(0)
    >>> label_share([(q, generator.random(2000) < q)], np.ones(2000))
    0.0
    >>> round(label_share([(q, generator.random(2000) < q**3)], np.ones(2000)), 1)
    1.0

    References:
        James and Stein (1961), Estimation with quadratic loss.
    """
    total, count = 0.0, 0
    for q, positive in columns:
        order = np.argsort(q)
        order = order[weight[order] > 0]
        q, positive, mass = q[order], positive[order], weight[order]
        spread = np.cumsum(mass**2 * q * (1 - q))
        if len(q) == 0 or not spread[-1] > 0:
            continue
        # As many groups as have some uncertain rows each.
        effective = float((mass * q * (1 - q)).sum() ** 2 / spread[-1])
        groups = int(np.clip(effective / 2, 1, GROUPS))
        group = np.minimum((spread / spread[-1] * groups).astype(np.int64), groups - 1)
        gap = np.bincount(group, mass * (positive - q), groups)
        chance = np.bincount(group, mass**2 * q * (1 - q), groups)
        total += float((gap[chance > 0] ** 2 / chance[chance > 0]).sum())
        count += int((chance > 0).sum())
    return max(0.0, 1 - count / total) if total > 0 else 0.0
