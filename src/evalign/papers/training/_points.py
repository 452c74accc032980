"""A point of a study: one setting of one row on one dataset, trained with one or more seeds and scored."""

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
from evalign.papers.data import Parts, prepare, prepare_photos
from evalign.papers.tables import ESTIMATORS, PaperData, PaperRow, PaperTable
from evalign.papers.training._curves import record_curves
from evalign.papers.training._losses import build_metric
from evalign.papers.training._predictions import ModelPredictions
from evalign.papers.training._train import train_networks

#: The share of the variance of images that their principal components explain (EAST, table 2).
VARIANCE = 0.8


@dataclass(frozen=True)
class Point:
    """A unit of work: its stage (`"grid"` or `"trial"`), its cell, its setting and its seeds."""

    stage: str
    data: str
    row: str
    setting: Mapping[str, Any] = field(hash=False)
    seeds: tuple[int, ...]

    @property
    def key(self) -> str:
        """A text that identifies the point within its study."""
        setting = json.dumps(dict(self.setting), sort_keys=True)
        return f"{self.stage} | {self.data} | {self.row} | {setting} | {list(self.seeds)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the point as plain data."""
        return {**vars(self), "setting": dict(self.setting), "seeds": list(self.seeds)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Point:
        """Build a point from the result of `to_dict`."""
        return cls(**{**values, "seeds": tuple(values["seeds"])})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a point: the columns of each seed, the loss to select by, epochs and seconds.

    `curves` contains, for each seed, the columns with one value per epoch, if the table has any.
    """

    scores: list[dict[str, float]]
    valid_loss: float
    epochs: list[int]
    seconds: float
    warnings: list[str] = field(default_factory=list)
    curves: list[dict[str, list[float]]] = field(default_factory=list)


def run_point(table: PaperTable, point: Point, seed: int) -> Outcome:
    """Train and score a point; `seed` is that of the study and determines the split."""
    data, row = table.find_cell(point.data, point.row)
    rows = point.setting.get("rows")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if table.has_curves:
            outcome = _run_curves(table, data, row, point)
        elif row.method in ESTIMATORS:
            outcome = _run_estimators(table, row, prepare(data.name, rows, seed), point)
        else:
            outcome = _run_networks(table, data, row, prepare(data.name, rows, seed), point)
    outcome.warnings.extend(sorted({str(warning.message).splitlines()[0] for warning in caught}))
    return outcome


def _run_networks(table: PaperTable, data: PaperData, row: PaperRow, parts: Parts, point: Point) -> Outcome:
    name = str(point.setting.get("network", data.network))
    metric = build_metric(row, parts, table.metric)
    if any(column.source in ("time", "pace") for column in table.columns):
        # A first epoch that is not measured, for what a process does only once, such as imports.
        train_networks(row, name, parts, {**point.setting, "max_epochs": 1}, metric, point.seeds)
    models = train_networks(row, name, parts, point.setting, metric, point.seeds)
    truth = parts.test.y.numpy().ravel()
    scores = []
    for model in models:
        p = model.probabilities(parts.test.x).numpy()
        decisions = p.argmax(1)
        if row.rule:
            valid_p = model.probabilities(parts.valid.x).numpy()
            rule = fit_rule(valid_p, parts.valid.y.numpy().ravel(), metric, classes=range(p.shape[1]))
            decisions = rule.predict(p)
        predictions = ModelPredictions(p, decisions, truth, model.seconds, model.epochs, by_rule=row.rule)
        scores.append(predictions.scores(table.columns, parts.class_names))
    loss = float(np.mean([model.valid_loss for model in models]))
    return Outcome(scores, loss, [model.epochs for model in models], sum(model.seconds for model in models))


def _run_curves(table: PaperTable, data: PaperData, row: PaperRow, point: Point) -> Outcome:
    name = str(point.setting.get("network", data.network))
    runs = []
    for seed in point.seeds:
        parts = prepare_photos(data.name, point.setting.get("rows"), seed)
        runs.append(record_curves(row, name, parts, point.setting, table.columns, seed))
    return Outcome(
        [{} for _ in runs],
        float(np.mean([run.valid_loss for run in runs])),
        [run.epochs for run in runs],
        sum(run.seconds for run in runs),
        curves=[run.curves for run in runs],
    )


def _run_estimators(table: PaperTable, row: PaperRow, parts: Parts, point: Point) -> Outcome:
    x, y, valid_x, valid_y, test_x, truth = (
        array
        for part in (parts.train, parts.valid, parts.test)
        for array in (_as_matrix(part.x), part.y.numpy())
    )
    if row.method == "booster":  # it holds out rows by itself
        x, y = np.concatenate([x, valid_x]), np.concatenate([y, valid_y])
    metric = build_metric(row, parts, table.metric)
    scores, losses, begin = [], [], perf_counter()
    for seed in point.seeds:
        model = _build_estimator(row, metric, parts.kind, seed)
        start = perf_counter()
        model.fit(x, y)
        predictions = ModelPredictions(
            model.predict_proba(test_x), model.predict(test_x), truth, perf_counter() - start, by_rule=True
        )
        scores.append(predictions.scores(table.columns, parts.class_names))
        matrix = label_confusion(valid_y, model.predict(valid_x), None, range(len(parts.class_names)))
        losses.append(1 - float(metric(matrix)))
    return Outcome(scores, float(np.mean(losses)), [0] * len(scores), perf_counter() - begin)


def _build_estimator(row: PaperRow, metric: Metric, kind: str, seed: int) -> Any:
    settings = {name: value for name, value in row.settings.items() if name not in ("metric", "betas")}
    if row.method == "booster":
        return MetricBooster(metric, n_jobs=1, random_state=seed, **settings)
    if row.method == "forest":
        model: Any = RandomForestClassifier(random_state=seed, n_jobs=1, **settings)
    else:
        # With one label per row, the surrogates of Zhang et al. (2020) estimate the probability of each
        # class by a proper loss, and the best single label is the most probable one.
        model = OneVsRestClassifier(LogisticRegression(max_iter=1000, random_state=seed))
    return make_pipeline(PCA(VARIANCE, random_state=seed), model) if kind == "images" else model


def _as_matrix(x: Any) -> NDArray[Any]:
    return np.asarray(x.flatten(1).numpy())
