"""Save and load a network classifier: safetensors for numbers, JSON for the rest, nothing executed."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from evalign._errors import expected
from evalign._files import read_bundle, write_bundle
from evalign.estimators._stored import check_kind, face, restore_face, settings_from, settings_of, whole
from evalign.training import take_prefix

#: Not in the files: a network of the user's own has no text form, and a checkpoint is no part of the model.
LEFT_OUT = ("network", "checkpoint")


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write the model into the folder."""
    tensors = {
        f"network.{number}.{name}": value
        for number, network in enumerate(model.networks_)
        for name, value in network.state_dict().items()
    }
    for name in ("mean_", "scale_", "var_"):
        if getattr(model.scaler_, name) is not None:
            tensors[f"scaler.{name}"] = torch.from_numpy(np.asarray(getattr(model.scaler_, name)))
    write_bundle(Path(folder), "model", describe(model), tensors)


def load(cls: Any, folder: str | PathLike[str], network: Any) -> Any:
    """Read a model of a class from a folder."""
    facts, tensors = read_bundle(Path(folder), "model")
    check_kind(cls, facts)
    with whole(folder):
        return _restore(cls, facts, tensors, network)


def describe(model: Any) -> dict[str, Any]:
    """Settings and fitted attributes as JSON."""
    return {
        **face(model),
        "settings": settings_of(model, LEFT_OUT),
        "custom_network": model.network is not None,
        "with_mean": bool(model.scaler_.with_mean),
        "history": model.history_,
        "softmax_temperature": float(model.softmax_temperature_),
        "calibration_error": list(getattr(model, "calibration_error_", ())),
        "satisfaction": model.satisfaction_,
    }


def identity(model: Any, network: Any, train: Any, valid: Any) -> str:
    """What a checkpoint belongs to: the settings, the network and the data, as a hash."""
    digest = hashlib.sha256(
        json.dumps([settings_of(model, LEFT_OUT), repr(network)], sort_keys=True).encode()
    )
    for table in (train, valid):
        values = table.x.data if not isinstance(table.x, torch.Tensor) else table.x.cpu().numpy()
        for array in (
            values,
            table.y.cpu().numpy(),
            None if table.weight is None else table.weight.cpu().numpy(),
        ):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _restore(cls: Any, content: dict[str, Any], tensors: dict[str, torch.Tensor], network: Any) -> Any:
    settings = settings_from(content)
    settings["hidden"] = tuple(settings["hidden"])
    if content["custom_network"] and network is None:
        raise expected("network", "to be given, since the model was made with one", None)
    model = cls(**{**settings, "network": network})
    restore_face(model, content)
    model.scaler_ = _scaler(content, tensors)
    model.networks_ = [
        _network(model, take_prefix(tensors, f"network.{n}")) for n in range(int(model.n_bags))
    ]
    model.history_ = content["history"]
    model.n_iter_ = len(model.history_)
    model.temperature_ = model.history_[-1]["temperature"]
    model.softmax_temperature_ = content["softmax_temperature"]
    if content["calibration_error"]:
        model.calibration_error_ = tuple(content["calibration_error"])
    model.satisfaction_ = {} if content["format"] == 1 else dict(content["satisfaction"])
    return model


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
