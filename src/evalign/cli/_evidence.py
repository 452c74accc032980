"""Evidence for a report: what a model, and what people use today, do on rows they were not trained on."""

from __future__ import annotations

import datetime
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evalign
from evalign._typing import Floats, Indices
from evalign.cli._console import Console, format_number
from evalign.cli._main import command_line
from evalign.cli._task import TableTask
from evalign.decisions import DecisionRule
from evalign.estimators import Split
from evalign.reports import (
    BenefitFacts,
    ExplanationFacts,
    GroupsFacts,
    LearningFacts,
    MemberFacts,
    ModelEvidence,
    Report,
    Rival,
    evidence,
    explain,
    measure_benefit,
    measure_groups,
    trace_learning,
    tune_decisions,
)
from evalign.selection import KNOWN, MEMBERS, METHODS, AutoClassifier, Ensemble, OutOfFold, build_methods
from evalign.tables import hide_password

#: Plain cross-entropy: the network if it is among the methods, else LightGBM, which trains fast.
BASES = ("network", "lightgbm")
#: What people use today, as a sentence calls it.
USUAL = {"lightgbm": "LightGBM", "network": "a network on cross-entropy"}
#: The method that is trained on more and more rows.
CHEAP = "lightgbm"


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


class FixedClassifier:
    """Decisions about certain rows, as a classifier of these rows."""

    def __init__(self, labels: tuple[str, ...], predicted: NDArray[Any]) -> None:
        self.classes_ = np.array(labels, dtype=object)
        self._predicted = predicted

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return self._predicted


class TunedClassifier(FixedClassifier):
    """A fitted classifier whose decisions about held-out rows are tuned for the metric on others of them."""

    def __init__(self, model: NamedClassifier, task: TableTask, rows: Indices) -> None:
        problem = task.problem
        self._p = model.predict_proba(problem.X.iloc[rows])
        decided = tune_decisions(
            self._p, problem.y[rows], range(len(task.labels)), problem.metric, problem.constraints
        )
        super().__init__(task.labels, model.classes_[decided])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        return self._p


class FoldClassifier:
    """The models of an ensemble that were fitted without a fold, as a classifier of a table's columns."""

    def __init__(self, ensemble: Ensemble, fold: int, preparation: Any, labels: tuple[str, ...]) -> None:
        members = tuple(replace(one, models=(one.models[fold],)) for one in ensemble.members)
        inner = None if ensemble.preprocessors is None else (ensemble.preprocessors[fold],)
        self.ensemble = replace(ensemble, members=members, preprocessors=inner)
        self.preparation = preparation
        self.classes_ = np.array(labels, dtype=object)

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return np.asarray(self.classes_[self.ensemble.predict(self.preparation.transform(X))])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        return self.ensemble.predict_proba(self.preparation.transform(X))


@dataclass(frozen=True)
class Evidence:
    """What was measured on held-out rows, and the classifiers that were not trained on them.

    Attributes:
        models: The model and what it is compared with.
        benefit: What the model brings.
        rule: The rule that the model decides by, if it has one.
        rows: The held-out rows.
        decided: The model as a classifier of the numbers of these rows.
        fitted: A classifier of the table's columns for each part of the rows.
        parts: The rows of each part, which its classifier was not trained on.
    """

    models: tuple[ModelEvidence, ...]
    benefit: BenefitFacts
    rule: DecisionRule | None
    rows: Indices
    decided: Any
    fitted: tuple[Any, ...]
    parts: tuple[Indices, ...]


def collect_evidence(task: TableTask, model: AutoClassifier, preparation: Any) -> Evidence:
    """What an ensemble does on held-out rows, and what people use today; nothing is fitted again."""
    base = next((name for name in BASES if name in model.out_of_fold_), None)
    problem, held_out = task.problem, model.out_of_fold_[model.answer_]
    decided = OutOfFoldClassifier(held_out, task.labels, model.rule_)
    y = decided.classes_[problem.y[held_out.rows]]
    goal = (problem.metric, problem.constraints)
    answer = describe_answer(model)
    models = [
        evidence(answer, decided, held_out.rows, y, *goal, role="chosen", description=describe_weights(model))
    ]
    if base is not None:
        plain = OutOfFoldClassifier(model.out_of_fold_[base], task.labels)
        text = MEMBERS[base].description
        name = f"{base} as it comes"  # as a member, it has a rule of its own
        models.append(evidence(name, plain, held_out.rows, y, *goal, role="cross-entropy", description=text))
    kind = "threshold" if len(task.labels) == 2 else "rule"
    is_usual = answer in USUAL and len(model.comparison_.rows) > 1
    folds = range(int(held_out.folds.max()) + 1)
    return Evidence(
        tuple(models),
        measure_benefit(
            "the new model", decided, _find_rivals(task, model, answer), held_out.rows, y, problem.metric,
            positive=models[0].positive,
            same=f"{USUAL[answer]} with a tuned {kind}" if is_usual else None,
        ),
        model.rule_,
        held_out.rows,
        decided,
        tuple(FoldClassifier(model.ensemble_, fold, preparation, task.labels) for fold in folds),
        tuple(held_out.rows[held_out.folds == fold] for fold in folds),
    )  # fmt: skip


def _find_rivals(task: TableTask, model: AutoClassifier, answer: str) -> list[Rival]:
    """What people use today, among the members: tuned by a rule of its own, and one of them plain."""
    known = [name for name in USUAL if name in model.out_of_fold_]
    rivals = [
        Rival(USUAL[name], "tuned", OutOfFoldClassifier(model.out_of_fold_[name], task.labels, model.rule_))
        for name in known
        if name != answer
    ]
    for name in known[:1]:
        plain = OutOfFoldClassifier(model.out_of_fold_[name], task.labels)
        rivals.append(Rival(USUAL[name], "plain", plain))
    return rivals


def measure_more(
    console: Console, task: TableTask, found: Evidence, split: Split, seed: int, seconds: float
) -> dict[str, Any]:
    """The parts of a report for data scientists: columns, more rows, and groups of rows.

    Args:
        console: Where remarks are printed.
        task: The table and its problem.
        found: What was measured so far.
        split: Rows to train on and to hold out, for the question whether more rows would help.
        seed: The seed.
        seconds: The time to spend.
    """
    console.remark("Measuring what the columns contribute, and whether more rows would help ...")
    problem, end = task.problem, perf_counter() + seconds
    names = np.array(task.labels, dtype=object)

    def divide() -> GroupsFacts | None:
        if task.by is None:
            return None
        column, values = task.by
        return measure_groups(
            column, values[found.rows], found.decided, found.rows, names[problem.y[found.rows]],
            problem.metric, positive=found.models[0].positive,
        )  # fmt: skip

    def learn() -> LearningFacts:
        build, half = build_methods([CHEAP], problem)[CHEAP], (end - perf_counter()) / 2
        return trace_learning(problem, split, USUAL[CHEAP], lambda: build(seed), seconds=half, seed=seed)

    def look() -> ExplanationFacts | None:
        if not hasattr(found.fitted[0], "predict_proba"):
            return None
        kinds = {column.name: column.kind for column in task.schema.inputs}
        return explain(
            found.fitted, found.parts, problem.X, names[problem.y], problem.metric, kinds,
            seconds=end - perf_counter(), seed=seed,
        )  # fmt: skip

    parts: dict[str, Any] = {}
    measures: dict[str, Callable[[], Any]] = {"groups": divide, "learning": learn, "explanation": look}
    for name, measure in measures.items():
        try:
            parts[name] = measure()
        except Exception as error:  # a failure here must not cost the model
            console.remark(f"The report does not contain the {name}: {error}")
    return parts


def describe_members(model: AutoClassifier) -> tuple[MemberFacts, ...]:
    """The members of an ensemble, the largest weight first, and those that are not among them."""
    scores = {row.method: row for row in model.comparison_.rows}
    names = sorted(model.out_of_fold_, key=lambda name: -model.weights_.get(name, 0.0))
    members = [
        MemberFacts(name, describe_method(name), model.weights_.get(name, 0.0), scores[name].mean)
        for name in names
        if name in KNOWN  # the mixture itself is not
    ]
    left_out = [
        MemberFacts(name, describe_method(name), 0.0, reason=why) for name, why in model.left_out_.items()
    ]
    return (*members, *left_out)


def describe_method(name: str) -> str:
    """What a method is, in a few words."""
    return KNOWN[name].description if name in KNOWN else ""


def describe_answer(model: AutoClassifier) -> str:
    """What an ensemble is called: by its only member, if it has one."""
    return next(iter(model.weights_)) if len(model.weights_) == 1 else model.answer_


def describe_weights(model: AutoClassifier) -> str:
    """The members of an ensemble and their weights, the largest first."""
    ranked = sorted(model.weights_.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {weight:.0%}" for name, weight in ranked)


def evaluate_methods(
    console: Console, task: TableTask, method: str, role: str, methods: list[str], seed: int, split: Split
) -> Evidence:
    """Evaluate a method, and plain cross-entropy beside it, on held-out rows."""
    base = BASES[0] if BASES[0] in methods else BASES[1]
    factories = build_methods(list(dict.fromkeys([method, base])), task.problem)
    model, fitted = _evaluate_method(console, task, method, role, factories[method](seed), split)
    models, rivals = [model], []
    if method != base:
        try:
            facts, plain = _evaluate_method(
                console, task, base, "cross-entropy", factories[base](seed), split
            )
            models.append(facts)
            rivals = [Rival(USUAL[base], "tuned", TunedClassifier(plain, task, split[1])),
                      Rival(USUAL[base], "plain", plain)]  # fmt: skip
        except Exception as error:  # a failure of the base must not cost the result
            console.remark(f"The report does not contain {base}: {error}")
    X, y = task.problem.X.iloc[split[1]], fitted.classes_[task.problem.y[split[1]]]
    benefit = measure_benefit(
        "the new model", fitted, rivals, X, y, task.problem.metric, positive=model.positive
    )
    rule = getattr(fitted.best_estimator_[-1], "rule_", None)
    decided = FixedClassifier(task.labels, fitted.predict(X))
    return Evidence(tuple(models), benefit, rule, split[1], decided, (fitted,), (split[1],))


def describe_violations(model: ModelEvidence) -> list[str]:
    """A sentence on each constraint that is violated on the held-out rows."""
    return [
        f"{name} is violated on the {model.rows:,} held-out rows: {format_number(one.value)}."
        for name, one in model.constraints.items()
        if not one.satisfied
    ]


def _evaluate_method(
    console: Console, task: TableTask, name: str, role: str, pipeline: Any, split: Split
) -> tuple[ModelEvidence, NamedClassifier]:
    console.remark(f"Training {name} on a part of the rows to evaluate it on the others ...")
    train, test = split
    problem = task.problem
    model = NamedClassifier(problem.fit(pipeline, train), task.labels)
    facts = evidence(
        name, model, problem.X.iloc[test], model.classes_[problem.y[test]], problem.metric,
        problem.constraints, role=role, description=METHODS[name].description,
    )  # fmt: skip
    return facts, model


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
