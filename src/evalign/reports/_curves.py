"""Precision against recall, and confidence against accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions import expected_calibration_error, fit_calibration
from evalign.metrics import sweep_thresholds
from evalign.reports._held import Held

#: Points of a curve at most, curves at most, bins of confidence, the fewest rows to fit a calibration on.
POINTS, CURVES, BINS, FEWEST_ROWS = 400, 10, 15, 50


def curves(rows: Held, positive: int | None) -> list[dict[str, Any]] | None:
    """The precision-recall curve of the positive class, or of each of the most frequent classes."""
    if rows.p is None:
        return None
    shown = rows.frequent[:CURVES] if positive is None else [positive]
    return [_curve(rows, k) for k in shown]


def _curve(rows: Held, k: int) -> dict[str, Any]:
    assert rows.p is not None
    found = sweep_thresholds(rows.p[:, k], rows.truth == k, np.ones(len(rows.truth)))
    tp, predicted = found.matrices[:, 1, 1].numpy(), found.matrices[:, :, 1].sum(1).numpy()
    recall = tp / max(tp[-1], 1.0)
    precision = np.where(predicted > 0, tp / np.maximum(predicted, 1.0), 1.0)
    area = float(np.diff(recall) @ precision[1:])
    kept = _thinned(recall, precision)
    own = rows.matrix
    return {
        "class": rows.classes[k],
        "precision": precision[kept],
        "recall": recall[kept],
        "thresholds": found.thresholds[kept],
        "average_precision": area,
        "chosen": {
            "precision": own[k, k] / max(own[:, k].sum(), 1.0),
            "recall": own[k, k] / max(own[k].sum(), 1.0),
        },
    }


def _thinned(x: Floats, y: Floats) -> Indices:
    """The points of a curve to keep, about equally far along it."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    way = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
    return np.unique(np.append(np.searchsorted(way, np.linspace(0, way[-1], POINTS - 1)), len(x) - 1))


def calibration(rows: Held, seed: int = 0) -> dict[str, Any] | None:
    """How far confidence and accuracy lie apart, as the model is and after a calibration.

    The calibration (Platt's curve for two classes, else a temperature) of each half of the rows is fitted
    on the other half.
    """
    if rows.p is None:
        return None
    after = _calibrated(rows, seed) if len(rows.truth) >= FEWEST_ROWS else None
    return {
        "before": _reliability(rows.p, rows.truth),
        "after": None if after is None else _reliability(after, rows.truth),
    }


def _calibrated(rows: Held, seed: int) -> Floats:
    assert rows.p is not None
    scores = np.log(rows.p.clip(1e-12))
    order = np.random.default_rng(seed).permutation(len(scores))
    order = order[np.argsort(rows.truth[order], kind="stable")]
    half = np.empty(len(scores), dtype=np.int64)
    half[order] = np.arange(len(scores)) % 2  # rows of a class go to one half and the other in turn
    after = np.empty_like(scores)
    method = "platt" if scores.shape[1] == 2 else "temperature"
    for side in (0, 1):
        here, there = half == side, half != side
        found = fit_calibration(scores[there], rows.truth[there], method)  # type: ignore[arg-type]
        after[here] = found.predict_proba(scores[here])
    return np.asarray(after)


def _reliability(p: Floats, truth: Indices) -> dict[str, Any]:
    confidence, right = p.max(1), p.argmax(1) == truth
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    count, sure, hits = (
        np.bincount(place, weight, minlength=BINS) for weight in (np.ones(len(p)), confidence, right)
    )
    return {
        "error": expected_calibration_error(torch.from_numpy(p), torch.from_numpy(truth), bins=BINS),
        "bins": [
            {"confidence": sure[b] / count[b], "accuracy": hits[b] / count[b], "count": int(count[b])}
            for b in np.flatnonzero(count)
        ],
    }
