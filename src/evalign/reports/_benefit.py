"""`measure_benefit`: what a model brings compared with what people use today, counted on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalign import metrics
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import fit_rule
from evalign.metrics import Metric
from evalign.reports._held_out import HeldOutRows, evaluate
from evalign.reports._paired import SAMPLES, as_interval, compare_decisions
from evalign.reports.facts import BenefitFacts, Interval, MethodCounts, as_number

#: Scores are sampled in at most this many groups of about equal scores.
MOST_BLOCKS = 2000


@dataclass(frozen=True)
class Rival:
    """What people use today: a fitted classifier, tuned for the metric or plain."""

    name: str
    role: Literal["tuned", "plain"]
    classifier: Any


def measure_benefit(
    name: str, model: Any, rivals: Sequence[Rival], X: Any, y: Any, metric: MetricLike, *,
    positive: int | None = None, same: str | None = None,
) -> BenefitFacts:  # fmt: skip
    """Count what a model and its rivals find and miss on rows that none of them was trained on.

    Args:
        name: What the model is called.
        model: A fitted classifier with `classes_` and `predict`.
        rivals: What people use today.
        X: The features of the rows.
        y: The class of each row.
        metric: Anything `evalign.metrics.as_metric` understands.
        positive: The index of the positive one of two classes; None for more.
        same: What the model itself is, if that is what people use today.

    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, [0, 0, 1, 1] * 10
    >>> rivals = [Rival("guessing", "plain", DummyClassifier().fit(X, y))]
    >>> facts = measure_benefit("new", LogisticRegression().fit(X, y), rivals, X, y, "f1", positive=1)
    >>> [(one.label, one.missed) for one in facts.methods]
    [('new', (0, 0)), ('guessing as it comes', (0, 20))]
    """
    target = metrics.as_metric(metric, scalar=True)
    own = HeldOutRows.predict(model, X, y)
    target, _ = metrics.resolve_classes(target, (), own.classes)
    methods = [_count(name, "model", own, target, found=_share_found(own, positive))]
    for rival in rivals:
        theirs = HeldOutRows.predict(rival.classifier, X, y)
        lead = compare_decisions(own.truth, own.predicted, theirs.predicted, len(own.classes), target)
        # Its own threshold is part of a plain method, so that only a tuned one is given another.
        matched = positive if rival.role == "tuned" else None
        found, found_lead = match_alarms(own, theirs, matched)
        methods.append(_count(rival.name, rival.role, theirs, target, lead, found, found_lead))
    support = np.bincount(own.truth, minlength=len(own.classes))
    return BenefitFacts(target.name, own.classes, positive, tuple(support.tolist()), tuple(methods), same)


def tune_decisions(p: Floats, y: NDArray[Any], classes: Any, metric: Metric, constraints: ConstraintsLike,
                   seed: int = 0) -> NDArray[Any]:  # fmt: skip
    """Decide each half of the rows by the rule that is best for the metric on the other half."""
    half = np.random.default_rng(seed).permutation(len(y))
    half = half[np.argsort(y[half], kind="stable")]
    side = np.empty(len(y), dtype=np.int64)
    side[half] = np.arange(len(y)) % 2  # the rows of each class alternate between the halves
    decided = np.empty(len(y), dtype=y.dtype)
    for part in (0, 1):
        rule = fit_rule(p[side != part], y[side != part], metric, constraints, classes=list(classes))
        decided[side == part] = rule.predict(p[side == part])
    return decided


def _count(
    name: str, role: Literal["model", "tuned", "plain"], rows: HeldOutRows, metric: Metric,
    lead: Interval | None = None, found: Interval | None = None, found_lead: Interval | None = None,
) -> MethodCounts:  # fmt: skip
    matrix = rows.matrix
    return MethodCounts(
        name=name,
        role=role,
        value=as_number(evaluate(metric, matrix[None])[0]),
        missed=tuple((matrix.sum(1) - matrix.diagonal()).astype(int).tolist()),
        false_alarms=tuple((matrix.sum(0) - matrix.diagonal()).astype(int).tolist()),
        lead=lead,
        found=found,
        found_lead=found_lead,
    )


def _share_found(rows: HeldOutRows, positive: int | None) -> Interval | None:
    """The share of the real cases that are found, with the interval of a binomial share."""
    if positive is None or not (cases := int((rows.truth == positive).sum())):
        return None
    hits = int(((rows.truth == positive) & (rows.predicted == positive)).sum())
    samples = np.random.default_rng(0).binomial(cases, hits / cases, SAMPLES) / cases
    return as_interval(hits / cases, samples)


def match_alarms(
    own: HeldOutRows, theirs: HeldOutRows, positive: int | None
) -> tuple[Interval | None, Interval | None]:
    """What share of the real cases a rival finds with as many false alarms as the model raises.

    The threshold of the rival is chosen for each sample of the rows, which is in its favour.

    Returns:
        That share, and by how much the model's is larger; None without scores of two classes.
    """
    if positive is None or theirs.p is None or not (own.truth == positive).any():
        return None, None
    real, alarm = own.truth == positive, own.predicted == positive
    block = _group_scores(theirs.p[:, positive])
    cells, counts = np.unique((block * 2 + real) * 2 + alarm, return_counts=True)
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(len(real), counts / counts.sum(), size=SAMPLES)
    shares = np.array([_match_sample(cells, weights) for weights in (counts, *drawn)])
    theirs_found, own_found = shares.T
    return (
        as_interval(theirs_found[0], theirs_found[1:]),
        as_interval(own_found[0] - theirs_found[0], own_found[1:] - theirs_found[1:]),
    )


def _group_scores(scores: Floats) -> Indices:
    """The place of each score among the distinct ones from the highest on, in a bounded number of groups."""
    _, place = np.unique(-scores, return_inverse=True)
    place = place.reshape(-1).astype(np.int64)
    if place.max() < MOST_BLOCKS:
        return place
    edges = np.unique(np.quantile(place, np.linspace(0, 1, MOST_BLOCKS)))
    return np.searchsorted(edges, place).astype(np.int64)


def _match_sample(cells: Indices, weights: NDArray[Any]) -> tuple[float, float]:
    """The shares of the real cases found by the rival and by the model, with equally many false alarms."""
    block, real, alarm = cells // 4, cells // 2 % 2 == 1, cells % 2 == 1
    cases = weights[real].sum()
    if not cases:
        return np.nan, np.nan
    hits, alarms = (np.append(0.0, np.cumsum(np.bincount(block, weights * kind))) for kind in (real, ~real))
    allowed = weights[alarm & ~real].sum()
    last = int(np.searchsorted(alarms, allowed, side="right")) - 1
    found = hits[last]
    if last + 1 < len(alarms):  # a part of the rows with the next score, which are alike to the rival
        found += (hits[last + 1] - hits[last]) * (allowed - alarms[last]) / (alarms[last + 1] - alarms[last])
    return float(found / cases), float(weights[alarm & real].sum() / cases)
