"""A classifier with its preparation of tables, and the folder it is kept in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evalign import metrics
from evalign._errors import expected, show
from evalign._files import draft_folder
from evalign.estimators import MetricBooster, MetricClassifier, MetricDecision, skops, unpack
from evalign.tables._preparation import TRUSTED, Preparation
from evalign.tables._schema import Schema

FORMAT = 1

#: What a folder may hold a classifier of.
KINDS = {kind.__name__: kind for kind in (MetricBooster, MetricClassifier, MetricDecision)}

#: The parts that are read again.
PART = re.compile(
    r"preparation\.skops|rule\.json|classifier/model\.json|classifier/model-[0-9a-f]{16}\.[a-z]+"
)
#: What else `save` may put beside them; a folder with anything more is not replaced.
BESIDE = {"model.json", "README.md", "report.html", "report.json"}

#: A preparation may take so many bytes when it is unpacked.
LARGEST = 1 << 30


@dataclass(frozen=True)
class TableModel:
    """A classifier that takes tables as they come from a file, and names its classes.

    Attributes:
        schema: The columns it takes.
        preparation: How they become numbers, fitted.
        classifier: What was fitted on the numbers, with the classes 0, 1, ...
        labels: The name of each class.
        facts: What else is known: metric, constraints, method, target, seed, scores, versions.
    """

    schema: Schema
    preparation: Preparation
    classifier: Any
    labels: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def metric(self) -> metrics.Metric:
        """What the model was fitted for."""
        return metrics.as_metric(self.facts["metric"])

    @property
    def constraints(self) -> tuple[metrics.Constraint, ...]:
        """The bounds it was to keep."""
        return metrics.as_constraints(self.facts["constraints"])

    def prepared(self, table: Any) -> NDArray[np.float64]:
        """The features of a table as numbers."""
        return np.asarray(self.preparation.transform(self.schema.convert(table)))

    def predict(self, table: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return self.named(self.classifier.predict(self.prepared(table)))

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `labels`."""
        return np.asarray(self.classifier.predict_proba(self.prepared(table)))

    def decided(self, table: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """What `predict` and `predict_proba` give, for the work of one where a rule decides."""
        X = self.prepared(table)
        p = np.asarray(self.classifier.predict_proba(X))
        rule = getattr(self.classifier, "rule_", None)
        return self.named(self.classifier.predict(X) if rule is None else rule.predict(p)), p

    def named(self, classes: NDArray[Any]) -> NDArray[Any]:
        """The names of classes."""
        return np.asarray(np.array(self.labels, dtype=object)[np.asarray(classes, dtype=int)])

    def save(self, folder: str | PathLike[str], extra: dict[str, str] | None = None) -> None:
        """Write the folder, whole or not at all; `extra` are texts of files named in `BESIDE`."""
        target = Path(os.path.abspath(folder))  # a name even for . and ..
        check_target(target)
        with draft_folder(target) as draft:
            self._write(draft, extra or {})

    def _write(self, draft: Path, extra: dict[str, str]) -> None:
        self.classifier.save(draft / "classifier")
        content = skops().dumps(self.preparation, compression=zipfile.ZIP_DEFLATED)
        (draft / "preparation.skops").write_bytes(content)
        rule = getattr(self.classifier, "rule_", None)
        if rule is not None:
            (draft / "rule.json").write_text(rule.to_json())
        files = sorted(path for path in draft.rglob("*") if path.is_file())
        facts = {
            "format": FORMAT,
            "kind": type(self.classifier).__name__,
            "labels": list(self.labels),
            "schema": self.schema.to_json(),
            **self.facts,
            "files": {path.relative_to(draft).as_posix(): _digest(path) for path in files},
        }
        (draft / "model.json").write_text(json.dumps(facts, indent=1, allow_nan=False))
        for name, text in extra.items():
            (draft / name).write_text(text, encoding="utf-8", errors="replace")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> TableModel:
        """Read a folder; nothing in it is executed, and what was changed or is newer is refused."""
        root = Path(folder)
        facts = _read_facts(root)
        _check_files(root, facts.pop("files"))
        labels, schema = _checked(root, facts)
        content = (root / "preparation.skops").read_bytes()
        if _unpacked_size(content) > LARGEST:
            raise expected("model", "with a preparation below 1 GB", str(root))
        preparation = unpack(content, list(TRUSTED))
        if not isinstance(preparation, Preparation) or preparation.schema != schema:
            raise expected("model", "with a preparation of its own columns", type(preparation).__name__)
        try:
            classifier = KINDS[facts.pop("kind")].load(root / "classifier")
        except ValueError:
            raise
        except Exception as error:  # of a library that reads a part
            raise expected("model", "with a classifier that is whole", f"{root} ({error!r})"[:200]) from None
        if classifier.classes_.tolist() != list(range(len(labels))):
            wrong = show(classifier.classes_.tolist())[:80]
            raise expected("model", f"with a classifier of {len(labels)} classes", wrong)
        metrics.as_metric(classifier.metric)
        model = cls(schema, preparation, classifier, labels, facts)
        model._check_parts(root)
        return model

    def _check_parts(self, root: Path) -> None:
        """Take a row of missing values through all parts: those of another model do not fit together."""
        row = pd.DataFrame({column.name: [None] for column in self.schema.inputs}, dtype=object)
        try:
            names = self.preparation.get_feature_names_out()
            if not len(names) == self.prepared(row).shape[1] == self.classifier.n_features_in_:
                raise ValueError(f"{len(names)} features for {self.classifier.n_features_in_}")
            p = self.decided(row)[1]
            if p.shape != (1, len(self.labels)):
                raise ValueError(f"{p.shape[1]} probabilities for {len(self.labels)} classes")
        except Exception as error:  # forged parts may fail anywhere
            raise expected("model", "with parts that fit together", f"{root} ({error!r})"[:200]) from None


def check_target(folder: Path) -> None:
    """Refuse to replace what is not a model, before any work is done."""
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
            "out", "to be a folder that can be replaced", repr(str(folder)), "Name one inside of it."
        )
    inside = [path.name for path in folder.iterdir()]
    if (folder / "classifier").is_dir():
        inside.remove("classifier")
        inside += [f"classifier/{path.name}" for path in (folder / "classifier").iterdir()]
    strange = sorted(name for name in inside if name not in BESIDE and not PART.fullmatch(name))
    if strange:
        raise expected("out", "to be new, empty or a model", f"{folder} with {strange[0]}")
    if inside:
        try:
            _read_facts(folder)
        except ValueError:
            raise expected("out", "to be new, empty or a model", f"{folder} with other files") from None


def check_writable(folder: Path) -> None:
    """Try whether something can be made in a folder; permissions alone do not tell."""
    try:
        # Without a name, where the system can: an interruption leaves nothing behind.
        with tempfile.TemporaryFile(prefix=".evalign-", dir=folder):
            pass
    except OSError as error:
        raise expected("out", "in a folder that can be written", f"{folder} ({error.strerror})") from None


def _read_facts(root: Path) -> dict[str, Any]:
    path = root / "model.json"
    if path.is_symlink():
        raise expected("model", "with its files inside", "the link model.json")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise expected("model", "to be the folder of a model", f"{root} without model.json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise expected("model", "with a readable model.json", f"{root} ({error})") from None
    if not isinstance(facts, dict) or not {"format", "files", "kind", "schema", "labels"} <= set(facts):
        raise expected("model", "to be the folder of a model", f"{root} with another model.json")
    version = facts.pop("format")
    if type(version) is not int or version < 1:
        raise expected("model", "with the number of its format", show(version)[:80])
    if version > FORMAT:
        raise expected("model", f"of format {FORMAT} or older", show(version)[:40], "Upgrade evalign.")
    return facts


def _checked(root: Path, facts: dict[str, Any]) -> tuple[tuple[str, ...], Schema]:
    """Take labels and schema out of the facts, and look whether the others are what they should be."""
    labels, schema = facts.pop("labels"), Schema.from_json(facts.pop("schema"))
    texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not texts or len(set(labels)) != len(labels) or len(labels) < 2:
        raise expected("model", "with different texts as labels", show(labels)[:80])
    kinds: dict[str, type] = {
        "kind": str, "metric": str, "constraints": list, "method": str, "target": str, "seed": int
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(facts.get(name), kind):
            got = f"{show(facts.get(name))[:80]} as {name} in {root}"
            raise expected("model", "with a whole model.json", got)
    if facts["kind"] not in KINDS:
        raise expected("model", f"of the kind {' or '.join(KINDS)}", show(facts["kind"])[:80])
    metrics.as_metric(facts["metric"])
    metrics.as_constraints(facts["constraints"])
    return tuple(labels), schema


def _check_files(root: Path, files: Any) -> None:
    if not isinstance(files, dict) or not {"preparation.skops", "classifier/model.json"} <= set(files):
        raise expected("model", "with a list of its files", show(files)[:80])
    if (root / "classifier").is_symlink():
        raise expected("model", "with its files inside", "the link classifier")
    for name, digest in files.items():
        path = root / name
        if not PART.fullmatch(name) or path.is_symlink():
            raise expected("model", "with its files inside", repr(name)[:80])
        if not path.is_file():
            raise expected("model", "with all its files", f"{root} without {name}")
        if _digest(path) != digest:
            raise expected("model", "with the files that were saved", f"{name} with another checksum")
    strange = {f"classifier/{path.name}" for path in (root / "classifier").iterdir()} - set(files)
    if strange:
        raise expected("model", "with the files that were saved", f"{min(strange)} beside them")


def _unpacked_size(content: bytes) -> int:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile:
        return 0  # whoever unpacks it will say so


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
