"""A table model as an ONNX graph, from its columns to the class and the probabilities; extra `onnx`."""

from evalign.tables.export._agreement import Agreement, compare_graph, draw_rows
from evalign.tables.export._model import build_onnx

__all__ = ["Agreement", "build_onnx", "compare_graph", "draw_rows"]
