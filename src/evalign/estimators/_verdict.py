"""What the validation rows say of a trained classifier: its score, calibration, rule and constraints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evalign.decisions import expected_calibration_error, fit_rule, fit_temperature
from evalign.estimators._bags import Bag
from evalign.metrics import Constraint, Metric
from evalign.training import TrainingData


def take_over(
    model: Any,
    metric: Metric,
    bounds: Sequence[Constraint],
    bags: Sequence[Bag],
    held: Sequence[TrainingData],
) -> None:
    """Give a classifier what was trained, judged on the rows each bag was not trained on."""
    model.networks_ = [bag.network for bag in bags]
    model.history_ = [{"bag": number, **row} for number, bag in enumerate(bags) for row in bag.history]
    model.n_iter_ = len(model.history_)
    model.temperature_ = model.history_[-1]["temperature"]
    logits = torch.cat([bag.held_logits for bag in bags])
    weights = [table.weight for table in held if table.weight is not None]
    rows = TrainingData(None, torch.cat([table.y for table in held]), torch.cat(weights) if weights else None)
    model.softmax_temperature_ = 1.0
    if model.calibrate:
        model.softmax_temperature_ = fit_temperature(logits, rows.y, rows.weight)
        model.calibration_error_ = tuple(
            expected_calibration_error((logits / t).softmax(-1), rows.y, rows.weight)
            for t in (1.0, model.softmax_temperature_)
        )
    matrix = rows.confusion(_predicted(model, metric, bounds, logits, rows), logits.shape[1])
    model.validation_score_ = model.rule_.value if model.rule else float(metric(matrix))
    model.satisfaction_ = satisfaction(bounds, matrix)
    missed = [
        f"{name} by {-one['slack']:.4g}" for name, one in model.satisfaction_.items() if one["slack"] < 0
    ]
    if missed:
        warnings.warn(
            f"The constraints are not kept on the validation rows: missed {' and '.join(missed)}. "
            "Try a looser bound, `rule=True`, or more rows.",
            stacklevel=3,
        )


def satisfaction(bounds: Sequence[Constraint], matrix: Tensor) -> dict[str, dict[str, Any]]:
    """How a confusion matrix stands to each constraint.

    >>> from evalign import metrics
    >>> satisfaction([metrics.precision() >= 0.5], torch.tensor([[6.0, 1.0], [0.0, 3.0]]))
    {'precision() >= 0.5': {'value': 0.75, 'slack': 0.25, 'satisfied': True}}
    """
    found = {}
    for bound in bounds:
        slack = float(bound.slack(matrix))
        found[bound.name] = {"value": float(bound.metric(matrix)), "slack": slack, "satisfied": slack >= 0}
    return found


def _predicted(
    model: Any, metric: Metric, bounds: Sequence[Constraint], logits: Tensor, rows: TrainingData
) -> Tensor:
    """The predicted class indices, by a rule fitted on these rows if the classifier is to have one."""
    model.rule_ = None
    if not model.rule:
        return logits.argmax(-1)
    probabilities = (logits.double() / model.softmax_temperature_).softmax(-1).cpu().numpy()
    truth = model.classes_[rows.y.cpu().numpy()]
    weight = None if rows.weight is None else rows.weight.double().cpu().numpy()
    model.rule_ = fit_rule(probabilities, truth, metric, bounds, weight, classes=model.classes_)
    indices = np.searchsorted(model.classes_, model.rule_.predict(probabilities))
    return torch.as_tensor(indices, dtype=torch.long, device=rows.y.device)
