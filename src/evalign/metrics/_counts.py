"""Metrics of counts: one value per class, and the ways to average them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from evalign._errors import expected
from evalign._torch import weighted_mean
from evalign.metrics._confusion import Confusion
from evalign.metrics._metric import Metric

Average = Literal["auto", "binary", "macro", "micro", "weighted"] | None
AVERAGES = ("auto", "binary", "macro", "micro", "weighted", None)


def mean_over_labels(values: Tensor, present: Tensor) -> Tensor:
    """The mean over the labels that are present, or over all if none is.

    >>> mean_over_labels(torch.tensor([0.5, 0.0]), torch.tensor([True, False]))
    tensor(0.5000)
    """
    return weighted_mean(values, present | ~present.any(-1, keepdim=True))


class CountMetric(Metric):
    """A metric of counts: one value per class, averaged, or one for the whole matrix.

    `values` maps a `Confusion` to one value per class (..., d), or to a single value (..., 1). With
    `batched=False` it only ever receives a single matrix (d, d), and may return a scalar.
    """

    def __init__(
        self,
        values: Callable[[Confusion], Tensor],
        name: str,
        formula: str,
        *,
        average: Average = "auto",
        positive: int = 1,
        higher_is_better: bool = True,
        batched: bool = True,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, formula, higher_is_better=higher_is_better, params=params)
        if average not in AVERAGES:
            raise expected("average", f"to be one of {AVERAGES}", repr(average))
        if type(positive) is not int or positive not in (0, 1):
            raise expected("positive", "to be class 0 or 1", repr(positive))
        self.values = values
        self.average = average
        self.positive = positive
        self.batched = batched

    @property
    def is_scalar(self) -> bool:
        """Whether the metric gives one number from one confusion matrix, not one per class."""
        return self.average is not None

    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        if self.batched or matrix.ndim == 2:
            return self._average_of(matrix, skip_absent)
        average = partial(self._average_of, skip_absent=skip_absent)
        flat: Tensor = torch.func.vmap(average)(matrix.flatten(0, -3))
        return flat.reshape(*matrix.shape[:-2], *flat.shape[1:])

    def _average_of(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        c = Confusion(matrix, skip_absent=skip_absent)
        average = self.average
        if average == "auto":
            average = "binary" if c.num_classes == 2 else "macro"
        values = self.values(c.pooled() if average == "micro" else c)
        if not isinstance(values, Tensor):
            raise expected("metric", "to return a tensor", repr(values))
        if values.shape == matrix.shape[:-2]:
            return values
        if values.shape == (*matrix.shape[:-2], 1):
            return values.squeeze(-1)
        if values.shape != matrix.shape[:-1]:
            raise expected(
                "metric",
                f"to return one value, or one for each of {c.num_classes} classes",
                f"shape {tuple(values.shape)}",
            )
        if average is None:
            return values
        if average == "binary":
            if c.num_classes != 2:
                raise expected(
                    "average",
                    "other than 'binary' for more than two classes",
                    f"{c.num_classes} classes",
                    "Use 'macro', 'micro', 'weighted' or None.",
                )
            return values[..., self.positive]
        return weighted_mean(values, c.actual if average == "weighted" else c.present)

    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        label = copy.copy(self)
        label.average = "binary"
        if self.average == "micro":
            return label._value(matrix.sum(-3), skip_absent)
        values = label._value(matrix, skip_absent)
        if self.average is None:
            return values
        actual = matrix[..., self.positive, :].sum(-1)
        if self.average == "weighted":
            return weighted_mean(values, actual)
        return mean_over_labels(values, actual != 0) if skip_absent else values.mean(-1)
