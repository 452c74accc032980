"""`DecisionRule`: from probabilities to classes, as a metric wants it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected, is_number, shown

FORMAT = 1

#: Rows of probabilities may miss the sum 1 by so much; half precision does.
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class DecisionRule:
    """How probabilities become classes: predict argmax_j sum_i p_i W_ij.

    For two classes that is "the second class if its probability is at least the threshold"; for many
    labels a row, one threshold a label. `fit_rule` makes rules.

    Attributes:
        classes: The class labels in the order of the columns; None for many labels a row.
        weights: W, d x d; None for many labels a row.
        thresholds: One for two classes, one a label for many labels; None for more classes.
        metric: What the rule was fitted for.
        value: The metric of the rule on the rows it was fitted on.
        missed: Which constraints those rows do not keep, and by how much.

    >>> rule = DecisionRule(np.array(["no", "yes"]), np.diag([0.3, 0.7]), np.array([0.3]), "f1", 0.8)
    >>> rule.predict([0.2, 0.3, 0.9]).tolist()
    ['no', 'yes', 'yes']
    >>> DecisionRule.from_json(rule.to_json()).predict([0.2, 0.3]).tolist()
    ['no', 'yes']
    """

    classes: NDArray[Any] | None
    weights: NDArray[np.float64] | None
    thresholds: NDArray[np.float64] | None
    metric: str
    value: float
    missed: dict[str, float] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether the rows the rule was fitted on keep every constraint."""
        return not self.missed

    @property
    def threshold(self) -> float:
        """The threshold on the probability of the second of two classes."""
        if self.classes is None or self.thresholds is None:
            raise AttributeError("Only a rule for two classes has one threshold; see `weights`.")
        return float(self.thresholds[0])

    def predict(self, probabilities: Any) -> NDArray[Any]:
        """The class of each row, or 0 and 1 for each label of a row."""
        p = as_probabilities(probabilities, labels=self.classes is None)
        columns = self.thresholds if self.classes is None else self.classes
        assert columns is not None
        if p.shape[1] != len(columns):
            raise expected("probabilities", f"with {len(columns)} columns", f"{p.shape[1]}")
        if self.classes is None:
            return np.asarray(p >= columns).astype(np.int64)
        if self.thresholds is not None:
            return np.asarray(self.classes[(p[:, 1] >= self.thresholds[0]).astype(int)])
        assert self.weights is not None
        return np.asarray(self.classes[(p @ self.weights).argmax(1)])

    def to_json(self) -> str:
        """The rule as text."""
        labels = None if self.classes is None else self.classes.tolist()
        if labels is not None and not all(isinstance(one, str | int | float | bool) for one in labels):
            raise expected("classes", "that are texts or numbers, to be written", shown(labels[0]))
        return json.dumps(
            {
                "format": FORMAT,
                "classes": labels,
                "dtype": None if self.classes is None else self.classes.dtype.str,
                "weights": None if self.weights is None else self.weights.tolist(),
                "thresholds": None if self.thresholds is None else self.thresholds.tolist(),
                "metric": self.metric,
                "value": self.value,
                "missed": self.missed,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> DecisionRule:
        """Read what `to_json` wrote."""
        try:
            stored = json.loads(text)
            if not isinstance(stored, dict) or not isinstance(stored.get("format"), int):
                raise expected("text", "to be a decision rule", shown(text[:60]))
            if stored["format"] > FORMAT:
                raise expected("text", f"of format {FORMAT} or older", stored["format"], "Upgrade evalign.")
            return _restored(cls, stored)
        except (json.JSONDecodeError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise expected("text", "to be a decision rule", f"{shown(text)[:60]} ({error!r})") from None


def _restored(cls: type[DecisionRule], stored: dict[str, Any]) -> DecisionRule:
    def numbers(name: str, ndim: int) -> NDArray[np.float64] | None:
        if stored[name] is None:
            return None
        array = np.array(stored[name], dtype=np.float64)
        if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
            raise expected("text", f"with finite numbers as {name}", shown(stored[name])[:60])
        return array

    classes, weights, thresholds = None, numbers("weights", 2), numbers("thresholds", 1)
    if stored["classes"] is not None:
        kind = np.dtype(stored["dtype"])
        classes = np.array(stored["classes"], dtype=object if kind.kind == "O" else kind)
        d = len(classes)
        whole = weights is not None and weights.shape == (d, d) and d >= 2
        if classes.ndim != 1 or not whole or (thresholds is None) != (d > 2):
            raise expected("text", f"with weights for {d} classes", shown(stored["weights"])[:60])
    elif thresholds is None or weights is not None:
        raise expected("text", "with one threshold a label", shown(stored["thresholds"]))
    missed = dict(stored["missed"])
    if not is_number(stored["value"]) or not all(is_number(by) for by in missed.values()):
        raise expected("text", "with a number as value", shown(stored["value"]))
    return cls(classes, weights, thresholds, str(stored["metric"]), float(stored["value"]), missed)


def as_probabilities(probabilities: Any, labels: bool = False) -> NDArray[np.float64]:
    """Check probabilities and give (n, columns); one column is that of the second of two classes.

    >>> as_probabilities([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    if hasattr(probabilities, "detach"):
        probabilities = probabilities.detach().cpu().double().numpy()
    try:
        p = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise expected("probabilities", "to be an array of numbers", type(probabilities).__name__) from None
    if p.ndim not in (1, 2) or 0 in p.shape:
        raise expected("probabilities", "of shape (n,) or (n, classes)", f"shape {p.shape}")
    if not np.isfinite(p).all():
        row = int(np.flatnonzero(~np.isfinite(p.reshape(len(p), -1)).all(1))[0])
        raise expected("probabilities", "without NaN or infinity", f"{shown(p[row].tolist())} in row {row}")
    if p.min() < 0 or p.max() > 1:
        worst = p.min() if p.min() < 0 else p.max()
        raise expected(
            "probabilities",
            "in [0, 1]",
            float(worst),
            "`fit_calibration` makes them of scores.",
        )
    if labels:
        return p[:, None] if p.ndim == 1 else p
    if p.ndim == 1 or p.shape[1] == 1:
        p = p.reshape(-1)
        return np.stack([1 - p, p], axis=1)
    gap = np.abs(p.sum(1) - 1)
    if gap.max() > TOLERANCE:
        row = int(gap.argmax())
        raise expected("probabilities", "with rows that sum to 1", f"sum {p[row].sum():.4g} in row {row}")
    return p
