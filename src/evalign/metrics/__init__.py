"""What a classifier is judged by: functions of a confusion matrix, and how to count one."""

from evalign.metrics._accumulator import MetricAccumulator
from evalign.metrics._batch import TASKS, Batch, as_batch, check_class_weights, count_batch
from evalign.metrics._confusion import Confusion
from evalign.metrics._counting import hard_confusion, label_confusion
from evalign.metrics._counts import Average
from evalign.metrics._metric import CombinedMetric, Constraint, Metric
from evalign.metrics._named import (
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    cost,
    f1,
    fbeta,
    gmean,
    informedness,
    jaccard,
    mcc,
    precision,
    recall,
    specificity,
)
from evalign.metrics._paired import paired_error
from evalign.metrics._ranking import auroc, average_precision
from evalign.metrics._reading import (
    as_constraint,
    as_constraints,
    as_metric,
    check_for_loss,
    metric,
    resolve_classes,
)
from evalign.metrics._registry import NAMED
from evalign.metrics._sweep import Sweep, sweep_thresholds, thresholds_between

__all__ = [
    "NAMED", "TASKS", "Average", "Batch", "CombinedMetric", "Confusion", "Constraint", "Metric",
    "MetricAccumulator", "Sweep", "accuracy", "as_batch", "as_constraint", "as_constraints", "as_metric",
    "auroc", "average_precision", "balanced_accuracy", "check_class_weights", "check_for_loss",
    "cohen_kappa", "cost", "count_batch", "f1", "fbeta", "gmean", "hard_confusion", "informedness",
    "jaccard", "label_confusion", "mcc", "metric", "paired_error", "precision", "recall", "resolve_classes",
    "specificity", "sweep_thresholds", "thresholds_between",
]  # fmt: skip
