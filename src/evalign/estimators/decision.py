"""`MetricDecision`: any classifier, decided by a metric."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted

from evalign import metrics
from evalign._errors import expected, show
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import Calibration, DecisionRule, Evidence, fit_calibration, fit_rule
from evalign.estimators._estimators import pack_estimator, unpack_estimator
from evalign.estimators._folds import Split, draw_splits
from evalign.estimators._responses import predict_response
from evalign.estimators._routing import find_fit_parameter, name_last_step, route_parameters
from evalign.estimators._rows import check_targets
from evalign.estimators.persistence import SaveMixin

if TYPE_CHECKING:
    from typing_extensions import Self

#: What may be loaded beyond what skops trusts by itself; `check_sklearn_trees` checks every one.
TRUSTED = ("sklearn.tree._tree.Tree",)


class MetricDecision(SaveMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Decide by the metric, whatever the classifier.

    The rule is fitted on probabilities of rows that the classifier was not trained on, one fold at a
    time; then the classifier is trained on all rows. It does for any number of classes, for multilabel
    targets and with constraints what scikit-learn's `TunedThresholdClassifierCV` does for two classes.

    Args:
        estimator: A classifier with `predict_proba`, or with `decision_function`; scores are turned into
            probabilities by Platt scaling (two classes) or a temperature. Multilabel targets require
            `predict_proba`.
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as "precision >= 0.9"; see `fit_rule`.
        cv: The number of folds (None: 5), fewer with a warning if a class has fewer rows; a fraction in
            (0, 1) for one split; a splitter, or pairs (train, test) of row numbers, neither of which is
            saved: the rule is fitted on the rows that are tested; `"out_of_bag"` for a forest or bagging,
            which is then trained only once: each row is scored only by trees that did not see it (not
            available with groups, nor with weights of rows or classes: scikit-learn draws heavy rows so
            often that none is left out of bag); or `"prefit"` if the classifier is already fitted, on other
            rows.
        refit: Train on all rows in the end. False is for one split or `"prefit"`.
        confidence: Satisfy the constraints with a margin, so that new rows satisfy them, too; see `fit_rule`.
        evidence: What a rule's metric is counted by: "mixed", "labels" or "probabilities"; see `fit_rule`.
        n_jobs: The number of folds fitted at a time; None fits one at a time and leaves the threads to the
            classifier.
        random_state: The seed of the folds.

    Attributes:
        classes_: The class labels, sorted; for multilabel targets the numbers of the labels.
        multilabel_: Whether there is any number of labels per row.
        estimator_: The classifier that predicts.
        rule_: The decision rule, fitted on all folds together.
        fold_rules_: The rule of each fold alone.
        thresholds_: For two classes, their thresholds; the further apart, the less certain is the rule. For
            multilabel targets, one row per fold and one column per label.
        threshold_spread_: The standard deviation of the thresholds over the folds.
        validation_score_: The metric of the rule on the held-out rows.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricDecision(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> bool(0 < model.rule_.threshold < 1), len(model.thresholds_)
    (True, 5)
    """

    # The part is named as its file ends.
    _part_suffix = ""
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
        evidence: Evidence = "mixed",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.constraints = constraints
        self.cv = cv
        self.refit = refit
        self.confidence = confidence
        self.evidence = evidence
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

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what scikit-learn's metadata routing passes to the classifier, the splitter and the rule."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        return router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the rule on folds and the classifier on all rows.

        Args:
            X: The features, in any form that the classifier accepts.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows, for the classifier (the last step of a pipeline) and the rule.
            groups: The group of each row: the folds keep the rows of a group together. They are also passed
                to a classifier with groups of its own.
            **fit_params: Passed to the classifier, such as `step__sample_weight` for one step of a
                pipeline and not for the rule. What has one value per row is divided among the folds.

        With scikit-learn's metadata routing enabled, the classifier and the splitter receive what they
        request.
        """
        metric = metrics.as_metric(self.metric, scalar=True)
        constraints = metrics.as_constraints(self.constraints)
        rows = self._check_rows(X, y, sample_weight, groups, fit_params)
        parts = self._predict_held_out(rows)
        metric, constraints = metrics.resolve_classes(metric, constraints, self.classes_)
        self._set_features()
        held_out = np.concatenate([part.rows for part in parts])
        responses = np.concatenate([part.response for part in parts])
        self.calibration_ = self._fit_calibration(responses, rows, held_out, parts)
        p = self._to_probabilities(responses)

        def fit_on(held_out: Indices, p: Floats) -> DecisionRule:
            weight = None if rows.weight is None else rows.weight[held_out]
            classes = None if self.multilabel_ else list(self.classes_)
            return fit_rule(
                p, rows.y[held_out], metric, constraints, weight, classes=classes,
                confidence=self.confidence, evidence=self.evidence,
            )  # fmt: skip

        self.rule_ = fit_on(held_out, p)
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

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, fit_params: dict[str, Any]
    ) -> TrainingRows:
        """Check the arguments of `fit`, and find out what the classifier and the splitter receive."""
        X, labels, groups = indexable(X, check_targets(y), groups)
        groups = None if groups is None else column_or_1d(groups)
        weight = None
        if sample_weight is not None:
            weight = np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=weight, groups=groups, **fit_params)
            return TrainingRows(
                X, labels, weight, groups, routed["estimator"]["fit"], routed["splitter"]["split"]
            )
        is_prefit = isinstance(self.cv, str) and self.cv == "prefit"
        if (
            weight is not None
            and not is_prefit
            and find_fit_parameter(self.estimator, "sample_weight") is None
        ):
            wanted = f"to be None, since {name_last_step(self.estimator)}.fit does not accept it"
            raise expected("sample_weight", wanted, "weights")
        own = route_parameters(self.estimator, sample_weight=weight, groups=groups)
        return TrainingRows(X, labels, weight, groups, own | fit_params)

    def _predict_held_out(self, rows: TrainingRows) -> list[HeldOut]:
        """Predict rows by classifiers that were trained without them."""
        self.multilabel_ = rows.y.ndim == 2
        if isinstance(self.cv, str) and self.cv == "prefit":
            return [self._predict_prefit(rows)]
        self.classes_ = np.arange(rows.y.shape[1]) if self.multilabel_ else np.unique(rows.y)
        if len(self.classes_) < 2:
            raise expected("y", "with at least two classes", f"1 class: {show(self.classes_[0])}")
        if isinstance(self.cv, str):
            if self.cv != "out_of_bag":
                wanted = "to be folds, a fraction, a splitter, pairs (train, test), 'out_of_bag' or 'prefit'"
                raise expected("cv", wanted, show(self.cv))
            return [self._predict_out_of_bag(rows)]
        return self._predict_folds(rows)

    def _predict_prefit(self, rows: TrainingRows) -> HeldOut:
        """Predict all rows by a classifier that is already fitted."""
        check_is_fitted(self.estimator)
        self.estimator_ = self.estimator
        self.classes_ = np.arange(rows.y.shape[1]) if self.multilabel_ else self.estimator.classes_
        response, is_probability = predict_response(self.estimator, rows.X, self.classes_, self.multilabel_)
        return HeldOut(np.arange(len(response)), response, is_probability, self.estimator)

    def _predict_out_of_bag(self, rows: TrainingRows) -> HeldOut:
        """Fit a bagged classifier on all rows; each of its parts leaves rows out by itself."""
        model = clone(self.estimator)
        if "oob_score" not in model.get_params(deep=False):
            raise expected("cv", "'out_of_bag' with a forest or bagging only", f"a {type(model).__name__}")
        if rows.weight is not None or getattr(model, "class_weight", None) is not None:
            raise expected("cv", "to be folds with weights of rows or classes", "'out_of_bag'")
        if rows.groups is not None:
            raise expected("cv", "to be folds with groups", "'out_of_bag'")
        if self.multilabel_ and (rows.y == rows.y[0]).all(0).any():
            raise expected("cv", "to be folds with a label that is always 0 or always 1", "'out_of_bag'")
        with warnings.catch_warnings():
            # A row that every part was trained on is not used for the rule.
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            warnings.filterwarnings("ignore", message="invalid value encountered in divide")
            self.estimator_ = model.set_params(oob_score=True).fit(rows.X, rows.y, **rows.fit_params)
        response = model.oob_decision_function_
        del model.oob_decision_function_  # one row per training row: not worth keeping or saving
        scored = np.isclose(response.sum(1), 1)
        if self.multilabel_:  # (n, 2, L): the probabilities of 0 and of 1
            response, scored = response[:, 1], scored.all(1)
        if not scored.any():
            raise expected("estimator", "with enough parts that some rows are out of bag", f"{model}")
        return HeldOut(np.flatnonzero(scored), response[scored], True, model)

    def _predict_folds(self, rows: TrainingRows) -> list[HeldOut]:
        """Fit the classifier without each fold in turn, and on all rows in the end."""
        splits = draw_splits(self.cv, rows.X, rows.y, rows.groups, self.random_state, rows.split_params)
        if not self.refit and len(splits) > 1:
            raise expected("refit", "to be True with more than one fold", self.refit)
        for number, (train, _) in enumerate(splits):
            if not self.multilabel_ and len(known := np.unique(rows.y[train])) < 2:
                wanted = "with two classes to train on in every fold"
                raise expected("cv", wanted, f"only {show(known[0])} in fold {number}")
        parts: list[HeldOut] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_fold)(self.estimator, rows, split, self.classes_) for split in splits
        )
        if self.refit:
            self.estimator_ = clone(self.estimator).fit(rows.X, rows.y, **rows.fit_params)
        else:
            self.estimator_ = parts[0].estimator
        return parts

    def _fit_calibration(
        self, responses: Floats, rows: TrainingRows, held_out: Indices, parts: list[HeldOut]
    ) -> Calibration | None:
        """Fit how scores become probabilities; None if the classifier has probabilities."""
        if parts[0].is_probability:
            return None
        targets = np.searchsorted(self.classes_, rows.y[held_out])
        weight = None if rows.weight is None else rows.weight[held_out]
        return fit_calibration(
            responses, targets, "platt" if len(self.classes_) == 2 else "temperature", weight
        )

    def _set_features(self) -> None:
        """Adopt what the classifier knows about the features, if anything."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _set_thresholds(self) -> None:
        if self.multilabel_ or len(self.classes_) == 2:
            thresholds = np.array([rule.thresholds for rule in self.fold_rules_])
            self.thresholds_ = thresholds if self.multilabel_ else thresholds[:, 0]
            self.threshold_spread_ = self.thresholds_.std(0)

    def _to_probabilities(self, responses: Floats) -> Floats:
        return responses if self.calibration_ is None else self.calibration_.predict_proba(responses)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row by the rule, or 0 and 1 for each label."""
        p = self.predict_proba(X)
        return self.rule_.predict(p).astype(self.classes_.dtype, copy=False)

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities that the rule decides by, one column per class or label."""
        check_is_fitted(self)
        return self._to_probabilities(
            predict_response(self.estimator_, X, self.classes_, self.multilabel_)[0]
        )

    def decision_function(self, X: Any) -> Floats:
        """Return what decides: its sign for two classes (n,) and labels (n, L), else the argmax of (n, d)."""
        p = self.predict_proba(X)
        return self.rule_.margins(p)

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        estimator, parts = pack_estimator(self.estimator_, TRUSTED)
        facts, _ = super()._get_fitted_state()
        facts |= {
            "estimator": estimator,
            "fold_rules": [rule.to_json() for rule in self.fold_rules_],
            "calibration": None if self.calibration_ is None else self.calibration_.to_dict(),
        }
        return facts, parts

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        estimator = facts.get("estimator", {"kind": "skops"})  # absent before format 5
        suffix = "skops" if estimator["kind"] == "skops" else "safetensors"
        named = {f"{name.partition('.')[0]}.{suffix}": content for name, content in parts.items()}
        self.estimator_ = unpack_estimator(estimator, named, TRUSTED)
        self.estimator = self.estimator_ if self.cv == "prefit" else clone(self.estimator_)
        known = self.estimator_.classes_
        if not (
            len(known) == len(self.classes_) if self.multilabel_ else np.array_equal(known, self.classes_)
        ):
            raise expected("folder", "with a classifier for the classes of the model", known)
        self.fold_rules_ = [DecisionRule.from_json(text) for text in facts["fold_rules"]]
        numbers = facts["calibration"]
        self.calibration_ = None if numbers is None else Calibration.from_dict(numbers, self.classes_)
        self._set_thresholds()


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The arguments of `fit`, checked, and what `fit` of the classifier and the splitter receive of them."""

    X: Any
    y: NDArray[Any]
    weight: Floats | None
    groups: NDArray[Any] | None
    fit_params: dict[str, Any]
    #: None without metadata routing: then a splitter receives the groups.
    split_params: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that a classifier was not trained on, with its probabilities or scores for them."""

    rows: Indices
    response: Floats
    is_probability: bool
    estimator: Any


def _fit_fold(estimator: Any, rows: TrainingRows, split: Split, classes: NDArray[Any]) -> HeldOut:
    """Fit a copy of the classifier on the rows to train on, and predict the others."""
    train, held_out = split
    params = _check_method_params(rows.X, rows.fit_params, indices=train)
    model = clone(estimator).fit(_safe_indexing(rows.X, train), rows.y[train], **params)
    response, is_probability = predict_response(
        model, _safe_indexing(rows.X, held_out), classes, multilabel=rows.y.ndim == 2
    )
    return HeldOut(held_out, response, is_probability, model)
