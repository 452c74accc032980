"""What a trained model is worth: the columns of a table from probabilities and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from evalign import metrics
from evalign.losses import BTG_THRESHOLDS
from evalign.metrics import hard_confusion
from evalign.papers._data import class_index
from evalign.papers._table import Column


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a model says of the test part.

    `own` says that the decisions are those of a rule or an estimator, which has no use for the mean
    over thresholds: it is judged by its decisions in every column.
    """

    probabilities: NDArray[Any]
    decisions: NDArray[Any]
    truth: NDArray[Any]
    seconds: float
    epochs: int = 0
    own: bool = False

    def scores(self, columns: Sequence[Column], class_names: Sequence[str]) -> dict[str, float]:
        """The value of every column."""
        return {column.name: self._value(column, class_names) for column in columns}

    def _value(self, column: Column, class_names: Sequence[str]) -> float:
        if column.of == "time":
            return self.seconds
        if column.of == "pace":
            return self.seconds / max(self.epochs, 1)
        if column.of == "scores":
            return _auroc(self.truth, self.probabilities)
        if column.of == "thresholds" and not self.own:
            return self._over_thresholds(column)
        matrix = self._matrix(self.decisions)
        if not column.of_class:
            return float(metrics.as_metric(column.metric)(matrix))
        values = metrics.as_metric(f"{column.metric}(average=None)")(matrix)
        return float(values[class_index(class_names, column.of_class)])

    def _over_thresholds(self, column: Column) -> float:
        """The mean of a metric of two classes over the thresholds 0.1, 0.2, ..., 0.9."""
        positive = self.probabilities[:, 1]
        found = [self._matrix((positive >= level).astype(np.int64)) for level in BTG_THRESHOLDS]
        return float(metrics.as_metric(column.metric)(torch.stack(found)).mean())

    def _matrix(self, decisions: NDArray[Any]) -> torch.Tensor:
        classes = self.probabilities.shape[1]
        return hard_confusion(torch.from_numpy(decisions), torch.from_numpy(self.truth), classes).double()


def _auroc(truth: NDArray[Any], probabilities: NDArray[Any]) -> float:
    """The area under the ROC curve; for more classes the mean of each against the rest."""
    if probabilities.shape[1] == 2:
        return float(metrics.auroc().score(truth, probabilities[:, 1], labels=[0, 1]))
    areas = [
        roc_auc_score(truth == label, probabilities[:, label])
        for label in range(probabilities.shape[1])
        if 0 < (truth == label).sum() < len(truth)
    ]
    return float(np.mean(areas))
