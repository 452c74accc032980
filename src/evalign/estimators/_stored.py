"""What all saved classifiers have in common: settings, labels and features as JSON, checked when read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np

from evalign import metrics
from evalign._errors import expected
from evalign.decisions import DecisionRule
from evalign.metrics import Metric

#: 2 added constraints and rules; files of format 1 are read as models without.
FORMAT = 2


def settings_of(model: Any, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings as JSON, None for those left out; what could not be read back is an error here."""
    settings = model.get_params(deep=False) | dict.fromkeys(left_out)
    metric = metrics.as_metric(settings["metric"])
    if not _reads_back(metric):
        raise expected("metric", "that can be written as text, to be saved", metric.name)
    settings["metric"] = metric.name
    bounds = metrics.as_constraints(settings["constraints"])
    for bound in bounds:
        if not _reads_back(bound.metric):
            raise expected("constraints", "that can be written as text, to be saved", bound.name)
    settings["constraints"] = [bound.name for bound in bounds]
    state = settings["random_state"]
    settings["random_state"] = int(state) if isinstance(state, int | np.integer) else None
    weights = settings.get("class_weight")
    if isinstance(weights, dict):
        settings["class_weight"] = list(weights.items())
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_plain))
    return plain


def settings_from(facts: dict[str, Any]) -> dict[str, Any]:
    """The settings that `settings_of` wrote, for a constructor."""
    settings = dict(facts["settings"])
    if facts["format"] == 1:
        settings["constraints"] = []
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    settings["constraints"] = metrics.as_constraints(settings["constraints"])
    return settings


def face(model: Any) -> dict[str, Any]:
    """What every fitted classifier has: format and kind, classes, features, rule."""
    names, width = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    labels: list[Any] = model.classes_.tolist()
    if not all(isinstance(label, str | int | float | bool) for label in labels):
        raise expected("y", "with labels that are texts or numbers, to be saved", repr(labels[0]))
    rule = getattr(model, "rule_", None)
    return {
        "format": FORMAT,
        "kind": type(model).__name__,
        "classes": labels,
        "classes_dtype": model.classes_.dtype.str,
        "n_features_in": None if width is None else int(width),
        "feature_names_in": None if names is None else names.tolist(),
        "validation_score": float(model.validation_score_),
        "rule": None if rule is None else rule.to_json(),
    }


def restore_face(model: Any, facts: dict[str, Any]) -> None:
    """Give a classifier what `face` wrote."""
    kind = np.dtype(facts["classes_dtype"])
    model.classes_ = np.array(facts["classes"], dtype=object if kind.kind == "O" else kind)
    if facts["n_features_in"] is not None:
        model.n_features_in_ = facts["n_features_in"]
    if facts["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
    model.validation_score_ = float(facts["validation_score"])
    text = None if facts["format"] == 1 else facts["rule"]
    model.rule_ = None if text is None else DecisionRule.from_json(text)
    if model.rule_ is not None and not np.array_equal(model.rule_.classes, model.classes_):
        raise expected("folder", "with a rule for the classes of the model", model.rule_.classes)


def check_kind(cls: Any, facts: dict[str, Any]) -> None:
    """Refuse the files of another class, or of a newer format."""
    if facts.get("kind") != cls.__name__:
        raise expected("folder", f"with a {cls.__name__}", facts.get("kind"))
    if not isinstance(facts.get("format"), int) or facts["format"] > FORMAT:
        raise expected("folder", f"of format {FORMAT} or older", facts.get("format"), "Upgrade evalign.")


@contextmanager
def whole(folder: str | PathLike[str]) -> Iterator[None]:
    """Turn whatever a damaged or foreign file causes into one clear error."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise expected("folder", "with a whole model.json", f"{folder} ({error!r})") from None
    except ValueError as error:
        if str(error).startswith("Expected `"):
            raise
        raise expected("folder", "with a whole model.json", f"{folder} ({error})") from None


def _reads_back(metric: Metric) -> bool:
    """Whether the name of a metric gives the same metric again."""
    try:
        other = metrics.as_metric(metric.name)
    except ValueError:
        return False
    return _same(metric, other)


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, Metric):
        return bool(one == other)
    keys = ("higher_is_better", "average", "positive", "batched", "formula", "symbol")
    parts = ("left", "right")
    return (
        type(one) is type(other)
        and all(getattr(one, key, None) == getattr(other, key, None) for key in keys)
        and all(_same(getattr(one, part, None), getattr(other, part, None)) for part in parts)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Metric):
        return value.name
    raise expected("settings", "of plain types, to be saved", repr(value))
