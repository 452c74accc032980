"""`DecisionRule`: from probabilities to the classes that are best for a metric."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalign._errors import expected, is_number, show
from evalign._files import FORMAT, upgrade
from evalign.decisions._inputs import as_probabilities
from evalign.decisions._scaling import Scaling


class Gain(NamedTuple):
    """How much better something is, and the standard error of that."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class DecisionRule:
    """How probabilities become classes: predict argmax_j sum_i p_i W_ij.

    For two classes this is "the second class if its probability is at least the threshold"; for multilabel
    problems there is one threshold per label. For more classes, p are first calibrated if there is a
    `scaling`. Made by `fit_rule`.

    Attributes:
        classes: The class labels in the order of the columns; None for multilabel problems.
        weights: W, d x d; None for multilabel problems.
        thresholds: One for two classes, one per label for multilabel problems; None for more classes.
        metric: The metric the rule was fitted for.
        value: The metric of the rule on the rows it was fitted on.
        violations: By how much each constraint is violated on those rows; empty if all are satisfied.
        scaling: How probabilities of more than two classes are calibrated; None if they are used as they are.
        gain_: How much better than without a rule the metric is on rows that the rule was not fitted on, and
            the standard error of that; None if it was not estimated.

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
    violations: dict[str, float] = field(default_factory=dict)
    scaling: Scaling | None = None
    gain_: Gain | None = None

    @property
    def feasible(self) -> bool:
        """Whether every constraint is satisfied on the rows the rule was fitted on."""
        return not self.violations

    @property
    def threshold(self) -> float:
        """The threshold on the probability of the second of two classes."""
        if self.classes is None or self.thresholds is None:
            raise AttributeError("Only a rule for two classes has one threshold; see `weights`.")
        return float(self.thresholds[0])

    def predict(self, probabilities: Any) -> NDArray[Any]:
        """The class of each row, or 0 and 1 for each label."""
        margins = self.margins(probabilities)
        if self.classes is None:
            return np.asarray(margins >= 0).astype(np.int64)
        chosen = margins.argmax(1) if margins.ndim == 2 else (margins >= 0).astype(int)
        return np.asarray(self.classes[chosen])

    def margins(self, probabilities: Any) -> NDArray[np.float64]:
        """What decides: the sign of probabilities minus thresholds, or the argmax of p W.

        (n,) for two classes, (n, d) for more, (n, L) for multilabel problems.
        """
        p = as_probabilities(probabilities, labels=self.classes is None)
        columns = self.thresholds if self.classes is None else self.classes
        assert columns is not None
        if p.shape[1] != len(columns):
            raise expected("probabilities", f"with {len(columns)} columns", f"{p.shape[1]}")
        if self.classes is None:
            return np.asarray(p - columns)
        if self.thresholds is not None:
            return np.asarray(p[:, 1] - self.thresholds[0])
        assert self.weights is not None
        return np.asarray((p if self.scaling is None else self.scaling.calibrate(p)) @ self.weights)

    def to_json(self) -> str:
        """The rule as JSON text."""
        labels = None if self.classes is None else self.classes.tolist()
        for label in labels or ():
            if not _is_json_label(label):
                raise expected("classes", "that are strings or numbers, to be saved", show(label))
        return json.dumps(
            {
                "format": FORMAT,
                "classes": labels,
                "dtype": None if self.classes is None else self.classes.dtype.str,
                "weights": None if self.weights is None else self.weights.tolist(),
                "thresholds": None if self.thresholds is None else self.thresholds.tolist(),
                "metric": self.metric,
                "value": self.value,
                "violations": self.violations,
                "scaling": self.scaling and [self.scaling.slope, *self.scaling.offsets.tolist()],
                "gain": self.gain_,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> DecisionRule:
        """Read what `to_json` wrote."""
        try:
            stored = json.loads(text, parse_constant=_refuse)
            version = stored["format"]
            if type(version) is not int or version < 1:
                raise TypeError("no format number")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = str(error).splitlines()[0][:80]
            raise expected("text", "to be a decision rule", f"{show(text)[:60]} ({reason})") from None
        if version > FORMAT:
            raise expected("text", f"of format {FORMAT} or older", version, "Upgrade evalign.")
        try:
            return _restore(cls, upgrade(stored))
        except (KeyError, TypeError, OverflowError) as error:
            raise expected("text", "to be a complete decision rule", repr(error)[:80]) from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _is_json_label(label: Any) -> bool:
    return isinstance(label, str | bool) or (isinstance(label, int | float) and is_number(label))


def _restore(cls: type[DecisionRule], stored: dict[str, Any]) -> DecisionRule:
    classes = None if stored["classes"] is None else _labels(stored["classes"], stored["dtype"])
    weights, thresholds = (_numbers(stored, name) for name in ("weights", "thresholds"))
    if classes is None:
        if thresholds is None or thresholds.ndim != 1 or weights is not None:
            raise expected("text", "with one threshold per label", show(stored["thresholds"])[:60])
    else:
        d = len(classes)
        if weights is None or weights.shape != (d, d):
            raise expected("text", f"with weights for {d} classes", show(stored["weights"])[:60])
        if (thresholds is None) != (d > 2) or (thresholds is not None and thresholds.shape != (1,)):
            raise expected("text", "with one threshold for two classes", show(stored["thresholds"])[:60])
    metric, value = stored["metric"], stored["value"]
    violations = dict(stored["violations"])
    if not isinstance(metric, str) or not is_number(value):
        raise expected("text", "with a metric and its value", f"{show(metric)[:30]}, {show(value)[:30]}")
    if not all(is_number(by) for by in violations.values()):
        raise expected("text", "with the violation of each constraint as a number", show(violations)[:60])
    line, gain = _numbers(stored, "scaling"), _numbers(stored, "gain")
    if line is not None and (classes is None or line.shape != (len(classes) + 1,) or line[0] <= 0):
        raise expected("text", "with a slope > 0 and an offset per class", show(stored["scaling"])[:60])
    if gain is not None and (gain.shape != (2,) or gain[1] < 0):
        raise expected("text", "with a gain and its error", show(stored["gain"])[:60])
    return cls(
        classes, weights, thresholds, metric, float(value), violations,
        None if line is None else Scaling(float(line[0]), line[1:]),
        None if gain is None else Gain(*gain.tolist()),
    )  # fmt: skip


def _numbers(stored: dict[str, Any], name: str) -> NDArray[np.float64] | None:
    if stored[name] is None:
        return None
    try:
        array = np.array(stored[name])
        if array.dtype.kind in "iuf" and array.size and np.isfinite(array).all():
            return array.astype(np.float64)
    except ValueError:  # rows of different lengths
        pass
    raise expected("text", f"with finite numbers as {name}", show(stored[name])[:60])


def _labels(labels: Any, dtype: Any) -> NDArray[Any]:
    """Restore labels in their stored type, if that changes none of them."""
    got = f"{show(labels)[:60]} as {show(dtype)[:20]}"
    wrong = expected("text", "with two or more distinct labels as classes", got)
    if not isinstance(labels, list) or not isinstance(dtype, str) or not all(map(_is_json_label, labels)):
        raise wrong
    kind = np.dtype(dtype)
    if kind.kind not in "biufUO" or len(set(labels)) != len(labels) or len(labels) < 2:
        raise wrong
    try:
        classes = np.array(labels, dtype=kind)
    except ValueError:
        raise wrong from None
    if classes.tolist() != labels:
        raise wrong
    return classes
