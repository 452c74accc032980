"""Save and load a decided classifier: the classifier in skops' form, the rest as JSON, nothing executed."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from evalign._errors import expected
from evalign._files import read_parts, write_parts
from evalign.decisions import Calibration, DecisionRule
from evalign.estimators._stored import check_kind, face, restore_face, settings_from, settings_of, whole

#: What may be read beyond what skops trusts by itself; `_check_trees` looks into every one.
TRUSTED = ["sklearn.tree._tree.Tree"]


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write the model into the folder."""
    content = skops().dumps(model.estimator_, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    strange = set(skops().get_untrusted_types(data=content)) - set(TRUSTED)
    if strange:
        raise expected("estimator", "of scikit-learn's own types, to be saved", ", ".join(sorted(strange)))
    _check_trees(model.estimator_)
    facts = {
        **face(model),
        "settings": settings_of(model, ("estimator",)),
        "fold_rules": [rule.to_json() for rule in model.fold_rules_],
        "calibration": None if model.calibration_ is None else model.calibration_.to_dict(),
    }
    write_parts(Path(folder), "model", facts, {"estimator": content}, ".skops")


def load(cls: Any, folder: str | PathLike[str]) -> Any:
    """Read a model of a class from a folder."""
    facts, parts = read_parts(Path(folder), "model", ".skops")
    check_kind(cls, facts)
    with whole(folder):
        estimator = unpack(parts["estimator"], TRUSTED)
        _check_trees(estimator)
        settings = settings_from(facts)
        prefit = settings["cv"] == "prefit"
        model = cls(**{**settings, "estimator": estimator if prefit else clone(estimator)})
        model.estimator_ = estimator
        restore_face(model, facts)
        if not np.array_equal(estimator.classes_, model.classes_):
            raise expected("folder", "with a classifier for the classes of the model", estimator.classes_)
        model.fold_rules_ = [DecisionRule.from_json(text) for text in facts["fold_rules"]]
        numbers = facts["calibration"]
        model.calibration_ = None if numbers is None else Calibration.from_dict(numbers, model.classes_)
        model._take_thresholds()
        return model


def skops() -> Any:
    """The module that writes scikit-learn's parts without pickle."""
    try:
        return importlib.import_module("skops.io")
    except ImportError:
        raise ImportError("To save or load it needs skops: pip install 'evalign[cli]'.") from None


def unpack(content: bytes, trusted: list[str]) -> Any:
    """Read what skops wrote, if it holds only what it trusts and the types listed."""
    io = skops()
    try:
        strange = set(io.get_untrusted_types(data=content)) - set(trusted)
        if not strange:
            return io.loads(content, trusted=trusted)
    except Exception as error:  # a forged archive may fail anywhere in zip, JSON or constructors
        raise expected("folder", "with whole parts", f"one that skops cannot read ({error!r})") from None
    raise expected("folder", "with trusted types only", ", ".join(sorted(strange)))


def _check_trees(estimator: Any) -> None:
    """Look into every tree: predicting with a forged one could read outside of its arrays."""
    for part in _parts(estimator):
        if type(part).__name__ == "Tree":
            _check_tree(part)
        # Forests check the features once, and then trust that all their trees have the same.
        width = getattr(part, "n_features" if type(part).__name__ == "Tree" else "n_features_in_", None)
        if width not in (None, estimator.n_features_in_):
            wanted = f"with trees of {estimator.n_features_in_} features, to be saved or loaded"
            raise expected("estimator", wanted, f"{type(part).__name__} of {width}")


def _parts(estimator: Any) -> Iterator[Any]:
    """The estimator and everything inside it."""
    seen, waiting = set(), [estimator]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, list | tuple) or (isinstance(one, np.ndarray) and one.dtype == object):
            waiting.extend(one.tolist() if isinstance(one, np.ndarray) else one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif type(one).__module__.startswith("sklearn."):
            waiting.extend(vars(one).values() if hasattr(one, "__dict__") else ())


def _check_tree(tree: Any) -> None:
    left, right = tree.children_left, tree.children_right
    nodes, leaves = np.arange(tree.node_count), left == -1
    inner = ~leaves
    good = (
        len(left) == len(right) == len(tree.value) == tree.node_count > 0
        and np.array_equal(leaves, right == -1)
        # Children stand behind their parent: every path ends.
        and all((side[inner] > nodes[inner]).all() for side in (left, right))
        and all((side[inner] < tree.node_count).all() for side in (left, right))
        and (tree.feature[inner] >= 0).all()
        and (tree.feature[inner] < tree.n_features).all()
    )
    if not good:
        raise expected("folder", "with trees whose branches lead to their own nodes", "another one")
