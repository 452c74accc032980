"""Metrics from names, texts and Python functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, overload

from torch import Tensor

from evalign._errors import expected, is_number, show, suggest
from evalign._typing import ConstraintsLike, MetricLike
from evalign.metrics import _named
from evalign.metrics._confusion import Confusion
from evalign.metrics._counts import Average, CountMetric
from evalign.metrics._expression import NAMES, Expression, as_float, parse
from evalign.metrics._metric import Constraint, Metric
from evalign.metrics._ranking import auroc

#: Every named metric, by the name used in Python, in texts and on the command line.
NAMED: dict[str, Callable[..., Metric]] = {
    factory.__name__: factory
    for factory in (
        _named.accuracy, _named.balanced_accuracy, _named.precision, _named.recall,
        _named.specificity, _named.fbeta, _named.f1, _named.jaccard, _named.gmean, _named.mcc,
        _named.cohen_kappa, _named.informedness, _named.cost, auroc,
    )
}  # fmt: skip

_SIGNS = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__"}

Function = Callable[[Confusion], Tensor]


@overload
def metric(
    definition: Function | str, *, name: str | None = ..., average: Average = ...,
    positive: int = ..., higher_is_better: bool = ...,
) -> Metric: ...  # fmt: skip


@overload
def metric(
    definition: None = ..., *, name: str | None = ..., average: Average = ...,
    positive: int = ..., higher_is_better: bool = ...,
) -> Callable[[Function], Metric]: ...  # fmt: skip


def metric(
    definition: Function | str | None = None,
    *,
    name: str | None = None,
    average: Average = "auto",
    positive: int = 1,
    higher_is_better: bool = True,
) -> Metric | Callable[[Function], Metric]:
    """Make a metric from a Python function of a `Confusion`, or from a text. Also a decorator.

    One value per class is averaged according to `average`; a single value is used as it is. The function
    sees one matrix (d, d) at a time and must be written with tensor operations (no `if` on values).

    >>> import torch
    >>> @metric
    ... def lift(c):
    ...     return c.precision / (c.actual / c.total)
    >>> lift(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(1.5000)
    >>> metric("min(recall)")(torch.tensor([[8.0, 2.0], [4.0, 6.0]]))
    tensor(0.6000)
    """
    if definition is None:
        return lambda function: metric(
            function, name=name, average=average, positive=positive, higher_is_better=higher_is_better
        )
    if isinstance(definition, str):
        values: Function = Expression(definition)
        formula = definition.strip()
    elif callable(definition):
        values, formula = definition, f"{getattr(definition, '__name__', 'function')}(C)"
    else:
        raise expected("metric", "to be a function or a text", repr(definition))
    return CountMetric(
        values,
        name or (formula if isinstance(definition, str) else formula.removesuffix("(C)")),
        formula,
        average=average,
        positive=positive,
        higher_is_better=higher_is_better,
        batched=isinstance(definition, str),
    )


def as_metric(definition: MetricLike, *, scalar: bool = False) -> Metric:
    """Make a metric from a name, a call, arithmetic of calls, a formula of counts, or a function.

    Any metric reads back from its own name, `as_metric(m.name)`, unless it was made from a Python function
    or with settings of `metric`. With `scalar`, refuse metrics that do not give one number from the
    predicted classes: `auroc`, or `average=None`.

    >>> as_metric("fbeta(beta=2, average='macro')")
    Metric("fbeta(beta=2, average='macro')")
    >>> as_metric("0.5*f1() + 0.5*mcc()"), as_metric("tp / (tp + fn)")
    (Metric('0.5 * f1() + 0.5 * mcc()'), Metric('tp / (tp + fn)'))
    >>> as_metric("f2")
    Traceback (most recent call last):
    ValueError: Expected `metric` to be a known name, but got 'f2'. Did you mean 'f1'?
    """
    result = _make(definition)
    if scalar and not result.is_scalar:
        raise expected("metric", "that gives one number from predicted classes", result.name)
    return result


def _make(definition: Any) -> Metric:
    if isinstance(definition, Metric):
        return definition
    if definition is None:
        raise expected("metric", "to be a function or a text", None)
    if any(definition is factory for factory in NAMED.values()):  # parentheses were forgotten
        return as_metric(f"{definition.__name__}()")
    if not isinstance(definition, str):
        result: Metric = metric(definition)
        return result
    tree = parse(definition)
    if isinstance(tree, ast.Name) and (tree.id in NAMED or tree.id not in NAMES):
        return _call(tree.id, [], definition)
    if any(_names_a_metric(node) for node in ast.walk(tree)):
        try:
            combined = _combine(tree, definition)
        except TypeError as error:
            raise expected("metric", "to combine finite numbers", repr(definition), f"({error})") from None
        if isinstance(combined, Metric):
            return combined
    return metric(definition)


def as_constraint(definition: Constraint | str) -> Constraint:
    """Make a constraint from its text, such as "precision >= 0.9".

    The left side is anything `as_metric` accepts, the right side a number. A constraint reads back from its
    own name, `as_constraint(c.name)`, if its metric does.

    >>> as_constraint("precision >= 0.9")
    Constraint('precision() >= 0.9')
    >>> as_constraint("0.5*f1() + 0.5*mcc() >= 0.3").slack([[4, 1], [1, 4]])
    tensor(0.4000, dtype=torch.float64)
    >>> as_constraint("precision > 0.9")
    Traceback (most recent call last):
    ValueError: Expected `constraint` to be a metric, >= or <=, and a number, but got 'precision > 0.9'.
    """
    if isinstance(definition, Constraint):
        return definition
    wanted = "to be a metric, >= or <=, and a number"
    if not isinstance(definition, str):
        raise expected("constraint", wanted, show(definition))
    left, sense, right = [*re.split("([<>]=)", definition, maxsplit=1), "", ""][:3]
    try:
        bound = float(right)
    except ValueError:
        raise expected("constraint", wanted, repr(definition)) from None
    if not is_number(bound):
        raise expected("constraint", "with a finite number", repr(definition))
    constrained = as_metric(left.strip())
    return constrained >= bound if sense == ">=" else constrained <= bound


def as_constraints(definitions: ConstraintsLike) -> tuple[Constraint, ...]:
    """Read the argument `constraints` of a loss, a rule or a classifier: none, one or several.

    >>> as_constraints(["precision >= 0.9", "specificity >= 0.5"])
    (Constraint('precision() >= 0.9'), Constraint('specificity() >= 0.5'))
    >>> as_constraints("recall >= 0.8"), as_constraints(())
    ((Constraint('recall() >= 0.8'),), ())
    """
    if isinstance(definitions, Constraint | str):
        return (as_constraint(definitions),)
    if not isinstance(definitions, list | tuple):
        raise expected("constraints", "to be a list of constraints or texts", show(definitions))
    return tuple(as_constraint(one) for one in definitions)


def _names_a_metric(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMED


def _combine(node: ast.expr, text: str) -> Metric | float:
    """Evaluate arithmetic of named metrics and numbers."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        as_float(node.value, text)  # type: ignore[arg-type]
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_combine(node.operand, text)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        left, right = _combine(node.left, text), _combine(node.right, text)
        sign = _SIGNS[type(node.op)]
        if not isinstance(left, Metric) and isinstance(right, Metric):
            return getattr(right, sign.replace("__", "__r", 1))(left)  # type: ignore[no-any-return]
        if not isinstance(left, Metric):
            left, right = float(left), float(right)  # type: ignore[arg-type]
            if sign == "__truediv__" and right == 0:
                raise expected("metric", "without division by 0", repr(text))
        return getattr(left, sign)(right)  # type: ignore[no-any-return]
    if _names_a_metric(node):
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return _call(node.func.id, [node], text)
    if isinstance(node, ast.Call):
        return metric(ast.unparse(node))
    raise expected(
        "metric", "to combine calls of metrics and numbers with + - * /",
        f"{type(node).__name__.lower()} in {text!r}",
    )  # fmt: skip


def _call(name: str, calls: list[ast.Call], text: str) -> Metric:
    if name not in NAMED:
        raise expected("metric", "to be a known name", repr(text), suggest(name, NAMED))
    positional: list[Any] = []
    named: dict[str, Any] = {}
    try:
        for call in calls:
            positional += [ast.literal_eval(argument) for argument in call.args]
            named |= {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError):
        raise expected("metric", "with plain numbers, texts and lists as arguments", repr(text)) from None
    try:
        return NAMED[name](*positional, **named)
    except TypeError as error:
        raise expected("metric", f"to call {name} with its own arguments", repr(text), f"({error})") from None
