"""Evidence for a report: methods fitted once more, and judged on rows set aside."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from evalign.cli._console import Console
from evalign.cli._task import Task, versions
from evalign.estimators import METHODS
from evalign.estimators._methods import makers
from evalign.estimators._trials import Problem
from evalign.reports import evidence

#: Cross-entropy without more: the network if networks were asked for, else LightGBM, which costs little.
BASES = ("network", "lightgbm")


class Named:
    """A fitted classifier of the classes 0, 1, ... that calls them by their names."""

    def __init__(self, classifier: Any, labels: tuple[str, ...]) -> None:
        self.best_estimator_ = classifier
        self.classes_ = np.array(labels, dtype=object)

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the class of each row."""
        return np.asarray(self.classes_[self.best_estimator_.predict(X)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class."""
        return np.asarray(self.best_estimator_.predict_proba(X))


def on_rows_set_aside(
    console: Console, task: Task, method: str, role: str, methods: list[str], seed: int, share: float = 0.2
) -> list[dict[str, Any]]:
    """What one of the methods, and cross-entropy beside it, do on rows set aside from both."""
    problem = Problem.checked(task.X, task.y, task.metric, task.constraints, task.preparation())
    names = list(dict.fromkeys([method, BASES[0] if BASES[0] in methods else BASES[1]]))
    split = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    train, test = next(split.split(task.y, task.y))
    found = []
    for name, make in makers(names, problem).items():
        console.remark(f"Training {name} once more, to look at its decisions on rows set aside ...")
        model = make(seed).fit(task.X.iloc[train], task.y[train])
        labels = np.array(task.labels, dtype=object)
        rows = (task.X.iloc[test], labels[task.y[test]])
        told = {"role": role if name == method else "cross-entropy", "description": METHODS[name].description}
        found.append(evidence(name, Named(model, task.labels), *rows, task.metric, task.constraints, **told))
    return found


def origin(title: str, answer: str, seed: int) -> dict[str, Any]:
    """What a report says of itself."""
    return {
        "title": title,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": command_line(),
        "versions": versions(),
        "seed": seed,
        "answer": answer,
    }


def command_line() -> str:
    """The command as a shell would take it."""
    import shlex

    return shlex.join(["evalign", *sys.argv[1:]])
