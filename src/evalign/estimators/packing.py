"""Any fitted classifier as facts and binary parts inside a larger file, of which nothing is executed."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from evalign._errors import expected, show
from evalign._skops import find_untrusted, pack_skops, unpack_skops
from evalign.estimators._untrusted import check_sklearn_trees
from evalign.estimators.booster import MetricBooster
from evalign.estimators.catboost import CatBoost
from evalign.estimators.decision import MetricDecision
from evalign.estimators.linear import MetricLinear
from evalign.estimators.network import MetricClassifier

KINDS = {kind.__name__: kind for kind in (MetricBooster, MetricClassifier, MetricDecision, MetricLinear)}
#: The kind of everything that is stored with skops.
SKOPS = "skops"
#: What may be loaded beyond what skops trusts by itself: trees, which are checked, and how tables are read.
TRUSTED = (
    "sklearn.tree._tree.Tree",
    "evalign.estimators._columns.Columns",
    "evalign.estimators._columns.KnownColumn",
    "evalign.estimators._columns.TableEncoder",
    "evalign.estimators.catboost.CatBoost",
    "evalign.estimators.catboost.ObliviousTrees",
)


def pack_classifier(model: Any) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Return a fitted classifier as facts for JSON and binary parts, with the suffix of their files.

    >>> from sklearn.linear_model import LogisticRegression
    >>> facts, parts, suffix = pack_classifier(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    >>> unpack_classifier(facts, parts).predict([[2.0]]).item(), suffix
    (1, '.skops')
    """
    if type(model).__name__ in KINDS:
        return *model.pack(), model._part_suffix
    content = pack_skops(model, level=1)
    untrusted = find_untrusted(content, TRUSTED)
    if untrusted:
        wanted = "of scikit-learn's own types or ours, to be saved"
        raise expected("estimator", wanted, ", ".join(untrusted))
    _check_trees(model)
    return {"kind": SKOPS}, {"estimator": content}, ".skops"


def unpack_classifier(facts: dict[str, Any], parts: dict[str, bytes]) -> Any:
    """Restore a fitted classifier from what `pack_classifier` returned."""
    kind = facts["kind"]
    if kind in KINDS:
        return KINDS[kind].unpack(facts, parts)
    if kind != SKOPS:
        raise expected("folder", f"with classifiers of the kind {', '.join(KINDS)} or {SKOPS}", show(kind))
    model = unpack_skops(parts["estimator"], TRUSTED)
    if not hasattr(model, "fit") or not hasattr(model, "predict"):
        raise expected("folder", "with classifiers only", f"a {type(model).__name__}")
    _check_trees(model)
    return model


def _check_trees(model: Any) -> None:
    """Check the trees of every step, since the steps of a pipeline may have features of their own."""
    for step in [one for _, one in model.steps] if isinstance(model, Pipeline) else [model]:
        if isinstance(step, CatBoost):
            step.check_trees()
        elif hasattr(step, "n_features_in_"):
            check_sklearn_trees(step)
