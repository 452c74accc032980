"""Evidence for a report: methods trained on a part of the rows and evaluated on the others."""

from __future__ import annotations

import datetime
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evalign
from evalign._typing import Floats
from evalign.cli._console import Console
from evalign.cli._main import command_line
from evalign.cli._task import Split, TableTask
from evalign.reports import ModelEvidence, Report, evidence
from evalign.selection import METHODS, build_methods

#: Plain cross-entropy: the network if it is among the methods, else LightGBM, which trains fast.
BASES = ("network", "lightgbm")


class NamedClassifier:
    """A fitted classifier of the classes 0, 1, ... that predicts their names."""

    def __init__(self, classifier: Any, labels: tuple[str, ...]) -> None:
        self.best_estimator_ = classifier
        self.classes_ = np.array(labels, dtype=object)

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return np.asarray(self.classes_[self.best_estimator_.predict(X)])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        return np.asarray(self.best_estimator_.predict_proba(X))


def evaluate_methods(
    console: Console, task: TableTask, method: str, role: str, methods: list[str], seed: int, split: Split
) -> tuple[ModelEvidence, ...]:
    """Evaluate a method, and plain cross-entropy beside it, on held-out rows."""
    base = BASES[0] if BASES[0] in methods else BASES[1]
    factories = build_methods(list(dict.fromkeys([method, base])), task.problem)
    models = [_evaluate_method(console, task, method, role, factories[method](seed), split)]
    if method != base:
        try:
            models.append(
                _evaluate_method(console, task, base, "cross-entropy", factories[base](seed), split)
            )
        except Exception as error:  # a failure of the base must not cost the result
            console.remark(f"The report does not contain {base}: {error}")
    return tuple(models)


def _evaluate_method(
    console: Console, task: TableTask, name: str, role: str, pipeline: Any, split: Split
) -> ModelEvidence:
    console.remark(f"Training {name} on a part of the rows to evaluate it on the others ...")
    train, test = split
    problem = task.problem
    model = NamedClassifier(pipeline.fit(problem.X.iloc[train], problem.y[train]), task.labels)
    return evidence(
        name, model, problem.X.iloc[test], model.classes_[problem.y[test]], problem.metric,
        problem.constraints, role=role, description=METHODS[name].description,
    )  # fmt: skip


def build_report(title: str, answer: str, seed: int, **parts: Any) -> Report:
    """A report of the command that runs, with these parts."""
    return Report(
        title=title,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        command=shlex.join(command_line),
        versions=_collect_versions(),
        seed=seed,
        answer=answer,
        **parts,
    )


def _collect_versions() -> dict[str, str]:
    """The versions of the packages that the numbers depend on."""
    versions = {"evalign": evalign.__version__, "python": sys.version.split()[0]}
    for name in ("torch", "scikit-learn", "lightgbm", "numpy", "pandas"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
