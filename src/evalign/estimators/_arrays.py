"""Forests and linear models of scikit-learn as facts and arrays, which load much faster than with skops.

A tree is stored by its branches and leaves in their order, depth first: the left child follows its parent.
Forests compare numbers of single precision, so that a threshold rounded down to it decides the same. What
only describes the training, such as impurities, is left out: a loaded forest has no `feature_importances_`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree

from evalign._errors import expected, show

Arrays = dict[str, NDArray[Any]]

FORESTS: dict[str, tuple[Any, Any]] = {
    "ExtraTreesClassifier": (ExtraTreesClassifier, ExtraTreeClassifier),
    "RandomForestClassifier": (RandomForestClassifier, DecisionTreeClassifier),
}
#: Other classes, with the attributes of a fit that predictions need.
PLAIN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "LogisticRegression": (LogisticRegression, ("coef_", "intercept_", "n_iter_")),
    "StandardScaler": (StandardScaler, ("mean_", "scale_", "var_")),
}
_LEAF, _BRANCH, _BRANCH_MISSING_LEFT = 0, 1, 2


def pack_arrays_of(model: Any) -> tuple[dict[str, Any], Arrays] | None:
    """Return a fitted model as facts for JSON and arrays; None if it is not of a kind that can be.

    >>> facts, arrays = pack_arrays_of(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    >>> unpack_arrays_of(facts, arrays).predict([[2.0]]).item(), sorted(arrays)
    (1, ['coef_', 'intercept_', 'n_iter_'])
    """
    name = type(model).__name__
    if type(model) is Pipeline:
        packed = [pack_arrays_of(step) for _, step in model.steps]
        if None in packed:
            return None
        steps = [one for one in packed if one is not None]
        arrays = {f"{k}/{key}": value for k, (_, own) in enumerate(steps) for key, value in own.items()}
        return {"type": name, "steps": [facts for facts, _ in steps]}, arrays
    known = FORESTS.get(name) or PLAIN.get(name)
    if known is None or type(model) is not known[0] or not _has_plain_settings(model):
        return None
    facts: dict[str, Any] = {"type": name, "settings": model.get_params(deep=False)}
    facts["n_features"] = int(model.n_features_in_)
    classes = getattr(model, "classes_", None)
    if classes is not None:
        if isinstance(classes, list) or classes.dtype.kind not in "biufU":
            return None
        facts |= {"classes": classes.tolist(), "classes_dtype": classes.dtype.str}
    if name in FORESTS:
        trees = _pack_trees([tree.tree_ for tree in model.estimators_])
        return None if trees is None else (facts, trees)
    values = {key: getattr(model, key) for key in PLAIN[name][1]}
    return facts, {key: np.asarray(value) for key, value in values.items() if value is not None}


def unpack_arrays_of(facts: dict[str, Any], arrays: Arrays) -> Any:
    """Restore a fitted model from what `pack_arrays_of` returned, checking whatever predictions trust."""
    name = facts["type"]
    if name == "Pipeline":
        steps = [
            (f"step{k}", unpack_arrays_of(own, _take(arrays, f"{k}/")))
            for k, own in enumerate(facts["steps"])
        ]
        return Pipeline(steps)
    if name not in FORESTS and name not in PLAIN:
        raise expected("folder", f"with {', '.join([*FORESTS, *PLAIN])}", show(name)[:80])
    n_features, settings = facts["n_features"], facts["settings"]
    if type(n_features) is not int or n_features < 1:
        raise expected("folder", "with a number of features", show(n_features)[:80])
    model = (FORESTS.get(name) or PLAIN[name])[0](**settings)
    if not _has_plain_settings(model):
        raise expected("folder", "with plain settings", show(settings)[:80])
    model.n_features_in_ = n_features
    if "classes" in facts:
        dtype = np.dtype(facts["classes_dtype"])
        if dtype.kind not in "biufU" or dtype.itemsize > 1 << 16:
            raise expected("folder", "with classes of plain types", show(facts["classes_dtype"])[:80])
        model.classes_ = np.array(facts["classes"], dtype=dtype)
    if name in FORESTS:
        _set_trees(model, FORESTS[name][1], _unpack_trees(arrays, n_features, len(model.classes_)))
        return model
    for key in PLAIN[name][1]:
        value = arrays.get(key)
        if value is not None and value.shape[-1:] not in (
            (n_features,),
            (1,),
            (len(facts.get("classes", ())),),
        ):
            raise expected("folder", f"with arrays of {n_features} features", f"{key} of shape {value.shape}")
        setattr(model, key, value)
    return model


def _has_plain_settings(model: Any) -> bool:
    values = model.get_params(deep=False).values()
    return all(isinstance(value, str | int | float | bool | None) for value in values)


def _take(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def _pack_trees(trees: list[Any]) -> Arrays | None:
    """Store trees one after the other; None if they are not in their usual order or have several outputs."""
    nodes = np.concatenate([tree.__getstate__()["nodes"] for tree in trees])
    sizes = np.array([tree.node_count for tree in trees])
    places = np.concatenate([np.arange(size) for size in sizes])
    inner = nodes["left_child"] >= 0
    if (
        any(tree.n_outputs != 1 for tree in trees)
        or (nodes["left_child"] - places)[inner].min(initial=1) != 1
    ):
        return None
    if (nodes["left_child"] - places)[inner].max(initial=1) != 1:
        return None
    values = np.concatenate([tree.value[:, 0, :] for tree in trees])[~inner]
    distinct, codes = np.unique(values, axis=0, return_inverse=True)
    thresholds = nodes["threshold"][inner]
    rounded = thresholds.astype(np.float32)
    too_large = rounded.astype(np.float64) > thresholds
    rounded[too_large] = np.nextafter(rounded[too_large], np.float32(-np.inf))
    kinds = np.where(inner, _BRANCH + (nodes["missing_go_to_left"] > 0), _LEAF)
    return {
        "sizes": sizes.astype(np.int64),
        "depths": np.array([tree.max_depth for tree in trees], dtype=np.int64),
        "kinds": kinds.astype(np.uint8),
        "right": nodes["right_child"][inner].astype(np.int32),
        "feature": nodes["feature"][inner].astype(np.int32),
        "threshold": rounded,
        "leaf": codes.ravel().astype(np.int32),
        "values": distinct,
    }


def _unpack_trees(arrays: Arrays, n_features: int, n_classes: int) -> list[Any]:
    """Rebuild trees; branches lead to later nodes of their own tree, and features exist."""
    wanted = {
        "sizes": np.int64, "depths": np.int64, "kinds": np.uint8, "right": np.int32, "feature": np.int32,
        "threshold": np.float32, "leaf": np.int32, "values": np.float64,
    }  # fmt: skip
    for name, dtype in wanted.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1 + (name == "values"):
            raise expected("folder", f"with {name} of trees", f"{arrays[name].dtype}")
    sizes, kinds, values = arrays["sizes"], arrays["kinds"], arrays["values"]
    if not sizes.size or (sizes < 1).any() or sizes.max() > len(kinds) or sizes.sum() != len(kinds):
        raise expected("folder", "with trees of as many nodes as they say", f"{len(kinds)} nodes")
    places = np.concatenate([np.arange(size) for size in sizes.tolist()])
    last = np.repeat(sizes, sizes)
    inner = kinds != _LEAF
    valid = (
        (kinds <= _BRANCH_MISSING_LEFT).all()
        and len(arrays["right"]) == len(arrays["feature"]) == len(arrays["threshold"]) == inner.sum()
        and len(arrays["leaf"]) == (~inner).sum()
        and len(arrays["depths"]) == len(sizes)
        and values.shape[1] == n_classes
        and np.isfinite(values).all()
        and (arrays["leaf"] >= 0).all()
        and (arrays["leaf"] < len(values)).all()
        and (arrays["feature"] >= 0).all()
        and (arrays["feature"] < n_features).all()
        and (arrays["right"] > places[inner]).all()
        and (arrays["right"] < last[inner]).all()
        and (places[inner] + 1 < last[inner]).all()
        and not np.isnan(arrays["threshold"]).any()
    )
    if not valid:
        raise expected("folder", "with trees whose branches lead to their own nodes", "another one")
    nodes = np.zeros(len(kinds), dtype=NODE_DTYPE)
    nodes["left_child"] = np.where(inner, places + 1, -1)
    nodes["right_child"], nodes["feature"], nodes["threshold"] = -1, -2, -2.0
    for name, key in (("right_child", "right"), ("feature", "feature"), ("threshold", "threshold")):
        nodes[name][inner] = arrays[key]
    nodes["missing_go_to_left"] = kinds == _BRANCH_MISSING_LEFT
    all_values = np.zeros((len(kinds), 1, n_classes))
    all_values[~inner, 0] = values[arrays["leaf"]]
    trees, start = [], 0
    counts = np.array([n_classes], dtype=np.intp)
    for size, depth in zip(sizes.tolist(), arrays["depths"].tolist(), strict=True):
        own = slice(start, start + size)
        tree = Tree(n_features, counts, 1)
        tree.__setstate__(
            {"max_depth": depth, "node_count": size, "nodes": nodes[own], "values": all_values[own]}
        )
        trees.append(tree)
        start += size
    return trees


def _set_trees(forest: Any, kind: Any, trees: list[Any]) -> None:
    """Put trees into a forest, as its `fit` does."""
    n_classes = len(forest.classes_)
    forest.n_outputs_, forest.n_classes_ = 1, n_classes
    forest.estimator_ = kind()
    forest.estimators_ = []
    for tree in trees:
        one = kind()
        one.tree_, one.n_features_in_, one.n_outputs_ = tree, forest.n_features_in_, 1
        one.classes_, one.n_classes_ = np.arange(n_classes, dtype=np.float64), n_classes
        forest.estimators_.append(one)
