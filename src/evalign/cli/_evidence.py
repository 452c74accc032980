"""Evidence for a report: methods fitted once more, and judged on rows set aside."""

from __future__ import annotations

import datetime
import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from evalign._errors import expected
from evalign.cli._console import Console
from evalign.cli._main import command
from evalign.cli._task import Task, versions
from evalign.reports import evidence
from evalign.selection import METHODS, build_methods

#: Rows to train on, and rows set aside.
Split = tuple[NDArray[np.int64], NDArray[np.int64]]

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


def set_aside(task: Task, seed: int, share: float = 0.2) -> Split:
    """Rows of every class to train on, and a share of all rows to judge on."""
    try:
        split = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
        train, test = next(split.split(task.y, task.y))
    except ValueError:
        told = f"{len(task.y)} rows of {len(task.labels)} classes"
        raise expected("data", f"with enough rows to set {share:.0%} of each class aside", told) from None
    return train, test


def on_rows_set_aside(
    console: Console, task: Task, method: str, role: str, methods: list[str], seed: int, split: Split
) -> list[dict[str, Any]]:
    """What one of the methods, and cross-entropy beside it, do on rows set aside from both."""
    base = BASES[0] if BASES[0] in methods else BASES[1]
    made = build_methods(list(dict.fromkeys([method, base])), task.problem)
    found = [_judged(console, task, method, role, made[method](seed), split)]
    if method != base:
        try:
            found.append(_judged(console, task, base, "cross-entropy", made[base](seed), split))
        except Exception as error:  # what was asked for is there; this is to look at beside it
            console.remark(f"The report goes without {base}: {error}")
    return found


def _judged(
    console: Console, task: Task, name: str, role: str, pipeline: Any, split: Split
) -> dict[str, Any]:
    console.remark(f"Training {name} on a part of the rows, to judge it on the others ...")
    train, test = split
    model = Named(pipeline.fit(task.X.iloc[train], task.y[train]), task.labels)
    y = model.classes_[task.y[test]]
    told = {"role": role, "description": METHODS[name].description}
    return evidence(name, model, task.X.iloc[test], y, task.metric, task.constraints, **told)


def origin(title: str, answer: str, seed: int) -> dict[str, Any]:
    """What a report says of itself."""
    return {
        "title": title,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(command),
        "versions": versions(),
        "seed": seed,
        "answer": answer,
    }
