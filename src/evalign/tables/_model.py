"""`TableModel`: a classifier with its preparation of tables, and the folder it is saved in."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evalign import metrics
from evalign._errors import expected, show
from evalign._files import (
    FORMAT,
    MAX_JSON,
    MAX_PART,
    check_format,
    check_size,
    draft_folder,
    pack_arrays,
    read_bundle,
    read_file,
    unpack_arrays,
    write_bundle,
)
from evalign._skops import unpack_skops
from evalign._typing import Floats
from evalign.decisions import DecisionRule
from evalign.estimators import MetricBooster, MetricClassifier, MetricDecision, MetricLinear, explain_damage
from evalign.selection import AutoClassifier
from evalign.tables._checksums import (
    CHECKSUMS,
    SIGNATURE,
    check_signature,
    digest,
    read_checksums,
    write_checksums,
)
from evalign.tables._drift import Profile
from evalign.tables._preparation import TRUSTED, Preparation
from evalign.tables._schema import Schema

#: The classifiers that a folder may contain.
KINDS = {
    kind.__name__: kind
    for kind in (AutoClassifier, MetricBooster, MetricClassifier, MetricDecision, MetricLinear)
}

#: The files that are read, and of which there are checksums.
PART = re.compile(
    r"(model|report|rule|preparation)\.json|preparation(-[0-9a-f]{16}\.safetensors|\.skops)"
    r"|classifier/model(\.json|-[0-9a-f]{16}\.[a-z]+)"
)
#: What else `save` may write; a folder with anything else in it is not replaced.
BESIDE = {CHECKSUMS, SIGNATURE, "README.md", "report.html"}

#: What the files of a preparation begin with; before format 5, it was one archive of skops of limited size.
PREPARATION, OLD_PREPARATION, MAX_PREPARATION = "preparation", "preparation.skops", 256 << 20


@dataclass(frozen=True)
class TableModel:
    """A classifier of tables as they are read from a file, which predicts names of classes.

    Attributes:
        schema: The columns it expects.
        preparation: The fitted transformer from columns to numbers.
        classifier: The classifier fitted on the numbers, with the classes 0, 1, ...
        labels: The name of each class.
        facts: Further facts: metric, constraints, method, target, seed, scores, versions.
    """

    schema: Schema
    preparation: Preparation
    classifier: Any
    labels: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        kind = type(self.classifier).__name__
        return f"TableModel({kind}, {len(self.schema.columns)} columns, labels={list(self.labels)})"

    @property
    def metric(self) -> metrics.Metric:
        """The metric that the model was fitted for."""
        return metrics.as_metric(self.facts["metric"]).with_classes(self.labels)

    @property
    def constraints(self) -> tuple[metrics.Constraint, ...]:
        """The constraints that the model was fitted with."""
        constraints = metrics.as_constraints(self.facts["constraints"])
        return tuple(one.with_classes(self.labels) for one in constraints)

    @property
    def profile(self) -> Profile | None:
        """What the training rows looked like; None in models of older versions."""
        facts = self.facts.get("profile")
        return None if facts is None else Profile.from_json(facts, self.schema)

    def prepare(self, table: Any) -> Floats:
        """Convert the columns of a table to numbers."""
        return np.asarray(self.preparation.transform(table))

    def predict(self, table: Any) -> NDArray[Any]:
        """Predict the name of the class of each row."""
        return self._as_names(self.classifier.predict(self.prepare(table)))

    def predict_proba(self, table: Any) -> Floats:
        """Predict the probability of each class, in the order of `labels`."""
        return np.asarray(self.classifier.predict_proba(self.prepare(table)))

    def predict_both(self, table: Any) -> tuple[NDArray[Any], Floats]:
        """Return what `predict` and `predict_proba` do, in the time of one where a rule decides."""
        return self.predict_converted(self.schema.convert(table))

    def predict_converted(self, table: Any) -> tuple[NDArray[Any], Floats]:
        """Return what `predict_both` does, of a table that `schema` has converted already."""
        X = self.preparation.encode(table)
        p = np.asarray(self.classifier.predict_proba(X))
        if getattr(self.classifier, "rule_", None) is None:
            return self._as_names(self.classifier.predict(X)), p
        return self.decide(p), p

    @property
    def threshold(self) -> float | None:
        """The probability from which the second of two classes is predicted; None with more classes."""
        if len(self.labels) != 2:
            return None
        rule = getattr(self.classifier, "rule_", None)
        return 0.5 if rule is None else float(rule.threshold)

    def decide(self, probabilities: Floats) -> NDArray[Any]:
        """Return the name of the class that the rule of the model decides for, row by row."""
        return self._as_names(self.classifier.rule_.predict(probabilities))

    def with_threshold(self, threshold: float) -> TableModel:
        """Return a model of the same two classes that predicts the second from another probability on."""
        if len(self.labels) != 2:
            raise expected("threshold", "only with two classes", f"a model of {len(self.labels)}")
        if not 0 <= threshold <= 1:
            raise expected("threshold", "in [0, 1]", threshold)
        weights = np.diag([threshold, 1 - threshold])
        rule = DecisionRule(np.array([0, 1]), weights, np.array([threshold]), self.metric.name, 0.0)
        return replace(self, classifier=_ThresholdClassifier(self.classifier, rule))

    def _as_names(self, classes: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.array(self.labels, dtype=object)[np.asarray(classes, dtype=int)])

    def save(self, folder: str | PathLike[str], extra: dict[str, str] | None = None, key: Any = None) -> None:
        """Write the folder, completely or not at all.

        Args:
            folder: The folder, which is new, empty or a model.
            extra: The texts of README.md, report.html and report.json.
            key: The key to sign it with, as `read_private_key` returns it.
        """
        target = Path(os.path.abspath(folder))  # a name even for . and ..
        check_target(target)
        with draft_folder(target) as draft:
            self._write(draft, extra or {})
            names = [path.relative_to(draft).as_posix() for path in draft.rglob("*")]
            write_checksums(draft, [name for name in names if PART.fullmatch(name)], key)

    def _write(self, draft: Path, extra: dict[str, str]) -> None:
        self.classifier.save(draft / "classifier")
        prepared, arrays = self.preparation.pack()
        parts = {"arrays": pack_arrays(arrays)} if arrays else {}
        write_bundle(draft, PREPARATION, {"kind": PREPARATION, **prepared}, parts, ".safetensors")
        rule = getattr(self.classifier, "rule_", None)
        if rule is not None:
            (draft / "rule.json").write_text(rule.to_json())
        facts = {
            "format": FORMAT,
            "kind": type(self.classifier).__name__,
            "labels": list(self.labels),
            "schema": self.schema.to_json(),
            **self.facts,
        }
        texts = {"model.json": json.dumps(facts, indent=1, allow_nan=False), **extra}
        for name, text in texts.items():
            if name.endswith(".json"):
                check_size(len(text), MAX_JSON, f"{name} to be saved")
            (draft / name).write_text(text, encoding="utf-8", errors="replace")

    @classmethod
    def load(cls, folder: str | PathLike[str], verify: str | PathLike[str] | None = None) -> TableModel:
        """Load a folder; nothing in it is executed, and one that was changed or is newer is rejected.

        Args:
            folder: The folder that `save` wrote.
            verify: The file of a public key (Ed25519, PEM), whose owner must have signed the model. Without
                it, nobody but the checksums vouches for the folder.
        """
        root = Path(folder)
        if verify is not None:
            check_signature(root, verify)
        facts = _read_facts(root)
        _check_files(root, facts.pop("files", None))
        labels, schema = _check_facts(root, facts)
        preparation = _read_preparation(root, schema)
        try:
            classifier = KINDS[facts.pop("kind")].load(root / "classifier")
        except ValueError:
            raise
        except Exception as error:  # from a library that reads a part
            raise expected("model", "with a complete classifier", f"{root} ({error!r})"[:200]) from None
        if classifier.classes_.tolist() != list(range(len(labels))):
            classes = show(classifier.classes_.tolist())[:80]
            raise expected("model", f"with a classifier of {len(labels)} classes", classes)
        metrics.as_metric(classifier.metric)
        model = cls(schema, preparation, classifier, labels, facts)
        model._check_parts(root)
        return model

    def _check_parts(self, root: Path) -> None:
        """Predict a row of missing values: parts of different models do not fit together."""
        gaps = {column.name: [np.nan if column.kind == "number" else None] for column in self.schema.inputs}
        try:
            row = self.schema.convert(pd.DataFrame(gaps))
            names = self.preparation.get_feature_names_out()
            if not len(names) == self.preparation.encode(row).shape[1] == self.classifier.n_features_in_:
                raise ValueError(f"{len(names)} features for {self.classifier.n_features_in_}")
            p = self.predict_converted(row)[1]
            if p.shape != (1, len(self.labels)):
                raise ValueError(f"{p.shape[1]} probabilities for {len(self.labels)} classes")
        except Exception as error:  # forged parts may fail anywhere
            raise expected("model", "with parts that fit together", f"{root} ({error!r})"[:200]) from None


class _ThresholdClassifier:
    """A classifier of two classes that decides by a threshold of the user."""

    def __init__(self, classifier: Any, rule: DecisionRule) -> None:
        self.classifier, self.rule_ = classifier, rule

    def predict(self, X: Any) -> Any:
        return self.rule_.predict(self.predict_proba(X))

    def predict_proba(self, X: Any) -> Any:
        return self.classifier.predict_proba(X)


def check_target(folder: Path) -> None:
    """Reject a folder that cannot be written or is not a model, before any work is done."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise expected("out", "to be a folder", f"the {'link' if folder.is_symlink() else 'file'} {folder}")
    if folder.is_dir():
        _check_replaceable(folder)
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise expected("out", "in a folder that exists", str(folder))
    check_writable(parent)


def _check_replaceable(folder: Path) -> None:
    if folder.samefile(Path.cwd()) or os.path.ismount(folder):
        raise expected(
            "out", "to be a folder that can be replaced", repr(str(folder)), "Choose one inside of it."
        )
    inside = [path.name for path in folder.iterdir()]
    if (folder / "classifier").is_dir():
        inside.remove("classifier")
        inside += [f"classifier/{path.name}" for path in (folder / "classifier").iterdir()]
    foreign = sorted(name for name in inside if name not in BESIDE and not PART.fullmatch(name))
    if foreign:
        raise expected("out", "to be new, empty or a model", f"{folder} with {foreign[0]}")
    if inside:
        try:
            _read_facts(folder)
        except ValueError:
            raise expected("out", "to be new, empty or a model", f"{folder} with other files") from None


def check_writable(folder: Path) -> None:
    """Reject a folder in which no file can be created; permissions alone do not show it."""
    try:
        # Without a name where the system supports it: an interruption leaves nothing behind.
        with tempfile.TemporaryFile(prefix=".evalign-", dir=folder):
            pass
    except OSError as error:
        raise expected("out", "in a folder that can be written", f"{folder} ({error.strerror})") from None


def _read_preparation(root: Path, schema: Schema) -> Preparation:
    if (root / OLD_PREPARATION).exists():
        preparation = unpack_skops(read_file(root / OLD_PREPARATION, MAX_PREPARATION), TRUSTED)
        if not isinstance(preparation, Preparation) or preparation.schema != schema:
            raise expected("model", "with a preparation of its own columns", type(preparation).__name__)
        return preparation
    facts, parts = read_bundle(root, PREPARATION, ".safetensors", PREPARATION)
    with explain_damage(root, f"{PREPARATION}.json"):
        arrays = unpack_arrays(parts["arrays"]) if parts else {}
        return Preparation.unpack(schema, facts, arrays)


def _read_facts(root: Path) -> dict[str, Any]:
    try:
        content = read_file(root / "model.json", MAX_JSON)
    except (FileNotFoundError, NotADirectoryError):
        raise expected("model", "to be the folder of a model", f"{root} without model.json") from None
    except OSError as error:
        raise expected("model", "with a readable model.json", f"{root} ({error})") from None
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise expected("model", "with a readable model.json", f"{root} ({error})") from None
    if not isinstance(facts, dict) or not {"format", "kind", "schema", "labels"} <= set(facts):
        raise expected("model", "to be the folder of a model", f"{root} with another model.json")
    check_format(facts.pop("format"), "model")
    return facts


def _check_facts(root: Path, facts: dict[str, Any]) -> tuple[tuple[str, ...], Schema]:
    """Remove the labels and the schema from the facts, and check the others."""
    labels, schema = facts.pop("labels"), Schema.from_json(facts.pop("schema"))
    are_texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not are_texts or len(set(labels)) != len(labels) or len(labels) < 2:
        raise expected("model", "with different texts as labels", show(labels)[:80])
    kinds: dict[str, type] = {
        "kind": str, "metric": str, "constraints": list, "method": str, "target": str, "seed": int
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(facts.get(name), kind):
            got = f"{show(facts.get(name))[:80]} as {name} in {root}"
            raise expected("model", "with a complete model.json", got)
    if facts["kind"] not in KINDS:
        raise expected("model", f"of the kind {' or '.join(KINDS)}", show(facts["kind"])[:80])
    metrics.resolve_classes(
        metrics.as_metric(facts["metric"]), metrics.as_constraints(facts["constraints"]), labels
    )
    return tuple(labels), schema


def _check_files(root: Path, files: Any) -> None:
    """Check the checksums of all files; older models have those of some in model.json."""
    if files is None or (root / CHECKSUMS).exists():
        files = read_checksums(root)
    is_complete = isinstance(files, dict) and "classifier/model.json" in files
    if not is_complete or not {OLD_PREPARATION, f"{PREPARATION}.json"} & set(files):
        raise expected("model", "with a list of its files", show(files)[:80])
    if (root / "classifier").is_symlink():
        raise expected("model", "with its files inside", "the link classifier")
    for name, checksum in files.items():
        path = root / name
        if not PART.fullmatch(name) or path.is_symlink():
            raise expected("model", "with its files inside", repr(name)[:80])
        if not path.is_file():
            raise expected("model", "with all its files", f"{root} without {name}")
        check_size(path.stat().st_size, MAX_PART, name)
        if digest(path) != checksum:
            raise expected("model", "with the files that were saved", f"{name} with another checksum")
    inside = {f"classifier/{path.name}" for path in (root / "classifier").iterdir()}
    if (root / CHECKSUMS).exists():
        inside |= {path.name for path in root.iterdir() if PART.fullmatch(path.name)}
    if foreign := inside - set(files):
        raise expected("model", "with the files that were saved", f"{min(foreign)} beside them")
