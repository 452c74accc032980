"""`MetricLinear`: a linear classifier trained on the metric."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import column_or_1d
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from evalign import metrics
from evalign._errors import check_integer, expected, is_integer, is_number, show
from evalign._files import pack_tensors, unpack_tensors
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import DecisionRule, Goal
from evalign.estimators._candidates import (
    CANDIDATES,
    Blend,
    FoldFit,
    FoldScores,
    decide,
    fit_fold,
    get_offsets,
    to_probabilities,
)
from evalign.estimators._columns import validate_features
from evalign.estimators._folds import N_FOLDS, Split, draw_splits
from evalign.estimators._logistic import LinearRows
from evalign.estimators._rows import Targets, normalize_weights
from evalign.estimators.persistence import SaveMixin

if TYPE_CHECKING:
    from typing_extensions import Self


class MetricLinear(SaveMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier trained on the metric, as `LogisticRegression` is on the log-loss.

    On each fold's training rows, logistic regression comes first. From its weights with the best rule folded
    in, and once more from zero, L-BFGS then minimises 1 - M(C) of the soft confusion matrix of all rows,
    annealed and anchored by cross-entropy. The candidates are logistic regression, the metric, the mean of
    both, and the metric from zero. Each is judged by cross-fitting: a fold is decided by weights and a
    rule that were fitted on the other folds. One of them replaces logistic regression with a rule only if it
    is better there by more than one standard error. The weights are the mean of those of the folds.

    The rule is part of the intercepts: `X @ coef_.T + intercept_` is the decision function, and its sign or
    argmax is the prediction. `predict_proba` is calibrated, and does not contain the rule: `rule_` applied to
    it gives the same predictions. Features are scaled inside (and centred unless they are sparse);
    coefficients are in the units of the features.

    Multilabel targets, 0 and 1 of shape (n, L), give one linear model per label, trained on the metric of
    all labels, and predictions and probabilities of shape (n, L).

    DataFrames of pandas and polars may contain texts and categories, which become columns of 0 and 1 as
    for `MetricClassifier`; `coef_names_` names the columns of `coef_`.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as "precision >= 0.9"; see `fit_rule`.
        C: The inverse strength of the L2 penalty, as in `LogisticRegression`.
        cv: The number of folds (None: 5); a splitter or pairs (train, test) of row numbers, neither of
            which is saved.
        confidence: Satisfy the constraints with a margin, so that new rows satisfy them, too; see `fit_rule`.
        max_iter: The maximum number of iterations of each logistic regression.
        n_jobs: The number of folds fitted at a time.
        random_state: The seed of the folds.

    Attributes:
        classes_: The class labels, sorted; for multilabel targets 0 ... L - 1.
        coef_: The coefficients, (1, features) for two classes, else (classes or labels, features).
        intercept_: The intercepts, with the rule.
        coef_names_: The names of the columns of `coef_`, if `X` is a DataFrame.
        multilabel_: Whether the targets are multilabel.
        columns_: The categories of the columns of a table; None if all features are numbers.
        candidates_: The cross-fitted metric of each candidate.
        chosen_: The candidate that was chosen.
        rule_: The decision rule for probabilities, which the intercepts contain.
        validation_score_: The cross-fitted metric of the chosen candidate.
        n_iter_: The largest number of iterations of a logistic regression.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricLinear("f1", random_state=0).fit(X, y)
    >>> model.coef_.shape, np.array_equal(model.predict(X), X @ model.coef_[0] + model.intercept_ >= 0)
    ((1, 20), True)

    References:
        Li et al. (2025), EAST, for the loss; Koyejo et al. (2014) for the rule.
    """

    _part_suffix = ".safetensors"

    coef_: Floats
    intercept_: Floats
    rule_: DecisionRule

    def __init__(
        self,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        C: float = 1.0,
        cv: Any = 5,
        confidence: float | None = None,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.C = C
        self.cv = cv
        self.confidence = confidence
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    @property
    def coef_names_(self) -> list[str]:
        """The names of the columns of `coef_`, such as "age" or "color=red"."""
        names = [str(name) for name in self.feature_names_in_]
        return names if self.columns_ is None else self.columns_.name_dummies(names)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on folds, choose a candidate by cross-fitting, and average its weights.

        Args:
            X: The features: an array, a sparse matrix or a DataFrame.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows, of which only the ratios matter.
            groups: The group of each row: the folds keep the rows of a group together.
        """
        goal = self._check_settings()
        self.__dict__.pop("coef_", None)  # a failed fit must not leave weights under new labels
        X, y = validate_features(self, X, y, reset=True, ensure_min_samples=2, dtype=np.float64)
        targets = Targets.read(y)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        weight = _scale_weights(normalize_weights(sample_weight, X), len(targets.indices))
        goal = self._name_classes(goal)
        scaler = _fit_scaler(X, weight)
        rows = LinearRows(scaler.transform(X), targets.indices, weight, len(self.classes_))
        folds = self._fit_folds(rows, self._draw_splits(X, y, targets, groups), goal)
        self._choose(folds, rows, goal)
        self.coef_ = self.coef_ / scaler.scale_
        if scaler.with_mean:
            self.intercept_ = self.intercept_ - self.coef_ @ scaler.mean_
        self._warn(folds)
        return self

    def _check_settings(self) -> Goal:
        """Check the settings, and return what the classifier is trained for."""
        metric = metrics.as_metric(self.metric, scalar=True)
        constraints = metrics.as_constraints(self.constraints)
        if not is_number(self.C) or self.C <= 0:
            raise expected("C", "to be a number > 0", show(self.C))
        if self.confidence is not None and not (is_number(self.confidence) and 0.5 < self.confidence < 1):
            raise expected("confidence", "in (0.5, 1)", show(self.confidence))
        check_integer(max_iter=self.max_iter)
        return Goal(metric, constraints, self.confidence)

    def _name_classes(self, goal: Goal) -> Goal:
        """Replace labels in the metric and the constraints by indices of classes."""
        if self.multilabel_:
            return replace(goal, labels=True)
        classes = list(self.classes_)
        constraints = tuple(one.with_classes(classes) for one in goal.constraints)
        return replace(goal, metric=goal.metric.with_classes(classes), constraints=constraints)

    def _draw_splits(self, X: Any, y: Any, targets: Targets, groups: Any) -> list[Split]:
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
        strata: Any = np.asarray(y.toarray() if sparse.issparse(y) else y)
        if self.cv is None or is_integer(self.cv):
            n_folds = N_FOLDS if self.cv is None else int(self.cv)
            strata = targets.indices if self.multilabel_ else _merge_rare(targets.indices, n_folds)
        splits = draw_splits(self.cv, X, strata, groups, self.random_state)
        if len(splits) < 2:
            raise expected("cv", "with at least two splits", "one")
        return splits

    def _fit_folds(self, rows: LinearRows, splits: Sequence[Split], goal: Goal) -> list[FoldFit]:
        folds: list[FoldFit] = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_fold)(rows, split, goal, float(self.C), int(self.max_iter)) for split in splits
        )
        return folds

    def _choose(self, folds: Sequence[FoldFit], rows: LinearRows, goal: Goal) -> None:
        """Choose a candidate, and set its weights for scaled features."""
        held_out = FoldScores.join(folds, rows, goal)
        chosen, self.candidates_ = held_out.choose(CANDIDATES)
        self.chosen_ = chosen.name
        self.validation_score_ = self.candidates_[chosen.name]
        blend = Blend(chosen, *held_out.calibrate(chosen.kind))
        rule = held_out.fit_rule(blend)
        self.rule_ = rule if self.multilabel_ else replace(rule, classes=self.classes_)
        weights = blend.apply_to_weights(
            {name: np.mean([one.weights[name] for one in folds], axis=0) for name in folds[0].weights}
        )
        self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1] + get_offsets(self.rule_)
        self.n_iter_ = max(one.n_iter for one in folds)

    def _warn(self, folds: Sequence[FoldFit]) -> None:
        if not all(one.converged for one in folds):
            warnings.warn(
                f"Logistic regression did not converge in {self.max_iter} iterations; increase `max_iter`.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not self.rule_.feasible:
            violations = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(
                f"No rule satisfies the constraints on the held-out rows; violated: {violations}.",
                stacklevel=3,
            )

    def _decisions(self, X: Any) -> Floats:
        """The decision function with one column per output."""
        check_is_fitted(self)
        X = validate_features(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def decision_function(self, X: Any) -> Floats:
        """Return `X @ coef_.T + intercept_`, (n,) for two classes, else (n, classes or labels).

        Its sign (two classes, labels) or argmax is the prediction.
        """
        decisions = self._decisions(X)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, or for labels 0 or 1 for each: (n, L)."""
        decisions = self._decisions(X)
        decided = decide(decisions, self.multilabel_)
        return decided if self.multilabel_ else np.asarray(self.classes_[decided])

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class or label, calibrated and without the rule."""
        return to_probabilities(self._decisions(X) - get_offsets(self.rule_), self.multilabel_)

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        facts, _ = super()._get_fitted_state()
        facts |= {"candidates": self.candidates_, "chosen": self.chosen_, "n_iter": self.n_iter_}
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
        return facts, {"weights": pack_tensors(tensors)}

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        tensors = unpack_tensors(parts["weights"])
        self.coef_, self.intercept_ = (tensors[name].double().numpy() for name in ("coef", "intercept"))
        d = len(self.classes_)
        n_features = self.n_features_in_ if self.columns_ is None else self.columns_.n_dummies
        wanted = (1 if d == 2 and not self.multilabel_ else d, n_features)
        if self.coef_.shape != wanted or self.intercept_.shape != wanted[:1] or self.rule_ is None:
            raise expected("folder", f"with coefficients of shape {wanted}", f"shape {self.coef_.shape}")
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise expected("folder", "with finite coefficients", "NaN or infinity")
        self.candidates_ = {str(name): float(value) for name, value in facts["candidates"].items()}
        self.chosen_, self.n_iter_ = str(facts["chosen"]), int(facts["n_iter"])


def _merge_rare(y: Indices, least: int) -> Indices:
    """Join classes with fewer rows than folds with the largest one, so that they do not reduce the folds.

    >>> _merge_rare(np.array([0, 0, 0, 1, 2, 2]), 2)
    array([0, 0, 0, 0, 2, 2])
    """
    counts = np.bincount(y)
    return np.where(counts[y] < least, counts.argmax(), y)


def _scale_weights(weight: Floats | None, n_rows: int) -> Floats:
    """Scale weights to mean 1 over the rows that have any, so that the others change nothing.

    >>> _scale_weights(np.array([3.0, 1.0, 0.0]), 3)
    array([1.5, 0.5, 0. ])
    """
    return np.ones(n_rows) if weight is None else weight / weight[weight > 0].mean()


def _fit_scaler(X: Any, weight: Floats) -> StandardScaler:
    """Fit centring and scaling; sparse features are only scaled."""
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    with np.errstate(over="ignore", invalid="ignore"):
        scaler.fit(X, sample_weight=weight)
    if not np.isfinite(scaler.scale_).all():
        raise expected("X", "that can be scaled", "values that are too large")
    return scaler
