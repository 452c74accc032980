"""`trace_learning`: would more rows help?"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from evalign._typing import Indices
from evalign.estimators import Split
from evalign.metrics import label_confusion
from evalign.reports._benefit import tune_decisions
from evalign.reports._intervals import bootstrap
from evalign.reports._paired import compare_decisions
from evalign.reports.facts import LearningFacts, LearningPoint
from evalign.selection import Problem

#: The shares of the rows that are trained on.
SHARES = (0.125, 0.25, 0.5, 1.0)
#: Training time grows by this power of the number of rows: less than in proportion, since models stop early.
GROWTH = 0.7
#: With fewer rows, or rows of a class, nothing can be learned.
FEWEST_ROWS, FEWEST_CASES = 40, 4


def trace_learning(
    problem: Problem, split: Split, method: str, build: Callable[[], Any], *, seconds: float, seed: int = 0
) -> LearningFacts:
    """Train a method on more and more of the rows, and evaluate it on the same held-out rows.

    Its decisions are tuned for the metric: for each half of the held-out rows by the other half.

    Args:
        problem: The data, the metric and its constraints.
        split: The rows to train on, and those to hold out.
        method: What the method is called.
        build: Returns an unfitted classifier.
        seconds: The time to spend; a model that would take longer is not trained.
        seed: The seed of the rows.
    """
    end = perf_counter() + seconds
    test, classes = split[1], problem.classes
    truth = problem.y[test]
    points: list[LearningPoint] = []
    decisions: dict[float, Any] = {}
    skipped, took = None, (0.0, 0)
    for share in SHARES:
        rows = _draw_share(problem.y, split[0], share, seed)
        if not _is_enough(problem.y[rows], len(classes)):
            continue
        # A curve that ends early answers nothing.
        left = [one / share * len(rows) for one in SHARES if one >= share]
        needed = sum(took[0] * (size / took[1]) ** GROWTH for size in left) if took[1] else 0.0
        spare = max(end - perf_counter(), 0.0)
        if needed > spare:
            work = f"training on up to {len(split[0]):,} rows"
            skipped = f"{work} would take about {needed:.1f} s, and there are only {spare:.1f} s"
            break
        begin = perf_counter()
        model = problem.fit(build(), rows)
        p = np.asarray(model.predict_proba(_take(problem.X, test)))
        took = (perf_counter() - begin, len(rows))
        decisions[share] = tune_decisions(p, truth, classes, problem.metric, problem.constraints, seed)
        matrix = label_confusion(truth, decisions[share], None, list(classes)).numpy()
        one = bootstrap(matrix, {"": problem.metric})[""]
        points.append(LearningPoint(len(rows), one.value, one.low, one.high))
    gain = None
    if {0.5, 1.0} <= decisions.keys():
        true, after, before = (
            np.searchsorted(classes, one) for one in (truth, decisions[1.0], decisions[0.5])
        )
        gain = compare_decisions(true, after, before, len(classes), problem.metric)
    elif skipped is None:
        skipped = "there are too few rows"
    return LearningFacts(problem.metric.name, method, tuple(points), gain, skipped)


def _take(X: Any, rows: Indices) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _draw_share(y: Any, rows: Indices, share: float, seed: int) -> Indices:
    """A share of the rows of every class; a larger share contains the smaller ones."""
    shuffled = np.random.default_rng(seed).permutation(rows)
    chosen = []
    for label in np.unique(y[rows]):
        own = shuffled[y[shuffled] == label]
        chosen.append(own[: max(1, round(share * len(own)))])
    return np.sort(np.concatenate(chosen))


def _is_enough(y: Any, n_classes: int) -> bool:
    counts = np.unique(y, return_counts=True)[1]
    return len(counts) == n_classes and counts.min() >= FEWEST_CASES and len(y) >= FEWEST_ROWS
