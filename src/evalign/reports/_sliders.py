"""What other decisions would do: a moved threshold, or a class that weighs more or less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalign._typing import Floats, Indices
from evalign.decisions import DecisionRule
from evalign.metrics import Constraint, Metric, sweep_thresholds
from evalign.reports._held import Held, counted, values

#: Weights of a class, a quarter of a doubling apart.
WEIGHTS = 2.0 ** np.linspace(-4, 4, 33)

#: Sliders for so many classes; matrices for so many are stored.
MOST_CLASSES = 20

#: Margins looked at in one go.
BLOCK = 1 << 16


def slider(
    rows: Held, rule: DecisionRule | None, metric: Metric, bounds: Sequence[Constraint]
) -> dict[str, Any] | None:
    """The confusion matrix and the metric along a threshold, or along the weight of each class.

    None where decisions do not follow from the probabilities.
    """
    if rows.p is None:
        return None
    if len(rows.classes) == 2:
        return _threshold(rows, rule, metric, bounds)
    return _class_weight(rows, rule, metric, bounds)


def _along(matrices: Floats, metric: Metric, bounds: Sequence[Constraint]) -> dict[str, Any]:
    slacks = {}
    for bound in bounds:
        slacks[bound.name] = bound.sign * (values(bound.metric, matrices) - bound.bound)
    return {"values": values(metric, matrices), "constraints": slacks}


def _threshold(
    rows: Held, rule: DecisionRule | None, metric: Metric, bounds: Sequence[Constraint]
) -> dict[str, Any] | None:
    assert rows.p is not None
    scores, positive = rows.p[:, 1], rows.truth == 1
    chosen = own_threshold(scores, rows.predicted == 1, rule)
    if chosen is None:
        return None
    found = sweep_thresholds(scores, positive, np.ones(len(scores)))
    even = np.append(np.linspace(0, 1, 101), chosen)
    # Where positives are rare their scores crowd in a corner: steps of 1 % of recall are there too.
    steps = np.quantile(scores[positive], np.linspace(0.01, 0.99, 99)) if positive.any() else even
    positions = np.unique(np.append(even, steps))
    matrices = found.at(positions).numpy()
    same = np.append(False, (matrices[1:] == matrices[:-1]).all((1, 2)))
    kept = np.isin(positions, even) | ~same
    positions, matrices = positions[kept], matrices[kept]
    return {
        "kind": "threshold",
        "positions": positions,
        "matrices": matrices.reshape(-1, 4).astype(int),
        **_along(matrices, metric, bounds),
        "chosen": int(np.searchsorted(positions, chosen)),
    }


def own_threshold(scores: Floats, positive: Any, rule: DecisionRule | None) -> float | None:
    """The threshold t for which "score >= t" is what the model decides: its rule's, 0.5, or one found.

    >>> own_threshold(np.array([0.2, 0.3, 0.6]), np.array([False, True, True]), None)
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


def _class_weight(
    rows: Held, rule: DecisionRule | None, metric: Metric, bounds: Sequence[Constraint]
) -> dict[str, Any] | None:
    assert rows.p is not None
    d = len(rows.classes)
    weights = np.eye(d)
    if rule is not None and rule.weights is not None and rule.weights.shape == (d, d):
        weights = rule.weights
    margins = rows.p @ weights
    if not np.array_equal(margins.argmax(1), rows.predicted):
        return None
    chosen = int(np.searchsorted(WEIGHTS, 1.0))
    parts = []
    for k in rows.frequent[:MOST_CLASSES]:
        matrices = _weighed(rows.truth, margins, rows.p[:, k], weights[k], rows.predicted)
        hits = matrices[:, k, k]
        part = {
            "class": rows.classes[k],
            "positions": WEIGHTS,
            "matrices": matrices.astype(int) if d <= MOST_CLASSES else None,
            "precision": hits / np.maximum(matrices[:, :, k].sum(1), 1),
            "recall": hits / np.maximum(matrices[:, k].sum(1), 1),
            "predicted": matrices[:, :, k].sum(1).astype(int),
            **_along(matrices, metric, bounds),
            "chosen": chosen,
        }
        parts.append(part)
    return {"kind": "class_weight", "classes": parts}


def _weighed(truth: Indices, margins: Floats, share: Floats, worth: Floats, chosen: Indices) -> Floats:
    """The confusion matrix at each weight w of a class: decisions argmax(margins + (w - 1) share x worth).

    That is p W with the class's probability, `share`, times w, and `worth` the class's row of W; to scale
    rows to the sum 1 again would move no argmax. Margins are lines in w, so a class that is ahead at two
    weights is ahead between them: only rows whose decisions differ at both are decided again in the middle.
    """
    d = margins.shape[1]
    steps = np.zeros((len(WEIGHTS) + 1, d, d))  # what each matrix has more than the one before

    def decide(at: int, index: Indices) -> Indices:
        found = np.empty(len(index), dtype=np.int64)
        size = max(1, BLOCK // d)
        for start in range(0, len(index), size):  # as much at a time as stays in a cache
            part = index[start : start + size]
            moved = margins[part] + np.outer((WEIGHTS[at] - 1) * share[part], worth)
            found[start : start + size] = moved.argmax(1)
        return found

    def fill(low: int, high: int, index: Indices, first: Indices, last: Indices) -> None:
        """Count rows at the weights between two, given their decisions at both."""
        if high - low < 2 or not len(index):
            return
        still = first == last
        block = counted(truth[index[still]], first[still], d)
        steps[low + 1] += block
        steps[high] -= block
        index, first, last = index[~still], first[~still], last[~still]
        middle = (low + high) // 2
        between = decide(middle, index)
        block = counted(truth[index], between, d)
        steps[middle] += block
        steps[middle + 1] -= block
        fill(low, middle, index, first, between)
        fill(middle, high, index, between, last)

    everything = np.arange(len(truth))
    one, end = int(np.searchsorted(WEIGHTS, 1.0)), len(WEIGHTS) - 1
    ends = {0: decide(0, everything), one: chosen, end: decide(end, everything)}
    for at, decided in ends.items():
        block = counted(truth, decided, d)
        steps[at] += block
        steps[at + 1] -= block
    fill(0, one, everything, ends[0], chosen)
    fill(one, end, everything, chosen, ends[end])
    return steps.cumsum(0)[:-1]
