"""`MetricDecision`: any classifier, decided by a metric."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils import assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter

from evalign import metrics
from evalign._errors import expected, is_number, show
from evalign._typing import ConstraintsLike, MetricLike
from evalign.decisions import Calibration, DecisionRule, fit_calibration, fit_rule
from evalign.estimators import _decision_files
from evalign.estimators._held import Held, fit_fold, response_of


class MetricDecision(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Decide by the metric, whatever the classifier.

    The rule is fitted on probabilities of rows that the classifier was not trained on, one fold at a
    time; then the classifier is trained on all rows. It does for any number of classes and with
    constraints what scikit-learn's `TunedThresholdClassifierCV` does for two.

    Args:
        estimator: A classifier with `predict_proba`, or with `decision_function`, whose scores are then
            made probabilities by Platt scaling (two classes) or a temperature.
        metric: Anything `evalign.metrics.as_metric` understands.
        constraints: Bounds such as "precision >= 0.9"; see `fit_rule`.
        cv: Folds; a share in (0, 1) for one split; a splitter of scikit-learn; `"out_of_bag"` for a
            forest or bagging, which is then trained only once: of each row, those speak that were
            trained without it (without weights of rows or classes: scikit-learn draws heavy rows so
            often that none is left out of bag); or `"prefit"` if the classifier is fitted already, on
            other rows.
        refit: Train on all rows in the end. False is for one split or `"prefit"`.
        confidence: Keep the constraints with a margin, so that new rows keep them too; see `fit_rule`.
        n_jobs: How many folds are fitted at a time.
        random_state: Seed of the folds.

    Attributes:
        classes_: The class labels, sorted.
        estimator_: The classifier that predicts.
        rule_: The decision rule, fitted on all folds together.
        fold_rules_: The rule of each fold alone.
        thresholds_: For two classes, their thresholds; how far they lie apart says how sure the rule is.
        threshold_spread_: Their standard deviation.
        validation_score_: The metric of the rule on the held-out rows.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricDecision(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> bool(0 < model.rule_.threshold < 1), len(model.thresholds_)
    (True, 5)
    """

    classes_: NDArray[Any]
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> MetricDecision:
        """Fit the rule on folds, and the classifier on all rows; `fit_params` go to the classifier."""
        metric = metrics.as_metric(self.metric, scalar=True)
        bounds = metrics.as_constraints(self.constraints)
        X, labels = indexable(X, _labels(y))
        weight = self._weights(sample_weight, X)
        held = self._held(X, labels, weight, fit_params)
        self._feature_facts()
        rows = np.concatenate([part.rows for part in held])
        responses = np.concatenate([part.response for part in held])
        self.calibration_ = self._calibration(responses, labels[rows], weight, rows, held)
        p = self._as_probabilities(responses)

        def rule(index: NDArray[Any], p: NDArray[Any]) -> DecisionRule:
            return fit_rule(
                p, labels[index], metric, bounds, None if weight is None else weight[index],
                classes=list(self.classes_), confidence=self.confidence,
            )  # fmt: skip

        self.rule_ = rule(rows, p)
        self.validation_score_ = self.rule_.value
        ends = np.cumsum([len(part.rows) for part in held])
        self.fold_rules_ = [self.rule_]
        if len(held) > 1:
            self.fold_rules_ = [
                rule(part.rows, p[end - len(part.rows) : end]) for part, end in zip(held, ends, strict=True)
            ]
        self._take_thresholds()
        if not self.rule_.feasible:
            missed = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(f"No rule keeps the constraints on held-out rows; missed: {missed}.", stacklevel=2)
        return self

    def _take_thresholds(self) -> None:
        if len(self.classes_) == 2:
            self.thresholds_ = np.array([one.threshold for one in self.fold_rules_])
            self.threshold_spread_ = float(self.thresholds_.std())

    def _weights(self, sample_weight: Any, X: Any) -> NDArray[Any] | None:
        if sample_weight is None:
            return None
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        if not prefit and not has_fit_parameter(self.estimator, "sample_weight"):
            name = type(self.estimator).__name__
            raise expected("sample_weight", f"to be None, since {name}.fit takes none", "weights")
        return np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))

    def _held(self, X: Any, y: NDArray[Any], weight: Any, fit_params: dict[str, Any]) -> list[Held]:
        """What is said of rows by classifiers that were trained without them."""
        if isinstance(self.cv, str) and self.cv == "prefit":
            return [self._prefit(X)]
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            got = f"1 class: {show(self.classes_[0])}"
            raise ValueError(f"Expected `y` with at least two classes, but got {got}.")
        if isinstance(self.cv, str) and self.cv == "out_of_bag":
            return [self._fit_out_of_bag(X, y, weight, fit_params)]
        return self._fit_folds(X, y, weight, fit_params)

    def _prefit(self, X: Any) -> Held:
        """All rows as held-out ones of a classifier that is fitted already."""
        check_is_fitted(self.estimator)
        self.estimator_, self.classes_ = self.estimator, self.estimator.classes_
        response, probable = response_of(self.estimator, X, self.classes_)
        return Held(np.arange(len(response)), response, probable, self.estimator)

    def _fit_out_of_bag(self, X: Any, y: NDArray[Any], weight: Any, fit_params: dict[str, Any]) -> Held:
        """Fit a bagged classifier on all rows; its parts leave rows out by themselves."""
        model = clone(self.estimator)
        if "oob_score" not in model.get_params(deep=False):
            raise expected("cv", "'out_of_bag' with a forest or bagging only", f"a {type(model).__name__}")
        if weight is not None or getattr(model, "class_weight", None) is not None:
            raise expected("cv", "to be folds with weights of rows or classes", "'out_of_bag'")
        with warnings.catch_warnings():
            # A row that every part has drawn is not used for the rule.
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            warnings.filterwarnings("ignore", message="invalid value encountered in divide")
            self.estimator_ = model.set_params(oob_score=True).fit(X, y, **fit_params)
        response = model.oob_decision_function_
        del model.oob_decision_function_  # as long as the rows: nothing to keep or save
        rows = np.flatnonzero(np.isclose(response.sum(1), 1))
        if rows.size == 0:
            raise expected("estimator", "of enough parts that rows are out of bag", f"{model}")
        return Held(rows, response[rows], True, model)

    def _fit_folds(self, X: Any, y: NDArray[Any], weight: Any, fit_params: dict[str, Any]) -> list[Held]:
        """Fit the classifier without each fold in turn, and on all rows in the end."""
        splits = self._splits(X, y)
        if not self.refit and len(splits) > 1:
            raise expected("refit", "to be True with more than one fold", self.refit)
        held: list[Held] = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_fold)(self.estimator, X, y, weight, rows, other, self.classes_, fit_params)
            for rows, other in splits
        )
        if self.refit:
            params = fit_params if weight is None else {**fit_params, "sample_weight": weight}
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
        else:
            self.estimator_ = held[0].estimator
        return held

    def _splits(self, X: Any, y: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        splitter: Any
        if isinstance(self.cv, float):
            if not 0 < self.cv < 1:
                raise expected("cv", "in (0, 1) for one split", self.cv)
            splitter = StratifiedShuffleSplit(1, test_size=self.cv, random_state=self.random_state)
        elif is_number(self.cv):
            if self.cv < 2:
                raise expected("cv", "of at least 2 folds", self.cv)
            fewest = int(np.unique(y, return_counts=True)[1].min())
            folds = max(2, min(int(self.cv), fewest))
            splitter = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        elif isinstance(self.cv, str) or not (
            self.cv is None or hasattr(self.cv, "split") or isinstance(self.cv, Iterable)
        ):
            wanted = "to be folds, a share, a splitter, 'out_of_bag' or 'prefit'"
            raise expected("cv", wanted, show(self.cv))
        else:
            splitter = check_cv(self.cv, y, classifier=True)
        with warnings.catch_warnings():
            # A class too rare for every fold is judged in some folds only.
            warnings.filterwarnings("ignore", message="The least populated class")
            return list(splitter.split(X, y))

    def _calibration(
        self, responses: NDArray[Any], y: NDArray[Any], weight: Any, rows: NDArray[Any], held: list[Held]
    ) -> Calibration | None:
        """How scores become probabilities, where the classifier has scores only."""
        if held[0].probable:
            return None
        part = None if weight is None else weight[rows]
        method = "platt" if len(self.classes_) == 2 else "temperature"
        return fit_calibration(responses, np.searchsorted(self.classes_, y), method, part)  # type: ignore[arg-type]

    def _as_probabilities(self, responses: NDArray[Any]) -> NDArray[Any]:
        return responses if self.calibration_ is None else self.calibration_.predict_proba(responses)

    def _feature_facts(self) -> None:
        """Take over what the classifier knows of the features, if it does."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _probabilities(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self, "rule_")
        return self._as_probabilities(response_of(self.estimator_, X, self.classes_)[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, by the rule."""
        p = self._probabilities(X)
        return self.rule_.predict(p)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probabilities that the rule decides by."""
        return self._probabilities(X)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """What the rule compares, (n,) for two classes, else (n, d): its sign or argmax predicts."""
        p = self._probabilities(X)
        return self.rule_.margins(p)

    def save(self, folder: str | PathLike[str]) -> None:
        """Save the classifier, if scikit-learn's own: with skops, the rest in JSON."""
        check_is_fitted(self, "rule_")
        _decision_files.save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> MetricDecision:
        """Load a classifier; nothing in the files is executed."""
        model: MetricDecision = _decision_files.load(cls, folder)
        return model


def _labels(y: Any) -> NDArray[Any]:
    """The labels as one array, checked as scikit-learn does."""
    if y is None:
        raise ValueError("MetricDecision requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    if len(labels) == 0:
        raise expected("y", "with at least one row", "none")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)
