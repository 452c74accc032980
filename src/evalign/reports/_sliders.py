"""What other decisions would do: another threshold, or a class with more or less weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Floats, Indices
from evalign.decisions import DecisionRule
from evalign.metrics import Constraint, Metric, sweep_thresholds
from evalign.reports._held_out import HeldOutRows, evaluate
from evalign.reports.facts import (
    ClassTrack,
    SliderFacts,
    ThresholdSlider,
    WeightSlider,
    as_numbers,
)

#: Weights of a class, a quarter of a doubling apart.
WEIGHTS = 2.0 ** np.linspace(-4, 4, 33)
#: The index of the weight 1: the model as it is.
ONE = int(np.searchsorted(WEIGHTS, 1.0))

#: The most classes with a slider, and the most classes for which matrices are stored.
MOST_CLASSES = 20

#: How many margins are computed at a time, so that they stay in a cache.
BLOCK = 1 << 16


def build_slider(
    rows: HeldOutRows, rule: DecisionRule | None, metric: Metric, constraints: Sequence[Constraint]
) -> SliderFacts | None:
    """The confusion matrix and the metric along a threshold, or along the weight of each class.

    None where decisions do not follow from the probabilities, by no rule that is known.
    """
    if rows.p is None:
        return None
    build = _build_threshold if len(rows.classes) == 2 else _build_weights
    return build(rows, rows.p, rule, metric, constraints)


def _evaluate_track(matrices: Floats, metric: Metric, constraints: Sequence[Constraint]) -> dict[str, Any]:
    """The metric, and the slack of each constraint, at every position."""
    slacks = {one.name: one.sign * (evaluate(one.metric, matrices) - one.bound) for one in constraints}
    return {
        "values": as_numbers(evaluate(metric, matrices)),
        "constraints": {name: as_numbers(slack) for name, slack in slacks.items()},
    }


def _build_threshold(
    rows: HeldOutRows, p: Floats, rule: DecisionRule | None, metric: Metric, constraints: Sequence[Constraint]
) -> ThresholdSlider | None:
    scores, positive = p[:, 1], rows.truth == 1
    own = find_threshold(scores, rows.predicted == 1, rule)
    exact = own is not None
    if own is None:
        if rule is None or rule.thresholds is None:
            return None
        own = float(rule.thresholds[0])
    even = np.append(np.linspace(0, 1, 101), own)
    # Scores of rare positives crowd together: positions 1 % of recall apart resolve them.
    steps = np.quantile(scores[positive], np.linspace(0.01, 0.99, 99)) if positive.any() else even
    positions = np.unique(np.append(even, steps))
    matrices = sweep_thresholds(scores, positive).at(positions).numpy()
    same = np.append(False, (matrices[1:] == matrices[:-1]).all((1, 2)))
    useful = np.isin(positions, even) | ~same
    positions, matrices = positions[useful], matrices[useful]
    return ThresholdSlider(
        positions=tuple(positions.tolist()),
        matrices=tuple(map(tuple, matrices.reshape(-1, 4).astype(int).tolist())),
        start=int(np.searchsorted(positions, own)),
        exact=exact,
        **_evaluate_track(matrices, metric, constraints),
    )


def find_threshold(scores: Floats, positive: NDArray[np.bool_], rule: DecisionRule | None) -> float | None:
    """The threshold t for which "score >= t" is what the model decides: its rule's, 0.5, or one between.

    >>> find_threshold(np.array([0.2, 0.3, 0.6]), np.array([False, True, True]), None)
    0.25
    """
    known = [] if rule is None or rule.thresholds is None else [float(rule.thresholds[0])]
    for threshold in (*known, 0.5):
        if np.array_equal(scores >= threshold, positive):
            return threshold
    below, above = scores[~positive].max(initial=0.0), scores[positive].min(initial=1.0)
    if positive.all() or not positive.any():
        return 0.0 if positive.all() else float(np.nextafter(max(below, 1.0), 2.0))
    if below >= above:
        return None
    middle = float(below + above) / 2
    return middle if middle > below else float(above)


def _build_weights(
    rows: HeldOutRows, p: Floats, rule: DecisionRule | None, metric: Metric, constraints: Sequence[Constraint]
) -> WeightSlider | None:
    d = len(rows.classes)
    weights = np.eye(d)
    if rule is not None and rule.weights is not None and rule.weights.shape == (d, d):
        weights = rule.weights
        p = p if rule.scaling is None else rule.scaling.calibrate(p)
    margins = p @ weights
    own = margins.argmax(1)
    exact = np.array_equal(own, rows.predicted)
    if not exact and rule is None:
        return None
    tracks = []
    for k in rows.frequent[:MOST_CLASSES]:
        matrices = _count_along(rows.truth, margins, p[:, k], weights[k], own)
        hits, predicted = matrices[:, k, k], matrices[:, :, k].sum(1)
        track = ClassTrack(
            class_=rows.classes[k],
            positions=tuple(WEIGHTS.tolist()),
            matrices=as_matrices(matrices) if d <= MOST_CLASSES else None,
            precision=as_numbers(hits / np.maximum(predicted, 1)),
            recall=as_numbers(hits / np.maximum(matrices[:, k].sum(1), 1)),
            predicted=tuple(predicted.astype(int).tolist()),
            start=ONE,
            exact=exact,
            **_evaluate_track(matrices, metric, constraints),
        )
        tracks.append(track)
    return WeightSlider(classes=tuple(tracks))


def as_matrices(matrices: Floats) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Confusion matrices (k, d, d) as tuples of integers."""
    return tuple(tuple(map(tuple, matrix)) for matrix in matrices.astype(int).tolist())


def _count(truth: Indices, predicted: Indices, d: int) -> Floats:
    """`hard_confusion` without its checks: this is called hundreds of times per class."""
    return np.bincount(truth * d + predicted, minlength=d * d).reshape(d, d).astype(np.float64)


def _count_along(truth: Indices, margins: Floats, share: Floats, worth: Floats, own: Indices) -> Floats:
    """The confusion matrix at each weight w of a class: decisions argmax(margins + (w - 1) share x worth).

    This is p W with the probability of the class, `share`, multiplied by w; `worth` is the row of W for the
    class, and scaling the rows of p to the sum 1 again would not change an argmax. Margins are linear in w,
    so a class that is ahead at two weights is ahead between them: only rows with different decisions at
    both are decided again halfway. `own` are the decisions at weight 1.
    """
    d = margins.shape[1]
    steps = np.zeros((len(WEIGHTS) + 1, d, d))  # the difference of each matrix to the one before

    def decide(at: int, index: Indices) -> Indices:
        decisions = np.empty(len(index), dtype=np.int64)
        size = max(1, BLOCK // d)
        for start in range(0, len(index), size):
            part = index[start : start + size]
            weighted = margins[part] + np.outer((WEIGHTS[at] - 1) * share[part], worth)
            decisions[start : start + size] = weighted.argmax(1)
        return decisions

    def add(low: int, high: int, index: Indices, decisions: Indices) -> None:
        """Count rows at the weights low, ..., high - 1."""
        matrix = _count(truth[index], decisions, d)
        steps[low] += matrix
        steps[high] -= matrix

    def fill(low: int, high: int, index: Indices, first: Indices, last: Indices) -> None:
        """Count rows at the weights between two, from their decisions at both."""
        if high - low < 2 or not len(index):
            return
        same = first == last
        add(low + 1, high, index[same], first[same])
        index, first, last = index[~same], first[~same], last[~same]
        middle = (low + high) // 2
        between = decide(middle, index)
        add(middle, middle + 1, index, between)
        fill(low, middle, index, first, between)
        fill(middle, high, index, between, last)

    everything, end = np.arange(len(truth)), len(WEIGHTS) - 1
    lowest, highest = decide(0, everything), decide(end, everything)
    for at, decisions in ((0, lowest), (ONE, own), (end, highest)):
        add(at, at + 1, everything, decisions)
    fill(0, ONE, everything, lowest, own)
    fill(ONE, end, everything, own, highest)
    return steps.cumsum(0)[:-1]
