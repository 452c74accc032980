"""`Ensemble`: fitted members, weighted and decided by one rule, and how they are stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected
from evalign._skops import pack_skops, unpack_skops
from evalign._typing import Floats
from evalign.decisions import DecisionRule, Scaling
from evalign.estimators import pack_classifier, unpack_classifier
from evalign.selection.folds import score_rows
from evalign.selection.mixture import Calibrator


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member of an ensemble: its models, one per fold, how they are calibrated, and its weight."""

    name: str
    weight: float
    models: tuple[Any, ...]
    calibrator: Calibrator


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted members, whose calibrated probabilities are averaged, and the rule that decides by them.

    Attributes:
        members: The members with their models.
        preprocessors: One fitted preprocessor per model of a member; None without.
        final: The calibration of the mean.
        rule: The decision rule.
        classes: The class labels; for multilabel targets the numbers of the labels.
        multilabel: Whether there is any number of labels per row.
    """

    members: tuple[FittedMember, ...]
    preprocessors: tuple[Any, ...] | None
    final: Calibrator
    rule: DecisionRule
    classes: NDArray[Any]
    multilabel: bool = False

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class or label: the mean over folds and members."""
        n_folds = len(self.members[0].models)
        total: Any = 0.0
        for fold in range(n_folds):
            prepared = X if self.preprocessors is None else self.preprocessors[fold].transform(X)
            for member in self.members:
                scores = score_rows(member.models[fold], prepared, self.classes, self.multilabel)
                total = total + member.weight / n_folds * member.calibrator.apply(scores)
        return self.final.apply_to_probabilities(np.asarray(total))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row by the rule, or 0 and 1 for each label."""
        predicted = self.rule.predict(self.predict_proba(X))
        return predicted if self.multilabel else predicted.astype(self.classes.dtype, copy=False)


def pack_ensemble(ensemble: Ensemble) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return an ensemble as facts for JSON and binary parts, named by member, fold and suffix."""
    parts: dict[str, bytes] = {}
    members = []
    for place, member in enumerate(ensemble.members):
        models = []
        for fold, model in enumerate(member.models):
            try:
                facts, own = pack_classifier(model)
            except ValueError as error:
                raise expected("methods", "that can be saved", f"{member.name!r} ({error})") from None
            parts |= {f"{place}/{fold}/{name}": content for name, content in own.items()}
            models.append(facts)
        calibration = _pack_calibrator(member.calibrator)
        members.append(
            {"name": member.name, "weight": member.weight, "models": models, "calibration": calibration}
        )
    for fold, preprocessor in enumerate(ensemble.preprocessors or ()):
        parts[f"preprocessor/{fold}.skops"] = pack_skops(preprocessor)
    return {"members": members, "calibration": _pack_calibrator(ensemble.final)}, parts


def unpack_ensemble(
    facts: dict[str, Any],
    parts: dict[str, bytes],
    rule: DecisionRule | None,
    classes: NDArray[Any],
    multilabel: bool,
    trusted: Sequence[str] = (),
) -> Ensemble:
    """Restore an ensemble from what `pack_ensemble` returned, and its rule."""
    if rule is None or not facts["members"]:
        raise expected("folder", "with members and a rule", "none")
    members = []
    for place, one in enumerate(facts["members"]):
        models = tuple(
            unpack_classifier(own, _take_parts(parts, f"{place}/{fold}/"))
            for fold, own in enumerate(one["models"])
        )
        calibrator = _unpack_calibrator(one["calibration"], len(classes), multilabel)
        members.append(FittedMember(str(one["name"]), float(one["weight"]), models, calibrator))
    n_models = {len(member.models) for member in members}
    names = [name for name in parts if name.startswith("preprocessor/")]
    preprocessors = tuple(unpack_skops(parts[name], list(trusted)) for name in names)
    if len(n_models) != 1 or 0 in n_models or (preprocessors and {len(preprocessors)} != n_models):
        raise expected("folder", "with as many models and preprocessors of every member", f"{n_models}")
    weights = [member.weight for member in members]
    if min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
        raise expected("folder", "with weights that sum to 1", f"{weights}")
    final = _unpack_calibrator(facts["calibration"], len(classes), multilabel)
    return Ensemble(tuple(members), preprocessors or None, final, rule, classes, multilabel)


def _pack_calibrator(calibrator: Calibrator) -> list[Any]:
    return [[scaling.slope, scaling.offsets.tolist()] for scaling in calibrator.scalings]


def _unpack_calibrator(pairs: Any, width: int, multilabel: bool) -> Calibrator:
    scalings = tuple(Scaling(float(slope), np.array(offsets, float)) for slope, offsets in pairs)
    wanted = (width, {2}) if multilabel else (1, {width})
    if (len(scalings), {len(scaling.offsets) for scaling in scalings}) != wanted:
        raise expected("folder", "with a calibration for the classes of the model", f"{pairs}"[:80])
    return Calibrator(scalings, multilabel)


def _take_parts(parts: dict[str, bytes], prefix: str) -> dict[str, bytes]:
    """The parts of one model by their own names, without the prefix."""
    return {name.removeprefix(prefix): content for name, content in parts.items() if name.startswith(prefix)}
