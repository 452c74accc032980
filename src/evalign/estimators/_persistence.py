"""Save and load a classifier without executing anything: safetensors for numbers, JSON for the rest."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from evalign import metrics
from evalign._errors import expected
from evalign._files import read_bundle, write_bundle
from evalign.decisions import DecisionRule
from evalign.metrics import Metric
from evalign.training._checkpoint import part

#: 2 added constraints and rules; files of format 1 are read as models without.
FORMAT = 2


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write the model into the folder."""
    facts = {"format": FORMAT, "kind": type(model).__name__, **describe(model)}
    tensors = {
        f"network.{number}.{name}": value
        for number, network in enumerate(model.networks_)
        for name, value in network.state_dict().items()
    }
    for name in ("mean_", "scale_", "var_"):
        if getattr(model.scaler_, name) is not None:
            tensors[f"scaler.{name}"] = torch.from_numpy(np.asarray(getattr(model.scaler_, name)))
    write_bundle(Path(folder), "model", facts, tensors)


def load(cls: Any, folder: str | PathLike[str], network: Any) -> Any:
    """Read a model of a class from a folder."""
    facts, tensors = read_bundle(Path(folder), "model")
    if facts.get("kind") != cls.__name__:
        raise expected("folder", f"with a {cls.__name__}", facts.get("kind"))
    if not isinstance(facts.get("format"), int) or facts["format"] > FORMAT:
        raise expected("folder", f"of format {FORMAT} or older", facts.get("format"), "Upgrade evalign.")
    try:
        return _restore(cls, facts, tensors, network)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise expected("folder", "with a whole model.json", f"{folder} ({error!r})") from None
    except ValueError as error:
        if str(error).startswith("Expected `"):
            raise
        raise expected("folder", "with a whole model.json", f"{folder} ({error})") from None


def settings_of(model: Any) -> dict[str, Any]:
    """The settings as JSON; what could not be read back is an error here."""
    settings = model.get_params(deep=False)
    metric = metrics.get(settings["metric"])
    if not _reads_back(metric):
        raise expected("metric", "that can be written as text, to be saved", metric.name)
    settings["metric"] = metric.name
    bounds = metrics.constraints(settings["constraints"])
    for bound in bounds:
        if not _reads_back(bound.metric):
            raise expected("constraints", "that can be written as text, to be saved", bound.name)
    settings["constraints"] = [bound.name for bound in bounds]
    settings["network"] = settings["checkpoint"] = None
    settings["hidden"] = list(settings["hidden"])
    state = settings["random_state"]
    settings["random_state"] = int(state) if isinstance(state, int | np.integer) else None
    weights = settings["class_weight"]
    settings["class_weight"] = list(weights.items()) if isinstance(weights, dict) else weights
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_plain))
    return plain


def describe(model: Any) -> dict[str, Any]:
    """Settings and fitted attributes as JSON."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "settings": settings_of(model),
        "custom_network": model.network is not None,
        "classes": _labels(model.classes_),
        "classes_dtype": model.classes_.dtype.str,
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else names.tolist(),
        "with_mean": bool(model.scaler_.with_mean),
        "history": model.history_,
        "validation_score": float(model.validation_score_),
        "softmax_temperature": float(model.softmax_temperature_),
        "calibration_error": list(getattr(model, "calibration_error_", ())),
        "satisfaction": model.satisfaction_,
        "rule": model.rule_.to_json() if hasattr(model, "rule_") else None,
    }


def _labels(classes: Any) -> list[Any]:
    """Class labels as JSON can hold them."""
    labels: list[Any] = classes.tolist()
    if not all(isinstance(label, str | int | float | bool) for label in labels):
        raise expected("y", "with labels that are texts or numbers, to be saved", repr(labels[0]))
    return labels


def identity(model: Any, network: Any, train: Any, valid: Any) -> str:
    """What a checkpoint belongs to: the settings, the network and the data, as a hash."""
    digest = hashlib.sha256(json.dumps([settings_of(model), repr(network)], sort_keys=True).encode())
    for table in (train, valid):
        values = table.x.data if not isinstance(table.x, torch.Tensor) else table.x.cpu().numpy()
        for array in (
            values,
            table.y.cpu().numpy(),
            None if table.weight is None else table.weight.cpu().numpy(),
        ):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _reads_back(metric: Metric) -> bool:
    """Whether the name of a metric gives the same metric again."""
    try:
        other = metrics.get(metric.name)
    except ValueError:
        return False
    return _same(metric, other)


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, Metric):
        return bool(one == other)
    keys = ("higher_is_better", "average", "positive", "batched", "formula", "sign")
    parts = ("left", "right")
    return (
        type(one) is type(other)
        and all(getattr(one, key, None) == getattr(other, key, None) for key in keys)
        and all(_same(getattr(one, part, None), getattr(other, part, None)) for part in parts)
    )


def _restore(cls: Any, content: dict[str, Any], tensors: dict[str, torch.Tensor], network: Any) -> Any:
    settings = dict(content["settings"])
    if content["format"] == 1:
        settings["constraints"], content = [], {**content, "satisfaction": {}, "rule": None}
    if isinstance(settings["class_weight"], list):
        settings["class_weight"] = dict(settings["class_weight"])
    settings["hidden"] = tuple(settings["hidden"])
    settings["constraints"] = metrics.constraints(settings["constraints"])
    if content["custom_network"] and network is None:
        raise expected("network", "to be given, since the model was made with one", None)
    model = cls(**{**settings, "network": network})
    kind = np.dtype(content["classes_dtype"])
    model.classes_ = np.array(content["classes"], dtype=object if kind.kind == "O" else kind)
    model.n_features_in_ = content["n_features_in"]
    if content["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
    model.scaler_ = _scaler(content, tensors)
    model.networks_ = [_network(model, part(tensors, f"network.{n}")) for n in range(int(model.bags))]
    model.history_, model.validation_score_ = content["history"], content["validation_score"]
    model.n_iter_ = len(model.history_)
    model.temperature_ = model.history_[-1]["temperature"]
    model.softmax_temperature_ = content["softmax_temperature"]
    if content["calibration_error"]:
        model.calibration_error_ = tuple(content["calibration_error"])
    model.satisfaction_ = dict(content["satisfaction"])
    if content["rule"] is not None:
        model.rule_ = _rule(content["rule"], model.classes_)
    return model


def _rule(text: str, classes: Any) -> DecisionRule:
    rule = DecisionRule.from_json(text)
    if rule.classes is None or not np.array_equal(rule.classes, classes):
        raise expected("folder", "with a rule for the classes of the model", rule.classes)
    return rule


def _network(model: Any, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    # The default network takes the stored tensors as they are: sizes in a forged file cost no memory.
    own = model.network is not None
    with torch.device("cpu" if own else "meta"):
        network: torch.nn.Module = model._new_network()
    try:
        network.load_state_dict(weights, assign=not own)
    except RuntimeError as error:
        raise expected("network", "with the layers of the saved one", f"other ones ({error})") from None
    return network.to(model.device).eval()


def _scaler(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> StandardScaler:
    scaler = StandardScaler(with_mean=content["with_mean"])
    for name in ("mean_", "scale_", "var_"):
        stored = tensors.get(f"scaler.{name}")
        setattr(scaler, name, None if stored is None else stored.numpy())
    if scaler.scale_ is None or len(scaler.scale_) != content["n_features_in"]:
        raise expected("folder", "with one scale a feature", content["n_features_in"])
    scaler.n_features_in_ = content["n_features_in"]
    return scaler


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Metric):
        return value.name
    raise expected("settings", "of plain types, to be saved", repr(value))
