"""A graph of ONNX, node by node; all numbers are float64, as in the models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

#: The versions of the two sets of operators; the second has trees in float64.
OPSETS = {"": 18, "ai.onnx.ml": 5}
#: The version of the file format: older runtimes refuse newer ones.
IR_VERSION = 10
ML = "ai.onnx.ml"


class Graph:
    """Nodes, constants and inputs, to which operators are added; a tensor is known by its name.

    >>> graph = Graph()
    >>> total = graph.add("Add", graph.add_input("x", TensorProto.DOUBLE), graph.constant([[1.0]]))
    >>> [node.op_type for node in graph.nodes], total
    (['Add'], '/2')
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def _name(self) -> str:
        self.count += 1
        return f"/{self.count}"

    def add_input(self, name: str, kind: int) -> str:
        """Add an input of one column and any number of rows."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows", 1]))
        return name

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        """Add a constant tensor."""
        name = self._name()
        array: NDArray[Any] = np.asarray(values, dtype=kind)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add_texts(self, texts: Sequence[str]) -> str:
        """Add constant texts."""
        name = self._name()
        array = np.array(list(texts), dtype=object)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output, and return the name of that."""
        name = self._name()
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def cast(self, tensor: str, kind: int) -> str:
        """Convert to another type of numbers."""
        return self.add("Cast", tensor, to=kind)

    def to_float32(self, tensor: str) -> str:
        """Round to float32, as some classifiers do, and return float64."""
        return self.cast(self.cast(tensor, TensorProto.FLOAT), TensorProto.DOUBLE)

    def affine(self, tensor: str, slope: Any, offsets: Any) -> str:
        """The tensor times the slope plus offsets, one per column."""
        return self.add("Add", self.add("Mul", tensor, self.constant(slope)), self.constant(offsets))

    def linear(self, tensor: str, weights: Any, offsets: Any) -> str:
        """The product with a matrix (inputs, outputs), plus offsets."""
        return self.add("Add", self.add("MatMul", tensor, self.constant(weights)), self.constant(offsets))

    def sum(self, tensors: Sequence[str]) -> str:
        """The sum of tensors of one shape; onnxruntime has no operator for more than two in float64."""
        return reduce(lambda total, one: self.add("Add", total, one), tensors)

    def softmax(self, tensor: str) -> str:
        """Probabilities from logits (rows, d)."""
        return self.add("Softmax", tensor, axis=1)

    def sigmoid(self, tensor: str) -> str:
        """The probabilities of two classes from the log-odds (rows, 1) of the second."""
        second = self.add("Sigmoid", tensor)
        return self.join(self.add("Sigmoid", self.add("Neg", tensor)), second)

    def join(self, *columns: str) -> str:
        """Tensors beside each other."""
        return columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=1)

    def centred_logs(self, p: str, smallest: float) -> str:
        """The logarithms of probabilities, cut off below, with mean 0 in each row."""
        clipped = self.add("Clip", p, self.constant(smallest), self.constant(1.0))
        logs = self.add("Log", clipped)
        return self.add("Sub", logs, self.add("ReduceMean", logs, self.constant([1], np.int64), keepdims=1))

    def take_column(self, tensor: str, column: int) -> str:
        """One column, (rows, 1)."""
        return self.add("Gather", tensor, self.constant([column], np.int64), axis=1)

    def build(self, outputs: dict[str, tuple[str, int, list[Any]]], facts: dict[str, str]) -> Any:
        """Build the model with outputs by name: the tensor, its type and its shape."""
        renames = [helper.make_node("Identity", [own], [name]) for name, (own, _, _) in outputs.items()]
        infos = [
            helper.make_tensor_value_info(name, kind, shape) for name, (_, kind, shape) in outputs.items()
        ]
        graph = helper.make_graph([*self.nodes, *renames], "evalign", self.inputs, infos, self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="evalign", ir_version=IR_VERSION)
        helper.set_model_props(model, facts)
        return model
