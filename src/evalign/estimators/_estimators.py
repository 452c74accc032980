"""Fitted estimators of scikit-learn as facts and binary parts: arrays if possible, else archives of skops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import Pipeline

from evalign._errors import expected, show
from evalign._files import pack_arrays, unpack_arrays
from evalign._skops import find_untrusted, pack_skops, unpack_skops
from evalign.estimators._arrays import pack_arrays_of, unpack_arrays_of
from evalign.estimators._untrusted import check_sklearn_trees

#: The kinds of what is stored as arrays, and with skops.
ARRAYS, SKOPS = "arrays", "skops"
_PART = "estimator"


def pack_estimator(model: Any, trusted: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a fitted estimator as facts for JSON, and one binary part named as its file ends."""
    packed = pack_arrays_of(model)
    if packed is not None:
        facts, arrays = packed
        return {"kind": ARRAYS, "estimator": facts}, {f"{_PART}.safetensors": pack_arrays(arrays)}
    content = pack_skops(model, level=1)
    untrusted = find_untrusted(content, trusted)
    if untrusted:
        wanted = "of scikit-learn's own types or ours, to be saved"
        raise expected("estimator", wanted, ", ".join(untrusted))
    _check_trees(model)
    return {"kind": SKOPS}, {f"{_PART}.skops": content}


def unpack_estimator(facts: dict[str, Any], parts: dict[str, bytes], trusted: Sequence[str]) -> Any:
    """Restore a fitted estimator from what `pack_estimator` returned."""
    kind = facts["kind"]
    if kind == ARRAYS:
        return unpack_arrays_of(facts["estimator"], unpack_arrays(parts[f"{_PART}.safetensors"]))
    if kind != SKOPS:
        raise expected(
            "folder", f"with classifiers of the kind {ARRAYS} or {SKOPS}, or ours", show(kind)[:80]
        )
    model = unpack_skops(parts[f"{_PART}.skops"], trusted)
    _check_trees(model)
    return model


def _check_trees(model: Any) -> None:
    """Check the trees of every step, since the steps of a pipeline may have features of their own."""
    for step in [one for _, one in model.steps] if isinstance(model, Pipeline) else [model]:
        if hasattr(step, "n_features_in_"):
            check_sklearn_trees(step)
