"""Saving and loading of fitted classifiers: JSON and binary parts, of which nothing is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from evalign import metrics
from evalign._errors import expected, show
from evalign._files import MAX_JSON, read_bundle, write_bundle
from evalign.decisions import DecisionRule
from evalign.estimators._columns import Columns
from evalign.metrics import Metric

if TYPE_CHECKING:
    from typing_extensions import Self

NAME = "model"


class SaveMixin:
    """`save` and `load` for a classifier that turns its fitted state into facts and parts, and back.

    A subclass extends `_get_fitted_state` and `_set_fitted_state`; the labels, features, score and rule that
    all classifiers have are here.
    """

    #: What the files of the parts end with.
    _part_suffix: ClassVar[str]
    #: Settings that are not saved: they cannot be, or they are not part of the model.
    _unsaved_settings: ClassVar[tuple[str, ...]] = ()

    classes_: NDArray[Any]
    columns_: Columns | None = None
    multilabel_: bool = False
    rule_: DecisionRule | None
    validation_score_: float

    def save(self, folder: str | PathLike[str]) -> None:
        """Save the fitted classifier into a folder.

        The folder contains either the old classifier or the new one, whenever the process is killed.

        Raises:
            ValueError: If something could not be loaded again, such as a metric without a text form.
        """
        facts, parts = self.pack()
        # The parts of an ensemble have suffixes of their own.
        suffixes = {name: self._part_suffix or f".{name.rpartition('.')[2]}" for name in parts}
        write_bundle(Path(folder), NAME, facts, parts, suffixes)

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the fitted classifier as facts for JSON and as binary parts."""
        check_is_fitted(self)
        facts, parts = self._get_fitted_state()
        return {"kind": type(self).__name__, **facts, "settings": settings_to_json(self)}, parts

    @classmethod
    def unpack(cls, facts: dict[str, Any], parts: dict[str, bytes], **settings: Any) -> Self:
        """Restore a fitted classifier from what `pack` returned."""
        model = cls(**{**settings_from_json(facts["settings"]), **settings})
        model._set_fitted_state(facts, parts)
        return model

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Load a fitted classifier that `save` wrote, in this version or an older one.

        Nothing in the files is executed. Damaged and forged files are rejected.
        """
        return cls._load(folder)

    @classmethod
    def _load(cls, folder: str | PathLike[str], **settings: Any) -> Self:
        facts, parts = read_bundle(Path(folder), NAME, cls._part_suffix, cls.__name__)
        with explain_damage(folder):
            return cls.unpack(facts, parts, **settings)

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the fitted attributes as facts for JSON and as binary parts."""
        labels: list[Any] = self.classes_.tolist()
        if not all(isinstance(label, str | int | float | bool) for label in labels):
            raise expected("y", "with labels that are texts or numbers, to be saved", repr(labels[0]))
        names, n_features = getattr(self, "feature_names_in_", None), getattr(self, "n_features_in_", None)
        facts = {
            "classes": labels,
            "classes_dtype": self.classes_.dtype.str,
            "n_features_in": None if n_features is None else int(n_features),
            "feature_names_in": None if names is None else names.tolist(),
            "validation_score": float(self.validation_score_),
            "rule": None if self.rule_ is None else self.rule_.to_json(),
        }
        if self.columns_ is not None:
            facts["columns"] = self.columns_.to_json()
        if self.multilabel_:
            facts["multilabel"] = True
        return facts, {}

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        """Set the fitted attributes from what `_get_fitted_state` returned."""
        dtype = np.dtype(facts["classes_dtype"])
        if dtype.itemsize * len(facts["classes"]) > MAX_JSON:
            raise expected(
                "folder", f"with classes below {MAX_JSON >> 20} MB", show(facts["classes_dtype"])[:80]
            )
        self.classes_ = np.array(facts["classes"], dtype=object if dtype.kind == "O" else dtype)
        if facts["n_features_in"] is not None:
            self.n_features_in_ = facts["n_features_in"]
        if facts["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
        self.columns_ = Columns.from_json(facts["columns"]) if "columns" in facts else None
        if self.columns_ is not None and len(self.columns_.columns) != facts["n_features_in"]:
            raise expected("folder", f"with {facts['n_features_in']} columns", len(self.columns_.columns))
        self.validation_score_ = float(facts["validation_score"])
        self.rule_ = None if facts["rule"] is None else DecisionRule.from_json(facts["rule"])
        self.multilabel_ = bool(facts.get("multilabel", False))
        if self.rule_ is not None and not self._is_own_rule(self.rule_):
            raise expected("folder", "with a rule for the classes of the model", self.rule_.classes)

    def _is_own_rule(self, rule: DecisionRule) -> bool:
        if not self.multilabel_:
            return np.array_equal(rule.classes, self.classes_)  # type: ignore[arg-type]
        return (
            rule.classes is None
            and rule.thresholds is not None
            and len(rule.thresholds) == len(self.classes_)
        )


def settings_to_json(model: Any) -> dict[str, Any]:
    """Return the settings of a classifier as JSON; what could not be read back is an error here."""
    settings = model.get_params(deep=False) | dict.fromkeys(model._unsaved_settings)
    metric = metrics.as_metric(settings["metric"])
    if not metric.has_text:
        raise expected("metric", "that can be written as text, to be saved", metric.name)
    constraints = metrics.as_constraints(settings["constraints"])
    for constraint in constraints:
        if not constraint.metric.has_text:
            raise expected("constraints", "that can be written as text, to be saved", constraint.name)
    settings |= {"metric": metric.name, "constraints": [constraint.name for constraint in constraints]}
    state = settings["random_state"]
    settings["random_state"] = int(state) if isinstance(state, int | np.integer) else None
    if not isinstance(settings.get("cv"), str | int | float | np.number | None):
        settings["cv"] = None  # a splitter belongs to the rows of a fit, not to the model
    weights = settings.get("class_weight")
    if isinstance(weights, dict):
        settings["class_weight"] = list(weights.items())
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_as_plain))
    return plain


def settings_from_json(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what `settings_to_json` wrote as arguments of the constructor."""
    settings = {**settings, "constraints": metrics.as_constraints(settings["constraints"])}
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    return settings


@contextmanager
def explain_damage(folder: str | PathLike[str], file: str = f"{NAME}.json") -> Iterator[None]:
    """Turn whatever damaged or forged facts cause into one clear error."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise expected("folder", f"with a complete {file}", f"{folder} ({error!r})") from None
    except ValueError as error:
        if str(error).startswith("Expected `"):
            raise
        raise expected("folder", f"with a complete {file}", f"{folder} ({error})") from None


def _as_plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Metric):
        return value.name
    raise expected("settings", "of plain types, to be saved", show(value))
