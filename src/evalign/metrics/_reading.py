"""Metrics and constraints from texts and Python functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any, Literal, TypeGuard, overload

from evalign._errors import expected, show
from evalign._typing import ConstraintsLike, MetricLike
from evalign.metrics._counts import Average, CountMetric, FormulaMetric, Function, FunctionMetric
from evalign.metrics._expression import (
    COUNTS,
    FUNCTIONS,
    NAMES,
    SYMBOLS,
    Expression,
    as_multiple_of_total,
    fold,
    parse,
    write_source,
)
from evalign.metrics._metric import Constraint, Metric, plain
from evalign.metrics._registry import NAMED, explain_name, find_spelling, is_other_name

_METHODS = {"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__"}
#: The named metrics that have one value per class.
_PER_CLASS = [name for name, make in NAMED.items() if "positive" in signature(make).parameters]
_SENSES: dict[type, Literal[">=", "<="]] = {ast.GtE: ">=", ast.LtE: "<="}


@overload
def metric(
    definition: Function | str, *, name: str | None = ..., average: Average = ...,
    positive: int = ..., higher_is_better: bool = ...,
) -> Metric: ...  # fmt: skip


@overload
def metric(
    definition: None = ..., *, name: str | None = ..., average: Average = ...,
    positive: int = ..., higher_is_better: bool = ...,
) -> Any: ...  # fmt: skip


def metric(
    definition: Function | str | None = None,
    *,
    name: str | None = None,
    average: Average = "auto",
    positive: int = 1,
    higher_is_better: bool = True,
) -> Any:
    """Make a metric from a Python function of a `Confusion`, or from a formula. Also a decorator.

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
    settings: dict[str, Any] = {
        "average": average, "positive": positive, "higher_is_better": higher_is_better,
    }  # fmt: skip
    if definition is None:
        return lambda function: metric(function, name=name, **settings)
    if not isinstance(definition, str) and not callable(definition):
        raise expected("metric", "to be a function or a text", repr(definition))
    own = definition.strip() if isinstance(definition, str) else None
    if name is not None and name != own and _is_readable(name):
        raise expected("name", "that is not the text of another metric", repr(name))
    if isinstance(definition, str):
        return FormulaMetric(definition, name, **settings)
    title = getattr(definition, "__name__", "function")
    _check_function(definition, title)
    shown = f"<{title}>" if _is_readable(title) else title  # a function called f1 is not the metric "f1"
    return FunctionMetric(definition, name or shown, f"{title}(C)", **settings)


def _check_function(function: Function, title: str) -> None:
    """Refuse functions that take something else, such as true and predicted classes."""
    try:
        signature(function).bind(None)
    except TypeError:
        spelling = find_spelling(title)
        hint = f"Did you mean {spelling!r}?" if spelling else ""
        raise expected("metric", "to be a function of one `Confusion`", f"{title}", hint) from None
    except ValueError:  # written in C, without a signature
        pass


def as_metric(definition: MetricLike, *, scalar: bool = False) -> Metric:
    """Make a metric from a name, a call, arithmetic of metrics, a formula of counts, or a function.

    A text that mentions a named metric, or one class (`recall[2]`, `fp['rare']`), is arithmetic of metrics,
    each of which is one number. Any other text is a formula of counts per class (see `Expression`), and its
    values are averaged. `metric('precision * recall')` is a formula inside arithmetic.

    Any metric reads back from its own name, `as_metric(m.name)`, unless it was made from a Python function
    or has a name of its own (`m.has_text` is False). With `scalar`, refuse metrics that do not give one
    number from the predicted classes: `auroc`, or `average=None`.

    >>> as_metric("fbeta(beta=2, average='macro')")
    Metric("fbeta(beta=2, average='macro')")
    >>> as_metric("0.5*f1 + 0.5*mcc"), as_metric("tp / (tp + fn)"), as_metric("recall[2]")
    (Metric('0.5 * f1() + 0.5 * mcc()'), Metric('tp / (tp + fn)'), Metric('recall[2]'))
    >>> as_metric("f2")
    Traceback (most recent call last):
    ValueError: Expected `metric` to be a known name, but got 'f2'. Did you mean 'fbeta(beta=2)'?
    """
    result = _make(definition)
    if scalar and not result.is_scalar:
        raise expected("metric", "that gives one number from predicted classes", result.name)
    return result


def as_constraint(definition: Constraint | str) -> Constraint:
    """Make a constraint from its text, such as "precision >= 0.9".

    Both sides are anything `as_metric` accepts, and the right side may be a number. With metrics on both
    sides, their difference is bounded by 0; counts are divided by the number of rows. A constraint reads
    back from its own name, `as_constraint(c.name)`, if its metric does.

    >>> as_constraint("precision >= 0.9")
    Constraint('precision() >= 0.9')
    >>> as_constraint("fp <= 0.01 * total"), as_constraint("fp <= 2 * fn")
    (Constraint('fp / total <= 0.01'), Constraint('(fp - 2 * fn) / total <= 0'))
    >>> as_constraint("precision >= recall")
    Constraint('precision() - recall() >= 0')
    >>> as_constraint("0.5*f1() + 0.5*mcc() >= 0.3").slack([[4, 1], [1, 4]])
    tensor(0.4000, dtype=torch.float64)
    >>> as_constraint("precision > 0.9")
    Traceback (most recent call last):
    ValueError: Expected `constraint` to be ..., but got 'precision > 0.9'. Did you mean 'precision >= 0.9'?
    """
    if isinstance(definition, Constraint):
        return definition
    wanted = "to be a metric, >= or <=, and a number or a metric"
    if not isinstance(definition, str):
        raise expected("constraint", wanted, show(definition))
    try:
        tree = parse(definition, "constraint")
    except ValueError:
        raise expected("constraint", wanted, show(definition), "An example is 'precision >= 0.9'.") from None
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in _SENSES:
        raise expected("constraint", wanted, repr(definition), _suggest_comparison(tree))
    left, right = _read(tree.left, definition), _read(tree.comparators[0], definition)
    if not isinstance(left, Metric):
        other = ">=" if isinstance(tree.ops[0], ast.LtE) else "<="
        meant = f"{ast.unparse(tree.comparators[0])} {other} {ast.unparse(tree.left)}"
        raise expected("constraint", wanted, repr(definition), f"Did you mean {meant!r}?")
    bounded, bound = _compare(left, right)
    return Constraint(bounded, _SENSES[type(tree.ops[0])], bound)


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


def resolve_classes(
    metric: Metric, constraints: Iterable[Constraint], classes: Iterable[Any]
) -> tuple[Metric, tuple[Constraint, ...]]:
    """Replace the labels of classes in a metric and its constraints by their indices; see `with_classes`.

    >>> resolve_classes(as_metric("recall['b']"), as_constraints("precision['a'] >= 0.9"), ["a", "b"])
    (Metric("recall['b']"), (Constraint("precision['a'] >= 0.9"),))
    """
    known = list(classes)
    return metric.with_classes(known), tuple(one.with_classes(known) for one in constraints)


def check_for_loss(metric: Metric, constraints: Sequence[Constraint] = ()) -> None:
    """Refuse what a loss cannot compute: it sees shares of the rows, and classes without labels.

    >>> check_for_loss(as_metric("f1"), as_constraints("fp <= 10"))
    Traceback (most recent call last):
    ValueError: Expected `constraints` to be scale-free in a loss, ... as in 'fp <= 0.01 * total'.
    """
    parts = [("metric", metric, metric.name), *(("constraints", one.metric, one.name) for one in constraints)]
    for argument, part, name in parts:
        if part.needs_classes:
            hint = "Call with_classes(classes) first."
            raise expected(argument, "with class indices in a loss, which sees no labels", repr(name), hint)
    wanted = "to be scale-free in a loss, which sees shares of the rows"
    if not metric.is_scale_free:
        example = f"({metric.name}) / {_write_power(metric.degree)}" if metric.degree else ""
        raise expected("metric", wanted, repr(metric.name), _advise(example))
    for bound in constraints:
        if not bound.is_scale_free:
            degree = bound.metric.degree
            example = f"{bound.metric.spelling} {bound.sense} 0.01 * {_write_power(degree)}" if degree else ""
            raise expected("constraints", wanted, repr(bound.name), _advise(example))


def _advise(example: str) -> str:
    if example:
        return f"Divide by the number of rows, as in {example!r}."
    return "Divide counts by the number of rows, `total`, before numbers are added."


def _write_power(degree: float | None) -> str:
    return "total" if degree == 1 else f"total**{plain(degree or 0)}"


def _make(definition: Any) -> Metric:
    if isinstance(definition, Metric):
        return definition
    if any(definition is factory for factory in NAMED.values()):  # parentheses were forgotten
        return as_metric(f"{definition.__name__}()")
    if not isinstance(definition, str):
        if definition is None:
            raise expected("metric", "to be a function or a text", None)
        result: Metric = metric(definition)
        return result
    try:
        tree = parse(definition)
    except ValueError:
        if is_other_name(definition):  # such as "balanced accuracy"
            raise explain_name(definition, definition) from None
        raise
    if isinstance(tree, ast.Compare):
        hint = "Pass bounds as `constraints`."
        raise expected("metric", "to be a number, not a comparison", repr(definition), hint)
    read = _read(tree, definition)
    return read if isinstance(read, Metric) else metric(definition)


def _is_readable(name: str) -> bool:
    try:
        as_metric(name)
    except ValueError:
        return False
    return True


def _read(tree: ast.expr, text: str) -> Metric | float:
    """Read a whole text, or one side of a constraint: a metric, or a number if there are no names."""
    if isinstance(tree, ast.Name) and (tree.id in NAMED or tree.id not in NAMES):
        return _call(tree.id, None, text)
    if any(_is_metric(node) for node in ast.walk(tree)):
        try:
            return _combine(tree, text)
        except TypeError as error:
            raise expected("metric", "to combine finite numbers", repr(text), f"({error})") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in (*NAMES, *FUNCTIONS) and is_other_name(node.id):
            raise explain_name(node.id, text)
    number = fold(tree, text)
    return metric(write_source(tree, text)) if number is None else number


def _is_metric(node: ast.AST) -> bool:
    """Whether a node is a named metric, a formula in a call of `metric`, or one class."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in NAMED or node.func.id == "metric"
    if isinstance(node, ast.Name):
        return node.id in NAMED and node.id not in NAMES
    return isinstance(node, ast.Subscript)


def _combine(node: ast.expr, text: str) -> Metric | float:
    """Evaluate arithmetic of metrics and numbers."""
    if isinstance(node, ast.Subscript):
        return _choose_class(node, text)
    if isinstance(node, ast.Name) and (node.id in NAMED or node.id not in NAMES):
        return _call(node.id, None, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in FUNCTIONS:
        return _call(node.func.id, node, text)
    if not any(_is_metric(part) for part in ast.walk(node)):
        number = fold(node, text)
        if number is not None:
            return number
        formula = write_source(node, text)
        if not Expression(formula).facts.per_class:
            return metric(formula)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_combine(node.operand, text)
    if isinstance(node, ast.BinOp) and SYMBOLS.get(type(node.op)) in _METHODS:
        left, right = _combine(node.left, text), _combine(node.right, text)
        method = _METHODS[SYMBOLS[type(node.op)]]
        if isinstance(left, Metric):
            return getattr(left, method)(right)  # type: ignore[no-any-return]
        return getattr(right, method.replace("__", "__r", 1))(left)  # type: ignore[no-any-return]
    hint = f"Write metric({ast.unparse(node)!r}) for the average of a formula."
    raise expected(
        "metric", "to combine metrics and numbers with + - * /", f"{ast.unparse(node)} in {text!r}",
        "" if any(_is_metric(part) for part in ast.walk(node)) else hint,
    )  # fmt: skip


def _choose_class(node: ast.Subscript, text: str) -> Metric:
    """Read one class of a metric or a formula: recall[2], (fp / total)['rare']."""
    whole, key = node.value, node.slice
    chosen = key.value if isinstance(key, ast.Constant) else None
    if not isinstance(chosen, int | str) or isinstance(chosen, bool):
        raise expected("metric", "with the index or the label of a class in [ ]", repr(text))
    call = whole if isinstance(whole, ast.Call) and _is_metric(whole) else None
    name = whole if call is None else call.func
    if not isinstance(name, ast.Name) or name.id in (*COUNTS, "total", "num_classes"):
        return FormulaMetric(write_source(whole, text), None, average=None, higher_is_better=True)[chosen]
    if name.id in NAMED and name.id not in _PER_CLASS:
        raise expected("metric", "with one value per class before [ ]", repr(text))
    per_class = _call(name.id, call, text, average=None)
    assert isinstance(per_class, CountMetric)
    return per_class[chosen]


def _call(name: str, call: ast.Call | None, text: str, **settings: Any) -> Metric:
    """Call a named metric, or `metric` with a formula, with the arguments in the text."""
    if name not in NAMED and name != "metric":
        raise explain_name(name, text)
    positional: list[Any] = []
    named = dict(settings)
    try:
        if call is not None:
            positional += [ast.literal_eval(argument) for argument in call.args]
            named |= {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError):
        raise expected("metric", "with plain numbers, texts and lists as arguments", repr(text)) from None
    try:
        return (NAMED.get(name) or _read_formula)(*positional, **named)
    except TypeError as error:
        raise expected("metric", f"to call {name} with its own arguments", repr(text), f"({error})") from None


def _read_formula(
    definition: str, *, average: Average = "auto", positive: int = 1, higher_is_better: bool = True
) -> Metric:
    """What `metric` is in a text: it takes the text of a formula."""
    if not isinstance(definition, str) or not isinstance(higher_is_better, bool):
        raise TypeError("metric takes the text of a formula and settings")
    result: Metric = metric(definition, average=average, positive=positive, higher_is_better=higher_is_better)
    return result


def _compare(left: Metric, right: Metric | float) -> tuple[Metric, float]:
    """The metric and the bound of `left >= right`."""
    if not isinstance(right, Metric):
        return left, right
    multiple = as_multiple_of_total(right.values.tree) if _is_plain(right) else None
    if multiple is not None:  # fp <= 0.01 * total
        factor, degree = multiple
        return _join(left, "/", _read_formula(_write_power(degree))), factor
    difference = _join(left, "-", right)
    if left.degree == right.degree and left.degree:
        difference = _join(difference, "/", _read_formula(_write_power(left.degree)))
    return difference, 0.0


def _join(left: Metric, symbol: Literal["-", "/"], right: Metric) -> Metric:
    """The difference or the quotient of metrics; that of two formulas is a formula."""
    if not (_is_plain(left) and _is_plain(right)):
        return left - right if symbol == "-" else left / right
    operation = ast.Sub() if symbol == "-" else ast.Div()
    result: Metric = metric(ast.unparse(ast.BinOp(left.values.tree, operation, right.values.tree)))
    return result


def _is_plain(metric: Metric) -> TypeGuard[FormulaMetric]:
    return isinstance(metric, FormulaMetric) and metric.is_plain


def _suggest_comparison(tree: ast.expr) -> str:
    """What was probably meant by > or <."""
    senses: dict[type, str] = {ast.Gt: ">=", ast.Lt: "<="}
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in senses:
        return ""
    sense = senses[type(tree.ops[0])]
    meant = f"{ast.unparse(tree.left)} {sense} {ast.unparse(tree.comparators[0])}"
    return f"Did you mean {meant!r}?"
