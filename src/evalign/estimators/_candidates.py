"""Candidates for the weights of a linear classifier, judged by cross-fitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from torch import Tensor

from evalign._typing import Floats, Indices
from evalign.decisions import ROUNDING, DecisionRule, Goal, fit_rule, fit_scaling
from evalign.estimators._folds import Split
from evalign.estimators._logistic import LinearRows, fit_logistic, predict_scores, train_on_metric
from evalign.estimators._offsets import fit_offsets
from evalign.metrics import label_confusion, paired_error

#: The weight of cross-entropy in the metric loss, from the logistic optimum and from zero.
ANCHOR, ANCHOR_FROM_ZERO = 0.1, 0.03
#: By how many standard errors a candidate must be better than the first.
MARGIN = 1.0
#: The `sample` of `fit_rule`.
SAMPLE = 0.2
#: The largest offset of a threshold: beyond it, a probability is 0 or 1.
MAX_LOGIT = 36.0


@dataclass(frozen=True)
class Contender:
    """Weights to choose from: a share of one kind, the rest being those of logistic regression."""

    name: str
    kind: str
    share: float = 1.0


#: The first is what the others must beat.
CANDIDATES = (
    Contender("logistic regression", "logistic"),
    Contender("mean of both", "metric", share=0.5),
    Contender("metric", "metric"),
    Contender("metric from zero", "zero"),
)


@dataclass(frozen=True, eq=False)
class FoldFit:
    """What was trained without a fold: weights by kind, and their scores for the rows of the fold."""

    held_out: Indices
    weights: dict[str, Floats]
    scores: dict[str, Floats]
    n_iter: int
    converged: bool


def fit_fold(rows: LinearRows, split: Split, goal: Goal, C: float, max_iter: int) -> FoldFit:
    """Train all kinds of weights on the rows to train on, and score the others."""
    train, held_out = split
    part = rows.take(train)
    fit = fit_logistic(part, C, max_iter)
    start = fit.weights.copy()
    start[:, -1] += get_offsets(_fit_rule(predict_scores(part.X, start), part.y, part.weight, goal))
    weights = {
        "logistic": fit.weights,
        "metric": train_on_metric(part, start, goal, C, ANCHOR),
        "zero": train_on_metric(part, np.zeros_like(start), goal, C, ANCHOR_FROM_ZERO),
    }
    X = rows.X[held_out]
    scores = {kind: predict_scores(X, one) for kind, one in weights.items()}
    return FoldFit(held_out, weights, scores, fit.n_iter, fit.converged)


@dataclass(frozen=True, eq=False)
class Blend:
    """Calibrated log-odds: a share of slope * scores + offsets, the rest from logistic regression."""

    candidate: Contender
    slope: Floats
    offsets: Floats

    def apply(self, scores: Mapping[str, Floats]) -> Floats:
        """Blend scores (n, outputs) by kind."""
        share = self.candidate.share
        own = self.slope * scores[self.candidate.kind] + self.offsets
        return np.asarray(share * own + (1 - share) * scores["logistic"])

    def apply_to_weights(self, weights: Mapping[str, Floats]) -> Floats:
        """Blend weights (outputs, features + 1) by kind: their scores are the blended scores."""
        share = self.candidate.share
        own = self.slope[:, None] * weights[self.candidate.kind]
        own[:, -1] += self.offsets
        return np.asarray(share * own + (1 - share) * weights["logistic"])


@dataclass(frozen=True, eq=False)
class FoldScores:
    """The scores of all held-out rows by kind of weights, each from weights trained without the row."""

    scores: dict[str, Floats]
    fold: Indices
    y: Indices
    weight: Floats
    num_classes: int
    goal: Goal

    @classmethod
    def join(cls, folds: Sequence[FoldFit], rows: LinearRows, goal: Goal) -> FoldScores:
        """Join the held-out rows of all folds."""
        held_out = np.concatenate([one.held_out for one in folds])
        fold = np.repeat(np.arange(len(folds)), [len(one.held_out) for one in folds])
        scores = {kind: np.concatenate([one.scores[kind] for one in folds]) for kind in folds[0].scores}
        return cls(scores, fold, rows.y[held_out], rows.weight[held_out], rows.num_classes, goal)

    def choose(self, candidates: Sequence[Contender]) -> tuple[Contender, dict[str, float]]:
        """Choose the best candidate that is significantly better than the first, or else the first.

        None is chosen that can satisfy the constraints less well than the first. Returns the candidate, and
        the cross-fitted metric of each by name.
        """
        predicted = self.cross_fit(candidates)
        matrices = [self._count(one) for one in predicted]
        standings = [self.goal.standing(matrix) for matrix in matrices]
        violations = [self._measure_violation(one) for one in candidates]
        best = 0
        for at in range(1, len(candidates)):
            if (
                standings[at].above(standings[best])
                and violations[at] <= violations[0]
                and self._is_significant(predicted[at], predicted[0])
            ):
                best = at
        values = [self.goal.value(matrix) for matrix in matrices]
        return candidates[best], {one.name: value for one, value in zip(candidates, values, strict=True)}

    def cross_fit(self, candidates: Sequence[Contender]) -> list[Indices]:
        """Predict each fold, for each candidate, by a calibration and a rule fitted on the other folds."""
        predicted = [np.zeros_like(self.y) for _ in candidates]
        for number in range(self.fold.max() + 1):
            own = self.fold == number
            others = self._take(~own)
            if not others.weight.any():
                continue
            scores = {kind: table[own] for kind, table in self.scores.items()}
            calibrations = {kind: others.calibrate(kind) for kind in self.scores}
            for candidate, table in zip(candidates, predicted, strict=True):
                blend = Blend(candidate, *calibrations[candidate.kind])
                offsets = get_offsets(others.fit_rule(blend))
                table[own] = decide(blend.apply(scores) + offsets, self.goal.labels)
        return predicted

    def calibrate(self, kind: str) -> tuple[Floats, Floats]:
        """Fit the slope and the offset of each score that make log-odds of scores of one kind."""
        scores = self.scores[kind]
        n_outputs = scores.shape[1]
        if kind == "logistic":
            return np.ones(n_outputs), np.zeros(n_outputs)
        if n_outputs > 1 and not self.goal.labels:
            scaling = fit_scaling(scores, self.y, self.weight)
            return np.full(n_outputs, scaling.slope), scaling.offsets
        columns = zip(scores.T, self.y.reshape(len(scores), -1).T, strict=True)
        scalings = [fit_scaling(column, truth, self.weight) for column, truth in columns]
        offsets = np.array([one.offsets[1] - one.offsets[0] for one in scalings])
        return np.array([one.slope for one in scalings]), offsets

    def fit_rule(self, blend: Blend) -> DecisionRule:
        """Fit the rule of a candidate on all rows."""
        return _fit_rule(blend.apply(self.scores), self.y, self.weight, self.goal)

    def _measure_violation(self, candidate: Contender) -> float:
        """By how much the rule fitted on all rows violates the constraints."""
        if not self.goal.constraints:
            return 0.0
        blend = Blend(candidate, *self.calibrate(candidate.kind))
        return max(self.fit_rule(blend).violations.values(), default=0.0)

    def _take(self, rows: NDArray[np.bool_]) -> FoldScores:
        scores = {kind: table[rows] for kind, table in self.scores.items()}
        return replace(self, scores=scores, fold=self.fold[rows], y=self.y[rows], weight=self.weight[rows])

    def _count(self, predicted: Indices) -> Tensor:
        labels = None if self.goal.labels else range(self.num_classes)
        return label_confusion(self.y, predicted, self.weight, labels)

    def _is_significant(self, predicted: Indices, first: Indices) -> bool:
        """Whether predictions beat the first by more than chance, or they alone satisfy the constraints."""
        new, old = self._count(predicted), self._count(first)
        if self.goal.standing(new).feasible > self.goal.standing(old).feasible:
            return True
        sides = (torch.from_numpy(side) for side in (self.y, predicted, first, self.weight))
        error = paired_error(self.goal.metric, (new + old) / 2, *sides)
        gain = self.goal.metric.sign * (self.goal.value(new) - self.goal.value(old))
        return gain > MARGIN * error * (1 + 1e-9)


def _fit_rule(logits: Floats, y: Indices, weight: Floats, goal: Goal) -> DecisionRule:
    """Fit a rule that intercepts can contain, on calibrated log-odds (n, outputs)."""
    if goal.labels or logits.shape[1] == 1:
        p = expit(logits if goal.labels else logits[:, 0])
        classes = None if goal.labels else (0, 1)
        return fit_rule(
            p, y, goal.metric, goal.constraints, weight, classes=classes, confidence=goal.confidence,
            sample=SAMPLE,
        )  # fmt: skip
    goal = replace(goal, rows=float(weight.sum() ** 2 / np.square(weight).sum()))
    offsets = fit_offsets(logits, y, weight, goal)
    d = logits.shape[1]
    matrix = label_confusion(y, (logits + offsets).argmax(1), weight, range(d))
    slacks = {one.name: float(goal.slack(one, matrix[None])[0]) for one in goal.constraints}
    violations = {name: -slack for name, slack in slacks.items() if slack < -ROUNDING}
    weights = np.diag(np.exp(offsets))
    return DecisionRule(np.arange(d), weights, None, goal.metric.name, goal.value(matrix), violations)


def get_offsets(rule: DecisionRule) -> Floats:
    """What the rule adds to log-odds, so that their sign or argmax decides.

    >>> get_offsets(DecisionRule(np.array([0, 1]), np.diag([0.2, 0.8]), np.array([0.2]), "f1", 1.0)).round(2)
    array([1.39])
    """
    if rule.thresholds is not None:
        return np.asarray(-logit(rule.thresholds.clip(0, 1)).clip(-MAX_LOGIT, MAX_LOGIT))
    assert rule.weights is not None
    return np.log(np.diag(rule.weights))


def decide(decisions: Floats, labels: bool) -> Indices:
    """The index of the class, or for each label 0 or 1, from decisions (n, outputs)."""
    if labels:
        return (decisions >= 0).astype(np.int64)
    return (decisions[:, 0] >= 0).astype(np.int64) if decisions.shape[1] == 1 else decisions.argmax(1)


def to_probabilities(logits: Floats, labels: bool) -> Floats:
    """The probability of each class, or of each label, from log-odds (n, outputs)."""
    if labels:
        return np.asarray(expit(logits))
    if logits.shape[1] == 1:
        return np.concatenate([expit(-logits), expit(logits)], axis=1)
    return np.asarray(softmax(logits, axis=1))
