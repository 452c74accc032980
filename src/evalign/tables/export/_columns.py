"""The raw columns of a table as inputs of a graph, and their preparation as its first nodes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from onnx import TensorProto

from evalign._errors import expected
from evalign.tables._columns import MANY
from evalign.tables._preparation import _LARGEST, _MISSING, Preparation
from evalign.tables._values import MISSING
from evalign.tables.export._graph import ML, Graph

#: Why a column of a kind cannot be an input.
REASONS = {
    "date": "ONNX cannot parse dates",
    "column of many categories": "each method encodes them in its own way",
}


def add_columns(graph: Graph, preparation: Preparation) -> str:
    """Add one input per column, numbers or texts, and return the features."""
    columns = preparation.schema.inputs
    for column in columns:
        kind = "column of many categories" if column.format == MANY else column.kind
        if kind not in ("number", "boolean", "category"):
            reason = REASONS.get(kind, f"nothing in ONNX does what is done with a {kind}")
            hint = "Fit a model without the column."
            raise expected(
                "model", "whose columns can be exported", f"{column.name!r}, a {kind} ({reason})", hint
            )
    numbers = [one.name for one in columns if one.kind != "category"]
    parts = _add_numbers(graph, preparation, numbers) if numbers else []
    categories = [one.name for one in columns if one.kind == "category"]
    parts += [_add_category(graph, preparation, index, name) for index, name in enumerate(categories)]
    return graph.join(*parts)


def _add_numbers(graph: Graph, preparation: Preparation, names: list[str]) -> list[str]:
    """Numbers with medians in place of NaN and infinity, and what marks those."""
    numbers = graph.join(*(graph.add_input(name, TensorProto.DOUBLE) for name in names))
    gaps = graph.add("Or", graph.add("IsNaN", numbers), graph.add("IsInf", numbers))
    medians = preparation.medians_[None]
    filled = graph.add("Where", gaps, graph.constant(medians), numbers)
    parts = [graph.add("Clip", filled, graph.constant(-_LARGEST), graph.constant(_LARGEST))]
    if preparation.missing_:
        places = graph.constant(preparation.missing_, np.int64)
        parts.append(graph.cast(graph.add("Gather", gaps, places, axis=1), TensorProto.DOUBLE))
    return parts


def _add_category(graph: Graph, preparation: Preparation, index: int, name: str) -> str:
    """A feature per category: 1 where it is this one, 0 elsewhere."""
    frequent, has_rare = preparation.frequent_[index], preparation.has_rare_[index]
    codes: dict[str, Any] = {value: code for code, value in enumerate(frequent)}
    rest = len(frequent) if has_rare else -1
    missing = codes.get(_MISSING, rest)
    whole = {f"{value}.0": code for value, code in codes.items() if re.fullmatch(r"[+-]?\d+", value)}
    codes = whole | dict.fromkeys(MISSING, missing) | codes
    encoded = graph.add(
        "LabelEncoder",
        graph.add_input(name, TensorProto.STRING),
        domain=ML,
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=rest,
    )
    places = graph.constant(np.arange(len(frequent) + has_rare)[None], np.int64)
    return graph.cast(graph.add("Equal", encoded, places), TensorProto.DOUBLE)
