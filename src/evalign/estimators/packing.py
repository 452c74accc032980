"""Any fitted classifier as facts and binary parts inside a larger file, of which nothing is executed."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from evalign._errors import expected
from evalign._files import pack_arrays, unpack_arrays
from evalign.estimators._estimators import pack_estimator, unpack_estimator
from evalign.estimators._means import TargetMeans
from evalign.estimators.booster import MetricBooster
from evalign.estimators.decision import MetricDecision
from evalign.estimators.linear import MetricLinear
from evalign.estimators.network import MetricClassifier

KINDS = {kind.__name__: kind for kind in (MetricBooster, MetricClassifier, MetricDecision, MetricLinear)}
#: The kind of a pipeline that begins with means of the target.
MEANS = "means"
#: What may be loaded beyond what skops trusts by itself: trees, which are checked, and how tables are read.
TRUSTED = (
    "sklearn.tree._tree.Tree",
    "evalign.estimators._columns.Columns",
    "evalign.estimators._columns.KnownColumn",
    "evalign.estimators._columns.TableEncoder",
    "evalign.estimators.catboost.CatBoost",
    "evalign.estimators.catboost.ObliviousTrees",
)


def pack_classifier(model: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a fitted classifier as facts for JSON and binary parts, named as the files end.

    >>> from sklearn.linear_model import LogisticRegression
    >>> facts, parts = pack_classifier(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    >>> unpack_classifier(facts, parts).predict([[2.0]]).item(), list(parts)
    (1, ['estimator.safetensors'])
    """
    if type(model).__name__ in KINDS:
        facts, parts = model.pack()
        return facts, {f"{name}{model._part_suffix}": content for name, content in parts.items()}
    if isinstance(model, Pipeline) and isinstance(model[0], TargetMeans):
        means: TargetMeans = model[0]
        inner, parts = pack_classifier(model[1:] if len(model) > 2 else model[-1])
        arrays = {str(place): array for place, array in enumerate(means.means_)}
        facts = {
            "kind": MEANS,
            "categorical": list(means.categorical),
            "keep": means.keep,
            "n_features": means.n_features_in_,
        }
        return {**facts, "classifier": inner}, {**parts, f"{MEANS}.safetensors": pack_arrays(arrays)}
    return pack_estimator(model, TRUSTED)


def unpack_classifier(facts: dict[str, Any], parts: dict[str, bytes]) -> Any:
    """Restore a fitted classifier from what `pack_classifier` returned."""
    kind = facts["kind"]
    if kind in KINDS:
        return KINDS[kind].unpack(facts, {name.rpartition(".")[0]: part for name, part in parts.items()})
    if kind == MEANS:
        arrays = unpack_arrays(parts[f"{MEANS}.safetensors"])
        own = [arrays[str(place)] for place in range(len(arrays))]
        means = TargetMeans.restore(tuple(facts["categorical"]), facts["keep"], own, int(facts["n_features"]))
        if facts["classifier"]["kind"] == MEANS:
            raise expected("folder", "with means of its categories once", "twice")
        inner = unpack_classifier(facts["classifier"], parts)
        steps = [step for _, step in inner.steps] if isinstance(inner, Pipeline) else [inner]
        return make_pipeline(means, *steps)
    model = unpack_estimator(facts, parts, TRUSTED)
    if not hasattr(model, "fit") or not hasattr(model, "predict"):
        raise expected("folder", "with classifiers only", f"a {type(model).__name__}")
    return model
