"""A table model as one graph."""

from __future__ import annotations

import json
from typing import Any

from onnx import TensorProto

import evalign
from evalign.tables._model import TableModel
from evalign.tables.export._classifiers import add_classifier, add_decision
from evalign.tables.export._columns import add_columns
from evalign.tables.export._graph import Graph

#: The outputs.
LABEL, PROBABILITIES = "label", "probabilities"


def build_onnx(model: TableModel) -> bytes:
    """Build the ONNX file of a model, whose inputs are the columns of a table.

    There is one input per column, of shape (rows, 1): float64 with NaN where a number or boolean (1 or 0) is
    missing, or text, "" where a category is missing. The outputs are the label, (rows,), and the
    probabilities, (rows, classes).

    Raises:
        ValueError: If a column or a part of the classifier has no counterpart in ONNX; it is named.
    """
    graph = Graph()
    features = add_columns(graph, model.preparation)
    p = add_classifier(graph, model.classifier, features)
    index = add_decision(graph, model.classifier, p)
    names = graph.add_texts(model.labels)
    label = graph.add("Gather", names, index, axis=0)
    taken = {column.name for column in model.schema.inputs}
    outputs: dict[str, tuple[str, int, list[Any]]] = {
        _avoid(LABEL, taken): (label, TensorProto.STRING, ["rows"]),
        _avoid(PROBABILITIES, taken): (p, TensorProto.DOUBLE, ["rows", len(model.labels)]),
    }
    facts = {
        "classes": json.dumps(model.labels),
        "threshold": json.dumps(model.threshold),
        "metric": str(model.facts["metric"]),
        "target": str(model.facts["target"]),
        "evalign": evalign.__version__,
    }
    return bytes(graph.build(outputs, facts).SerializeToString())


def _avoid(name: str, taken: set[str]) -> str:
    """The name, with underscores behind it if a column has it."""
    while name in taken:
        name += "_"
    return name
