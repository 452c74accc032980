"""Whether a graph predicts what its model does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalign.tables._model import TableModel
from evalign.tables._preparation import Preparation

#: How far probabilities may differ, and how near to the threshold labels may.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Agreement:
    """How a graph and its model agree on rows.

    Attributes:
        rows: The number of rows.
        difference: The largest difference of a probability.
        labels: The number of rows with another label.
        rounded: The number of those whose decision hangs on rounding: the model itself decides otherwise if
            its probabilities change by the tolerance.
    """

    rows: int
    difference: float
    labels: int
    rounded: int

    @property
    def holds(self) -> bool:
        """Whether the probabilities are equal to 1e-5, and labels differ only by rounding."""
        return self.difference <= TOLERANCE and self.labels == self.rounded


def compare_graph(content: bytes, model: TableModel, table: Any) -> Agreement:
    """Compare the predictions of an ONNX file, in onnxruntime, with those of its model on a table."""
    import onnxruntime  # noqa: PLC0415 - it starts threads, which a process that forks later must not have

    converted = model.schema.convert(table)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = {}
    for column in model.schema.inputs:
        values = converted[column.name]
        if column.kind == "category":
            inputs[column.name] = np.where(pd.isna(values), "", values).astype(object)[:, None]
        else:
            inputs[column.name] = np.asarray(values, dtype=np.float64)[:, None]
    labels, p = session.run(None, inputs)
    names, wanted = model.predict_converted(converted)
    differs = labels != names
    rounded = differs & _hangs_on_rounding(model, wanted, labels)
    return Agreement(len(names), float(np.abs(p - wanted).max()), int(differs.sum()), int(rounded.sum()))


def _hangs_on_rounding(model: TableModel, p: Any, labels: Any) -> Any:
    """Whether each label is within the tolerance of what the rule decides by."""
    rule = getattr(model.classifier, "rule_", None)
    margins = p if rule is None else rule.margins(p)
    if rule is None and len(model.labels) == 2:
        margins = p[:, 1] - 0.5
    if margins.ndim == 1:
        return np.abs(margins) <= TOLERANCE
    chosen = pd.Index(model.labels).get_indexer(labels)
    return margins.max(1) - margins[np.arange(len(p)), chosen] <= TOLERANCE


def draw_rows(model: TableModel, rows: int, seed: int = 0) -> Any:
    """Draw rows that reach every part of a model: within and beyond the training range, rare, missing.

    They are no substitute for real ones, which a folder does not contain.
    """
    generator = np.random.default_rng(seed)
    preparation: Preparation = model.preparation
    profiles = {} if model.profile is None else model.profile.columns
    columns: dict[str, Any] = {}
    categories = 0
    for column in model.schema.inputs:
        if column.kind == "category":
            known = preparation.frequent_[categories]
            values: Any = generator.choice(np.array([*known, "something new"], dtype=object), rows)
            categories += 1
        elif column.kind == "boolean":
            values = generator.integers(0, 2, rows).astype(float)
        else:
            profile = profiles.get(column.name)
            low, high = (profile.range if profile else ()) or (-3.0, 3.0)
            values = generator.uniform(low - (high - low) / 4, high + (high - low) / 4, rows)
            edges = [low, high, *(profile.edges if profile else ())]
            values = np.where(generator.random(rows) < 0.5, generator.choice(edges, rows), values)
        columns[column.name] = pd.Series(values, dtype=object).where(generator.random(rows) > 0.1, None)
    return pd.DataFrame(columns)
