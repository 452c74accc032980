"""Whether two classifiers differ on the same rows by more than chance."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from evalign._typing import Floats, Indices
from evalign.metrics import Metric
from evalign.reports._held_out import BLOCK, evaluate
from evalign.reports.facts import Interval, as_number

#: How many samples are drawn for an interval.
SAMPLES = 1000


def compare_decisions(
    truth: Indices, first: Indices, second: Indices, d: int, metric: Metric, n_rows: int | None = None
) -> Interval:
    """By how much the metric of the first decisions is better, with its 95 % bootstrap interval.

    Rows are sampled with both decisions, so that rows which are easy or hard for both cancel out. A row is
    one of d x d x d cells (true, first, second), and a sample of rows one multinomial sample of the cells.

    Args:
        truth: The class of each row.
        first: The decision about each row.
        second: The decisions to compare with.
        d: The number of classes.
        metric: The metric.
        n_rows: The size of a sample, if some rows are the same ones several times.

    >>> from evalign import metrics
    >>> truth = np.array([0, 1] * 50)
    >>> lead = compare_decisions(truth, truth, np.zeros(100, dtype=np.int64), 2, metrics.accuracy())
    >>> lead.value, 0.35 < lead.low < 0.45
    (0.5, True)
    """
    cells, counts = np.unique((truth * d + first) * d + second, return_counts=True)
    true, one, other = cells // (d * d), cells // d % d, cells % d
    size = len(truth) if n_rows is None else n_rows
    generator = np.random.default_rng(0)
    samples: list[Floats] = []
    left = SAMPLES if d <= 20 else SAMPLES // 5
    while left > 0:
        part = min(left, max(1, BLOCK // max(d * d, len(cells))))
        drawn = generator.multinomial(size, counts / counts.sum(), size=part).astype(np.float64)
        samples.append(_evaluate(drawn, true, one, d, metric) - _evaluate(drawn, true, other, d, metric))
        left -= part
    all_rows = counts[None].astype(np.float64)
    value = _evaluate(all_rows, true, one, d, metric) - _evaluate(all_rows, true, other, d, metric)
    return as_interval(metric.sign * value[0], metric.sign * np.concatenate(samples))


def as_interval(value: float, samples: Floats) -> Interval:
    """A value with the interval that contains 95 % of its samples."""
    finite = samples[np.isfinite(samples)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return Interval(as_number(value), as_number(low), as_number(high))


def _evaluate(counts: Floats, true: Indices, predicted: Indices, d: int, metric: Metric) -> Floats:
    """The metric of each sample, whose rows are counted by cells."""
    places = (np.arange(len(true)), true * d + predicted)
    to_matrix = sparse.csr_matrix((np.ones(len(true)), places), shape=(len(true), d * d))
    return evaluate(metric, np.ascontiguousarray(counts @ to_matrix).reshape(-1, d, d))
