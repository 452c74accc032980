"""A unit of work: one setting of one row on one dataset, trained with one or more seeds and judged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from evalign.decisions import fit_rule
from evalign.estimators import MetricBooster
from evalign.metrics import Metric, label_confusion
from evalign.papers._curves import follow
from evalign.papers._data import Parts, prepare, prepare_photos
from evalign.papers._judge import Verdict
from evalign.papers._models import metric_of
from evalign.papers._table import ESTIMATORS, Data, Row, Table
from evalign.papers._training import train

#: The share of the variance of images that estimators see (Li et al. 2025, EAST, table 2).
VARIANCE = 0.8


@dataclass(frozen=True)
class Point:
    """What is run once: a stage (`"grid"` or `"trial"`), a cell, its setting and the seeds."""

    stage: str
    data: str
    row: str
    setting: Mapping[str, Any] = field(hash=False)
    seeds: tuple[int, ...]

    @property
    def key(self) -> str:
        """The same for the same point only."""
        setting = json.dumps(dict(self.setting), sort_keys=True)
        return f"{self.stage} | {self.data} | {self.row} | {setting} | {list(self.seeds)}"

    def to_dict(self) -> dict[str, Any]:
        """The point as plain data."""
        return {**vars(self), "setting": dict(self.setting), "seeds": list(self.seeds)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Point:
        """Read what `to_dict` wrote."""
        return cls(**{**stored, "seeds": tuple(stored["seeds"])})


@dataclass(frozen=True)
class Outcome:
    """What came of a point: for each seed the columns, the loss to choose by, epochs and seconds.

    `curves` has for each seed the columns that are judged after every epoch, if the table has any.
    """

    scores: list[dict[str, float]]
    valid_loss: float
    epochs: list[int]
    seconds: float
    warnings: list[str] = field(default_factory=list)
    curves: list[dict[str, list[float]]] = field(default_factory=list)


def run(table: Table, point: Point, seed: int) -> Outcome:
    """Train and judge a point; the split is that of the study's seed."""
    data = next(one for one in table.data if one.name == point.data)
    row = next(one for one in table.rows if one.name == point.row)
    rows = point.setting.get("rows")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if table.followed:
            outcome = _curves(table, data, row, point)
        elif row.method in ESTIMATORS:
            outcome = _estimators(table, row, prepare(data.name, rows, seed), point)
        else:
            outcome = _networks(table, data, row, prepare(data.name, rows, seed), point)
    outcome.warnings.extend(sorted({str(one.message).splitlines()[0] for one in said}))
    return outcome


def _networks(table: Table, data: Data, row: Row, parts: Parts, point: Point) -> Outcome:
    name = str(point.setting.get("network", data.network))
    metric = metric_of(row, parts, table.metric)
    if any(column.of in ("time", "pace") for column in table.columns):
        # What a process does only once, such as importing, must not count.
        train(row, name, parts, {**point.setting, "max_epochs": 1}, metric, point.seeds)
    trained = train(row, name, parts, point.setting, metric, point.seeds)
    truth = parts.test.y.numpy().ravel()
    scores = []
    for one in trained:
        p = one.probabilities(parts.test.x).numpy()
        decisions = p.argmax(1)
        if row.rule:
            held = one.probabilities(parts.valid.x).numpy()
            rule = fit_rule(held, parts.valid.y.numpy().ravel(), metric, classes=range(p.shape[1]))
            decisions = rule.predict(p)
        verdict = Verdict(p, decisions, truth, one.seconds, one.epochs, own=row.rule)
        scores.append(verdict.scores(table.columns, parts.class_names))
    loss = float(np.mean([one.valid_loss for one in trained]))
    return Outcome(scores, loss, [one.epochs for one in trained], sum(one.seconds for one in trained))


def _curves(table: Table, data: Data, row: Row, point: Point) -> Outcome:
    name = str(point.setting.get("network", data.network))
    found = []
    for seed in point.seeds:
        parts = prepare_photos(data.name, point.setting.get("rows"), seed)
        found.append(follow(row, name, parts, point.setting, table.columns, seed))
    return Outcome(
        [{} for _ in found],
        float(np.mean([one.valid_loss for one in found])),
        [one.epochs for one in found],
        sum(one.seconds for one in found),
        curves=[one.curves for one in found],
    )


def _estimators(table: Table, row: Row, parts: Parts, point: Point) -> Outcome:
    x, y, held_x, held_y, test_x, truth = (
        array for part in (parts.train, parts.valid, parts.test) for array in (_flat(part.x), part.y.numpy())
    )
    if row.method == "booster":  # it sets rows aside by itself
        x, y = np.concatenate([x, held_x]), np.concatenate([y, held_y])
    metric = metric_of(row, parts, table.metric)
    scores, losses, begin = [], [], perf_counter()
    for seed in point.seeds:
        model = _estimator(row, metric, parts.kind, seed)
        start = perf_counter()
        model.fit(x, y)
        verdict = Verdict(
            model.predict_proba(test_x), model.predict(test_x), truth, perf_counter() - start, own=True
        )
        scores.append(verdict.scores(table.columns, parts.class_names))
        found = label_confusion(held_y, model.predict(held_x), None, range(len(parts.class_names)))
        losses.append(1 - float(metric(found)))
    return Outcome(scores, float(np.mean(losses)), [0] * len(scores), perf_counter() - begin)


def _estimator(row: Row, metric: Metric, kind: str, seed: int) -> Any:
    settings = {name: value for name, value in row.settings.items() if name not in ("metric", "betas")}
    if row.method == "booster":
        return MetricBooster(metric, n_jobs=1, random_state=seed, **settings)
    if row.method == "forest":
        model: Any = RandomForestClassifier(random_state=seed, n_jobs=1, **settings)
    else:
        # With one label a row the surrogates of Zhang et al. (2020) ask for the probability of each
        # class alone, by a proper loss, and the best single label is the most probable one.
        model = OneVsRestClassifier(LogisticRegression(max_iter=1000, random_state=seed))
    return make_pipeline(PCA(VARIANCE, random_state=seed), model) if kind == "images" else model


def _flat(x: Any) -> NDArray[Any]:
    return np.asarray(x.flatten(1).numpy())
