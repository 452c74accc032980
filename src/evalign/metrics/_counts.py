"""Metrics of counts: one value per class, and the ways to average them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from evalign._errors import expected, is_integer, show, suggest_similar
from evalign._torch import weighted_mean
from evalign.metrics._algebra import UNBOUNDED, Range
from evalign.metrics._confusion import Confusion
from evalign.metrics._expression import Expression
from evalign.metrics._metric import Metric

Function = Callable[[Confusion], Tensor]
Average = Literal["auto", "binary", "macro", "micro", "weighted"] | None
AVERAGES = ("auto", "binary", "macro", "micro", "weighted", None)


def mean_over_labels(values: Tensor, present: Tensor) -> Tensor:
    """The mean over the labels that are present, or over all if none is.

    >>> mean_over_labels(torch.tensor([0.5, 0.0]), torch.tensor([True, False]))
    tensor(0.5000)
    """
    return weighted_mean(values, present | ~present.any(-1, keepdim=True))


class CountMetric(Metric):
    """A named metric of counts: one value per class, averaged, or one for the whole matrix.

    `values` maps a `Confusion` to one value per class (..., d), or to a single value (..., 1). `arguments`
    are those of the call that makes the metric, besides `average` and `positive`.
    """

    #: Whether `values` accepts a batch of matrices, not only a single one.
    batched = True

    def __init__(
        self,
        values: Function,
        name: str,
        formula: str,
        *,
        average: Average = "auto",
        positive: int = 1,
        higher_is_better: bool = True,
        arguments: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        bounds: Range = (0, 1),
    ) -> None:
        super().__init__(name, formula, higher_is_better=higher_is_better, params=params, bounds=bounds)
        if average not in AVERAGES:
            raise expected("average", f"to be one of {AVERAGES}", repr(average))
        if type(positive) is not int or positive not in (0, 1):
            raise expected("positive", "to be class 0 or 1", repr(positive))
        self.values = values
        self.average = average
        self.is_mean_over_labels = average not in ("micro", None)
        self.positive = positive
        self._function, self._arguments = name, dict(arguments or {})
        self.name = self._write(average)

    def _write(self, average: Average) -> str:
        """The text of the metric with an average."""
        settings = dict(self._arguments)
        if average != "auto":
            settings["average"] = average
        if self.positive != 1:
            settings["positive"] = self.positive
        return self._write_call(", ".join(f"{key}={value!r}" for key, value in settings.items()))

    def _write_call(self, arguments: str) -> str:
        return f"{self._function}({arguments})" if arguments else self._function

    def __getitem__(self, key: int | str) -> Metric:
        """The value of one class, by its index or its label; the metric must have `average=None`.

        >>> from evalign import metrics
        >>> metrics.recall(average=None)[1] >= 0.5, metrics.recall(average=None)["rare"] >= 0.5
        (Constraint('recall[1] >= 0.5'), Constraint("recall['rare'] >= 0.5"))
        """
        return OneClass(self, key)

    __iter__ = None  # with `__getitem__` alone, Python would iterate forever

    @property
    def is_scalar(self) -> bool:
        """Whether the metric gives one number from one confusion matrix, not one per class."""
        return self.average is not None

    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        return self._averaged(matrix, skip_absent, self.average)

    def _averaged(self, matrix: Tensor, skip_absent: bool, average: Average) -> Tensor:
        if self.batched or matrix.ndim == 2:
            return self._average_of(matrix, skip_absent, average)
        one = partial(self._average_of, skip_absent=skip_absent, average=average)
        flat: Tensor = torch.func.vmap(one)(matrix.flatten(0, -3))
        return flat.reshape(*matrix.shape[:-2], *flat.shape[1:])

    def _average_of(self, matrix: Tensor, skip_absent: bool, average: Average) -> Tensor:
        c = Confusion(matrix, skip_absent=skip_absent)
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
        if self.average == "micro" or (matrix.shape[-3] == 1 and self.average not in ("weighted", None)):
            return self._averaged(matrix.sum(-3), skip_absent, "binary")
        values = self._averaged(matrix, skip_absent, "binary")
        if self.average is None:
            return values
        actual = matrix[..., self.positive, :].sum(-1)
        if self.average == "weighted":
            return weighted_mean(values, actual)
        return mean_over_labels(values, actual != 0) if skip_absent else values.mean(-1)


class FormulaMetric(CountMetric):
    """A metric made from the text of a formula."""

    values: Expression

    def __init__(self, text: str, name: str | None, *, higher_is_better: bool, **settings: Any) -> None:
        expression = Expression(text)
        formula, arguments = expression.text, {} if higher_is_better else {"higher_is_better": False}
        super().__init__(
            expression, formula, formula, higher_is_better=higher_is_better, arguments=arguments,
            bounds=expression.facts.range, **settings,
        )  # fmt: skip
        if name is not None and name != self.name:
            self.name, self.has_text = name, False

    @property
    def degree(self) -> float | None:
        """The degree of the formula."""
        return self.values.facts.degree

    @property
    def is_plain(self) -> bool:
        """Whether the name is the formula, without any settings."""
        return self.has_text and self.name == self.formula

    @property
    def spelling(self) -> str:
        """The name as it is written in a constraint: `fp <= 10`."""
        return self.name if self.has_text else super().spelling

    @property
    def term(self) -> str:
        """A call, so that the formula is averaged on its own: `metric('precision') * metric('recall')`."""
        return f"metric({self.formula!r})" if self.is_plain else self.spelling

    def _write_call(self, arguments: str) -> str:
        return f"metric({self.formula!r}, {arguments})" if arguments else self.formula


class FunctionMetric(CountMetric):
    """A metric made from a Python function, which sees one matrix (d, d) and may return a scalar."""

    batched = False
    has_text = False

    def __init__(self, function: Function, name: str, formula: str, **settings: Any) -> None:
        super().__init__(function, name, formula, bounds=UNBOUNDED, **settings)
        if _is_decorated(function):  # its name will refer to this metric: tell pickle where to find it
            function.__qualname__ += ".values"

    def _write(self, average: Average) -> str:
        return self._function

    @property
    def degree(self) -> float | None:
        """0 if the function gives the same value for the shares of a few random matrices, else None."""
        return 0 if _ignores_scale(self) else None

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Before protocol 4 (torch.save uses 2), pickle does not find functions that are attributes.
        place = getattr(self.values, "__module__", ""), getattr(self.values, "__qualname__", "")
        place = place[0], place[1].removesuffix(".values")
        is_found = protocol < 4 and place[0] in sys.modules and _find(*place) is self
        return (_find, place) if is_found else super().__reduce_ex__(protocol)


class OneClass(Metric):
    """The value of a metric for one class, or one label of a multilabel problem."""

    def __init__(self, metric: CountMetric, key: int | str, index: int | None = None) -> None:
        if metric.average is not None or (
            isinstance(metric, FormulaMetric) and not metric.values.facts.per_class
        ):
            hint = f"Write {metric._write(None)}[{key!r}]." if metric.average is not None else ""
            raise expected("metric", "with one value per class, to choose a class", metric.name, hint)
        if not isinstance(key, str) and not is_integer(key, least=0):
            raise expected("class", "to be an index >= 0 or a label", show(key))
        key = key if isinstance(key, str) else int(key)
        base = metric._write("auto") if metric.has_text or metric.name.isidentifier() else metric.spelling
        if isinstance(metric, FormulaMetric) and base == metric.formula and not base.isidentifier():
            base = f"({base})"
        super().__init__(
            f"{base}[{key!r}]", f"{metric.formula} of class {key!r}", params=metric.params,
            higher_is_better=metric.higher_is_better, bounds=metric._bounds,
        )  # fmt: skip
        self.metric, self.key = metric, key
        self.has_text = metric.has_text
        self._index = key if isinstance(key, int) else index
        self.needs_classes = self._index is None

    @property
    def positive(self) -> int:
        """The chosen class: of two, the one that counts as positive; 1 while its label is not resolved."""
        return 1 if self._index is None else self._index

    @property
    def degree(self) -> float | None:
        """The degree of the metric."""
        return self.metric.degree

    def with_classes(self, classes: Sequence[Any]) -> Metric:
        """The metric with the index of its label among the classes."""
        index = find_class(self.key, classes) if self._index is None else self._index
        if index >= len(classes):
            is_label = str(index) in map(str, classes)
            hint = f"A number is an index; write [{str(index)!r}] for the label." if is_label else ""
            raise expected("class", f"in 0..{len(classes) - 1}", f"{index} in {self.name}", hint)
        return OneClass(self.metric, self.key, index)

    def _find_absent(self, matrix: Tensor, labels: bool) -> Tensor | None:
        assert self._index is not None
        if labels and matrix.shape[-3] > 1:
            return matrix[..., self._index, self.metric.positive, :].sum(-1) == 0
        return (matrix.squeeze(-3) if labels else matrix)[..., self._index, :].sum(-1) == 0

    def _value(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        return self._choose(self.metric._value(matrix, skip_absent), matrix.shape[:-1])

    def _over_labels(self, matrix: Tensor, skip_absent: bool) -> Tensor:
        if matrix.shape[-3] == 1:  # one label is a problem of two classes
            return self._value(matrix.squeeze(-3), skip_absent)
        return self._choose(self.metric._over_labels(matrix, skip_absent), matrix.shape[:-2])

    def _choose(self, values: Tensor, shape: Sequence[int]) -> Tensor:
        if self._index is None:
            raise expected(
                "metric", "with a class index where labels are unknown", self.name,
                "Call with_classes(classes) first.",
            )  # fmt: skip
        if values.shape != shape:
            raise expected("metric", "with one value per class, to choose a class", self.metric.name)
        if self._index >= shape[-1]:
            raise expected("class", f"in 0..{shape[-1] - 1}", f"{self._index} in {self.name}")
        return values[..., self._index]


def find_class(label: Any, classes: Sequence[Any]) -> int:
    """The index of a label among the classes; a text also names the number that it spells.

    >>> find_class("rare", ["common", "rare"]), find_class("7", [3, 7])
    (1, 1)
    """
    known = [one.item() if hasattr(one, "item") else one for one in classes]
    for same in (lambda one: one == label, lambda one: str(one) == str(label)):
        if any(same(one) for one in known):
            return [bool(same(one)) for one in known].index(True)
    hint = suggest_similar(str(label), map(str, known))
    raise expected("class", f"to be one of {show(known)}", show(label), hint)


def _is_decorated(function: Function) -> bool:
    """Whether a function of a module or class is not (or not yet) what its name refers to."""
    path = getattr(function, "__qualname__", "")
    if not hasattr(function, "__globals__") or not path.replace(".", "").isidentifier():
        return False
    first, *others = path.split(".")
    found = function.__globals__.get(first)
    for name in others:
        found = getattr(found, name, None)
    return found is not function


def _find(module: str, path: str) -> Any:
    """The object that a module has under a dotted path, or None."""
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _ignores_scale(metric: Metric) -> bool:
    """Whether a metric gives about the same for C and 1000 C; True if it accepts none of the matrices."""
    seeded = torch.Generator().manual_seed(0)
    for classes in (2, 3, 5, 10):
        matrix = 1 + 9 * torch.rand(3, classes, classes, dtype=torch.float64, generator=seeded)
        shares = matrix / matrix.sum((-2, -1), keepdim=True)
        try:
            one, other = metric(shares), metric(1000 * matrix)
        except Exception:  # noqa: S112  the function may be written for another number of classes
            continue
        return torch.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True)
    return True
