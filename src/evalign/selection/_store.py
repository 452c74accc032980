"""A folder of fold models, so that a killed fit resumes; nothing in it is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from evalign._errors import expected
from evalign._files import pack_arrays, read_bundle, unpack_arrays, write_bundle
from evalign.estimators import explain_damage, pack_classifier, unpack_classifier
from evalign.selection.folds import FoldModel, FoldTask

_FILE = re.compile(r"\.?fold-[0-9a-f]{32}(\.json|-[0-9a-f]{16}\.[a-z]+)(\.\d+)?")
#: The part with the scores of the rows of the fold.
_SCORES = "scores.safetensors"


@dataclass(frozen=True)
class FoldStore:
    """The fold models of one problem, each a JSON file and its parts.

    Args:
        folder: The folder, which is made if it does not exist.
        problem: The identity of the problem.
    """

    folder: Path
    problem: str

    @classmethod
    def open(cls, folder: str | PathLike[str], problem: str) -> FoldStore:
        """Open a folder, and reject one that cannot be written or contains anything else."""
        root = Path(folder)
        try:
            root.mkdir(parents=True, exist_ok=True)
            names = sorted(path.name for path in root.iterdir())
        except OSError as error:
            raise expected("checkpoint", "to be a folder that can be written", f"{root} ({error})") from None
        foreign = [name for name in names if not _FILE.fullmatch(name)]
        if foreign:
            wanted = "to be a new folder, or one of fold models"
            raise expected("checkpoint", wanted, f"{root} with {foreign[0]}")
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                facts, _ = _read(root, name.removesuffix(".json"))
                if facts["problem"] != problem:
                    wanted = "of this data, metric and constraints"
                    raise expected("checkpoint", wanted, f"{root} of others")
        return cls(root, problem)

    def read(self, task: FoldTask) -> FoldModel | None:
        """Read the model of a task, or return None if there is none; a damaged one is an error."""
        name = f"fold-{task.key}"
        if not (self.folder / f"{name}.json").exists():
            return None
        facts, parts = _read(self.folder, name)
        with explain_damage(self.folder, f"{name}.json"):
            scores = unpack_arrays(parts.pop(_SCORES))["scores"]
            if len(scores) != len(task.split[1]) or not np.isfinite(scores).all():
                raise ValueError(f"scores of shape {scores.shape}")
            model = unpack_classifier(facts["classifier"], parts)
            times = float(facts["fit_time"]), float(facts["predict_time"])
        return FoldModel(task.member, task.fold, model, scores, *times)

    def write(self, task: FoldTask, result: FoldModel) -> None:
        """Write the model of a task; what cannot be stored safely is left out, and fitted again."""
        try:
            classifier, parts = pack_classifier(result.model)
        except (ValueError, TypeError, AttributeError, ImportError):
            return
        facts = {
            "kind": "FoldModel", "problem": self.problem, "fit_time": result.fit_time,
            "predict_time": result.predict_time, "classifier": classifier,
        }  # fmt: skip
        content = {**parts, _SCORES: pack_arrays({"scores": np.asarray(result.scores)})}
        suffixes = {name: f".{name.rpartition('.')[2]}" for name in content}
        write_bundle(self.folder, f"fold-{task.key}", facts, content, suffixes)


def _read(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read a bundle; an error names the argument of the user."""
    try:
        return read_bundle(folder, name, "", "FoldModel")
    except ValueError as error:
        hint = "Delete it, or choose another folder."
        raise ValueError(f"{str(error).replace('`folder`', '`checkpoint`')} {hint}") from None
