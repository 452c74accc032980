"""What a classifier is judged by: functions of a confusion matrix."""

from evalign.metrics._confusion import Confusion, divide
from evalign.metrics._metric import Constraint, Metric
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
from evalign.metrics._ranking import auroc
from evalign.metrics._registry import NAMED, constraint, constraints, get, metric

__all__ = [
    "NAMED", "Confusion", "Constraint", "Metric", "accuracy", "auroc", "balanced_accuracy", "cohen_kappa",
    "constraint", "constraints", "cost", "divide", "f1", "fbeta", "get", "gmean", "informedness", "jaccard",
    "mcc", "metric", "precision", "recall", "specificity",
]  # fmt: skip
