"""`MetricBooster`: LightGBM boosted on the metric, as a scikit-learn classifier."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from evalign import metrics
from evalign._errors import check_integer, expected, is_number, show, suggest
from evalign._torch import use_threads
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.boosting import (
    BoostingPlan,
    LabelledRows,
    LabelStages,
    Stages,
    choose_threads,
    decide,
    import_lightgbm,
    scores_to_probabilities,
    train_label_stages,
    train_stages,
)
from evalign.decisions import DecisionRule, Goal, Scaling, Standing, fit_rule, fit_scaling
from evalign.estimators._columns import validate_features
from evalign.estimators._progress import ProgressBar
from evalign.estimators._rows import (
    Targets,
    as_class_weights,
    count_classes,
    index_groups,
    normalize_weights,
)
from evalign.estimators._untrusted import check_lightgbm_text
from evalign.estimators._validation import read_validation_data
from evalign.estimators.persistence import SaveMixin
from evalign.metrics import label_confusion

if TYPE_CHECKING:
    from typing_extensions import Self

STRATEGIES = ("metric", "log_loss")

#: Below this number of rows, `n_bags="auto"` means five.
FEW_ROWS = 50_000

#: With several bags, the `sample` of `fit_rule`: the mean of their scores is less extreme than those of one.
SAMPLE = 0.2

#: Above this number of classes, each round being one tree per class, features have 63 bins instead of 255.
MANY_CLASSES = 20

#: The penalty on the values of leaves if one of more than two classes is rare. A value is -G / (H + penalty),
#: where a row adds about p to H: without it, some rows of a rare class make values of hundreds.
PENALTY = 1.0
_PENALTY_NAMES = {"lambda_l2", "reg_lambda", "lambda"}


class MetricBooster(SaveMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient-boosted trees whose last rounds are boosted on the metric they are judged by.

    First come rounds on the log-loss with early stopping. The rule that is best for the metric on held-out
    rows is then the start of rounds on the metric itself, stopped by the hard metric there. If they do not
    help, none is kept: on those rows it never ends below LightGBM with a fitted rule. With several bags, each
    is stopped by its own fold, and one rule is fitted on the scores of all rows, each from the bag that was
    not trained on it. Requires the extra `boost`.

    Multilabel targets, 0 and 1 of shape (n, L), give trees per label, one threshold per label, fitted for the
    metric of all labels, and predictions and probabilities of shape (n, L).

    DataFrames of pandas and polars may contain texts and categories, which LightGBM splits natively, and
    missing values. A category that was not seen in `fit` is treated as missing.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as "precision >= 0.9"; see `fit_rule`.
        strategy: `"metric"`, or `"log_loss"` for plain LightGBM.
        rule: Decide by a fitted rule; False predicts the largest probability.
        confidence: Satisfy the constraints with a margin, so that new rows satisfy them, too; see `fit_rule`.
        n_estimators: The maximum number of rounds on the log-loss.
        metric_rounds: The maximum number of rounds on the metric.
        learning_rate: The shrinkage of each round.
        num_leaves: The maximum number of leaves per tree.
        min_child_samples: The minimum number of rows per leaf.
        patience: The number of rounds without improvement after which a stage ends.
        temperature: The softness of the memberships in the rounds on the metric, in (0, 0.4].
        class_weight: `"balanced"`, or a dictionary with one weight per class label, which multiplies the
            weights of the rows; not for multilabel targets.
        n_bags: The number of boosters, each with its own held-out fold; `"auto"` is 5 below 50,000 rows, or
            fewer if the rarest class has fewer rows or groups, else 1.
        validation_fraction: With one bag, the fraction of rows held out, stratified; with `groups` in `fit`,
            about that fraction.
        categorical_features: The places of features that are codes of categories, 0, 1, ..., which are split
            natively; of a table, they are found.
        params: Further settings of LightGBM, as a dictionary. With more than two classes, `lambda_l2` is 1
            unless given, if a leaf of `min_child_samples` rows has less than one row of some class on
            average. With more than 20, `max_bin` is 63 unless given, since the time of a tree is spent on
            going through the bins.
        n_jobs: The number of threads of LightGBM, which boosts one bag at a time; None for as many
            as there is enough work for.
        random_state: The seed; the same seed on the same machine gives the same model.
        verbose: 1 shows a progress bar on standard error.

    Attributes:
        classes_: The class labels, sorted; for multilabel targets 0 ... L - 1.
        multilabel_: Whether the targets are multilabel.
        columns_: The categories of the columns of a table; None if all features are numbers.
        rule_: The decision rule; None with `rule=False`.
        stages_: The boosters of each bag.
        rounds_: For each bag, the number of rounds on the log-loss and on the metric.
        n_iter_: The number of rounds of all bags together.
        validation_score_: The metric on the held-out rows.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricBooster("f1", n_bags=1, n_estimators=50, n_jobs=1, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 2))
    """

    _part_suffix = ".txt"

    #: One per bag: `Stages`, or `LabelStages` for multilabel targets, which also have one scaling per label.
    stages_: list[Any]
    scaling_: Any

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
        categorical_features: Sequence[int] = (),
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
        self.categorical_features = categorical_features
        self.params = params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stages_")

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, validation_data: Any = None
    ) -> Self:
        """Boost the trees and fit the rule.

        Args:
            X: The features; missing values are allowed.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows.
            groups: The group of each row: rows of one group are either trained on or held out, in every bag.
            validation_data: (X, y) or (X, y, sample_weight) in place of the held-out rows, with one bag.
        """
        goal = self._check_settings()
        X, y = validate_features(self, X, y, reset=True, gaps=True, ensure_min_samples=2)
        for place in self.categorical_features:
            if not isinstance(place, Integral) or not 0 <= place < X.shape[1]:
                raise expected("categorical_features", f"in 0 ... {X.shape[1] - 1}", show(place))
        targets = Targets.read(y)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        metric, constraints = metrics.resolve_classes(goal.metric, goal.constraints, self.classes_)
        goal = replace(goal, metric=metric, constraints=constraints)
        if self.multilabel_ and self.class_weight is not None:
            raise expected("class_weight", "to be None for multilabel targets", show(self.class_weight))
        counts = count_classes(targets.indices, len(self.classes_))
        weight = normalize_weights(sample_weight, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        class_weights = as_class_weights(self.class_weight, self.classes_, counts)
        rows = LabelledRows(_as_csr_matrix(X), targets.indices, weight).with_class_weights(class_weights)
        if validation_data is None:
            members = index_groups(groups, len(targets.indices))
            n_bags = self._choose_bags(counts, targets, members)
            splits = targets.split(n_bags, self.validation_fraction, seed, members)
            parts = [(rows.take(fit), rows.take(valid)) for fit, valid in splits]
        else:
            held = read_validation_data(self, validation_data, gaps=True)
            held_rows = LabelledRows(_as_csr_matrix(held.X), held.indices, held.weight)
            parts = [(rows, held_rows.with_class_weights(class_weights))]
        bar = ProgressBar("round")
        try:
            plan = self._plan(goal, X, counts, seed, bar)
            train = train_label_stages if self.multilabel_ else train_stages
            with use_threads(1 if plan.settings["num_threads"] == 1 else None):
                stages: Any = train(parts, plan)
        finally:
            bar.close()
        self._keep_best(stages, [held for _, held in parts], goal)
        if self.rule_ is not None and not self.rule_.feasible:
            violations = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(
                f"No rule satisfies the constraints on the held-out rows; violated: {violations}.",
                stacklevel=2,
            )
        return self

    def _check_settings(self) -> Goal:
        """Check the settings, and return what the trees are boosted for."""
        metric = metrics.as_metric(self.metric, scalar=True)
        constraints = metrics.as_constraints(self.constraints)
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            hint = suggest(str(self.strategy), STRATEGIES)
            raise expected("strategy", "to be a known strategy", show(self.strategy), hint)
        for name in ("n_estimators", "metric_rounds", "num_leaves", "min_child_samples", "patience"):
            check_integer(**{name: getattr(self, name)})
        if not isinstance(self.n_bags, str) or self.n_bags != "auto":
            check_integer(n_bags=self.n_bags)
        for name, high in (("learning_rate", 10), ("validation_fraction", 1)):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < high:
                raise expected(name, f"in (0, {high})", show(value))
        if self.params is not None and not isinstance(self.params, Mapping):
            raise expected("params", "to be a dictionary of LightGBM's settings", show(self.params))
        return Goal(metric, constraints, self.confidence)

    def _choose_bags(self, counts: NDArray[Any], targets: Targets, groups: Indices | None) -> int:
        if self.n_bags != "auto":
            return int(self.n_bags)
        if counts.sum() >= FEW_ROWS:
            return 1
        return min(5, int(counts.min()) if groups is None else targets.count_groups(groups))

    def _plan(self, goal: Goal, X: Any, counts: NDArray[Any], seed: int, bar: ProgressBar) -> BoostingPlan:
        num_classes = 2 if self.multilabel_ else len(self.classes_)
        # A small table must be able to grow trees at all.
        rows_per_leaf = min(int(self.min_child_samples), max(1, X.shape[0] // 20))
        # A class is rare if the smallest leaf has less than one row of it on average.
        is_rare = num_classes > 2 and counts.min() * rows_per_leaf < counts.sum()
        is_given = not _PENALTY_NAMES.isdisjoint(self.params or {})
        settings = {
            "learning_rate": self.learning_rate,
            "num_leaves": int(self.num_leaves),
            "min_data_in_leaf": rows_per_leaf,
            **({"lambda_l2": PENALTY} if is_rare and not is_given else {}),
            "num_threads": choose_threads(X, self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            **({"max_bin": 63} if num_classes > MANY_CLASSES else {}),
            **(self.params or {}),
        }
        rounds = int(self.n_estimators)
        metric_rounds = int(self.metric_rounds) if self.strategy == "metric" else 0

        def report(stage: str, done: int, value: float) -> None:
            bar.show(stage, done, metric_rounds if stage == "metric" else rounds, f"{value:.4f}")

        categorical = self.categorical_features if self.columns_ is None else self.columns_.categorical
        return BoostingPlan(
            goal, num_classes, settings, rounds, int(self.patience), metric_rounds, self.temperature,
            report if self.verbose else None, tuple(categorical),
        )  # fmt: skip

    def _keep_best(self, stages: list[Any], parts: list[LabelledRows], goal: Goal) -> None:
        """Choose between the stages with and without rounds on the metric, by the held-out rows."""
        y = np.concatenate([part.y for part in parts])
        weights = [part.weight for part in parts if part.weight is not None]
        weight = np.concatenate(weights) if weights else None
        goal = replace(
            goal, rows=float(len(y)), labels=self.multilabel_, sample=SAMPLE if len(stages) > 1 else 0.0
        )
        candidates = [(stages, self.strategy == "metric")]
        if self.rule and self.strategy == "metric":
            plain = [one.base if self.multilabel_ else Stages(one.base) for one in stages]
            candidates.insert(0, (plain, False))
        base_scores = [one.base_scores(part.X) for one, part in zip(stages, parts, strict=True)]
        options = []
        for candidate, on_metric in candidates:
            known = zip(candidate, parts, base_scores, strict=True)
            scores = np.concatenate([one.scores(part.X, base) for one, part, base in known])
            scaling = self._fit_scaling(scores, y, weight) if on_metric else None
            options.append((candidate, scaling, *self._fit_rule(scores, scaling, y, weight, goal)))
        best = options[0]
        for option in options[1:]:
            best = option if option[-1].above(best[-1]) else best
        self.stages_, self.scaling_, self.rule_, standing = best
        self.validation_score_ = goal.metric.sign * standing.value
        self._count_rounds()

    def _fit_scaling(self, scores: Floats, y: Indices, weight: Floats | None) -> Any:
        if not self.multilabel_:
            return fit_scaling(scores, y, weight)
        return [fit_scaling(scores[:, k], y[:, k], weight) for k in range(y.shape[1])]

    def _count_rounds(self) -> None:
        self.rounds_ = [one.rounds for one in self.stages_]
        self.n_iter_ = sum(map(sum, self.rounds_))

    def _fit_rule(
        self, scores: Floats, scaling: Any, y: Indices, weight: Floats | None, goal: Goal
    ) -> tuple[DecisionRule | None, Standing]:
        """Fit a rule on scores unless `rule=False`, and return it with the standing of its decisions."""
        labels = None if self.multilabel_ else range(len(self.classes_))
        if not self.rule:
            return None, goal.standing(label_confusion(y, self._decide(scores), weight, labels))
        p = self._to_probabilities(scores, scaling)
        rule = fit_rule(
            p, y, goal.metric, goal.constraints, weight, classes=labels, confidence=goal.confidence,
            sample=goal.sample,
        )  # fmt: skip
        matrix = label_confusion(y, rule.predict(p), weight, labels)
        return (rule if self.multilabel_ else replace(rule, classes=self.classes_)), goal.standing(matrix)

    def without_rule(self) -> Self:
        """Return a copy that predicts the largest probability and shares everything else.

        `validation_score_` remains that of the rule.
        """
        check_is_fitted(self)
        model = copy.copy(self)
        model.rule, model.rule_ = False, None
        return model

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = _as_csr_matrix(validate_features(self, X, reset=False, gaps=True))
        return np.asarray(np.mean([one.scores(X) for one in self.stages_], axis=0))

    def _decide(self, scores: Floats) -> Indices:
        """The index of the class, or for each label 0 or 1."""
        return (scores >= 0).astype(np.int64) if self.multilabel_ else decide(scores)

    def _to_probabilities(self, scores: Floats, scaling: Any) -> Floats:
        if not self.multilabel_:
            return scores_to_probabilities(scores if scaling is None else scaling.apply(scores))
        if scaling is not None:
            scores = np.stack([one.apply(own) for one, own in zip(scaling, scores.T, strict=True)], axis=1)
        return np.asarray(expit(scores))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, by `rule_` if there is one, else the most probable.

        For labels, 0 or 1 for each: (n, L).
        """
        scores = self._scores(X)
        if self.rule_ is not None:
            return self.rule_.predict(self._to_probabilities(scores, self.scaling_))
        decided = self._decide(scores)
        return decided if self.multilabel_ else np.asarray(self.classes_[decided])

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class or label, calibrated after rounds on the metric."""
        return self._to_probabilities(self._scores(X), self.scaling_)

    def decision_function(self, X: Any) -> Floats:
        """Return what decides, (n,) for two classes, else (n, d): its sign or argmax is the prediction.

        For labels, the sign of each column, (n, L).
        """
        scores = self._scores(X)
        if self.rule_ is None:
            return scores
        return self.rule_.margins(self._to_probabilities(scores, self.scaling_))

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        facts, _ = super()._get_fitted_state()
        parts, weights, calibrations = {}, [], []
        for number, one in enumerate(self._list_stages()):
            parts[f"{number}.log_loss"] = one.base.model_to_string().encode()
            if one.metric is not None:
                parts[f"{number}.metric"] = one.metric.model_to_string().encode()
            weights.append(None if one.weights is None else one.weights.tolist())
            line = one.calibration
            calibrations.append(None if line is None else [line.slope, line.offsets.tolist()])
        if any(b"\nis_linear=1\n" in text for text in parts.values()):
            raise expected("params", "without linear trees, to be saved", self.params)
        scaling: Any = self.scaling_
        if scaling is not None:
            pairs = [
                [one.slope, one.offsets.tolist()] for one in (scaling if self.multilabel_ else [scaling])
            ]
            scaling = pairs if self.multilabel_ else pairs[0]
        return {**facts, "weights": weights, "calibrations": calibrations, "scaling": scaling}, parts

    def _list_stages(self) -> list[Stages]:
        """The stages of all bags, and for labels of each label after the other."""
        if not self.multilabel_:
            return self.stages_
        return [stages for bag in self.stages_ for stages in bag.labels]

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        self.categorical_features = tuple(self.categorical_features)  # JSON has lists only
        stages: Any = [
            _restore_stages(number, weights, parts, self.n_features_in_)
            for number, weights in enumerate(facts["weights"])
        ]
        width = len(self.classes_) if self.multilabel_ else 1
        if not stages or len(stages) % width:
            raise expected("folder", "with trees", len(stages))
        lines = facts.get("calibrations") or [None] * len(stages)  # absent before format 4
        stages = [
            replace(one, calibration=None if line is None else _restore_scaling(line))
            for one, line in zip(stages, lines, strict=True)
        ]
        if self.multilabel_:
            bags = range(0, len(stages), width)
            stages = [LabelStages(tuple(stages[start : start + width])) for start in bags]
        self.stages_ = stages
        self._count_rounds()
        scaling = facts["scaling"]
        if scaling is not None:
            pairs = scaling if self.multilabel_ else [scaling]
            restored = [_restore_scaling(pair) for pair in pairs]
            scaling = restored if self.multilabel_ else restored[0]
            if self.multilabel_ and len(restored) != width:
                raise expected("folder", f"with {width} calibrations", len(restored))
        self.scaling_ = scaling


def _restore_stages(number: int, weights: Any, parts: dict[str, bytes], n_features: int) -> Stages:
    lightgbm = import_lightgbm()
    base, metric = (
        lightgbm.Booster(model_str=check_lightgbm_text(parts[key])) if key in parts else None
        for key in (f"{number}.log_loss", f"{number}.metric")
    )
    if base is None or base.num_feature() != n_features:
        raise expected("folder", f"with trees of {n_features} features", f"part {number}")
    return Stages(base, None if weights is None else np.array(weights, dtype=np.float64), metric)


def _restore_scaling(pair: Any) -> Scaling:
    slope, offsets = pair
    return Scaling(float(slope), np.array(offsets, float))


def _as_csr_matrix(X: Any) -> Any:
    """Convert sparse features to what LightGBM reads: SciPy's matrices, not its arrays."""
    return sparse.csr_matrix(X) if sparse.issparse(X) else X
