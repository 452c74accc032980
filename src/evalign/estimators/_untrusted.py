"""Checks of trees from files: a forged tree could crash the library that applies it, or never end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected
from evalign.estimators.catboost import CatBoost

_HEADER = {
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "feature_names", "feature_infos", "tree_sizes", "average_output", "monotone_constraints",
}  # fmt: skip
#: Arrays with one integer per branch, one number per branch, and one number per leaf.
_BRANCH_INTEGERS = {"split_feature", "decision_type", "left_child", "right_child"}
_BRANCH_NUMBERS = {"split_gain", "threshold", "internal_value", "internal_weight", "internal_count"}
_LEAF_NUMBERS = {"leaf_value", "leaf_weight", "leaf_count"}
_OTHERS = {"num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage"}
_TREE = _BRANCH_INTEGERS | _BRANCH_NUMBERS | _LEAF_NUMBERS | _OTHERS
#: More classes than this need as many trees, and longer numbers are not written by LightGBM.
_MAX_CLASSES, _MAX_DIGITS = 10_000, 40
_START, _END = b"\nTree=0\n", b"end of trees\n"


def check_lightgbm_text(content: bytes) -> str:
    """Return LightGBM's text form up to the end of its trees if every branch stays inside its own tree."""
    start = content.find(_START) + 1 or content.find(_END)
    header = _parse_fields(content[:start].decode("latin-1").strip("\n").removeprefix("tree\n"), _HEADER)
    sizes = _parse_numbers(header["tree_sizes"], np.int64)
    n_features, per_round = int(header["max_feature_idx"]) + 1, int(header["num_tree_per_iteration"])
    if (
        start < 0
        or not 0 < per_round == int(header["num_class"]) <= max(len(sizes), _MAX_CLASSES)
        or len(sizes) % per_round
        or (sizes < 1).any()
    ):
        raise _forged("its header")
    if any(len(header[name].split(" ")) != n_features for name in ("feature_names", "feature_infos")):
        raise _forged("the number of its features")
    position = start
    for number, size in enumerate(sizes.tolist()):
        # LightGBM finds the trees by their sizes, too: both must see the same trees.
        title, _, tree = content[position : position + size].decode("latin-1").partition("\n")
        if title != f"Tree={number}":
            raise _forged(f"the size of tree {number - 1}")
        try:
            _check_lightgbm_tree(_parse_fields(tree.rstrip("\n"), _TREE), n_features)
        except (KeyError, ValueError, OverflowError) as error:
            raise _forged(f"tree {number} ({error!r})"[:200]) from None
        position += size
    if not content.startswith(_END, position):
        raise _forged("an end of its trees")
    return content[: position + len(_END)].decode()


def _check_lightgbm_tree(tree: dict[str, str], n_features: int) -> None:
    n_leaves, n_categories = _parse_integer(tree["num_leaves"]), _parse_integer(tree["num_cat"])
    if n_leaves < 1 or n_categories < 0 or tree["is_linear"] != "0":
        raise ValueError("an unknown kind")
    if n_leaves == 1:
        _parse_numbers(tree["leaf_value"], np.float64, 1)
        return
    arrays = {name: _parse_numbers(tree[name], np.int64, n_leaves - 1) for name in _BRANCH_INTEGERS}
    arrays |= {name: _parse_numbers(tree[name], np.float64, n_leaves - 1) for name in _BRANCH_NUMBERS}
    for name in _LEAF_NUMBERS:
        _parse_numbers(tree[name], np.float64, n_leaves)
    order = np.arange(n_leaves - 1)
    for child in (arrays["left_child"], arrays["right_child"]):
        inner = child >= 0
        # A branch comes after the one that leads to it, so that every path ends.
        if (child < -n_leaves).any() or (child >= n_leaves - 1).any() or (child[inner] <= order[inner]).any():
            raise ValueError("a branch that leads elsewhere")
    if (arrays["split_feature"] < 0).any() or (arrays["split_feature"] >= n_features).any():
        raise ValueError("a feature that does not exist")
    by_category = arrays["decision_type"] % 2 == 1
    if by_category.any() or n_categories:
        bounds = _parse_numbers(tree["cat_boundaries"], np.int64, n_categories + 1)
        _parse_numbers(tree["cat_threshold"], np.int64, int(bounds[-1]))
        index = arrays["threshold"][by_category]
        ordered = bounds[0] == 0 and (np.diff(bounds) >= 0).all()
        if not ordered or not ((index >= 0) & (index < n_categories)).all():  # NaN is neither
            raise ValueError("categories that do not exist")


def _parse_fields(text: str, known: set[str]) -> dict[str, str]:
    """Parse lines of the form name=value; every name is known and occurs once."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if name not in known or name in fields or "\r" in line:
            raise _forged(f"the line {line[:40]!r}")
        fields[name] = value
    return fields


def _parse_numbers(text: str, dtype: Any, count: int | None = None) -> NDArray[Any]:
    if not re.fullmatch(r"[-+.0-9a-z ]*", text):
        raise ValueError(f"{text[:40]!r}")
    words = text.split(" ") if text else []
    if max(map(len, words), default=0) > _MAX_DIGITS:  # NumPy makes room for the longest in every place
        raise ValueError("a number of too many digits")
    numbers = np.array(words, dtype=str).astype(dtype)
    if count not in (None, len(numbers)):
        raise ValueError(f"{len(numbers)} numbers instead of {count}")
    return numbers


def _parse_integer(text: str) -> int:
    return int(_parse_numbers(text, np.int64, 1)[0])


def _forged(part: str) -> ValueError:
    return expected("folder", "with trees as LightGBM writes them", part)


def check_sklearn_trees(estimator: Any) -> None:
    """Check every tree inside an estimator: applying a forged one could read outside its arrays."""
    for part in _walk(estimator):
        is_tree = type(part).__name__ == "Tree"
        if is_tree:
            _check_sklearn_tree(part)
        elif isinstance(part, CatBoost):
            part.check_trees()
        # A forest checks the features once, and then trusts that all its trees have the same ones.
        n_features = getattr(part, "n_features" if is_tree else "n_features_in_", None)
        if n_features not in (None, estimator.n_features_in_):
            wanted = f"with trees of {estimator.n_features_in_} features, to be saved or loaded"
            raise expected("estimator", wanted, f"{type(part).__name__} of {n_features}")


def _walk(estimator: Any) -> Iterator[Any]:
    """Yield the estimator and everything inside it."""
    seen, waiting = set(), [estimator]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
            waiting.extend(part.tolist() if isinstance(part, np.ndarray) else part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif type(part).__module__.startswith("sklearn."):
            waiting.extend(vars(part).values() if hasattr(part, "__dict__") else ())


def _check_sklearn_tree(tree: Any) -> None:
    left, right = tree.children_left, tree.children_right
    nodes, leaves = np.arange(tree.node_count), left == -1
    inner = ~leaves
    valid = (
        len(left) == len(right) == len(tree.value) == tree.node_count > 0
        and np.array_equal(leaves, right == -1)
        # Children come after their parent: every path ends.
        and all((side[inner] > nodes[inner]).all() for side in (left, right))
        and all((side[inner] < tree.node_count).all() for side in (left, right))
        and (tree.feature[inner] >= 0).all()
        and (tree.feature[inner] < tree.n_features).all()
    )
    if not valid:
        raise expected("folder", "with trees whose branches lead to their own nodes", "another one")
