"""Fitted parts of scikit-learn in archives of skops: known types only, and never more than fits a limit."""

from __future__ import annotations

import importlib
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evalign._errors import expected

#: The types that are loaded. Their predictions check every index, or are checked by us; those of others, such
#: as support vector machines, trust their arrays, so that a forged file could read memory it does not own.
_KNOWN = {
    "builtins": "bool dict float int list NoneType str tuple",
    "numpy": "bool bool_ dtype float32 float64 int32 int64 intp ndarray str_ uint32 uint64",
    "numpy.random._generator": "Generator",
    "numpy.random._pcg64": "PCG64",
    "numpy.random.mtrand": "RandomState",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier",
    "sklearn.ensemble._bagging": "BaggingClassifier",
    "sklearn.ensemble._forest": "ExtraTreesClassifier RandomForestClassifier",
    "sklearn.ensemble._voting": "VotingClassifier",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier",
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._perceptron": "Perceptron",
    "sklearn.linear_model._ridge": "RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._sgd_fast": "Hinge Huber Log ModifiedHuber SquaredHinge",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier",
    "sklearn.multiclass": "OneVsRestClassifier",
    "sklearn.multioutput": "ClassifierChain MultiOutputClassifier",
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.pipeline": "Pipeline",
    "sklearn.preprocessing._data": (
        "MaxAbsScaler MinMaxScaler PowerTransformer QuantileTransformer RobustScaler StandardScaler"
    ),
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.svm._classes": "LinearSVC",
    "sklearn.tree._classes": "DecisionTreeClassifier ExtraTreeClassifier",
    "sklearn.utils._bunch": "Bunch",
}
KNOWN = frozenset(f"{module}.{name}" for module, names in _KNOWN.items() for name in names.split())
#: How their parts are stored.
_LOADERS = {
    "DictNode", "DTypeNode", "JsonNode", "ListNode", "LossNode", "NdArrayNode", "ObjectNode",
    "RandomGeneratorNode", "RandomStateNode", "TreeNode", "TupleNode", "TypeNode",
}  # fmt: skip

#: The largest description of an archive, and the largest content: the latter may be larger for an archive
#: that is large itself, since forests of many classes compress well.
MAX_SCHEMA, MAX_CONTENT, MAX_RATIO = 64 << 20, 1 << 30, 20


def import_skops() -> Any:
    """Import the library that writes parts of scikit-learn without pickle."""
    try:
        return importlib.import_module("skops.io")
    except ImportError:
        raise ImportError("Saving and loading needs skops: pip install 'evalign[cli]'.") from None


def pack_skops(value: Any, level: int | None = None) -> bytes:
    """Pack an object of scikit-learn in the form of skops, compressed at a level of zlib."""
    content: bytes = import_skops().dumps(value, compression=zipfile.ZIP_DEFLATED, compresslevel=level)
    return content


def find_untrusted(content: bytes, trusted: Sequence[str]) -> list[str]:
    """The types in a skops archive that are neither known nor trusted by the caller."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return sorted(_check_archive(archive, len(content)) - KNOWN - set(trusted))


def unpack_skops(content: bytes, trusted: Sequence[str]) -> Any:
    """Unpack what `pack_skops` wrote if it contains only types that are known or trusted by the caller."""
    skops = import_skops()
    try:
        untrusted = find_untrusted(content, trusted)
        if not untrusted:
            return skops.loads(content, trusted=[*KNOWN, *trusted])
    except Exception as error:  # a forged archive may fail anywhere in zip, JSON or constructors
        if str(error).startswith("Expected `"):
            raise
        raise expected("folder", "with complete parts", f"one that skops cannot read ({error!r})") from None
    raise expected("folder", "with trusted types only", ", ".join(untrusted))


def _check_archive(archive: zipfile.ZipFile, size: int) -> set[str]:
    """Check an archive before anything in it is built, and return the types that it names."""
    limit = max(MAX_CONTENT, MAX_RATIO * size)
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sizes["schema.json"] > MAX_SCHEMA or sum(sizes.values()) > limit:
        raise expected("folder", f"with parts below {limit >> 20} MB in memory", "a larger one")
    types, used, trees = set(), 0, []
    first: dict[Any, Any] = {}
    ambiguous = set()
    for node in _walk(json.loads(archive.read("schema.json"))):
        types.add(f"{node['__module__']}.{node['__class__']}")
        loader = node["__loader__"]
        if loader not in _LOADERS:
            types.add(repr(loader)[:80])
        if loader == "TreeNode":
            trees.append(node)
        if "__id__" in node and first.setdefault(node["__id__"], node) != node:
            ambiguous.add(node["__id__"])
        used += sizes.get(str(node.get("file")), 0)  # a file is read as often as it is named
        if used > limit:
            raise expected("folder", f"with parts below {limit >> 20} MB in memory", "a larger one")
    for tree in trees:
        _check_tree_arguments(tree["__reduce__"]["args"], ambiguous, archive)
    return types


def _walk(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every description of a part in a schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__class__" in part or "__loader__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_tree_arguments(arguments: Any, ambiguous: set[Any], archive: zipfile.ZipFile) -> None:
    """Check what the constructor of a tree does not: that it has a number of classes for each output.

    Of parts with the same id, skops builds only the first: the arguments must not be ambiguous.
    """
    _, classes, outputs = arguments["content"]
    counts = np.load(io.BytesIO(archive.read(classes["file"])), allow_pickle=False)
    is_clear = not any(part.get("__id__") in ambiguous for part in (arguments, classes, outputs))
    if not is_clear or counts.ndim != 1 or len(counts) != int(outputs["content"]) or (counts < 1).any():
        raise expected("folder", "with trees of as many outputs as they say", outputs["content"][:80])
