"""`MetricBooster`: LightGBM boosted on the metric, as a scikit-learn classifier."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from evalign import metrics
from evalign._errors import check_integer, expected, is_number, show, suggest
from evalign._typing import ConstraintsLike, MetricLike
from evalign.boosting import (
    BoostingPlan,
    LabelledRows,
    Stages,
    decide,
    scores_to_probabilities,
    train_stages,
)
from evalign.decisions import DecisionRule, Goal, Scaling, Standing, fit_rule, fit_scaling
from evalign.estimators import _booster_files
from evalign.estimators._bags import folds
from evalign.estimators._preparation import class_weight_tensor, row_weights, stratified_split
from evalign.metrics import label_confusion

STRATEGIES = ("metric", "log_loss")

#: Below so many rows, `n_bags="auto"` means five.
FEW_ROWS = 50_000

#: Beyond so many classes, each round being a tree a class, features are cut into 63 bins instead of 255.
MANY_CLASSES = 32


class MetricBooster(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient-boosted trees that end their training on the metric they are judged by.

    Rounds on the log-loss with early stopping; then the rule that is best for the metric on the rows set
    aside becomes the start of rounds on the metric itself, stopped by the hard metric there. If they do
    not help, none is kept: on those rows it never ends below LightGBM with a fitted rule. With bags,
    each is stopped by its own fold, and one rule is fitted on the scores of all rows, each by the bag
    that was not trained on it. Needs the extra `boost`.

    Args:
        metric: Anything `evalign.metrics.as_metric` understands.
        constraints: Bounds such as "precision >= 0.9"; see `fit_rule`.
        strategy: `"metric"`, or `"log_loss"` for LightGBM as it is.
        rule: Decide by a fitted rule; False decides by argmax.
        confidence: Keep the constraints with a margin, so that new rows keep them too; see `fit_rule`.
        n_estimators: The most rounds on the log-loss.
        metric_rounds: The most rounds on the metric.
        learning_rate: Shrinkage of each round.
        num_leaves: The most leaves of a tree.
        min_child_samples: The fewest rows of a leaf.
        patience: Rounds without improvement before a stage ends.
        temperature: How soft the memberships of the rounds on the metric are, in (0, 0.4].
        class_weight: `"balanced"`, or a weight for each class label, which multiplies the rows' weights.
        n_bags: How many boosters, each with its own fold set aside; `"auto"` is 5 below 50,000 rows, else 1.
        validation_fraction: With one bag, the share of the rows set aside, stratified.
        params: More settings of LightGBM, as a dictionary. With more than 32 classes `max_bin` is 63 if
            not given, since the time of a tree is that of going through the bins.
        n_jobs: Threads of LightGBM; None leaves the number to it.
        random_state: Seed; the same seed on the same machine gives the same model.
        verbose: 1 shows the progress on standard error.

    Attributes:
        classes_: The class labels, sorted.
        rule_: The decision rule, None with `rule=False`.
        stages_: The boosters of each bag.
        validation_score_: The metric on the rows set aside.
        n_iter_: The rounds of each bag, on the log-loss and on the metric.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricBooster("f1", n_bags=1, n_estimators=50, n_jobs=1, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 2))
    """

    classes_: NDArray[Any]
    stages_: list[Stages]
    rule_: DecisionRule | None

    def __init__(
        self,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        strategy: str = "metric",
        rule: bool = True,
        confidence: float | None = None,
        n_estimators: int = 1000,
        metric_rounds: int = 200,
        learning_rate: float = 0.05,
        num_leaves: int = 31,
        min_child_samples: int = 20,
        patience: int = 30,
        temperature: float = 0.2,
        class_weight: Mapping[Any, float] | str | None = None,
        n_bags: int | str = "auto",
        validation_fraction: float = 0.2,
        params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.strategy = strategy
        self.rule = rule
        self.confidence = confidence
        self.n_estimators = n_estimators
        self.metric_rounds = metric_rounds
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.patience = patience
        self.temperature = temperature
        self.class_weight = class_weight
        self.n_bags = n_bags
        self.validation_fraction = validation_fraction
        self.params = params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MetricBooster:
        """Boost. Missing values (NaN) are fine."""
        goal = self._checked()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", ensure_all_finite="allow-nan", ensure_min_samples=2
        )
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            got = f"1 class: {show(self.classes_[0])}"
            raise ValueError(f"Expected `y` with at least two classes, but got {got}.")
        counts = np.bincount(indices)
        weight = row_weights(sample_weight, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        plan = self._plan(goal, len(indices), seed)
        by_class = class_weight_tensor(self.class_weight, self.classes_, counts)
        rows = LabelledRows(_readable(X), indices.astype(np.int64), weight).with_class_weights(by_class)
        parts = self._parts(indices, counts, seed)
        stages = train_stages([(rows.take(index), rows.take(held)) for index, held in parts], plan)
        if self.verbose:
            sys.stderr.write("\n")
        self._keep(stages, rows, parts, goal)
        return self

    def _checked(self) -> Goal:
        """Check the settings."""
        metric = metrics.as_metric(self.metric, scalar=True)
        bounds = metrics.as_constraints(self.constraints)
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            raise expected(
                "strategy", "to be a known one", show(self.strategy), suggest(str(self.strategy), STRATEGIES)
            )
        for name in (
            "n_estimators",
            "metric_rounds",
            "num_leaves",
            "min_child_samples",
            "patience",
            "n_bags",
        ):
            value = getattr(self, name)
            if name != "n_bags" or not isinstance(value, str) or value != "auto":
                check_integer(**{name: value})
        for name, high in (("learning_rate", 10), ("validation_fraction", 1)):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < high:
                raise expected(name, f"in (0, {high})", show(value))
        if self.params is not None and not isinstance(self.params, Mapping):
            raise expected("params", "to be a dictionary of LightGBM's settings", show(self.params))
        return Goal(metric, bounds, self.confidence)

    def _plan(self, goal: Goal, rows: int, seed: int) -> BoostingPlan:
        settings = {
            "learning_rate": self.learning_rate,
            "num_leaves": int(self.num_leaves),
            # A small table must be able to grow trees at all.
            "min_data_in_leaf": min(int(self.min_child_samples), max(1, rows // 20)),
            "num_threads": 0 if self.n_jobs is None else int(self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            **({"max_bin": 63} if len(self.classes_) > MANY_CLASSES else {}),
            **(self.params or {}),
        }
        rounds = int(self.metric_rounds) if self.strategy == "metric" else 0
        report = _progress if self.verbose else None
        return BoostingPlan(
            goal, len(self.classes_), settings, int(self.n_estimators), int(self.patience), rounds,
            self.temperature, report,
        )  # fmt: skip

    def _parts(self, y: NDArray[Any], counts: NDArray[Any], seed: int) -> list[tuple[Any, Any]]:
        """The rows each bag is trained on, and those it is stopped by."""
        bags = self.n_bags
        if bags == "auto":
            bags = min(5, int(counts.min())) if len(y) < FEW_ROWS else 1
        if int(bags) > 1:
            return folds(y, int(bags), seed)
        return [stratified_split(y, self.validation_fraction, seed)]

    def _keep(
        self, stages: list[Stages], rows: LabelledRows, parts: list[tuple[Any, Any]], goal: Goal
    ) -> None:
        """Choose between the stages with and without rounds on the metric, by the rows set aside."""
        held = [rows.take(index) for _, index in parts]
        y = np.concatenate([part.y for part in held])
        weight = None if rows.weight is None else np.concatenate([part.weight for part in held])
        candidates = [stages]
        if self.rule and self.strategy == "metric":
            candidates.insert(0, [Stages(one.base) for one in stages])
        found = []
        bases = [one.base_scores(part.X) for one, part in zip(stages, held, strict=True)]
        for candidate in candidates:
            known = zip(candidate, held, bases, strict=True)
            scores = np.concatenate([one.scores(part.X, base) for one, part, base in known])
            plain = all(one.weights is None for one in candidate)
            scaling = None if plain else fit_scaling(scores, y, weight)
            found.append((candidate, scaling, *self._judged(scores, scaling, y, weight, goal)))
        best = found[0]
        for other in found[1:]:
            best = other if other[-1].above(best[-1]) else best
        self.stages_, self.scaling_, self.rule_, standing = best
        self.validation_score_ = standing.value if goal.metric.higher_is_better else -standing.value
        self.n_iter_ = [one.rounds for one in self.stages_]
        if self.rule_ is not None and not self.rule_.feasible:
            missed = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(
                f"No rule keeps the constraints on the rows set aside; missed: {missed}.", stacklevel=3
            )

    def _judged(
        self, scores: Any, scaling: Scaling | None, y: Any, weight: Any, goal: Goal
    ) -> tuple[DecisionRule | None, Standing]:
        """The rule for some scores, if one is asked for, and how good the decisions are."""
        goal = replace(goal, rows=float(len(y)))
        labels = range(len(self.classes_))
        if self.rule:
            p = scores_to_probabilities(scores if scaling is None else scaling.apply(scores))
            rule = fit_rule(
                p, y, goal.metric, goal.constraints, weight, classes=labels, confidence=goal.confidence
            )
            matrix = label_confusion(y, rule.predict(p), weight, labels)
            return replace(rule, classes=self.classes_), goal.standing(matrix)
        return None, goal.standing(label_confusion(y, decide(scores), weight, labels))

    def _scores(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self, "stages_")
        X = validate_data(self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=False)
        X = _readable(X)
        return np.asarray(np.mean([one.scores(X) for one in self.stages_], axis=0))

    def _probabilities(self, scores: NDArray[Any]) -> NDArray[Any]:
        return scores_to_probabilities(scores if self.scaling_ is None else self.scaling_.apply(scores))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self._scores(X)
        if self.rule_ is not None:
            return self.rule_.predict(self._probabilities(scores))
        return np.asarray(self.classes_[decide(scores)])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class; scores boosted on the metric are calibrated by held rows."""
        return self._probabilities(self._scores(X))

    def decision_function(self, X: Any) -> NDArray[Any]:
        """What is compared to decide, (n,) for two classes, else (n, d): its sign or argmax predicts."""
        scores = self._scores(X)
        return scores if self.rule_ is None else self.rule_.margins(self._probabilities(scores))

    def save(self, folder: str | PathLike[str]) -> None:
        """Save the model: trees in LightGBM's text form, the rest in JSON; a killed save loses nothing."""
        check_is_fitted(self, "stages_")
        _booster_files.save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> MetricBooster:
        """Load a model; nothing in the files is executed."""
        model: MetricBooster = _booster_files.load(cls, folder)
        return model


def _readable(X: Any) -> Any:
    """Sparse features as LightGBM reads them: SciPy's matrices, not its arrays."""
    return sparse.csr_matrix(X) if sparse.issparse(X) else X


def _progress(stage: str, iteration: int, value: float) -> None:
    sys.stderr.write(f"\r{stage}: round {iteration}, {value:.4f}   ")
    sys.stderr.flush()
