"""Save and load a booster without executing anything: LightGBM's text form for trees, JSON for the rest."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from evalign._errors import expected
from evalign._files import read_parts, write_parts
from evalign.boosting import Stages, import_lightgbm
from evalign.decisions import Scaling
from evalign.estimators._booster_text import checked
from evalign.estimators._stored import check_kind, face, restore_face, settings_from, settings_of, whole


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write the model into the folder."""
    texts, weights = {}, []
    for number, one in enumerate(model.stages_):
        texts[f"{number}.log_loss"] = one.base.model_to_string().encode()
        if one.metric is not None:
            texts[f"{number}.metric"] = one.metric.model_to_string().encode()
        weights.append(None if one.weights is None else one.weights.tolist())
    if any(b"\nis_linear=1\n" in text for text in texts.values()):
        raise expected("params", "without linear trees, to be saved", model.params)
    scaling = model.scaling_
    facts = {
        **face(model),
        "settings": settings_of(model),
        "weights": weights,
        "scaling": None if scaling is None else [scaling.slope, scaling.offsets.tolist()],
    }
    write_parts(Path(folder), "model", facts, texts)


def load(cls: Any, folder: str | PathLike[str]) -> Any:
    """Read a model of a class from a folder."""
    facts, texts = read_parts(Path(folder), "model")
    check_kind(cls, facts)
    with whole(folder):
        model = cls(**settings_from(facts))
        restore_face(model, facts)
        model.stages_ = [_stages(n, weights, texts, model) for n, weights in enumerate(facts["weights"])]
        if not model.stages_:
            raise expected("folder", "with trees", "none")
        model.n_iter_ = [one.rounds for one in model.stages_]
        scaling = facts["scaling"]
        model.scaling_ = None if scaling is None else Scaling(float(scaling[0]), np.array(scaling[1], float))
        return model


def _stages(number: int, weights: Any, texts: dict[str, bytes], model: Any) -> Stages:
    lgb = import_lightgbm()
    base, metric = (
        lgb.Booster(model_str=checked(texts[key])) if key in texts else None
        for key in (f"{number}.log_loss", f"{number}.metric")
    )
    if base is None or base.num_feature() != model.n_features_in_:
        raise expected("folder", f"with trees of {model.n_features_in_} features", f"part {number}")
    return Stages(base, None if weights is None else np.array(weights, dtype=np.float64), metric)
