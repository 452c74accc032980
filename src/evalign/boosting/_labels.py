"""Boosting for multilabel problems: trees per label, whose metric is that of all labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from evalign._typing import Floats
from evalign.boosting._objective import Objective
from evalign.boosting._train import (
    BoostingPlan,
    LabelledRows,
    Stages,
    boost_on_log_loss,
    boost_on_metric,
    rank_standing,
)
from evalign.decisions import fit_rule
from evalign.metrics import Metric, label_confusion


@dataclass(frozen=True)
class LabelStages:
    """The stages of each label; scores are (n, L), and their signs decide."""

    labels: tuple[Stages, ...]

    @property
    def rounds(self) -> tuple[int, int]:
        """The rounds on the log-loss and on the metric, of all labels together."""
        pairs = [one.rounds for one in self.labels]
        return sum(base for base, _ in pairs), sum(metric for _, metric in pairs)

    @property
    def base(self) -> LabelStages:
        """The stages without rounds on the metric."""
        return LabelStages(tuple(Stages(one.base) for one in self.labels))

    def base_scores(self, X: Any) -> Floats:
        """The raw scores after the rounds on the log-loss."""
        return np.stack([one.base_scores(X) for one in self.labels], axis=1)

    def scores(self, X: Any, base: Floats | None = None) -> Floats:
        """The scores, from those of the log-loss rounds if they are known."""
        base = self.base_scores(X) if base is None else base
        pairs = zip(self.labels, base.T, strict=True)
        return np.stack([one.scores(X, known) for one, known in pairs], axis=1)


class LabelObjective(Objective):
    """The objective of one label while the confusion matrices (L, 2, 2) of all others stay as they are.

    >>> from evalign import metrics
    >>> others = torch.tensor([[[0.5, 0.1], [0.1, 0.3]], [[0.0, 0.0], [0.0, 0.0]]]).double()
    >>> goal = LabelObjective(metrics.f1(average="micro"), 0.2, others, place=1)
    >>> gradient, _ = goal.gradients(np.array([0.5, -1.0, 0.2]), np.array([1, 0, 0]))
    >>> gradient.round(3).tolist()
    [-0.436, 0.172, 0.216]
    """

    def __init__(self, metric: Metric, temperature: float, others: Tensor, place: int) -> None:
        super().__init__(metric, temperature, ())
        self.others, self.place = others, place

    def _cost_matrix(self, confusion: Tensor, task: str) -> Tensor:
        point = confusion.detach().requires_grad_()
        before, after = self.others[: self.place], self.others[self.place + 1 :]
        joint = torch.cat([before, point.reshape(1, 2, 2), after])
        loss = self.loss.objective(joint[None], "multilabel")
        (cost,) = torch.autograd.grad(loss, point, materialize_grads=True)
        return cost


def train_label_stages(
    parts: list[tuple[LabelledRows, LabelledRows]], plan: BoostingPlan
) -> list[LabelStages]:
    """Train one bag per pair of training and held-out rows, as `train_stages` does, for each label.

    The rule, one threshold per label, is fitted jointly. Each label is then boosted on the metric of all
    labels, with the others as the rule decides them. Constraints bind the rule and the stopping, but
    not the gradient.
    """
    places = range(parts[0][0].y.shape[1])
    bases = [
        LabelStages(
            tuple(Stages(boost_on_log_loss(rows.of_label(k), held.of_label(k), plan)) for k in places)
        )
        for rows, held in parts
    ]
    if plan.metric_rounds == 0:
        return bases
    known = [base.base_scores(held.X) for base, (_, held) in zip(bases, parts, strict=True)]
    weights = [held.weight for _, held in parts if held.weight is not None]
    rule = fit_rule(
        expit(np.concatenate(known)), np.concatenate([held.y for _, held in parts]),
        plan.goal.metric, plan.goal.constraints, np.concatenate(weights) if weights else None,
        confidence=plan.goal.confidence,
    )  # fmt: skip
    assert rule.thresholds is not None
    folds = [np.diag([one, 1 - one]) for one in rule.thresholds]
    return [
        _boost_labels(base, rows, held, scores, folds, plan)
        for base, (rows, held), scores in zip(bases, parts, known, strict=True)
    ]


def _boost_labels(
    base: LabelStages,
    rows: LabelledRows,
    held: LabelledRows,
    known: Floats,
    folds: list[Floats],
    plan: BoostingPlan,
) -> LabelStages:
    """Boost each label of a bag on the metric."""
    starts = LabelStages(tuple(replace(one, weights=w) for one, w in zip(base.labels, folds, strict=True)))
    others = _count(starts.scores(rows.X), rows)
    others = others / others.sum((1, 2), keepdim=True)
    decided = _count(starts.scores(held.X, known), held)
    goal = replace(plan.goal, rows=float(len(held.y)), labels=True)

    def boost(place: int, start: Stages) -> Stages:
        own = held.of_label(place)

        def rank(scores: Floats) -> float:
            joint = decided.clone()
            joint[place] = label_confusion(own.y, scores >= 0, own.weight, (0, 1))
            return rank_standing(goal.standing(joint))

        objective = LabelObjective(plan.goal.metric, plan.temperature, others, place)
        return boost_on_metric(start, rows.of_label(place), own, known[:, place], plan, objective, rank)

    return LabelStages(tuple(boost(place, start) for place, start in enumerate(starts.labels)))


def _count(scores: Floats, rows: LabelledRows) -> Tensor:
    """The confusion matrices (L, 2, 2) of what the signs of scores decide."""
    return label_confusion(rows.y, (scores >= 0).astype(np.int64), rows.weight)
