"""What arithmetic does to the range of a value, and to its degree in the counts."""

from __future__ import annotations

import math

#: The lowest and the highest value; infinite where there is no bound.
Range = tuple[float, float]

UNBOUNDED: Range = (-math.inf, math.inf)


def join_ranges(symbol: str, left: Range, right: Range) -> Range:
    """The range of a sum, difference, product or quotient; x / 0 is 0.

    >>> join_ranges("-", (0, 1), (0, 1)), join_ranges("/", (0, 1), (2, 4)), join_ranges("/", (0, 1), (0, 1))
    ((-1, 1), (0, 0.5), (0, inf))
    """
    (a, b), (c, d) = left, right
    if symbol == "+":
        return a + c, b + d
    if symbol == "-":
        return a - d, b - c
    if symbol == "*":
        products = [x * y if x and y else 0 for x in left for y in right]  # 0 * inf is 0 here
        return min(products), max(products)
    if c > 0 or d < 0:
        return join_ranges("*", left, (1 / d, 1 / c))
    if c >= 0 and a >= 0:
        return 0, math.inf
    return UNBOUNDED


def join_degrees(symbol: str, left: float | None, right: float | None) -> float | None:
    """The degree of a sum, difference, product or quotient; None if it has none.

    A function of the confusion matrix has degree k if M(c C) = c^k M(C) for every c > 0: counts have degree
    1, ratios of counts 0, and the sum of a count and a ratio has none.

    >>> join_degrees("/", 1, 1), join_degrees("+", 1, 1), join_degrees("+", 1, 0)
    (0, 1, None)
    """
    if left is None or right is None:
        return None
    if symbol == "*":
        return round(left + right, 9)
    if symbol == "/":
        return round(left - right, 9)
    return left if left == right else None
