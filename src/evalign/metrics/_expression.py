"""Metrics written as text: parsed with `ast` against a list of what is allowed, never run as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evalign._errors import expected, suggest
from evalign._torch import divide, weighted_mean
from evalign.metrics._confusion import Confusion, root

NAMES = ("tp", "fp", "fn", "tn", "actual", "predicted", "total", "precision", "recall", "num_classes")
FUNCTIONS = ("sqrt", "min", "max", "mean", "sum")
#: The longest text and the deepest nesting that are read.
MAX_LENGTH, MAX_DEPTH = 1000, 200

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divide,
    ast.Pow: operator.pow,
}


def parse(text: str) -> ast.expr:
    """Parse one expression; anything but a Python expression is an error.

    >>> ast.dump(parse("1"))
    'Constant(value=1)'
    """
    if len(text) > MAX_LENGTH:
        raise expected("metric", f"of at most {MAX_LENGTH} characters", f"{len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise expected("metric", "to be a formula such as '2*tp / (2*tp + fp + fn)'", repr(text)) from None
    depth, level = 0, list[ast.AST]([tree])
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    if depth > MAX_DEPTH:
        raise expected("metric", f"with at most {MAX_DEPTH} levels of nesting", f"{depth}")
    return tree


class Expression:
    """A formula of counts, such as `2*tp / (2*tp + fp + fn)`.

    Besides `sqrt(x)`: `min`, `max`, `mean` and `sum` of one argument run over the classes that have true or
    predicted mass; `min` and `max` of several arguments compare them. 0/0 is 0.

    >>> f1 = Expression("2*tp / (2*tp + fp + fn)")
    >>> f1(Confusion(torch.tensor([[8.0, 2.0], [4.0, 6.0]])))
    tensor([0.7273, 0.6667])
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tree = parse(text)
        _check(self.tree, self.text)

    def __call__(self, c: Confusion) -> Tensor:
        value = self._value(self.tree, c)
        return value.expand_as(c.total) if value.shape == (1,) else value

    def _value(self, node: ast.expr, c: Confusion) -> Tensor:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int | float)
            return c.total.new_full((1,), float(node.value))
        if isinstance(node, ast.Name):
            value = getattr(c, node.id)
            return value if isinstance(value, Tensor) else c.total.new_full((1,), float(value))
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, c)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, c), self._value(node.right, c)
            result: Tensor = _BINARY[type(node.op)](left, right)
            return result
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return _call(node.func.id, [self._value(argument, c) for argument in node.args], c)


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


def _check(node: ast.AST, text: str) -> None:
    """Walk the tree and refuse everything that is not allowed."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise _refusal(repr(node.value), text)
        as_float(node.value, text)
    elif isinstance(node, ast.Name):
        if node.id not in NAMES:
            raise _refusal(f"the name `{node.id}`", text, suggest(node.id, NAMES))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check(node.operand, text)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, text)
        _check(node.right, text)
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


def as_float(value: float, text: str) -> float:
    """Convert a number to float; an integer too large for that is an error."""
    try:
        return float(value)
    except OverflowError:
        raise _refusal("a number this large", text) from None


def _refusal(what: str, text: str, hint: str = "") -> ValueError:
    allowed = f"names, numbers, + - * / ** and {', '.join(FUNCTIONS)}"
    return expected("metric", f"to contain only {allowed}", f"{what} in {text!r}", hint)
