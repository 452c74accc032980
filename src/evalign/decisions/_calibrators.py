"""From scores to probabilities: temperature, Platt and isotonic scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from evalign._errors import expected, show, suggest
from evalign._typing import Floats
from evalign.decisions._calibration import fit_temperature
from evalign.decisions._inputs import as_numbers, as_targets, class_indices, row_weights

Method = Literal["temperature", "platt", "isotonic"]
Curve = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A map from scores to probabilities, made by `fit_calibration`."""

    method: str
    classes: Any
    curve: Curve

    def predict_proba(self, scores: Any) -> Floats:
        """The probability of each class, (n, d)."""
        table = _scores(scores)
        if table.shape[1] != len(self.classes):
            raise expected("scores", f"of {len(self.classes)} classes", f"{table.shape[1]}")
        return self.curve(table)

    def to_dict(self) -> dict[str, float]:
        """The numbers of the curve, for a JSON file; there are none for an isotonic one.

        >>> Calibration("temperature", np.array([0, 1]), Temperature(2.0)).to_dict()
        {'temperature': 2.0}
        """
        curve = self.curve
        if isinstance(curve, OneVsRest) and len(curve.curves) == 1:
            (curve,) = curve.curves
        if not isinstance(curve, Temperature | Sigmoid):
            raise expected(
                "method", "to be 'temperature', or 'platt' for two classes, to be saved", self.method
            )
        return {name: float(value) for name, value in vars(curve).items()}

    @classmethod
    def from_dict(cls, numbers: Mapping[str, float], classes: Any) -> Calibration:
        """Restore what `to_dict` returned.

        >>> Calibration.from_dict({"temperature": 2.0}, np.array([0, 1])).method
        'temperature'
        """
        if "temperature" in numbers:
            return cls("temperature", classes, Temperature(**numbers))
        return cls("platt", classes, OneVsRest([Sigmoid(**numbers)]))


def fit_calibration(
    scores: Any, y: Any, method: Method = "temperature", sample_weight: Any = None
) -> Calibration:
    """Fit a map from scores to probabilities, on rows the classifier was not trained on.

    Args:
        scores: Logits (n, d), or (n,) as `decision_function` returns them for two classes.
        y: The class of each row.
        method: `"temperature"` divides the scores by one number, which changes no decision. `"platt"` fits
            a logistic curve per class, `"isotonic"` any increasing curve (scikit-learn's), which needs about
            a thousand rows; the probabilities of a row are then scaled to sum to 1.
        sample_weight: Weights of the rows.

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 2000)
    >>> scores = 3 * (generator.normal(size=2000) + 2 * y - 1)   # the true log odds are 2/3 of the scores
    >>> fit_calibration(scores, y).predict_proba([1.5])[0].round(1).tolist()
    [0.3, 0.7]

    References:
        Guo et al. (2017), On calibration of modern neural networks; Platt (1999), Probabilistic outputs
        for support vector machines; Zadrozny and Elkan (2002), Transforming classifier scores into
        accurate multiclass probability estimates.
    """
    if not isinstance(method, str) or method not in CURVES:
        raise expected("method", "to be a known method", show(method), suggest(str(method), CURVES))
    table = _scores(scores)
    classes, indices = class_indices(as_targets(y), table.shape[1])
    if len(indices) != len(table):
        raise expected("y", f"with the {len(table)} rows of `scores`", f"{len(indices)}")
    weight = row_weights(sample_weight, len(table))
    return Calibration(method, classes, CURVES[method](table, indices, weight))


@dataclass(frozen=True)
class Temperature:
    """The softmax of scores divided by a number."""

    temperature: float

    def __call__(self, scores: Floats) -> Floats:
        """The probabilities of scores (n, d)."""
        return np.asarray(softmax(scores / self.temperature, axis=1))


@dataclass(frozen=True)
class Sigmoid:
    """A logistic curve."""

    slope: float
    offset: float

    def __call__(self, margin: Floats) -> Floats:
        """The probability of each margin."""
        return np.asarray(expit(self.slope * margin + self.offset))


@dataclass(frozen=True)
class OneVsRest:
    """One curve per class, scaled to sum to 1; for two classes, one curve of their difference."""

    curves: list[Curve]

    def __call__(self, scores: Floats) -> Floats:
        """The probabilities of scores (n, d)."""
        if scores.shape[1] == 2:
            second = self.curves[0](scores[:, 1] - scores[:, 0])
            return np.stack([1 - second, second], axis=1)
        p = np.stack([curve(scores[:, j]) for j, curve in enumerate(self.curves)], axis=1)
        total = p.sum(1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])


def _temperature(scores: Floats, y: Any, weight: Floats) -> Curve:
    return Temperature(fit_temperature(*(torch.from_numpy(side) for side in (scores, y, weight))))


def _sigmoid(margin: Floats, positive: Any, weight: Floats) -> Curve:
    mass = weight @ positive, weight @ ~positive
    # Platt's targets: as if one more row of each class had been seen.
    goal = np.where(positive, (mass[0] + 1) / (mass[0] + 2), 1 / (mass[1] + 2))
    scale = max(float(np.abs(margin).max()), 1e-12)
    x = margin / scale

    def entropy(line: Floats) -> tuple[float, Floats]:
        z = line[0] * x + line[1]
        gap = weight * (expit(z) - goal)
        value = weight @ (np.logaddexp(0, z) - goal * z)
        return float(value) / weight.sum(), np.array([gap @ x, gap.sum()]) / weight.sum()

    slope, offset = minimize(entropy, np.array([1.0, 0.0]), jac=True, method="BFGS").x
    return Sigmoid(slope / scale, offset)


def _isotonic(margin: Floats, positive: Any, weight: Floats) -> Curve:
    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    return curve.fit(margin, positive.astype(float), weight).predict  # type: ignore[no-any-return]


def _one_vs_rest(
    fit: Callable[[Floats, Any, Floats], Curve],
) -> Callable[[Floats, Any, Floats], Curve]:
    def curves(scores: Floats, y: Any, weight: Floats) -> Curve:
        if scores.shape[1] == 2:
            return OneVsRest([fit(scores[:, 1] - scores[:, 0], y == 1, weight)])
        return OneVsRest([fit(scores[:, j], y == j, weight) for j in range(scores.shape[1])])

    return curves


CURVES: dict[str, Callable[[Floats, Any, Floats], Curve]] = {
    "temperature": _temperature,
    "platt": _one_vs_rest(_sigmoid),
    "isotonic": _one_vs_rest(_isotonic),
}


def _scores(scores: Any) -> Floats:
    table = as_numbers("scores", scores)
    if table.ndim == 1 or table.shape[1] == 1:
        second = table.reshape(-1)
        return np.stack([np.zeros_like(second), second], axis=1)
    return table
