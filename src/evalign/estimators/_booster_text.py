"""LightGBM's text form, looked into before LightGBM reads it: a forged tree could crash it, or never end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected

_HEAD = {
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "feature_names", "feature_infos", "tree_sizes", "average_output", "monotone_constraints",
}  # fmt: skip
#: Arrays with a whole number for each branch, with any number for each, and with one for each leaf.
_WHOLE = {"split_feature", "decision_type", "left_child", "right_child"}
_BRANCHES = {"split_gain", "threshold", "internal_value", "internal_weight", "internal_count"}
_LEAVES = {"leaf_value", "leaf_weight", "leaf_count"}
_OTHERS = {"num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage"}
_START, _END = b"\nTree=0\n", b"end of trees\n"


def checked(content: bytes) -> str:
    """The text up to the end of its trees, if every branch leads to a node or a leaf of its own tree."""
    start = content.find(_START) + 1 or content.find(_END)
    head = _fields(content[:start].decode("latin-1").strip("\n").removeprefix("tree\n"), _HEAD)
    sizes = _numbers(head["tree_sizes"], np.int64)
    at, features = start, int(head["max_feature_idx"]) + 1
    per_round = int(head["num_tree_per_iteration"])
    if (
        start < 0
        or not 0 < per_round == int(head["num_class"])
        or len(sizes) % per_round
        or (sizes < 1).any()
    ):
        raise _wrong("its header")
    if any(len(head[name].split(" ")) != features for name in ("feature_names", "feature_infos")):
        raise _wrong("the number of its features")
    for number, size in enumerate(sizes.tolist()):
        # LightGBM, too, finds the trees by their sizes: both must see the same ones.
        title, _, tree = content[at : at + size].decode("latin-1").partition("\n")
        if title != f"Tree={number}":
            raise _wrong(f"the size of tree {number - 1}")
        try:
            _check_tree(_fields(tree.rstrip("\n"), _WHOLE | _BRANCHES | _LEAVES | _OTHERS), features)
        except (KeyError, ValueError, OverflowError) as error:
            raise _wrong(f"tree {number} ({error!r})"[:200]) from None
        at += size
    if not content.startswith(_END, at):
        raise _wrong("an end of its trees")
    return content[: at + len(_END)].decode()


def _check_tree(tree: dict[str, str], features: int) -> None:
    leaves, categories = _whole(tree["num_leaves"]), _whole(tree["num_cat"])
    if leaves < 1 or categories < 0 or tree["is_linear"] != "0":
        raise ValueError("a kind that is not known")
    if leaves == 1:
        _numbers(tree["leaf_value"], np.float64, 1)
        return
    number = {name: _numbers(tree[name], np.int64, leaves - 1) for name in _WHOLE}
    number |= {name: _numbers(tree[name], np.float64, leaves - 1) for name in _BRANCHES}
    for name in _LEAVES:
        _numbers(tree[name], np.float64, leaves)
    order = np.arange(leaves - 1)
    for child in (number["left_child"], number["right_child"]):
        inner = child >= 0
        # A branch stands behind the one that leads to it, so that every way ends.
        if (child < -leaves).any() or (child >= leaves - 1).any() or (child[inner] <= order[inner]).any():
            raise ValueError("a branch that leads elsewhere")
    if (number["split_feature"] < 0).any() or (number["split_feature"] >= features).any():
        raise ValueError("a feature that is not there")
    by_category = number["decision_type"] % 2 == 1
    if by_category.any() or categories:
        bounds = _numbers(tree["cat_boundaries"], np.int64, categories + 1)
        _numbers(tree["cat_threshold"], np.int64, int(bounds[-1]))
        index = number["threshold"][by_category]
        good = bounds[0] == 0 and (np.diff(bounds) >= 0).all()
        if not good or not ((index >= 0) & (index < categories)).all():  # NaN is neither
            raise ValueError("categories that are not there")


def _fields(text: str, known: set[str]) -> dict[str, str]:
    """Lines of the form name=value, each name a known one and only once."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if name not in known or name in found or "\r" in line:
            raise _wrong(f"the line {line[:40]!r}")
        found[name] = value
    return found


def _numbers(text: str, kind: Any, count: int | None = None) -> NDArray[Any]:
    if not re.fullmatch(r"[-+.0-9a-z ]*", text):
        raise ValueError(f"{text[:40]!r}")
    found = np.array(text.split(" ") if text else [], dtype=str).astype(kind)
    if count not in (None, len(found)):
        raise ValueError(f"{len(found)} numbers for {count}")
    return found


def _whole(text: str) -> int:
    return int(_numbers(text, np.int64, 1)[0])


def _wrong(what: str) -> ValueError:
    return expected("folder", "with trees as LightGBM writes them", what)
