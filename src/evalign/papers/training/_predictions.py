"""The columns of a table from the probabilities and decisions of a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from evalign import metrics
from evalign._typing import Indices
from evalign.losses import BTG_THRESHOLDS
from evalign.metrics import hard_confusion
from evalign.papers.data import class_index
from evalign.papers.tables import PaperColumn


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """The predictions of a model on the test part, and the time its training took.

    With `by_rule` the decisions come from a rule or an estimator, for which a mean over thresholds has no
    meaning: they are scored in every column. `raw` are outputs to which the thresholds of columns over
    thresholds are applied instead of the probabilities of class 1.
    """

    probabilities: NDArray[Any]
    decisions: Indices
    truth: Indices
    seconds: float
    epochs: int = 0
    by_rule: bool = False
    raw: NDArray[Any] | None = None

    def scores(self, columns: Sequence[PaperColumn], class_names: Sequence[str]) -> dict[str, float]:
        """Return the value of every column."""
        return {column.name: self._score(column, class_names) for column in columns}

    def _score(self, column: PaperColumn, class_names: Sequence[str]) -> float:
        if column.source == "time":
            return self.seconds
        if column.source == "pace":
            return self.seconds / max(self.epochs, 1)
        if column.source == "scores":
            return _auroc(self.truth, self.probabilities)
        if column.source == "thresholds" and not self.by_rule:
            return self._mean_over_thresholds(column)
        matrix = self._confusion(self.decisions)
        if not column.class_name:
            return float(metrics.as_metric(column.metric)(matrix))
        values = metrics.as_metric(f"{column.metric}(average=None)")(matrix)
        return float(values[class_index(class_names, column.class_name)])

    def _mean_over_thresholds(self, column: PaperColumn) -> float:
        """The mean of a metric of two classes over the thresholds 0.1, 0.2, ..., 0.9."""
        positive = self.probabilities[:, 1] if self.raw is None else self.raw
        matrices = [self._confusion((positive >= level).astype(np.int64)) for level in BTG_THRESHOLDS]
        return float(metrics.as_metric(column.metric)(torch.stack(matrices)).mean())

    def _confusion(self, decisions: Indices) -> torch.Tensor:
        classes = self.probabilities.shape[1]
        return hard_confusion(torch.from_numpy(decisions), torch.from_numpy(self.truth), classes).double()


def _auroc(truth: Indices, probabilities: NDArray[Any]) -> float:
    """The area under the ROC curve; for more than two classes, the mean of each class against the rest."""
    if probabilities.shape[1] == 2:
        return float(metrics.auroc().score(truth, probabilities[:, 1], labels=[0, 1]))
    areas = [
        roc_auc_score(truth == label, probabilities[:, label])
        for label in range(probabilities.shape[1])
        if 0 < (truth == label).sum() < len(truth)
    ]
    return float(np.mean(areas))
