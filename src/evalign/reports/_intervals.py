"""How far a metric could lie elsewhere on other rows: the bootstrap of a confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evalign._typing import Floats
from evalign.metrics import Metric
from evalign.reports._held import values

#: Matrices drawn; fewer for so many classes that they would hold more numbers than these.
DRAWS, FEWEST, NUMBERS = 2000, 400, 1 << 26

#: Numbers of matrices held at a time.
BLOCK = 1 << 22


def intervals(matrix: Floats, metrics: Mapping[str, Metric], seed: int = 0) -> dict[str, dict[str, Any]]:
    """Each metric of a confusion matrix with its 95 % interval.

    To draw n rows with replacement and to count them is one multinomial draw of n with the cells' shares:
    nothing else of the rows is needed.

    >>> from evalign import metrics
    >>> found = intervals(np.array([[80.0, 20.0], [10.0, 90.0]]), {"accuracy": metrics.accuracy()})
    >>> found["accuracy"]["value"], 0.79 < found["accuracy"]["low"] < 0.82
    (0.85, True)

    References:
        Efron and Tibshirani (1993), An introduction to the bootstrap, chapter 13.
    """
    drawn = {name: np.empty(0) for name in metrics}
    generator = np.random.default_rng(seed)
    d = len(matrix)
    left = min(DRAWS, max(FEWEST, NUMBERS // (d * d)))
    while left > 0:
        part = _draw(matrix, min(left, max(1, BLOCK // (d * d))), generator)
        drawn = {name: np.append(drawn[name], values(metric, part)) for name, metric in metrics.items()}
        left -= len(part)
    found = {}
    for name, metric in metrics.items():
        known = drawn[name][np.isfinite(drawn[name])]
        low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
        value = float(values(metric, matrix[None])[0])
        found[name] = {"value": value, "low": float(low), "high": float(high)}
    return found


def _draw(matrix: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Matrices of as many rows, drawn with replacement; cells without rows stay empty."""
    filled = np.flatnonzero(matrix)
    cells = matrix.reshape(-1)[filled]
    drawn = np.zeros((count, matrix.size))
    drawn[:, filled] = generator.multinomial(int(cells.sum()), cells / cells.sum(), size=count)
    return drawn.reshape(count, *matrix.shape)
