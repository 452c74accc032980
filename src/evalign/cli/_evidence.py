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
from evalign.cli._console import Console, format_number
from evalign.cli._main import command_line
from evalign.cli._task import TableTask
from evalign.decisions import DecisionRule
from evalign.estimators import Split
from evalign.reports import ModelEvidence, Report, evidence
from evalign.selection import MEMBERS, METHODS, AutoClassifier, OutOfFold, build_methods
from evalign.tables import hide_password

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


class OutOfFoldClassifier:
    """What was predicted for held-out rows, as a classifier of their numbers."""

    def __init__(self, held_out: OutOfFold, labels: tuple[str, ...], rule: Any = None) -> None:
        self.classes_ = np.array(labels, dtype=object)
        self._p = held_out.probabilities
        self._predicted = held_out.predicted if rule is not None else self._p.argmax(1)
        if rule is not None:
            self.rule_ = rule

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return np.asarray(self.classes_[self._predicted])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        return self._p


def collect_evidence(task: TableTask, model: AutoClassifier) -> tuple[ModelEvidence, ...]:
    """What an ensemble does on held-out rows, and plain cross-entropy beside it; nothing is fitted again."""
    base = next((name for name in BASES if name in model.out_of_fold_), None)
    shown: list[tuple[str, str, str, Any]] = [(describe_answer(model), model.answer_, "chosen", model.rule_)]
    if base is not None:
        shown.append((base, base, "cross-entropy", None))
    models = []
    for title, name, role, rule in shown:
        held_out = model.out_of_fold_[name]
        classifier = OutOfFoldClassifier(held_out, task.labels, rule)
        description = MEMBERS[base].description if role != "chosen" and base else describe_weights(model)
        models.append(
            evidence(
                title, classifier, held_out.rows, classifier.classes_[task.problem.y[held_out.rows]],
                task.problem.metric, task.problem.constraints, role=role, description=description,
            )
        )  # fmt: skip
    return tuple(models)


def describe_answer(model: AutoClassifier) -> str:
    """What an ensemble is called: by its only member, if it has one."""
    return next(iter(model.weights_)) if len(model.weights_) == 1 else model.answer_


def describe_weights(model: AutoClassifier) -> str:
    """The members of an ensemble and their weights, the largest first."""
    ranked = sorted(model.weights_.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {weight:.0%}" for name, weight in ranked)


def evaluate_methods(
    console: Console, task: TableTask, method: str, role: str, methods: list[str], seed: int, split: Split
) -> tuple[tuple[ModelEvidence, ...], DecisionRule | None]:
    """Evaluate a method, and plain cross-entropy beside it, on held-out rows.

    Returns:
        What both do there, and the rule that the method decided by, if it has one.
    """
    base = BASES[0] if BASES[0] in methods else BASES[1]
    factories = build_methods(list(dict.fromkeys([method, base])), task.problem)
    model, pipeline = _evaluate_method(console, task, method, role, factories[method](seed), split)
    models = [model]
    if method != base:
        try:
            models.append(
                _evaluate_method(console, task, base, "cross-entropy", factories[base](seed), split)[0]
            )
        except Exception as error:  # a failure of the base must not cost the result
            console.remark(f"The report does not contain {base}: {error}")
    return tuple(models), getattr(pipeline[-1], "rule_", None)


def describe_violations(model: ModelEvidence) -> list[str]:
    """A sentence on each constraint that is violated on the held-out rows."""
    return [
        f"{name} is violated on the {model.rows:,} held-out rows: {format_number(one.value)}."
        for name, one in model.constraints.items()
        if not one.satisfied
    ]


def _evaluate_method(
    console: Console, task: TableTask, name: str, role: str, pipeline: Any, split: Split
) -> tuple[ModelEvidence, Any]:
    console.remark(f"Training {name} on a part of the rows to evaluate it on the others ...")
    train, test = split
    problem = task.problem
    model = NamedClassifier(problem.fit(pipeline, train), task.labels)
    facts = evidence(
        name, model, problem.X.iloc[test], model.classes_[problem.y[test]], problem.metric,
        problem.constraints, role=role, description=METHODS[name].description,
    )  # fmt: skip
    return facts, pipeline


def build_report(title: str, answer: str, seed: int, **parts: Any) -> Report:
    """A report of the command that runs, with these parts."""
    return Report(
        title=title,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        command=hide_password(shlex.join(command_line)),
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
