"""`evidence`: what a fitted classifier does on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evalign import metrics
from evalign._typing import ConstraintsLike, Floats, MetricLike
from evalign.decisions import ROUNDING
from evalign.metrics import CombinedMetric, Confusion, Constraint, Metric
from evalign.reports._curves import measure_calibration, trace_curves
from evalign.reports._held_out import HeldOutRows, evaluate, find_part
from evalign.reports._intervals import bootstrap
from evalign.reports._sliders import as_matrices, build_slider
from evalign.reports.facts import (
    ClassFacts,
    ConstraintFacts,
    EpochFacts,
    ModelEvidence,
    as_number,
)


def evidence(
    name: str, model: Any, X: Any, y: Any, metric: MetricLike, constraints: ConstraintsLike = (), *,
    role: str = "", description: str = "",
) -> ModelEvidence:  # fmt: skip
    """Collect what a fitted classifier does on rows it was not trained on.

    Decisions, intervals, what other decisions would do, curves, calibration and, for networks, the course
    of training. What needs probabilities is None for a classifier without.

    Args:
        name: What the classifier is called.
        model: A fitted classifier with `classes_` and `predict`, which may be inside a pipeline.
        X: The features of the rows.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        constraints: Constraints such as "precision >= 0.9".
        role: The part it plays in the report, such as "best".
        description: What it is, in a few words.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
    >>> facts = evidence("logistic", LogisticRegression().fit(X, y), X, y, "accuracy")
    >>> facts.matrix, facts.value, facts.slider.positions[facts.slider.start]
    (((1, 1), (1, 1)), 0.5, 0.5)
    """
    target, bounds = metrics.as_metric(metric, scalar=True), metrics.as_constraints(constraints)
    rows = HeldOutRows.predict(model, X, y)
    target, bounds = metrics.resolve_classes(target, bounds, rows.classes)
    matrix = rows.matrix
    positive = _find_positive(target) if len(rows.classes) == 2 else None
    return ModelEvidence(
        name=name,
        role=role,
        description=description,
        rows=len(rows.truth),
        classes=rows.classes,
        positive=positive,
        metric=target.name,
        higher_is_better=target.higher_is_better,
        matrix=as_matrices(matrix[None])[0],
        value=as_number(evaluate(target, matrix[None])[0]),
        constraints={bound.name: _check_constraint(bound, matrix) for bound in bounds},
        metrics=bootstrap(matrix, {**_common_metrics(positive), target.name: target}),
        per_class=_score_classes(rows.classes, matrix),
        slider=build_slider(rows, getattr(find_part(model, "rule_"), "rule_", None), target, bounds),
        curves=trace_curves(rows, positive),
        calibration=measure_calibration(rows),
        history=_read_history(model),
    )


def _find_positive(metric: Metric) -> int:
    """Which of two classes a metric counts as positive."""
    if isinstance(metric, CombinedMetric):
        return min(_find_positive(part) for part in (metric.left, metric.right) if isinstance(part, Metric))
    return int(getattr(metric, "positive", 1))


def _common_metrics(positive: int | None) -> dict[str, Metric]:
    """The metrics that are shown beside the one asked for."""
    factories = (metrics.f1, metrics.precision, metrics.recall)
    f1, precision, recall = (make() if positive is None else make(positive=positive) for make in factories)
    return {
        "accuracy": metrics.accuracy(), "balanced_accuracy": metrics.balanced_accuracy(), "f1": f1,
        "mcc": metrics.mcc(), "precision": precision, "recall": recall,
    }  # fmt: skip


def _check_constraint(bound: Constraint, matrix: Floats) -> ConstraintFacts:
    slack = float(bound.slack(matrix))
    return ConstraintFacts(
        value=as_number(bound.metric(matrix)),
        slack=as_number(slack),
        satisfied=slack >= -ROUNDING,
        sense=bound.sense,
        bound=float(bound.bound),
    )


def _score_classes(classes: Sequence[str], matrix: Floats) -> tuple[ClassFacts, ...]:
    counts = Confusion(torch.from_numpy(matrix))
    columns = (counts.actual, counts.precision, counts.recall, metrics.f1(average=None)(matrix))
    scores = zip(classes, *(column.tolist() for column in columns), strict=True)
    return tuple(
        ClassFacts(name, int(support), as_number(precision), as_number(recall), as_number(f1))
        for name, support, precision, recall, f1 in scores
    )


def _read_history(model: Any) -> tuple[EpochFacts, ...] | None:
    """Every epoch of a network, or of the first in a bag: soft and hard metric on its validation rows.

    Only losses on the metric have a temperature; 1 - loss is the soft metric, minus the cross-entropy that
    anchors it.
    """
    network = find_part(model, "history_")
    rows = getattr(network, "history_", None)
    if not isinstance(rows, list) or not rows or "valid_metric" not in rows[0]:
        return None
    higher = metrics.as_metric(network.metric).higher_is_better
    epochs: list[EpochFacts] = []
    for row in rows:
        if row.get("bag", 0) != 0:
            continue
        temperature, loss = row["temperature"], row["valid_loss"]
        soft = None if temperature is None else 1 - loss if higher else loss
        epochs.append(
            EpochFacts(
                epoch=len(epochs) + 1,
                phase=row["phase"],
                temperature=as_number(temperature),
                loss=as_number(loss),
                soft=as_number(soft),
                hard=as_number(row["valid_metric"]),
            )
        )
    return tuple(epochs)
