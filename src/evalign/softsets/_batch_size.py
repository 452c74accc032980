"""How many rows a batch needs for a reliable confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalign._errors import check_integer, expected


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A recommended number of rows and its reasons."""

    #: The recommended rows per batch: the larger of the two numbers below.
    rows: int
    #: Rows for which no cell of C/n is off by more than the tolerance, by Hoeffding's inequality.
    rows_for_tolerance: int
    #: Rows for which every class occurs at least once with the requested confidence.
    rows_for_rarest: int
    #: The bound sqrt(log(2 d^2 / (1 - confidence)) / (2 rows)) at `rows`.
    bound: float


def batch_size_advice(
    num_classes: int,
    class_shares: Sequence[float] | None = None,
    tolerance: float = 0.05,
    confidence: float = 0.95,
) -> BatchSizeAdvice:
    """Recommend a batch size for training on a function of the confusion matrix.

    With probability `confidence`, max|C_n/n - C| <= sqrt(log(2 d^2 / (1 - confidence)) / (2 n)). The
    recommended n brings this bound below `tolerance` and also contains every class: the probability that
    class k is missing from n rows is (1 - share_k)^n, and the sum over classes stays below 1 - confidence.

    >>> batch_size_advice(2, [0.98, 0.02], tolerance=0.1)
    BatchSizeAdvice(rows=254, rows_for_tolerance=254, rows_for_rarest=149, bound=0.0999524...)

    References:
        Li et al. (2025), EAST, theorem 5.8.
    """
    check_integer(2, num_classes=num_classes)
    for name, value in (("tolerance", tolerance), ("confidence", confidence)):
        if not 0 < value < 1:
            raise expected(name, "in (0, 1)", value)
    failure = 1 - confidence
    log_term = math.log(2 * num_classes**2 / failure)
    for_tolerance = math.ceil(log_term / (2 * tolerance**2))
    for_rarest = 1 if class_shares is None else _rows_to_see_all(num_classes, class_shares, failure)
    rows = max(for_tolerance, for_rarest)
    return BatchSizeAdvice(rows, for_tolerance, for_rarest, math.sqrt(log_term / (2 * rows)))


def _rows_to_see_all(num_classes: int, class_shares: Sequence[float], failure: float) -> int:
    shares = [float(share) for share in class_shares]
    if len(shares) != num_classes or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-3:
        raise expected("class_shares", f"to be {num_classes} positive shares with sum 1", shares)

    def failure_at(rows: int) -> float:
        return sum((1 - share) ** rows for share in shares)

    high = 1
    while failure_at(high) > failure:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failure_at(middle) > failure else (low, middle)
    return high
