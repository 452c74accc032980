"""How much a metric would vary on other rows: the bootstrap of a confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evalign._typing import Floats
from evalign.metrics import Metric
from evalign.reports._held_out import BLOCK, evaluate
from evalign.reports.facts import Interval, as_number

#: How many matrices are sampled: fewer, down to `FEWEST`, where together they have more than `NUMBERS` cells.
SAMPLES, FEWEST, NUMBERS = 2000, 400, 1 << 26


def bootstrap(matrix: Floats, metrics: Mapping[str, Metric], seed: int = 0) -> dict[str, Interval]:
    """Each metric of a confusion matrix with its 95 % interval.

    Sampling n rows with replacement and counting them is one multinomial sample of size n with the shares
    of the cells, so the rows themselves are not needed.

    >>> from evalign import metrics
    >>> matrix = np.array([[80.0, 20.0], [10.0, 90.0]])
    >>> accuracy = bootstrap(matrix, {"accuracy": metrics.accuracy()})["accuracy"]
    >>> accuracy.value, 0.79 < accuracy.low < 0.82
    (0.85, True)

    References:
        Efron and Tibshirani (1993), An introduction to the bootstrap, chapter 13.
    """
    samples = {name: np.empty(0) for name in metrics}
    generator = np.random.default_rng(seed)
    cells = matrix.size
    left = min(SAMPLES, max(FEWEST, NUMBERS // cells))
    while left > 0:
        part = _sample(matrix, min(left, max(1, BLOCK // cells)), generator)
        samples = {name: np.append(samples[name], evaluate(metric, part)) for name, metric in metrics.items()}
        left -= len(part)
    intervals = {}
    for name, metric in metrics.items():
        finite = samples[name][np.isfinite(samples[name])]
        low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
        value = evaluate(metric, matrix[None])[0]
        intervals[name] = Interval(as_number(value), as_number(low), as_number(high))
    return intervals


def _sample(matrix: Floats, size: int, generator: np.random.Generator) -> Floats:
    """Sample matrices with the same number of rows; empty cells stay empty."""
    filled = np.flatnonzero(matrix)
    counts = matrix.reshape(-1)[filled]
    samples = np.zeros((size, matrix.size))
    samples[:, filled] = generator.multinomial(int(counts.sum()), counts / counts.sum(), size=size)
    return samples.reshape(size, *matrix.shape)
