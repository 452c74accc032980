"""The hard metric, for early stopping in boosting libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._typing import MetricLike
from evalign.boosting._calls import is_dataset, read_call
from evalign.metrics import hard_confusion


class Evaluation:
    """A metric for early stopping, made by `evaluation`, in the forms in which the libraries call it."""

    #: Without this, CatBoost tries to compile the methods and warns that it cannot.
    no_jit = True

    def __init__(self, metric: MetricLike, threshold: float) -> None:
        self.metric = metrics.as_metric(metric, scalar=True)
        if self.metric.needs_classes:
            hint = "Call with_classes(classes) first."
            raise expected("metric", "with class indices, since labels are not known", self.metric.name, hint)
        if not is_number(threshold):
            raise expected("threshold", "to be a finite number", show(threshold))
        self.threshold = threshold
        # XGBoost splits its log at spaces and colons.
        self.name = "".join(self.metric.name.split()).replace(":", "=")

    def __repr__(self) -> str:
        return f"evaluation({self.metric.name!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Evaluation:
        return self  # as `Objective` does, and nothing here changes

    @property
    def __name__(self) -> str:
        """What `XGBClassifier` calls the metric, which it minimises."""
        return f"1-{self.name}" if self.metric.higher_is_better else self.name

    def __call__(self, first: Any, second: Any, *weight_and_group: Any, **keywords: Any) -> Any:
        """The metric in the form that the caller expects.

        `train` of LightGBM and XGBoost passes scores and a dataset. `LGBMClassifier` passes labels, scores,
        weights and groups by position, `XGBClassifier` the weights, if there are any, as `sample_weight`.
        """
        weight = weight_and_group[0] if weight_and_group else keywords.get("sample_weight")
        value = self.compute(*read_call(first, second, weight))
        if is_dataset(second):
            by_lightgbm = hasattr(second, "get_init_score")
            return (self.name, value, self.metric.higher_is_better) if by_lightgbm else (self.name, value)
        if weight_and_group:
            return self.name, value, self.metric.higher_is_better
        return 1 - value if self.metric.higher_is_better else value

    def compute(self, scores: Any, y: Any, weight: Any = None) -> float:
        """The metric of scores (n,) for two classes or (n, d), class indices and weights."""
        table = torch.from_numpy(np.array(scores, dtype=np.float64))
        many = table.ndim == 2 and table.shape[1] > 1
        predicted = table.argmax(-1) if many else (table.reshape(-1) >= self.threshold).long()
        shares = None if weight is None else torch.from_numpy(np.array(weight)).double()
        targets = torch.from_numpy(np.asarray(y).astype(np.int64))
        return float(self.metric(hard_confusion(predicted, targets, table.shape[1] if many else 2, shares)))

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        """The metric as CatBoost calls it: one array of scores per class, or one for two classes."""
        scores = np.asarray(approxes[0]) if len(approxes) == 1 else np.stack(approxes, axis=1)
        return self.compute(*read_call(target, scores, weight)), 1.0

    def is_max_optimal(self) -> bool:
        """Whether CatBoost shall maximise it."""
        return self.metric.higher_is_better

    def get_final_error(self, error: float, weight: float) -> float:
        """What CatBoost shows: the metric itself."""
        return error


def evaluation(metric: MetricLike, threshold: float = 0.0) -> Evaluation:
    """Make the hard metric for early stopping in LightGBM, XGBoost or CatBoost.

    | library | argument | direction |
    |---|---|---|
    | `lightgbm.train` | `feval` | known |
    | `LGBMClassifier.fit` | `eval_metric` | known |
    | `xgboost.train` | `custom_metric` | set `EarlyStopping(..., maximize=True)` |
    | `XGBClassifier` | `eval_metric` | known: it minimises 1 - M, and shows it under this name |
    | `CatBoostClassifier` | `eval_metric` | known |

    For two classes, scores are compared with `threshold`: 0 for the raw scores of a custom objective and
    for CatBoost, 0.5 for the probabilities that built-in objectives of the others pass. For more classes,
    argmax decides.

    >>> import numpy as np
    >>> class Rows:
    ...     get_label, get_weight = (lambda self: np.array([1, 0, 1])), (lambda self: None)
    >>> evaluation("recall")(np.array([0.5, 0.2, -1.0]), Rows())
    ('recall', 0.5)
    """
    return Evaluation(metric, threshold)
