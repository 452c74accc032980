"""`evidence`: what a fitted classifier does on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evalign import metrics
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.decisions import ROUNDING
from evalign.metrics import CombinedMetric, Confusion, Constraint, Metric
from evalign.reports._curves import calibration, curves
from evalign.reports._held import held, inside, plain, values
from evalign.reports._intervals import intervals
from evalign.reports._sliders import slider


def evidence(
    name: str, model: Any, X: Any, y: Any, metric: MetricLike,
    constraints: ConstraintsLike = (), *, role: str = "", description: str = "",
) -> dict[str, Any]:  # fmt: skip
    """What a fitted classifier does on rows it was not trained on, as facts that JSON can hold.

    Decisions, intervals, what other decisions would do, curves, calibration and, for networks, how
    training went. What needs probabilities is None for a classifier without.

    Args:
        name: What the classifier is called.
        model: A fitted classifier with `classes_` and `predict`; pipelines are looked through.
        X: The features of the rows.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        constraints: Bounds such as "precision >= 0.9".
        role: What it stands for, such as "best".
        description: What it is, in some words.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
    >>> found = evidence("logistic", LogisticRegression().fit(X, y), X, y, "accuracy")
    >>> found["matrix"], found["value"], found["slider"]["positions"][found["slider"]["chosen"]]
    ([[1, 1], [1, 1]], 0.5, 0.5)
    """
    asked, bounds = metrics.as_metric(metric, scalar=True), metrics.as_constraints(constraints)
    rows = held(model, X, y)
    matrix, d = rows.matrix, len(rows.classes)
    positive = _positive(asked) if d == 2 else None
    return plain(  # type: ignore[no-any-return]
        {
            "name": name,
            "role": role,
            "description": description,
            "rows": len(rows.truth),
            "classes": rows.classes,
            "positive": positive,
            "metric": asked.name,
            "higher_is_better": asked.higher_is_better,
            "matrix": matrix.astype(int),
            "value": values(asked, matrix[None])[0],
            "constraints": {bound.name: _kept(bound, matrix) for bound in bounds},
            "metrics": intervals(matrix, {**_usual(positive), asked.name: asked}),
            "per_class": _per_class(rows.classes, matrix),
            "slider": slider(rows, getattr(inside(model, "rule_"), "rule_", None), asked, bounds),
            "curves": curves(rows, positive),
            "calibration": calibration(rows),
            "history": _history(model),
        }
    )


def _positive(metric: Metric) -> int:
    """Which of two classes a metric counts as positive."""
    if isinstance(metric, CombinedMetric):
        return min(_positive(part) for part in (metric.left, metric.right) if isinstance(part, Metric))
    return int(getattr(metric, "positive", 1))


def _usual(positive: int | None) -> dict[str, Metric]:
    """What is told beside the metric asked for."""
    sided = (metrics.f1, metrics.precision, metrics.recall)
    f1, precision, recall = (make() if positive is None else make(positive=positive) for make in sided)
    return {
        "accuracy": metrics.accuracy(), "balanced_accuracy": metrics.balanced_accuracy(), "f1": f1,
        "mcc": metrics.mcc(), "precision": precision, "recall": recall,
    }  # fmt: skip


def _kept(bound: Constraint, matrix: Floats) -> dict[str, Any]:
    value, slack = float(bound.metric(matrix)), float(bound.slack(matrix))
    kept = slack >= -ROUNDING
    return {
        "value": value, "slack": slack, "satisfied": kept, "sense": bound.sense, "bound": bound.bound
    }  # fmt: skip


def _per_class(classes: Sequence[str], matrix: Floats) -> list[dict[str, Any]]:
    counts = Confusion(torch.from_numpy(matrix))
    support, precision, recall = (side.tolist() for side in (counts.actual, counts.precision, counts.recall))
    f1 = metrics.f1(average=None)(matrix).tolist()
    return [
        {
            "class": name,
            "support": int(support[k]),
            "precision": precision[k],
            "recall": recall[k],
            "f1": f1[k],
        }
        for k, name in enumerate(classes)
    ]


def _history(model: Any) -> list[dict[str, Any]] | None:
    """Every epoch of a network (the first of a bag): soft and hard metric on its validation rows.

    Only losses on the metric have a temperature; 1 - loss is the soft metric, less the share of
    cross-entropy that anchors it.
    """
    network = inside(model, "history_")
    rows = getattr(network, "history_", None)
    if not isinstance(rows, list) or not rows or "valid_metric" not in rows[0]:
        return None
    higher = metrics.as_metric(network.metric).higher_is_better
    found: list[dict[str, Any]] = []
    for row in rows:
        if row.get("bag", 0) != 0:
            continue
        temperature, loss = row["temperature"], row["valid_loss"]
        soft = None if temperature is None else 1 - loss if higher else loss
        found.append(
            {
                "epoch": len(found) + 1, "phase": row["phase"], "temperature": temperature, "loss": loss,
                "soft": soft, "hard": row["valid_metric"],
            }
        )  # fmt: skip
    return found
