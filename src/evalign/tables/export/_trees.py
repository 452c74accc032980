"""Trees as one node of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from evalign._errors import expected
from evalign._typing import Floats
from evalign.estimators import ObliviousTrees
from evalign.tables.export._graph import ML, Graph

#: ONNX's numbers for "at most the threshold" and for the sum of trees.
AT_MOST, SUM = 0, 1


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree: a row goes left if its feature is at most the threshold.

    Attributes:
        feature: The feature of each inner node; the root is the first.
        threshold: The threshold of each.
        left: The inner node on the left, or ~leaf.
        right: That on the right.
        values: The value of each leaf.
        target: The output that the values are added to.
    """

    feature: NDArray[Any]
    threshold: Floats
    left: NDArray[Any]
    right: NDArray[Any]
    values: Floats
    target: int


def add_trees(graph: Graph, features: str, trees: Iterable[Tree], n_targets: int) -> str:
    """Add the sum of the trees, (rows, n_targets)."""
    constants, split = np.zeros(n_targets), []
    for tree in trees:
        if len(tree.feature):
            split.append(tree)
        else:
            constants[tree.target] += tree.values[0]
    if not split:
        zeros = graph.add("Mul", graph.take_column(features, 0), graph.constant(0.0))
        return graph.add("Add", zeros, graph.constant(constants[None]))
    nodes = np.cumsum([0, *(len(tree.feature) for tree in split)])
    leaves = np.cumsum([0, *(len(tree.values) for tree in split)])
    sides = {}
    for side, name in (("left", "true"), ("right", "false")):
        children = [getattr(tree, side) for tree in split]
        is_leaf = np.concatenate(children) < 0
        places = [
            np.where(child < 0, ~child + leaf, child + node)
            for child, node, leaf in zip(children, nodes, leaves, strict=False)
        ]
        sides[f"nodes_{name}leafs"] = is_leaf.astype(np.int64)
        sides[f"nodes_{name}nodeids"] = np.concatenate(places).astype(np.int64)
    thresholds = np.concatenate([tree.threshold for tree in split])
    values = np.concatenate([tree.values for tree in split])
    total = graph.add(
        "TreeEnsemble",
        features,
        domain=ML,
        aggregate_function=SUM,
        n_targets=n_targets,
        tree_roots=nodes[:-1],
        nodes_featureids=np.concatenate([tree.feature for tree in split]).astype(np.int64),
        nodes_modes=numpy_helper.from_array(np.full(len(thresholds), AT_MOST, np.uint8)),
        nodes_splits=numpy_helper.from_array(thresholds.astype(np.float64)),
        leaf_targetids=np.repeat([tree.target for tree in split], np.diff(leaves)),
        leaf_weights=numpy_helper.from_array(values.astype(np.float64)),
        **sides,
    )
    return graph.add("Add", total, graph.constant(constants[None]))


def read_lightgbm(booster: Any) -> tuple[list[Tree], int]:
    """Read the trees of a booster of LightGBM, and the number of its raw scores per row."""
    text = booster.model_to_string()
    head, *blocks = text.partition("end of trees")[0].split("\nTree=")
    width = int(re.search(r"^num_tree_per_iteration=(\d+)$", head, re.M)[1])  # type: ignore[index]
    if re.search(r"^average_output$", head, re.M):
        raise expected("model", "with boosted trees, to be exported", "a forest of LightGBM")
    return [_read_tree(block, number % width) for number, block in enumerate(blocks)], width


def _read_tree(block: str, target: int) -> Tree:
    lines = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)

    def read(name: str, kind: Any) -> NDArray[Any]:
        return np.array(lines.get(name, "").split(), dtype=kind)

    decisions = read("decision_type", np.int64)
    # Bit 0: a set of categories. Bits 2 and 3: 1 if zeros are missing; NaN may be, but features have none.
    if (decisions & 1).any() or (decisions >> 2 & 3 == 1).any():
        raise expected("model", "with splits at thresholds only, to be exported", "LightGBM's categories")
    return Tree(
        read("split_feature", np.int64), read("threshold", np.float64), read("left_child", np.int64),
        read("right_child", np.int64), read("leaf_value", np.float64), target,
    )  # fmt: skip


def read_sklearn(tree: Any, n_classes: int, scale: float) -> list[Tree]:
    """Read a tree of scikit-learn: one copy per class, since a leaf has one value in ONNX.

    Of two classes, only the second is read.
    """
    inner = tree.children_left >= 0
    places = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))
    feature, threshold = tree.feature[inner], tree.threshold[inner]
    left, right = places[tree.children_left[inner]], places[tree.children_right[inner]]
    values = tree.value[~inner, 0, :] * scale
    if n_classes == 2:
        return [Tree(feature, threshold, left, right, values[:, 1], 0)]
    return [Tree(feature, threshold, left, right, values[:, k], k) for k in range(n_classes)]


def read_catboost(trees: ObliviousTrees) -> list[Tree]:
    """Read trees whose levels ask one question each, one copy per output."""
    depth = trees.features.shape[1]
    inner = np.arange((1 << depth) - 1)
    level = np.floor(np.log2(inner + 1)).astype(np.int64)
    children = 2 * inner[:, None] + [1, 2]
    # The answers number the leaf, the first one being the lowest bit; on the way down it comes first.
    last = np.array([int(f"{place:0{depth}b}"[::-1], 2) for place in range(1 << depth)]) if depth else inner
    places = np.concatenate([inner, ~last])[children]
    return [
        Tree(features[level], borders[level], places[:, 0], places[:, 1], values[:, output], output)
        for features, borders, values in zip(trees.features, trees.borders, trees.leaves, strict=True)
        for output in range(values.shape[1])
    ]
