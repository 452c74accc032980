"""`measure_groups`: whether a model is as good for some rows as for others."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalign import metrics
from evalign._typing import MetricLike
from evalign.metrics import label_confusion
from evalign.reports._held_out import HeldOutRows
from evalign.reports._intervals import bootstrap
from evalign.reports.facts import GroupFacts, GroupsFacts, as_number

#: The most groups that are shown, and the fewest rows of one; the rows of all others are taken together.
MOST_GROUPS, FEWEST_ROWS = 20, 10
OTHERS = "(all others)"


def measure_groups(
    column: str, values: Any, model: Any, X: Any, y: Any, metric: MetricLike, *, positive: int | None = None
) -> GroupsFacts:
    """Measure the metric for the rows with each value of a column.

    Args:
        column: What the values are called.
        values: The value of each row, as text.
        model: A fitted classifier with `classes_` and `predict`.
        X: The features of the rows.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        positive: The index of the class that is looked for; by default the rarest.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, [0, 0, 1, 1] * 10
    >>> model = LogisticRegression().fit(X, y)
    >>> facts = measure_groups("half", ["left"] * 30 + ["right"] * 10, model, X, y, "f1")
    >>> [(one.name, one.rows, one.metric.value) for one in facts.groups]
    [('left', 30, 1.0), ('right', 10, 1.0)]
    """
    rows = HeldOutRows.predict(model, X, y)
    target, _ = metrics.resolve_classes(metrics.as_metric(metric, scalar=True), (), rows.classes)
    d = len(rows.classes)
    focus = rows.frequent[-1] if positive is None else positive
    names = _merge_rare(np.asarray(values, dtype=object))
    groups = []
    for name in sorted(set(names), key=lambda name: (name == OTHERS, -(names == name).sum(), name)):
        own = np.flatnonzero(names == name)
        matrix = label_confusion(rows.truth[own], rows.predicted[own], None, range(d)).numpy()
        cases = int(matrix[focus].sum())
        found = as_number(matrix[focus, focus] / cases) if cases else None
        interval = bootstrap(matrix, {"": target})[""]
        groups.append(GroupFacts(str(name), len(own), cases, found, interval))
    return GroupsFacts(column, target.name, rows.classes[focus], tuple(groups))


def _merge_rare(names: Any) -> Any:
    """Replace the names of small groups, and of all beyond the largest ones, by one name."""
    distinct, place, counts = np.unique(names, return_inverse=True, return_counts=True)
    kept = np.argsort(-counts, kind="stable")[:MOST_GROUPS]
    is_kept = np.isin(np.arange(len(distinct)), kept) & (counts >= FEWEST_ROWS)
    return np.where(is_kept[place.reshape(-1)], names, OTHERS)
