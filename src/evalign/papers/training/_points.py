"""A point of a study: one setting of one row on one dataset, trained with one or more seeds and scored."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time
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
from evalign.papers.training._train import TrainedNetwork, TrainingTask, train_networks

#: The share of the variance of images that their principal components explain (EAST, table 2).
VARIANCE = 0.8


@dataclass(frozen=True)
class Point:
    """A unit of work: its stage (`"grid"` or `"trial"`), dataset, rows, setting and seeds.

    Several rows are scores of the same networks, which are trained once: those of the first row.
    """

    stage: str
    data: str
    rows: tuple[str, ...]
    setting: Mapping[str, Any] = field(hash=False)
    seeds: tuple[int, ...]

    @property
    def key(self) -> str:
        """A text that identifies the point within its study."""
        setting = json.dumps(dict(self.setting), sort_keys=True)
        return f"{self.stage} | {self.data} | {', '.join(self.rows)} | {setting} | {list(self.seeds)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the point as plain data."""
        plain = {"rows": list(self.rows), "setting": dict(self.setting), "seeds": list(self.seeds)}
        return {**vars(self), **plain}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Point:
        """Build a point from the result of `to_dict`."""
        return cls(**{**values, "rows": tuple(values["rows"]), "seeds": tuple(values["seeds"])})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a point: for each seed the columns by row, the loss to select by, epochs and time.

    `seconds` is processor time, which neither other work on the machine nor a pause increases. `capped`
    says of each seed whether its training was cut off by `max_epochs`, and `temperatures` has the last
    temperature of those that are annealed. `curves` contains, for each seed, the columns with one value per
    epoch, if the table has any.
    """

    scores: list[dict[str, dict[str, float]]]
    valid_loss: float
    epochs: list[int]
    seconds: float = 0.0
    capped: list[bool] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    curves: list[dict[str, list[float]]] = field(default_factory=list)


def run_point(table: PaperTable, point: Point, seed: int) -> Outcome:
    """Train and score a point; `seed` is that of the study and determines the split."""
    data, rows = table.find_cells(point.data, point.rows)
    start = process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if table.has_curves:
            outcome = _run_curves(table, data, rows[0], point)
        elif rows[0].method in ESTIMATORS:
            outcome = _run_estimators(table, rows[0], _prepare_parts(table, point, seed), point)
        else:
            outcome = _run_networks(table, data, rows, _prepare_parts(table, point, seed), point)
    messages = sorted({str(warning.message).splitlines()[0] for warning in caught})
    return replace(outcome, seconds=process_time() - start, warnings=messages)


def _prepare_parts(table: PaperTable, point: Point, seed: int) -> tuple[Parts, ...]:
    """The parts of each seed: one split for all, or a new one for each."""
    limit, protocol = point.setting.get("rows"), table.protocol
    if protocol.split_per_trial:
        return prepare(point.data, limit, point.seeds, protocol)
    return prepare(point.data, limit, (seed,), protocol) * len(point.seeds)


def _run_networks(
    table: PaperTable, data: PaperData, rows: Sequence[PaperRow], parts: Sequence[Parts], point: Point
) -> Outcome:
    first = rows[0]
    network = str(point.setting.get("network", data.network))
    metric = build_metric(first, parts[0], table.metric)
    task = TrainingTask(first, network, metric, table.protocol.weight_decay)
    if any(column.source in ("time", "pace") for column in table.columns):
        # A first epoch that is not measured, for what a process does only once, such as imports.
        train_networks(task, parts, {**point.setting, "max_epochs": 1}, point.seeds)
    models = train_networks(task, parts, point.setting, point.seeds)
    scores = [_score_rows(table, rows, *pair) for pair in zip(models, parts, strict=True)]
    return Outcome(
        scores,
        _average_losses([model.valid_loss for model in models]),
        [model.epochs for model in models],
        capped=[model.capped for model in models],
        temperatures=[model.temperature for model in models if model.temperature is not None],
    )


def _average_losses(losses: Sequence[float]) -> float:
    """The mean; infinite if a training diverged, so that its setting is not chosen.

    >>> _average_losses([0.25, 0.75]), _average_losses([0.25, float("nan")])
    (0.5, inf)
    """
    mean = float(np.mean(losses))
    return mean if math.isfinite(mean) else math.inf


def _score_rows(
    table: PaperTable, rows: Sequence[PaperRow], model: TrainedNetwork, parts: Parts
) -> dict[str, dict[str, float]]:
    """The columns of every row that this network stands for."""
    logits = model.logits(parts.test.x)
    p, truth = logits.softmax(-1).numpy(), parts.test.y.numpy().ravel()
    scores = {}
    for row in rows:
        decisions = p.argmax(1)
        if row.rule:
            valid_p = model.logits(parts.valid.x).softmax(-1).numpy()
            metric = build_metric(row, parts, table.metric)
            rule = fit_rule(valid_p, parts.valid.y.numpy().ravel(), metric, classes=range(p.shape[1]))
            decisions = rule.predict(p)
        raw = (logits[:, 1] - logits[:, 0]).numpy() if row.raw else None
        predictions = ModelPredictions(
            p, decisions, truth, model.seconds, model.epochs, by_rule=row.rule, raw=raw
        )
        scores[row.name] = predictions.scores(table.columns, parts.class_names)
    return scores


def _run_curves(table: PaperTable, data: PaperData, row: PaperRow, point: Point) -> Outcome:
    name = str(point.setting.get("network", data.network))
    runs = []
    for seed in point.seeds:
        parts = prepare_photos(data.name, point.setting.get("rows"), seed)
        runs.append(record_curves(row, name, parts, point.setting, table.columns, seed))
    return Outcome(
        [{} for _ in runs],
        _average_losses([run.valid_loss for run in runs]),
        [run.epochs for run in runs],
        curves=[run.curves for run in runs],
    )


def _run_estimators(table: PaperTable, row: PaperRow, parts: Sequence[Parts], point: Point) -> Outcome:
    pairs = [_run_estimator(table, row, *pair) for pair in zip(parts, point.seeds, strict=True)]
    scores, losses = zip(*pairs, strict=True)
    return Outcome([{row.name: one} for one in scores], _average_losses(losses), [0] * len(scores))


def _run_estimator(
    table: PaperTable, row: PaperRow, parts: Parts, seed: int
) -> tuple[dict[str, float], float]:
    x, y, valid_x, valid_y, test_x, truth = (
        array
        for part in (parts.train, parts.valid, parts.test)
        for array in (_as_matrix(part.x), part.y.numpy())
    )
    if row.method == "booster":  # it holds out rows by itself
        x, y = np.concatenate([x, valid_x]), np.concatenate([y, valid_y])
    metric = build_metric(row, parts, table.metric)
    model = _build_estimator(row, metric, parts.kind, seed)
    start = perf_counter()
    model.fit(x, y)
    predictions = ModelPredictions(
        model.predict_proba(test_x), model.predict(test_x), truth, perf_counter() - start, by_rule=True
    )
    matrix = label_confusion(valid_y, model.predict(valid_x), None, range(len(parts.class_names)))
    return predictions.scores(table.columns, parts.class_names), 1 - float(metric(matrix))


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
