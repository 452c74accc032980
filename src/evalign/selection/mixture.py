"""A mixture of classifiers: each calibrated, all weighted, decided by one rule for the metric.

Everything here is fitted on out-of-fold scores, (members, rows, classes): those of models that were not
trained on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from evalign._typing import Floats, Indices
from evalign.decisions import DecisionRule, Goal, Scaling, fit_rule, fit_scaling
from evalign.metrics import label_confusion

#: Probabilities are cut off here before their logarithm is taken: forests say 0 where they mean "rarely".
SMALLEST = 1e-4
#: Members whose most likely weight is smaller are dropped.
LEAST_WEIGHT = 0.01
#: The share of equal weights is that of this many among all rows, but at most one half.
EQUAL_ROWS = 100


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of members for rows that they were not trained on, and the truth.

    Args:
        scores: Log-probabilities up to a constant per row, (members, n, d); for labels log-odds.
        y: The index of the class of each row, or 0 and 1 of shape (n, L).
        weight: The weight of each row, or None.
    """

    scores: Floats
    y: Indices
    weight: Floats | None = None

    @property
    def has_labels(self) -> bool:
        """Whether a row has any number of labels."""
        return self.y.ndim == 2

    def take(self, rows: NDArray[Any]) -> HeldOutScores:
        """The scores of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        return HeldOutScores(self.scores[:, rows], self.y[rows], weight)

    def only(self, members: Sequence[int]) -> HeldOutScores:
        """The scores of some members."""
        return replace(self, scores=self.scores[list(members)])


@dataclass(frozen=True, eq=False)
class Calibrator:
    """How the scores of one classifier become probabilities: a scaling, or one per label."""

    scalings: tuple[Scaling, ...]
    has_labels: bool

    def apply(self, scores: Floats) -> Floats:
        """The probability of each class, or of each label."""
        if not self.has_labels:
            return np.asarray(softmax(self.scalings[0].apply(scores), axis=1))
        scaled = [one.apply(own) for one, own in zip(self.scalings, scores.T, strict=True)]
        return np.asarray(expit(np.stack(scaled, axis=1)))

    def apply_to_probabilities(self, p: Floats) -> Floats:
        """The probabilities after another calibration."""
        return self.apply(as_scores(p, True, self.has_labels))


@dataclass(frozen=True, eq=False)
class Mixture:
    """The weighted mean of calibrated probabilities, calibrated again, and the rule that decides by it.

    The mean of calibrated probabilities is less certain than it could be: members err independently.
    """

    calibrators: tuple[Calibrator, ...]
    weights: Floats
    final: Calibrator
    rule: DecisionRule

    def predict_proba(self, scores: Sequence[Floats]) -> Floats:
        """The probability of each class, or label, from the scores of the members."""
        triples = zip(self.weights, self.calibrators, scores, strict=True)
        mixed = sum(weight * calibrator.apply(own) for weight, calibrator, own in triples)
        return self.final.apply_to_probabilities(np.asarray(mixed))


def as_scores(response: Floats, is_probability: bool, has_labels: bool) -> Floats:
    """Turn what a classifier says into log-probabilities up to a constant per row; for labels, log-odds.

    >>> as_scores(np.array([[0.2, 0.8]]), True, False).round(3).tolist()
    [[-0.693, 0.693]]
    """
    if not is_probability:
        return response
    if has_labels:
        p = np.clip(response, SMALLEST, 1 - SMALLEST)
        return np.asarray(np.log(p) - np.log1p(-p))
    logs = np.log(np.clip(response, SMALLEST, 1.0))
    return np.asarray(logs - logs.mean(1, keepdims=True))


def fit_calibrator(scores: Floats, y: Indices, weight: Floats | None) -> Calibrator:
    """Fit one slope and one offset per class, or both for each label, on out-of-fold scores."""
    if y.ndim == 1:
        return Calibrator((fit_scaling(scores, y, weight),), False)
    return Calibrator(tuple(fit_scaling(scores[:, k], y[:, k], weight) for k in range(y.shape[1])), True)


def fit_mixture(
    held_out: HeldOutScores, goal: Goal, classes: NDArray[Any], max_models: int | None = None
) -> Mixture:
    """Calibrate the members, weight them, and fit the rule."""
    calibrators = tuple(fit_calibrator(own, held_out.y, held_out.weight) for own in held_out.scores)
    pairs = zip(calibrators, held_out.scores, strict=True)
    p = np.stack([calibrator.apply(own) for calibrator, own in pairs])
    weights = choose_weights(p, held_out, max_models)
    scores = as_scores(np.tensordot(weights, p, 1), True, held_out.has_labels)
    final = _identity(p.shape[2], held_out.has_labels)
    if len(p) > 1:
        final = fit_calibrator(scores, held_out.y, held_out.weight)
    return Mixture(calibrators, weights, final, decide(final.apply(scores), held_out, goal, classes))


def _identity(width: int, has_labels: bool) -> Calibrator:
    """The calibration that changes nothing."""
    sizes = [2] * width if has_labels else [width]
    return Calibrator(tuple(Scaling(1.0, np.zeros(size)) for size in sizes), has_labels)


def decide(p: Floats, held_out: HeldOutScores, goal: Goal, classes: NDArray[Any]) -> DecisionRule:
    """Fit the rule on probabilities."""
    names = None if held_out.has_labels else list(classes)
    y = held_out.y if held_out.has_labels else classes[held_out.y]
    return fit_rule(p, y, goal.metric, goal.constraints, held_out.weight, classes=names)


def choose_weights(p: Floats, held_out: HeldOutScores, max_models: int | None = None) -> Floats:
    """Weight members by a mean of the most likely weights and equal ones.

    The most likely weights alone rely too much on few members where rows are few. Equal weights go to those
    only that have some likelihood, so that a member that knows nothing gets nothing. Rows are counted as if
    every class were as rare as the rarest.
    """
    members = np.arange(len(p))
    equal = min(0.5, EQUAL_ROWS / max(1.0, _count_rarest(held_out)))
    while True:
        likely = maximize_likelihood(p[members], held_out.y, held_out.weight)
        useful = likely >= LEAST_WEIGHT
        weights = np.zeros(len(p))
        weights[members] = (1 - equal) * likely * useful / (likely @ useful) + equal * useful / useful.sum()
        if max_models is None or useful.sum() <= max_models:
            return weights
        members = np.sort(np.argsort(-weights, kind="stable")[:max_models])


def _count_rarest(held_out: HeldOutScores) -> float:
    """The rows (by weight) of the rarest class, or side of a label, times the number of classes."""
    y, classes = held_out.y, held_out.scores.shape[2]
    weight = np.ones(len(y)) if held_out.weight is None else held_out.weight
    if held_out.has_labels:
        positive = weight @ y
        return float(2 * np.minimum(positive, weight.sum() - positive).min())
    return float(classes * np.bincount(y, weight, classes).min())


def name_classes(goal: Goal, classes: NDArray[Any]) -> Goal:
    """The goal for matrices of these classes, by which a metric or a constraint may call them."""
    names: Any = classes  # an array keeps its type
    constraints = tuple(one.with_classes(names) for one in goal.constraints)
    return replace(goal, metric=goal.metric.with_classes(names), constraints=constraints)


def find_useless(held_out: HeldOutScores) -> list[int]:
    """The members that would have no weight.

    >>> right, wrong = np.array([[2.0, -2.0], [-2.0, 2.0]] * 50), np.array([[0.0, 0.0], [0.1, 0.0]] * 50)
    >>> find_useless(HeldOutScores(np.stack([right, wrong]), np.array([0, 1] * 50)))
    [1]
    """
    y, weight = held_out.y, held_out.weight
    p = np.stack([fit_calibrator(own, y, weight).apply(own) for own in held_out.scores])
    return [place for place, weight in enumerate(choose_weights(p, held_out)) if weight == 0]


def maximize_likelihood(p: Floats, y: Indices, weight: Floats | None, steps: int = 200) -> Floats:
    """Return the weights of the mixture with the highest likelihood, by expectation and maximization.

    >>> p = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> maximize_likelihood(p, np.array([0, 1]), None).round(3).tolist()
    [1.0, 0.0]
    """
    if y.ndim == 1:
        likelihood = p[:, np.arange(len(y)), y]
    else:
        likelihood = np.where(y == 1, p, 1 - p).reshape(len(p), -1)
        weight = None if weight is None else np.repeat(weight, y.shape[1])
    share = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    if weight is not None:
        share = weight / weight.sum()
    likelihood = np.clip(likelihood, 1e-12, None)
    weights = np.full(len(p), 1 / len(p))
    for _ in range(steps):
        weights = weights * (likelihood @ (share / (weights @ likelihood)))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Judged:
    """What a mixture does on each part when its weights and rule are fitted on the others.

    Attributes:
        values: The metric of each part.
        slacks: The slack of each constraint on each part.
        probabilities: The probabilities of all rows, each fitted without the rows of its part.
        predicted: The classes of all rows, or 0 and 1 for each label.
    """

    values: Floats
    slacks: Floats
    probabilities: Floats
    predicted: NDArray[Any]


def judge_nested(
    held_out: HeldOutScores, parts: Indices, goal: Goal, classes: NDArray[Any], max_models: int | None = None
) -> Judged:
    """Fit the mixture without each part in turn, and judge it there."""
    p = np.empty(held_out.scores.shape[1:])
    predicted = np.empty(held_out.y.shape, dtype=np.int64 if held_out.has_labels else classes.dtype)
    values, slacks = [], []
    for part in np.unique(parts):
        rows, own = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        mixture = fit_mixture(held_out.take(rows), goal, classes, max_models)
        p[own] = mixture.predict_proba(list(held_out.scores[:, own]))
        predicted[own] = mixture.rule.predict(p[own])
        value, slack = _score(held_out.take(own), predicted[own], goal, classes)
        values.append(value)
        slacks.append(slack)
    return Judged(np.array(values), np.array(slacks), p, predicted)


def _score(
    held_out: HeldOutScores, predicted: NDArray[Any], goal: Goal, classes: NDArray[Any]
) -> tuple[float, list[float]]:
    """The metric of decisions, and the slack of each constraint."""
    if not held_out.has_labels:
        goal = name_classes(goal, classes)
    labels = None if held_out.has_labels else range(len(classes))
    chosen = predicted if held_out.has_labels else np.searchsorted(classes, predicted)
    matrix = label_confusion(held_out.y, chosen, held_out.weight, labels)
    slacks = [float(goal.slack(one, matrix[None])[0]) for one in goal.constraints]
    return goal.value(matrix), slacks
