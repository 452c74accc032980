"""Boosting with LightGBM: log-loss first, then the metric, starting from the fitted rule."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from joblib import cpu_count
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from torch import Tensor

from evalign._typing import Floats, Indices
from evalign.boosting._objective import Objective
from evalign.decisions import Goal, Scaling, Standing, fit_rule
from evalign.metrics import hard_confusion

#: With fewer cells per thread, a thread waits longer than it works.
CELLS_PER_THREAD = 100_000


@dataclass(frozen=True)
class LabelledRows:
    """Features, class indices (or 0 and 1 for each label) and weights (or None) of rows."""

    X: Any
    y: Indices
    weight: Floats | None = None

    def take(self, index: NDArray[Any]) -> LabelledRows:
        """The rows at an index."""
        return LabelledRows(self.X[index], self.y[index], None if self.weight is None else self.weight[index])

    def of_label(self, place: int) -> LabelledRows:
        """The rows with one of their labels."""
        return replace(self, y=self.y[:, place])

    def with_class_weights(self, by_class: Tensor | None) -> LabelledRows:
        """The rows with their weights multiplied by those of their classes."""
        if by_class is None:
            return self
        own = by_class.double().numpy()[self.y]
        return replace(self, weight=own if self.weight is None else own * self.weight)


@dataclass(frozen=True)
class BoostingPlan:
    """The settings of a boosting run."""

    goal: Goal
    num_classes: int
    #: Settings of LightGBM for both stages.
    settings: dict[str, Any]
    rounds: int
    patience: int
    #: Rounds on the metric; with 0, boosting stops after the log-loss.
    metric_rounds: int
    temperature: float
    report: Callable[[str, int, float], None] | None = None
    #: The places of the features that are categories.
    categorical: tuple[int, ...] = ()

    def make_dataset(self, rows: LabelledRows, init_score: Floats | None = None) -> Any:
        """Make LightGBM's dataset of rows."""
        return import_lightgbm().Dataset(
            rows.X, rows.y, weight=rows.weight, init_score=init_score,
            categorical_feature=list(self.categorical) or "auto",
        )  # fmt: skip


@dataclass(frozen=True)
class Stages:
    """One booster for the log-loss, and one or none that continues from its rule on the metric."""

    base: Any
    weights: Floats | None = None
    metric: Any = None
    #: How scores of more than two classes are calibrated before the rule.
    calibration: Scaling | None = None

    @property
    def rounds(self) -> tuple[int, int]:
        """The rounds on the log-loss and on the metric."""
        return self.base.current_iteration(), 0 if self.metric is None else self.metric.current_iteration()

    def base_scores(self, X: Any) -> Floats:
        """The raw scores after the rounds on the log-loss."""
        return _predict(self.base, X)

    def scores(self, X: Any, base: Floats | None = None) -> Floats:
        """The scores, (n,) for two classes, else (n, d), whose sign or argmax decides.

        Pass the scores of the log-loss rounds as `base` if they are known, since many trees take long.
        """
        scores = self.base_scores(X) if base is None else base
        if self.weights is None:
            return scores
        if self.calibration is not None:
            scores = self.calibration.apply(scores)
        scores = fold_rule(scores, self.weights)
        return scores if self.metric is None else scores + _predict(self.metric, X)


def choose_threads(X: Any, n_jobs: int | None = None) -> int:
    """The number of threads for features: `n_jobs`, or as many as there is enough work for.

    Threads that wait for each other after every leaf make small tables slower, by far if cores are busy.

    >>> choose_threads(np.zeros((1000, 20)))
    1
    """
    if n_jobs is not None:
        return int(n_jobs)
    return int(min(cpu_count(), 1 + math.prod(X.shape) // CELLS_PER_THREAD))


def import_lightgbm() -> Any:
    """Import LightGBM, or explain how to install it."""
    try:
        return importlib.import_module("lightgbm")
    except ImportError:
        raise ImportError("MetricBooster requires LightGBM: pip install 'evalign[boost]'.") from None


def scores_to_probabilities(scores: Floats) -> Floats:
    """The probability of each class, (n, d), from raw scores.

    >>> scores_to_probabilities(np.array([0.0])).tolist()
    [[0.5, 0.5]]
    """
    if scores.ndim == 1:
        second = expit(scores)
        return np.stack([1 - second, second], axis=1)
    return np.asarray(softmax(scores, axis=1))


def decide(scores: Floats) -> Indices:
    """The class that scores decide for: by their sign, (n,), or their argmax, (n, d).

    >>> decide(np.array([-1.0, 0.5])).tolist(), decide(np.array([[0.1, 0.9]])).tolist()
    ([0, 1], [1])
    """
    return scores.argmax(1) if scores.ndim == 2 else (scores >= 0).astype(np.int64)


def fold_rule(scores: Floats, weights: Floats) -> Floats:
    """Shift scores so that their sign or argmax decides as the rule argmax_j sum_i p_i W_ij does.

    >>> fold_rule(np.array([-1.0, 1.0]), np.diag([0.2, 0.8])).round(3).tolist()   # threshold 0.2
    [0.386, 2.386]
    """
    if scores.ndim == 1:
        threshold = float(np.clip(weights[0, 0], 1e-6, 1 - 1e-6))
        return np.asarray(scores - logit(threshold))
    values = np.log(np.clip(softmax(scores, axis=1) @ weights, 1e-12, None))
    return np.asarray(values - values.mean(1, keepdims=True))


def train_stages(parts: list[tuple[LabelledRows, LabelledRows]], plan: BoostingPlan) -> list[Stages]:
    """Train one bag for each pair of training rows and held-out rows for early stopping.

    First on the log-loss. Then the best rule on all held-out rows is the start of rounds on the metric,
    which are only used if they improve on it on the bag's own held-out rows.
    """
    bases = [Stages(boost_on_log_loss(rows, held, plan)) for rows, held in parts]
    if plan.metric_rounds == 0:
        return bases
    scores = [base.base_scores(held.X) for base, (_, held) in zip(bases, parts, strict=True)]
    weights = [held.weight for _, held in parts if held.weight is not None]
    rule = fit_rule(
        scores_to_probabilities(np.concatenate(scores)), np.concatenate([held.y for _, held in parts]),
        plan.goal.metric, plan.goal.constraints, np.concatenate(weights) if weights else None,
        classes=range(plan.num_classes), confidence=plan.goal.confidence,
    )  # fmt: skip
    starts = [replace(base, weights=rule.weights, calibration=rule.scaling) for base in bases]
    goal = (plan.goal.metric, plan.temperature, plan.goal.constraints)
    return [
        boost_on_metric(
            start, rows, held, known, plan, Objective(*goal), partial(_rank, held=held, plan=plan)
        )
        for start, (rows, held), known in zip(starts, parts, scores, strict=True)
    ]


def boost_on_log_loss(rows: LabelledRows, held: LabelledRows, plan: BoostingPlan) -> Any:
    lgb = import_lightgbm()
    fit, valid = (plan.make_dataset(part) for part in (rows, held))
    valid.reference = fit
    kind: dict[str, Any] = {"objective": "binary"}
    if plan.num_classes > 2:
        kind = {"objective": "multiclass", "num_class": plan.num_classes}
    calls: list[Any] = [lgb.early_stopping(plan.patience, verbose=False)]
    if plan.report is not None:
        calls.append(_progress(plan.report, "log-loss"))
    settings = {**plan.settings, **kind}
    return _detach(lgb.train(settings, fit, plan.rounds, valid_sets=[valid], callbacks=calls))


def boost_on_metric(
    start: Stages,
    rows: LabelledRows,
    held: LabelledRows,
    held_base: Floats,
    plan: BoostingPlan,
    goal: Objective,
    rank: Callable[[Floats], float],
) -> Stages:
    """Continue from a start with rounds on the metric up to the best one, unless none helps.

    `held_base` are the scores of the log-loss rounds on the held-out rows, and `rank` says how good scores
    are there.
    """
    if not start.base.dump_model(num_iteration=1)["feature_infos"]:  # LightGBM crashes where it cannot split
        return start
    lgb = import_lightgbm()
    first = [start.scores(rows.X), start.scores(held.X, held_base)]
    fit, valid = (plan.make_dataset(*pair) for pair in zip((rows, held), first, strict=True))
    valid.reference = fit

    def evaluate(scores: Floats, data: Any) -> tuple[str, float, bool]:
        return "metric", rank(np.asarray(scores)), True

    settings = {**plan.settings, "objective": goal, "metric": "None", "num_class": 1}
    if plan.num_classes > 2:
        settings["num_class"] = plan.num_classes
    record: dict[str, Any] = {}
    # A hard metric improves within few rounds or not at all: two thirds of the patience suffice.
    patience = max(1, 2 * plan.patience // 3)
    calls: list[Any] = [lgb.early_stopping(patience, verbose=False), lgb.record_evaluation(record)]
    if plan.report is not None:
        calls.append(_progress(plan.report, "metric"))
    booster = lgb.train(
        settings, fit, plan.metric_rounds, valid_sets=[valid], valid_names=["held"], feval=evaluate,
        callbacks=calls,
    )  # fmt: skip
    helps = max(record["held"]["metric"]) > rank(first[1])
    return replace(start, metric=_detach(booster)) if helps else start


def _detach(booster: Any) -> Any:
    """The trees up to the best round, without data and objective: small and easy to copy."""
    return import_lightgbm().Booster(model_str=booster.model_to_string())


def _predict(booster: Any, X: Any) -> Floats:
    return np.asarray(booster.predict(X, raw_score=True, num_threads=choose_threads(X)))


def _rank(scores: Floats, held: LabelledRows, plan: BoostingPlan) -> float:
    """The standing of scores on the held-out rows as one number, for early stopping."""
    weight = None if held.weight is None else torch.from_numpy(held.weight)
    matrix = hard_confusion(
        torch.from_numpy(decide(scores)), torch.from_numpy(held.y), plan.num_classes, weight
    )
    return rank_standing(replace(plan.goal, rows=float(len(held.y))).standing(matrix))


def rank_standing(standing: Standing) -> float:
    """A standing as one number: whatever violates a constraint is below everything else."""
    return standing.value if standing.feasible else -1e6 + standing.slack


def _progress(report: Callable[[str, int, float], None], stage: str) -> Callable[[Any], None]:
    def callback(env: Any) -> None:
        report(stage, env.iteration + 1, env.evaluation_result_list[0][2])

    return callback
