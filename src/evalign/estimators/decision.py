"""`MetricDecision`: any classifier, decided by a metric."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._files import find_untrusted, pack_skops, unpack_skops
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import Calibration, DecisionRule, fit_calibration, fit_rule
from evalign.estimators._rows import Split
from evalign.estimators._untrusted import check_sklearn_trees
from evalign.estimators.persistence import SaveMixin

if TYPE_CHECKING:
    from typing_extensions import Self

#: What may be loaded beyond what skops trusts by itself; `check_sklearn_trees` checks every one.
TRUSTED = ("sklearn.tree._tree.Tree",)


class MetricDecision(SaveMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Decide by the metric, whatever the classifier.

    The rule is fitted on probabilities of rows that the classifier was not trained on, one fold at a
    time; then the classifier is trained on all rows. It does for any number of classes and with
    constraints what scikit-learn's `TunedThresholdClassifierCV` does for two classes.

    Args:
        estimator: A classifier with `predict_proba`, or with `decision_function`; scores are turned into
            probabilities by Platt scaling (two classes) or a temperature.
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as "precision >= 0.9"; see `fit_rule`.
        cv: The number of folds; a fraction in (0, 1) for one split; a splitter of scikit-learn;
            `"out_of_bag"` for a forest or bagging, which is then trained only once: each row is scored only
            by trees that did not see it (not available with weights of rows or classes: scikit-learn draws
            heavy rows so often that none is left out of bag); or `"prefit"` if the classifier is already
            fitted, on other rows.
        refit: Train on all rows in the end. False is for one split or `"prefit"`.
        confidence: Satisfy the constraints with a margin, so that new rows satisfy them, too; see `fit_rule`.
        n_jobs: The number of folds fitted at a time; None fits one at a time and leaves the threads to the
            classifier.
        random_state: The seed of the folds.

    Attributes:
        classes_: The class labels, sorted.
        estimator_: The classifier that predicts.
        rule_: The decision rule, fitted on all folds together.
        fold_rules_: The rule of each fold alone.
        thresholds_: For two classes, their thresholds; the further apart, the less certain is the rule.
        threshold_spread_: The standard deviation of the thresholds.
        validation_score_: The metric of the rule on the held-out rows.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricDecision(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> bool(0 < model.rule_.threshold < 1), len(model.thresholds_)
    (True, 5)
    """

    _part_suffix = ".skops"
    _unsaved_settings = ("estimator",)

    rule_: DecisionRule
    fold_rules_: list[DecisionRule]

    def __init__(
        self,
        estimator: Any,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        cv: Any = 5,
        refit: bool = True,
        confidence: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.constraints = constraints
        self.cv = cv
        self.refit = refit
        self.confidence = confidence
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rule_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the rule on folds and the classifier on all rows; `fit_params` are passed to the classifier."""
        metric = metrics.as_metric(self.metric, scalar=True)
        constraints = metrics.as_constraints(self.constraints)
        X, labels = indexable(X, _check_labels(y))
        weight = self._check_weights(sample_weight, X)
        parts = self._predict_held_out(X, labels, weight, fit_params)
        self._set_features()
        rows = np.concatenate([part.rows for part in parts])
        responses = np.concatenate([part.response for part in parts])
        self.calibration_ = self._fit_calibration(responses, labels, weight, rows, parts)
        p = self._to_probabilities(responses)

        def fit_on(rows: Indices, p: Floats) -> DecisionRule:
            return fit_rule(
                p, labels[rows], metric, constraints, None if weight is None else weight[rows],
                classes=list(self.classes_), confidence=self.confidence,
            )  # fmt: skip

        self.rule_ = fit_on(rows, p)
        self.validation_score_ = self.rule_.value
        self.fold_rules_ = [self.rule_]
        if len(parts) > 1:
            ends = np.cumsum([len(part.rows) for part in parts])
            folds = zip(parts, np.split(p, ends[:-1]), strict=True)
            self.fold_rules_ = [fit_on(part.rows, fold) for part, fold in folds]
        self._set_thresholds()
        if not self.rule_.feasible:
            violations = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(
                f"No rule satisfies the constraints on the held-out rows; violated: {violations}.",
                stacklevel=2,
            )
        return self

    def _check_weights(self, sample_weight: Any, X: Any) -> Floats | None:
        if sample_weight is None:
            return None
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        if not prefit and not has_fit_parameter(self.estimator, "sample_weight"):
            name = type(self.estimator).__name__
            raise expected("sample_weight", f"to be None, since {name}.fit does not accept it", "weights")
        return np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))

    def _predict_held_out(
        self, X: Any, y: NDArray[Any], weight: Floats | None, fit_params: dict[str, Any]
    ) -> list[HeldOut]:
        """Predict rows by classifiers that were trained without them."""
        if isinstance(self.cv, str) and self.cv == "prefit":
            return [self._predict_prefit(X)]
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise expected("y", "with at least two classes", f"1 class: {show(self.classes_[0])}")
        if isinstance(self.cv, str) and self.cv == "out_of_bag":
            return [self._predict_out_of_bag(X, y, weight, fit_params)]
        return self._predict_folds(X, y, weight, fit_params)

    def _predict_prefit(self, X: Any) -> HeldOut:
        """Predict all rows by a classifier that is already fitted."""
        check_is_fitted(self.estimator)
        self.estimator_, self.classes_ = self.estimator, self.estimator.classes_
        response, is_probability = _predict_response(self.estimator, X, self.classes_)
        return HeldOut(np.arange(len(response)), response, is_probability, self.estimator)

    def _predict_out_of_bag(
        self, X: Any, y: NDArray[Any], weight: Floats | None, fit_params: dict[str, Any]
    ) -> HeldOut:
        """Fit a bagged classifier on all rows; each of its parts leaves rows out by itself."""
        model = clone(self.estimator)
        if "oob_score" not in model.get_params(deep=False):
            raise expected("cv", "'out_of_bag' with a forest or bagging only", f"a {type(model).__name__}")
        if weight is not None or getattr(model, "class_weight", None) is not None:
            raise expected("cv", "to be folds with weights of rows or classes", "'out_of_bag'")
        with warnings.catch_warnings():
            # A row that every part was trained on is not used for the rule.
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            warnings.filterwarnings("ignore", message="invalid value encountered in divide")
            self.estimator_ = model.set_params(oob_score=True).fit(X, y, **fit_params)
        response = model.oob_decision_function_
        del model.oob_decision_function_  # one row per training row: not worth keeping or saving
        rows = np.flatnonzero(np.isclose(response.sum(1), 1))
        if rows.size == 0:
            raise expected("estimator", "with enough parts that some rows are out of bag", f"{model}")
        return HeldOut(rows, response[rows], True, model)

    def _predict_folds(
        self, X: Any, y: NDArray[Any], weight: Floats | None, fit_params: dict[str, Any]
    ) -> list[HeldOut]:
        """Fit the classifier without each fold in turn, and on all rows in the end."""
        splits = self._split(X, y)
        if not self.refit and len(splits) > 1:
            raise expected("refit", "to be True with more than one fold", self.refit)
        parts: list[HeldOut] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_fold)(self.estimator, X, y, weight, split, self.classes_, fit_params)
            for split in splits
        )
        if self.refit:
            params = fit_params if weight is None else {**fit_params, "sample_weight": weight}
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
        else:
            self.estimator_ = parts[0].estimator
        return parts

    def _split(self, X: Any, y: NDArray[Any]) -> list[Split]:
        splitter: Any
        if isinstance(self.cv, float):
            if not 0 < self.cv < 1:
                raise expected("cv", "in (0, 1) for one split", self.cv)
            splitter = StratifiedShuffleSplit(1, test_size=self.cv, random_state=self.random_state)
        elif is_number(self.cv):
            if self.cv < 2:
                raise expected("cv", "of at least 2 folds", self.cv)
            fewest = int(np.unique(y, return_counts=True)[1].min())
            n_folds = max(2, min(int(self.cv), fewest))
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state)
        elif isinstance(self.cv, str) or not (
            self.cv is None or hasattr(self.cv, "split") or isinstance(self.cv, Iterable)
        ):
            wanted = "to be a number of folds, a fraction, a splitter, 'out_of_bag' or 'prefit'"
            raise expected("cv", wanted, show(self.cv))
        else:
            splitter = check_cv(self.cv, y, classifier=True)
        with warnings.catch_warnings():
            # A class too rare for every fold is held out in some folds only.
            warnings.filterwarnings("ignore", message="The least populated class")
            return list(splitter.split(X, y))

    def _fit_calibration(
        self,
        responses: Floats,
        labels: NDArray[Any],
        weight: Floats | None,
        rows: Indices,
        parts: list[HeldOut],
    ) -> Calibration | None:
        """Fit how scores become probabilities; None if the classifier has probabilities."""
        if parts[0].is_probability:
            return None
        targets = np.searchsorted(self.classes_, labels[rows])
        method = "platt" if len(self.classes_) == 2 else "temperature"
        return fit_calibration(responses, targets, method, None if weight is None else weight[rows])  # type: ignore[arg-type]

    def _set_features(self) -> None:
        """Adopt what the classifier knows about the features, if anything."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _set_thresholds(self) -> None:
        if len(self.classes_) == 2:
            self.thresholds_ = np.array([rule.threshold for rule in self.fold_rules_])
            self.threshold_spread_ = float(self.thresholds_.std())

    def _to_probabilities(self, responses: Floats) -> Floats:
        return responses if self.calibration_ is None else self.calibration_.predict_proba(responses)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row by the rule."""
        p = self.predict_proba(X)
        return self.rule_.predict(p)

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities that the rule decides by."""
        check_is_fitted(self)
        return self._to_probabilities(_predict_response(self.estimator_, X, self.classes_)[0])

    def decision_function(self, X: Any) -> Floats:
        """Return what decides, (n,) for two classes, else (n, d): its sign or argmax is the prediction."""
        p = self.predict_proba(X)
        return self.rule_.margins(p)

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        content = pack_skops(self.estimator_, level=1)
        untrusted = find_untrusted(content, TRUSTED)
        if untrusted:
            raise expected("estimator", "of scikit-learn's own types, to be saved", ", ".join(untrusted))
        check_sklearn_trees(self.estimator_)
        facts, _ = super()._get_fitted_state()
        facts |= {
            "fold_rules": [rule.to_json() for rule in self.fold_rules_],
            "calibration": None if self.calibration_ is None else self.calibration_.to_dict(),
        }
        return facts, {"estimator": content}

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        self.estimator_ = unpack_skops(parts["estimator"], TRUSTED)
        check_sklearn_trees(self.estimator_)
        self.estimator = self.estimator_ if self.cv == "prefit" else clone(self.estimator_)
        if not np.array_equal(self.estimator_.classes_, self.classes_):
            wanted = "with a classifier for the classes of the model"
            raise expected("folder", wanted, self.estimator_.classes_)
        self.fold_rules_ = [DecisionRule.from_json(text) for text in facts["fold_rules"]]
        numbers = facts["calibration"]
        self.calibration_ = None if numbers is None else Calibration.from_dict(numbers, self.classes_)
        self._set_thresholds()


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that a classifier was not trained on, with its probabilities or scores for them."""

    rows: Indices
    response: Floats
    is_probability: bool
    estimator: Any


def _fit_fold(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    weight: Floats | None,
    split: Split,
    classes: NDArray[Any],
    fit_params: dict[str, Any],
) -> HeldOut:
    """Fit a copy of the classifier on the rows to train on, and predict the others."""
    train, held_out = split
    params = fit_params if weight is None else {**fit_params, "sample_weight": weight[train]}
    model = clone(estimator).fit(_safe_indexing(X, train), y[train], **params)
    response, is_probability = _predict_response(model, _safe_indexing(X, held_out), classes)
    return HeldOut(np.asarray(held_out), response, is_probability, model)


def _predict_response(model: Any, X: Any, classes: NDArray[Any]) -> tuple[Floats, bool]:
    """Return probabilities, or else scores, one column per class; and whether they are probabilities.

    A class that the model has not seen has probability 0, or a score below all others.
    """
    if hasattr(model, "predict_proba"):
        response, is_probability = np.asarray(model.predict_proba(X), dtype=np.float64), True
        absent = 0.0
    elif hasattr(model, "decision_function"):
        response, is_probability = np.asarray(model.decision_function(X), dtype=np.float64), False
        absent = float(response.min()) - 1.0
        if response.ndim == 1:
            response = np.stack([-response / 2, response / 2], axis=1)
    else:
        wanted = "with `predict_proba` or `decision_function`"
        raise expected("estimator", wanted, type(model).__name__)
    if response.shape[1] != len(model.classes_):
        wanted = f"with one column per class, {len(model.classes_)}"
        raise expected("estimator", wanted, f"{type(model).__name__} with {response.shape[1]}")
    if np.array_equal(model.classes_, classes):
        return response, is_probability
    table = np.full((len(response), len(classes)), absent)
    table[:, np.searchsorted(classes, model.classes_)] = response
    return table, is_probability


def _check_labels(y: Any) -> NDArray[Any]:
    """Return the labels as one array, checked as scikit-learn does."""
    if y is None:
        raise ValueError("MetricDecision requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    if len(labels) == 0:
        raise expected("y", "with at least one row", "none")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)
