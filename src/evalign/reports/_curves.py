"""Precision against recall, and confidence against accuracy."""

from __future__ import annotations

import numpy as np
import torch

from evalign._typing import Floats, Indices
from evalign.decisions import expected_calibration_error, fit_calibration
from evalign.metrics import sweep_thresholds
from evalign.reports._held_out import HeldOutRows
from evalign.reports.facts import (
    CalibrationFacts,
    CurveFacts,
    OperatingPoint,
    Reliability,
    ReliabilityBin,
    as_number,
    as_numbers,
)

#: The most points of a curve, the most curves, the bins of confidence, the fewest rows for a calibration.
POINTS, CURVES, BINS, FEWEST_ROWS = 400, 10, 15, 50


def trace_curves(rows: HeldOutRows, positive: int | None) -> tuple[CurveFacts, ...] | None:
    """The precision-recall curve of the positive class, or of each of the most frequent classes."""
    if rows.p is None:
        return None
    classes = rows.frequent[:CURVES] if positive is None else [positive]
    return tuple(_trace_curve(rows, rows.p[:, k], k) for k in classes)


def _trace_curve(rows: HeldOutRows, scores: Floats, k: int) -> CurveFacts:
    sweep = sweep_thresholds(scores, rows.truth == k)
    tp, predicted = sweep.matrices[:, 1, 1].numpy(), sweep.matrices[:, :, 1].sum(1).numpy()
    recall = tp / max(tp[-1], 1.0)
    precision = np.where(predicted > 0, tp / np.maximum(predicted, 1.0), 1.0)
    points = _thin(recall, precision)
    own = rows.matrix
    return CurveFacts(
        class_=rows.classes[k],
        precision=as_numbers(precision[points]),
        recall=as_numbers(recall[points]),
        thresholds=tuple(sweep.thresholds[points].tolist()),
        average_precision=as_number(np.diff(recall) @ precision[1:]),
        operating_point=OperatingPoint(
            precision=as_number(own[k, k] / max(own[:, k].sum(), 1.0)),
            recall=as_number(own[k, k] / max(own[k].sum(), 1.0)),
        ),
    )


def _thin(x: Floats, y: Floats) -> Indices:
    """The indices of at most `POINTS` points, about equally far apart along a curve."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    length = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
    return np.unique(np.append(np.searchsorted(length, np.linspace(0, length[-1], POINTS - 1)), len(x) - 1))


def measure_calibration(rows: HeldOutRows, seed: int = 0) -> CalibrationFacts | None:
    """How far confidence and accuracy are apart, as the model is and after a calibration.

    The calibration (Platt's curve for two classes, a temperature for more) of each half of the rows is
    fitted on the other half.
    """
    if rows.p is None:
        return None
    enough = len(rows.truth) >= FEWEST_ROWS
    return CalibrationFacts(
        before=_measure_reliability(rows.p, rows.truth),
        after=_measure_reliability(_calibrate(rows.p, rows.truth, seed), rows.truth) if enough else None,
    )


def _calibrate(p: Floats, truth: Indices, seed: int) -> Floats:
    """Calibrate each half of the rows by the other half."""
    scores = np.log(p.clip(1e-12))
    order = np.random.default_rng(seed).permutation(len(scores))
    order = order[np.argsort(truth[order], kind="stable")]
    half = np.empty(len(scores), dtype=np.int64)
    half[order] = np.arange(len(scores)) % 2  # the rows of each class alternate between the halves
    calibrated = np.empty_like(scores)
    for side in (0, 1):
        here, there = half == side, half != side
        method = "platt" if scores.shape[1] == 2 else "temperature"
        calibration = fit_calibration(scores[there], truth[there], method)  # type: ignore[arg-type]
        calibrated[here] = calibration.predict_proba(scores[here])
    return np.asarray(calibrated)


def _measure_reliability(p: Floats, truth: Indices) -> Reliability:
    confidence, right = p.max(1), p.argmax(1) == truth
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    rows, total, hits = (
        np.bincount(place, weight, minlength=BINS) for weight in (np.ones(len(p)), confidence, right)
    )
    error = expected_calibration_error(torch.from_numpy(p), torch.from_numpy(truth), bins=BINS)
    return Reliability(
        error=as_number(error),
        bins=tuple(
            ReliabilityBin(as_number(total[b] / rows[b]), as_number(hits[b] / rows[b]), int(rows[b]))
            for b in np.flatnonzero(rows)
        ),
    )
