"""Formulas of counts written as text: parsed with `ast` against a list of what is allowed, never run."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from evalign._errors import expected, suggest
from evalign._torch import divide, weighted_mean
from evalign.metrics._algebra import UNBOUNDED, Range, join_degrees, join_ranges
from evalign.metrics._confusion import Confusion, root

COUNTS = ("tp", "fp", "fn", "tn", "actual", "predicted")
RATIOS = ("precision", "recall")
NAMES = (*COUNTS, "total", *RATIOS, "num_classes")
FUNCTIONS = ("sqrt", "min", "max", "mean", "sum")
#: The longest text, without tables of numbers, and the deepest nesting that are read.
MAX_LENGTH, MAX_DEPTH = 1000, 200

SYMBOLS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "**": operator.pow,
}
_NUMBER = r"\s*-?\d[\d_]*(\.\d*)?(e[+-]?\d+)?\s*"
_NUMBERS = re.compile(rf"\[({_NUMBER},)*({_NUMBER})?\]", re.IGNORECASE)
_ROWS = re.compile(r"\[(\s*\[\],)*\s*\[\]\]")


def parse(text: str, argument: str = "metric") -> ast.expr:
    """Parse one expression; anything but a Python expression is an error.

    >>> ast.dump(parse("1"))
    'Constant(value=1)'
    """
    length = len(_ROWS.sub("[]", _NUMBERS.sub("[]", text)))  # the cost matrix of 100 classes may be long
    if length > MAX_LENGTH:
        raise expected(argument, f"of at most {MAX_LENGTH} characters", f"{length}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise expected(argument, "to be a formula such as '2*tp / (2*tp + fp + fn)'", repr(text)) from None
    depth, level = 0, list[ast.AST]([tree])
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    if depth > MAX_DEPTH:
        raise expected(argument, f"with at most {MAX_DEPTH} levels of nesting", f"{depth}")
    return tree


def write_source(node: ast.expr, text: str) -> str:
    """The part of a parsed text that is a node, on one line, without comments and outer parentheses.

    >>> write_source(parse(" (tp+fp) "), " (tp+fp) ")
    'tp+fp'
    """
    part = ast.get_source_segment(text.strip(), node)
    return part if part and part.isprintable() and "#" not in part else ast.unparse(node)


@dataclass(frozen=True)
class Facts:
    """What is known about a formula without evaluating it."""

    #: k where the formula of c C is c^k times the formula of C; None if there is no such k.
    degree: float | None
    #: The lowest and the highest value.
    range: Range
    #: Whether there is one value per class, not one for the whole matrix.
    per_class: bool


class Expression:
    """A formula of counts, such as `2*tp / (2*tp + fp + fn)`.

    Besides `sqrt(x)`: `min`, `max`, `mean` and `sum` of one argument run over the classes that have true or
    predicted mass; `min` and `max` of several arguments compare them. 0/0 is 0.

    >>> f1 = Expression("2*tp / (2*tp + fp + fn)")
    >>> f1(Confusion(torch.tensor([[8.0, 2.0], [4.0, 6.0]])))
    tensor([0.7273, 0.6667])
    >>> f1.facts.degree, Expression("tp - fp").facts.degree, Expression("tp + 1").facts.degree
    (0, 1, None)
    """

    def __init__(self, text: str) -> None:
        self.tree = parse(text)
        self.text = write_source(self.tree, text)
        _check(self.tree, self.text)
        if not self(_make_sample()).isfinite().all():
            raise expected("metric", "to be finite in single precision", repr(self.text))

    def __call__(self, c: Confusion) -> Tensor:
        value = evaluate(self.tree, c)
        return value.expand_as(c.total) if value.shape == (1,) else value

    @cached_property
    def facts(self) -> Facts:
        """The degree, the range and the shape of the formula."""
        return _find_facts(self.tree)


def evaluate(node: ast.expr, c: Confusion) -> Tensor:
    """The value of a checked formula: one per class (..., d), or one (..., 1) or (1,)."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return c.total.new_full((1,), float(node.value))
    if isinstance(node, ast.Name):
        value = getattr(c, node.id)
        return value if isinstance(value, Tensor) else c.total.new_full((1,), float(value))
    if isinstance(node, ast.UnaryOp):
        value = evaluate(node.operand, c)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = evaluate(node.left, c), evaluate(node.right, c)
        result: Tensor = _OPERATIONS[SYMBOLS[type(node.op)]](left, right)
        return result
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _call(node.func.id, [evaluate(argument, c) for argument in node.args], c)


def fold(node: ast.expr, text: str) -> float | None:
    """The number that a formula without names is, or None if it has names.

    >>> fold(parse("1 / 4"), "1 / 4"), fold(parse("tp / 4"), "tp / 4")
    (0.25, None)
    """
    if _names_in(node):
        return None
    _check(node, text)
    value = float(evaluate(node, _make_unit()))
    if not math.isfinite(value):
        raise expected("metric", "with finite numbers", f"{value} in {text!r}")
    return value


def as_multiple_of_total(node: ast.expr) -> tuple[float, float] | None:
    """(factor, degree) of a checked formula factor * total ** degree, or None if it is none.

    >>> as_multiple_of_total(parse("total / 50")), as_multiple_of_total(parse("0.1 * tp"))
    ((0.02, 1), None)
    """
    degree = _find_facts(node).degree
    if _names_in(node) != {"total"} or degree is None:
        return None
    # A function of one variable with a degree is a multiple of its power: the factor is its value at 1.
    return float(evaluate(node, _make_unit())), degree


def _names_in(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - set(FUNCTIONS)


def _call(name: str, values: list[Tensor], c: Confusion) -> Tensor:
    first = values[0]
    if name == "sqrt":
        return root(first)
    if len(values) > 1:
        pick = torch.minimum if name == "min" else torch.maximum
        for other in values[1:]:
            first = pick(first, other)
        return first
    if first.shape[-1] == 1:
        return first
    if name == "sum":
        return (first * c.present).sum(-1, keepdim=True)
    if name == "mean":
        return weighted_mean(first, c.present).unsqueeze(-1)
    if name == "min":
        extreme = first.masked_fill(~c.present, torch.inf).amin(-1, keepdim=True)
    else:
        extreme = first.masked_fill(~c.present, -torch.inf).amax(-1, keepdim=True)
    return extreme.masked_fill(~c.present.any(-1, keepdim=True), 0.0)


def _find_facts(node: ast.expr) -> Facts:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return Facts(0, (float(node.value), float(node.value)), per_class=False)
    if isinstance(node, ast.Name):
        if node.id in RATIOS:
            return Facts(0, (0, 1), per_class=True)
        if node.id == "num_classes":
            return Facts(0, (2, math.inf), per_class=False)
        return Facts(1, (0, math.inf), per_class=node.id in COUNTS)
    if isinstance(node, ast.UnaryOp):
        inner = _find_facts(node.operand)
        low, high = inner.range
        negative = isinstance(node.op, ast.USub)
        return Facts(inner.degree, (-high, -low) if negative else (low, high), inner.per_class)
    if isinstance(node, ast.BinOp):
        left, right = _find_facts(node.left), _find_facts(node.right)
        symbol, per_class = SYMBOLS[type(node.op)], left.per_class or right.per_class
        if symbol == "**":
            return Facts(_degree_of_power(left, right), _range_of_power(left, right), per_class)
        degree = join_degrees(symbol, left.degree, right.degree)
        return Facts(degree, join_ranges(symbol, left.range, right.range), per_class)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _facts_of_call(node.func.id, [_find_facts(argument) for argument in node.args])


def _facts_of_call(name: str, parts: list[Facts]) -> Facts:
    first, per_class = parts[0], any(part.per_class for part in parts)
    lows, highs = zip(*(part.range for part in parts), strict=True)
    if name == "sqrt":
        degree = None if first.degree is None else first.degree / 2
        return Facts(degree, (max(lows[0], 0) ** 0.5, max(highs[0], 0) ** 0.5), per_class)
    degree = first.degree if all(part.degree == first.degree for part in parts) else None
    if len(parts) > 1:
        pick = min if name == "min" else max
        return Facts(degree, (pick(lows), pick(highs)), per_class)
    if name == "sum" and per_class:
        low, high = -math.inf if lows[0] < 0 else 0, math.inf if highs[0] > 0 else 0
        return Facts(degree, (low, high), per_class=False)
    return Facts(degree, first.range, per_class=False)


def _degree_of_power(base: Facts, exponent: Facts) -> float | None:
    low, high = exponent.range
    if base.degree == 0 and exponent.degree == 0:
        return 0
    if base.degree is None or exponent.degree != 0 or low != high:
        return None
    return round(base.degree * low, 9)


def _range_of_power(base: Facts, exponent: Facts) -> Range:
    if base.range[0] < 0:
        return UNBOUNDED
    return (0, 1) if base.range[1] <= 1 and exponent.range[0] >= 0 else (0, math.inf)


def _check(node: ast.AST, text: str) -> None:
    """Walk the tree and refuse everything that is not allowed."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise _refusal(repr(node.value), text)
        if abs(node.value) > torch.finfo(torch.float32).max:
            raise _refusal("a number this large", text)
    elif isinstance(node, ast.Name):
        if node.id not in NAMES:
            raise _refusal(f"the name `{node.id}`", text, suggest(node.id, NAMES))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check(node.operand, text)
    elif isinstance(node, ast.BinOp) and type(node.op) in SYMBOLS:
        _check(node.left, text)
        _check(node.right, text)
        if (
            isinstance(node.op, ast.Div)
            and not _names_in(node.right)
            and not evaluate(node.right, _make_unit())
        ):
            raise expected("metric", "without division by 0", repr(text))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, count = node.func.id, len(node.args)
        if name not in FUNCTIONS:
            raise _refusal(f"a call of `{name}`", text, suggest(name, FUNCTIONS))
        if node.keywords or count == 0 or (count > 1 and name not in ("min", "max")):
            raise _refusal(f"these arguments of `{name}`", text)
        for argument in node.args:
            _check(argument, text)
    else:
        raise _refusal(f"{type(node).__name__.lower()}", text)


def _refusal(what: str, text: str, hint: str = "") -> ValueError:
    allowed = f"names, numbers, + - * / ** and {', '.join(FUNCTIONS)}"
    return expected("metric", f"to contain only {allowed}", f"{what} in {text!r}", hint)


def _make_sample() -> Confusion:
    """A matrix on which every formula must be finite; made anew, since modes of PyTorch may be active."""
    return Confusion(torch.tensor([[8.3, 2.1], [4.7, 6.9]], device="cpu"))


def _make_unit() -> Confusion:
    """A matrix with total 1."""
    return Confusion(torch.full((2, 2), 0.25, dtype=torch.float64, device="cpu"))
