"""`AutoClassifier`: an ensemble for the metric, cross-fitted, with the evidence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_is_fitted

from evalign._errors import check_integer, expected, is_number, show
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import DecisionRule, Goal
from evalign.estimators import SaveMixin, Split, draw_splits
from evalign.selection._progress import FitProgress
from evalign.selection._store import FoldStore
from evalign.selection.comparison import Comparison, draw_seed, summarize
from evalign.selection.ensemble import Ensemble, FittedMember, pack_ensemble, unpack_ensemble
from evalign.selection.folds import Clock, FoldModel, FoldTask, Schedule, as_seconds, run_tasks
from evalign.selection.members import KNOWN, MEMBERS, fit_on_all, list_members
from evalign.selection.methods import Builder, Methods, find_builders
from evalign.selection.mixture import (
    HeldOutScores,
    Judged,
    Mixture,
    find_useless,
    fit_mixture,
    judge_nested,
)
from evalign.selection.problem import Problem
from evalign.selection.trials import Trial

if TYPE_CHECKING:
    from typing_extensions import Self

#: The row of the ensemble in the comparison.
ENSEMBLE = "ensemble"
#: With more rows than this, a sample of them chooses the members.
MANY_ROWS = 100_000
#: The number of rows of that sample, and its share of the time limit.
SAMPLE, SHARE = 30_000, 0.3
#: A fold with fewer rows cannot tell whether a member helps.
ENOUGH_ROWS = 1_000


class AutoClassifier(SaveMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble of classifiers for the metric, with the evidence that it is better than its members.

    Each member is fitted once without each fold, which validates it, and kept. Its out-of-fold probabilities
    are calibrated and mixed, and one decision rule for the metric is fitted on the mixture. All of that is
    judged by cross-fitting, too: calibration, weights and rule are fitted on other folds than those that
    judge. Where the best member alone is clearly better there, it is the answer.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `metrics.precision() >= 0.9`, or "precision >= 0.9"; what satisfies
            them on average over the folds comes first.
        methods: Names of `evalign.selection.MEMBERS` (None: all that are installed) or of `METHODS`, in the
            order in which they are fitted; or a dictionary of names and classifiers.
        cv: The number of folds (None: 5); a fraction in (0, 1) for one split; a splitter of scikit-learn; or
            pairs (train, test) of row numbers.
        preprocessor: A transformer for the features, fitted anew without each fold. With it the features need
            not be numbers.
        time_limit: Seconds, or a text such as "90s", "10m" or "1.5h", after which there is an answer; what
            was left out is in `left_out_`. Folds that are not finished then are stopped, except those of the
            first member.
        max_models: The largest number of members in the ensemble; None for any.
        refit: Predict by one model per member, fitted on all rows, instead of one per fold. Prediction is
            faster, and fitting takes longer.
        checkpoint: A folder for finished fold models; a killed `fit` that is called again with the same
            settings and data fits only what is missing. Requires an integer `random_state`.
        n_jobs: The number of models fitted at a time, with one thread each; None fits one at a time and
            leaves the threads to the libraries, or does what `joblib.parallel_config` says (Dask, Ray).
        random_state: The seed of the folds and of the members.
        verbose: 1 shows progress on standard error.

    Attributes:
        ensemble_: The fitted `Ensemble` that predicts.
        members_: Its members: names, weights and models.
        weights_: The weight of each member by name.
        rule_: The decision rule.
        answer_: "ensemble", or the name of the single member that is the answer.
        comparison_: The `Comparison` of the members, each with a rule of its own, and the ensemble.
        best_method_: The name of the best single member.
        best_single_: The best member alone, as an `Ensemble` of one.
        left_out_: Why methods are not among the members: an error, or the time.
        out_of_fold_: What each member, and the ensemble, predicts for held-out rows, by name.
        classes_: The class labels, sorted; for multilabel targets the numbers of the labels.

    An interruption by Ctrl-C ends `fit` early, with the members that are complete; if there is none,
    `KeyboardInterrupt` is raised.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> methods = {"bayes": GaussianNB(), "logistic": LogisticRegression()}
    >>> model = AutoClassifier("f1", methods=methods, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, sorted(row.method for row in model.comparison_.rows)
    ((5,), ['bayes', 'ensemble', 'logistic'])
    """

    # Parts are named by member, fold and suffix.
    _part_suffix = ""
    # What a model was chosen from, and prepared by before it was fitted, is not part of the model.
    _unsaved_settings = ("methods", "preprocessor", "checkpoint")

    comparison_: Comparison
    rule_: DecisionRule
    ensemble_: Ensemble
    best_single_: Ensemble

    def __init__(
        self,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        methods: Methods = None,
        cv: Any = 5,
        preprocessor: Any = None,
        time_limit: float | str | None = None,
        max_models: int | None = None,
        refit: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.methods = methods
        self.cv = cv
        self.preprocessor = preprocessor
        self.time_limit = time_limit
        self.max_models = max_models
        self.refit = refit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        methods = list(self.methods.values()) if isinstance(self.methods, Mapping) else ["named"]
        inputs = [get_tags(method).input_tags for method in methods if not isinstance(method, str)]
        any_named = len(inputs) < len(methods)
        tags.input_tags.sparse = any_named or any(one.sparse for one in inputs)
        tags.input_tags.allow_nan = any_named or any(one.allow_nan for one in inputs)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the members without each fold, and mix them.

        Args:
            X: The features. Classifiers of your own get them as they are; named methods take
                numbers and DataFrames; anything else needs a `preprocessor`.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows, both for fitting and for the metric on the held-out rows.
            groups: The group of each row; rows of one group are either all trained on or all held out.
        """
        return self.fit_problem(
            Problem.check(X, y, self.metric, self.constraints, self.preprocessor, sample_weight, groups)
        )

    def fit_problem(self, problem: Problem) -> Self:
        """Fit on a problem that is already checked, with its own metric, constraints and preprocessor."""
        clock = Clock(as_seconds(self.time_limit))
        if self.max_models is not None:
            check_integer(max_models=self.max_models)
        seed = draw_seed(self.random_state, self.checkpoint, "checkpoint")
        builders = find_builders(self.methods, problem, KNOWN if self.methods is not None else list_members())
        if ENSEMBLE in builders:
            raise expected("methods", f"with other names than {ENSEMBLE!r}", show(list(builders)))
        self.left_out_: dict[str, str] = {}
        if len(problem.y) > MANY_ROWS and len(builders) > 1:
            builders = self._choose_members(problem, builders, seed, clock)
        splits = draw_splits(self.cv, problem.X, problem.y, problem.groups, seed, allow_rare=True)
        preprocessors = _fit_preprocessors(problem, splits)
        results, judged, reasons = self._fit_members(problem, builders, splits, preprocessors, seed, clock)
        folds = _find_complete(results, len(splits))
        complete = {
            name: [own[fold] for fold in folds] for name, own in results.items() if set(folds) <= own.keys()
        }
        if preprocessors is not None:
            preprocessors = tuple(preprocessors[fold] for fold in folds)
        self.left_out_ |= {
            name: reasons.get(name, "the time was over") for name in builders if name not in complete
        }
        self._mix(problem, complete, judged, [splits[fold] for fold in folds], preprocessors, seed)
        if self.refit:
            self._refit(problem, builders, seed)
        self.classes_, self.multilabel_ = problem.classes, problem.is_multilabel
        self._set_features()
        return self

    def _choose_members(
        self, problem: Problem, builders: dict[str, Builder], seed: int, clock: Clock
    ) -> dict[str, Builder]:
        """Return the members that are in the mixture of a sample of the rows; only they see all rows."""
        rows = draw_sample(problem.y, SAMPLE, seed)
        scout = clone(self).set_params(checkpoint=None, refit=False, random_state=seed)
        scout.set_params(time_limit=None if clock.limit is None else clock.limit * SHARE)
        if not (self.cv is None or is_number(self.cv)):  # its rows, or groups of rows, are others
            scout.set_params(cv=None)
        scout.fit_problem(problem.take(rows))
        why = f"not in the mixture of a sample of {len(rows):,} rows"
        self.left_out_ = {
            name: scout.left_out_.get(name, why) for name in builders if name not in scout.weights_
        }
        return {name: builders[name] for name in builders if name in scout.weights_}

    def _fit_members(
        self,
        problem: Problem,
        builders: dict[str, Builder],
        splits: Sequence[Split],
        preprocessors: tuple[Any, ...] | None,
        seed: int,
        clock: Clock,
    ) -> tuple[dict[str, dict[int, FoldModel]], dict[str, Judged], dict[str, str]]:
        """Fit every member without each fold in the time there is, and judge those that are complete.

        Returns the models, what complete members do, and why others lack.
        """
        seeds = np.random.RandomState(seed).randint(2**31 - 1, size=len(splits)).tolist()
        tasks = {
            (name, fold): FoldTask(
                name, fold, partial(build, seeds[fold]), split,
                None if preprocessors is None else preprocessors[fold],
            )
            for name, build in builders.items() for fold, split in enumerate(splits)
        }  # fmt: skip
        store = None if self.checkpoint is None else FoldStore.open(self.checkpoint, problem.identity)
        costs = {name: MEMBERS.get(name, MEMBERS["lightgbm"]).guess_cost(problem) for name in builders}
        schedule = Schedule(costs, len(splits), clock, effective_n_jobs(self.n_jobs))
        results: dict[str, dict[int, FoldModel]] = {name: {} for name in builders}
        judged: dict[str, Judged] = {}
        with FitProgress(problem, schedule, bool(self.verbose)) as progress:

            def keep(result: FoldModel) -> None:
                schedule.record(result)
                own = results[result.member]
                if result.error is None:
                    own[result.fold] = result
                    _drop_useless(result, results, problem, splits, schedule)
                    if len(own) == len(splits):  # while the others are fitted
                        judged[result.member] = _judge(problem, _sort(own), splits, seed)
                progress.show(result, own, judged.get(result.member))

            stored = () if store is None else map(store.read, tasks.values())
            for known in stored:
                if known is not None:
                    keep(known)
            try:
                timed = (replace(tasks[key], deadline=schedule.find_deadline(key[0])) for key in schedule)
                for result in run_tasks(timed, problem, self.n_jobs):
                    keep(result)
                    if store is not None and result.error is None:
                        store.write(tasks[result.member, result.fold], result)
            except KeyboardInterrupt:
                if not any(len(own) == len(splits) for own in results.values()):
                    raise
                for name in builders:
                    schedule.drop(name, "interrupted")
        _check_any(results, schedule.left_out, builders)
        return results, judged, schedule.left_out

    def _mix(
        self,
        problem: Problem,
        results: dict[str, list[FoldModel]],
        judged: dict[str, Judged],
        splits: Sequence[Split],
        preprocessors: tuple[Any, ...] | None,
        seed: int,
    ) -> None:
        """Weight the members, fit the rule, and judge both by cross-fitting, as the members were."""
        rows = np.concatenate([held_out for _, held_out in splits])
        held_out, parts = _gather(problem, results, splits, rows, seed)
        goal = _get_goal(problem)
        judged = {
            name: judged.get(name) or _judge(problem, own, splits, seed) for name, own in results.items()
        }
        if len(results) > 1:
            judged[ENSEMBLE] = judge_nested(held_out, parts, goal, problem.classes, self.max_models)
        self.comparison_ = _compare(problem, judged, results, splits)
        self.best_method_ = self.comparison_.reference

        def build(names: Sequence[str], mixture: Mixture) -> Ensemble:
            members = [
                FittedMember(name, float(weight), tuple(one.model for one in results[name]), calibrator)
                for name, weight, calibrator in zip(names, mixture.weights, mixture.calibrators, strict=True)
                if weight > 0
            ]
            return Ensemble(
                tuple(members), preprocessors, mixture.final, mixture.rule, problem.classes,
                problem.is_multilabel,
            )  # fmt: skip

        alone = held_out.only([list(results).index(self.best_method_)])
        self.best_single_ = build([self.best_method_], fit_mixture(alone, goal, problem.classes))
        self.answer_ = choose_answer(self.comparison_)
        self._set_answer(self.best_single_)
        if self.answer_ == ENSEMBLE:
            mixture = fit_mixture(held_out, goal, problem.classes, self.max_models)
            self._set_answer(build(list(results), mixture))
        self.validation_score_ = float(judged[self.answer_].values.mean())
        folds = np.repeat(np.arange(len(splits)), [len(one) for _, one in splits])
        self.out_of_fold_ = {
            name: OutOfFold(rows, folds, own.probabilities, own.predicted) for name, own in judged.items()
        }
        if not self.rule_.feasible:
            violations = ", ".join(f"{name} by {by:.4f}" for name, by in self.rule_.violations.items())
            warnings.warn(
                f"No rule satisfies the constraints on the held-out rows; violated: {violations}.",
                stacklevel=4,
            )

    def _set_answer(self, ensemble: Ensemble) -> None:
        self.ensemble_, self.members_, self.rule_ = ensemble, ensemble.members, ensemble.rule
        self.weights_ = {member.name: member.weight for member in ensemble.members}

    def _refit(self, problem: Problem, builders: dict[str, Builder], seed: int) -> None:
        """Replace the models of the folds by one per member that is fitted on all rows."""
        preprocessors = _fit_preprocessors(problem, [(np.arange(len(problem.y)), np.arange(0))])
        prepare = (lambda X: X) if preprocessors is None else preprocessors[0].transform

        def refit(member: FittedMember) -> FittedMember:
            model = fit_on_all(builders[member.name](seed), problem, list(member.models), prepare)
            return replace(member, models=(model,))

        members = tuple(refit(member) for member in self.ensemble_.members)
        self._set_answer(replace(self.ensemble_, members=members, preprocessors=preprocessors))

    def _set_features(self) -> None:
        """Adopt what the preprocessor, or else the first model, knows about the features."""
        fitted = self.members_[0].models[0]
        if self.ensemble_.preprocessors is not None:
            fitted = self.ensemble_.preprocessors[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, or 0 and 1 for each label."""
        check_is_fitted(self)
        return self.ensemble_.predict(X)

    def predict_proba(self, X: Any) -> Floats:
        """Predict the calibrated probability of each class or label, which the rule decides by."""
        check_is_fitted(self)
        return self.ensemble_.predict_proba(X)

    def decision_function(self, X: Any) -> Floats:
        """Return what decides: its sign for two classes (n,) and labels (n, L), else the argmax of (n, d)."""
        p = self.predict_proba(X)
        return self.rule_.margins(p)

    @classmethod
    def load(cls, folder: str | PathLike[str], trusted: Sequence[str] = ()) -> Self:
        """Load a classifier that `save` wrote; nothing in the files is executed.

        `trusted` are types of a preprocessor beyond those of scikit-learn, as in skops. What `best_single_`
        and `out_of_fold_` are of is not saved.
        """
        return cls._load(folder, trusted=tuple(trusted))

    @classmethod
    def unpack(cls, facts: dict[str, Any], parts: dict[str, bytes], **settings: Any) -> Self:
        """Restore a fitted classifier from what `pack` returned."""
        trusted = settings.pop("trusted", ())
        model = super().unpack(facts, parts, **settings)
        model._set_answer(
            unpack_ensemble(facts["ensemble"], parts, model.rule_, model.classes_, model.multilabel_, trusted)
        )
        return model

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        facts, _ = super()._get_fitted_state()
        ensemble, parts = pack_ensemble(self.ensemble_)
        facts |= {
            "ensemble": ensemble, "best_method": self.best_method_, "answer": self.answer_,
            "left_out": self.left_out_,
            "comparison": self.comparison_.to_json(),
        }  # fmt: skip
        return facts, parts

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        self.best_method_, self.answer_ = str(facts["best_method"]), str(facts["answer"])
        self.left_out_ = dict(facts["left_out"])
        self.comparison_ = Comparison.from_json(facts["comparison"])


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What is predicted for held-out rows by models, weights and a rule that were fitted without them.

    Attributes:
        rows: The numbers of the rows.
        folds: The fold of each row: the place of the models that were fitted without it.
        probabilities: Their probabilities of each class or label.
        predicted: Their classes, or 0 and 1 for each label.
    """

    rows: Indices
    folds: Indices
    probabilities: Floats
    predicted: NDArray[Any]


def draw_sample(y: NDArray[Any], size: int, seed: int, least: int = 100) -> Indices:
    """Draw about `size` rows, the same share of every class, but `least` rows of it if it has them.

    >>> y = np.repeat(["often", "rare"], [10_000, 150])
    >>> np.unique(y[draw_sample(y, 1000, seed=0)], return_counts=True)[1].tolist()
    [985, 100]
    """
    generator = np.random.default_rng(seed)
    if y.ndim == 2:
        return np.sort(generator.permutation(len(y))[:size])
    parts = []
    for label in np.unique(y):
        own = generator.permutation(np.flatnonzero(y == label))
        parts.append(own[: max(least, round(size * len(own) / len(y)))])
    return np.sort(np.concatenate(parts))


def choose_answer(comparison: Comparison) -> str:
    """Return the ensemble, unless its best member is clearly better, or violates the constraints less.

    The best of several members seems to be better than it is, so the interval of the difference is widened by
    their number (Bonferroni). Choosing by the mean alone costs most of what mixing gains.
    """
    single = comparison.row(comparison.reference)
    if all(row.method != ENSEMBLE for row in comparison.rows):
        return single.method
    mixed = comparison.row(ENSEMBLE)
    if mixed.slack is not None and single.slack is not None and min(mixed.slack, 0) < min(single.slack, 0):
        return single.method
    if mixed.interval is None or mixed.difference is None:
        return ENSEMBLE
    freedom, n_members = len(mixed.values) - 1, len(comparison.rows) - 1
    wider = student.ppf(1 - 0.025 / n_members, freedom) / student.ppf(0.975, freedom)
    half = wider * (mixed.interval[1] - mixed.interval[0]) / 2
    sign = 1 if comparison.higher_is_better else -1
    return single.method if sign * mixed.difference + half < 0 else ENSEMBLE


def _fit_preprocessors(problem: Problem, splits: Sequence[Split]) -> tuple[Any, ...] | None:
    """Fit the preprocessor on the rows to train on of each split."""
    if problem.preprocessor is None:
        return None
    return tuple(
        clone(problem.preprocessor).fit(_safe_indexing(problem.X, train), problem.y[train])
        for train, _ in splits
    )


def _drop_useless(
    result: FoldModel,
    results: dict[str, dict[int, FoldModel]],
    problem: Problem,
    splits: Sequence[Split],
    schedule: Schedule,
) -> None:
    """Fit no further folds of a member whose first fold shows that it cannot help."""
    rows = splits[result.fold][1]
    names = [name for name, own in results.items() if result.fold in own]
    if len(results[result.member]) > 1 or len(names) < 2 or len(rows) < ENOUGH_ROWS:
        return
    models = {name: [results[name][result.fold]] for name in names}
    held_out, _ = _gather(problem, models, [splits[result.fold]], rows, seed=0)
    if names.index(result.member) in find_useless(held_out):
        schedule.drop(result.member, "its first fold shows that it does not help")


def _find_complete(results: dict[str, dict[int, FoldModel]], n_folds: int) -> list[int]:
    """The folds to use: all, if some member has all, else those of the first member with any."""
    if any(len(own) == n_folds for own in results.values()):
        return list(range(n_folds))
    return sorted(next(own for own in results.values() if own))


def _check_any(results: Mapping[str, Any], reasons: dict[str, str], builders: Mapping[str, Any]) -> None:
    """Raise if no member has any fold."""
    if not any(results.values()):
        errors = {name: reasons[name].removeprefix("failed: ") for name in builders}
        kind = TypeError if all(error.startswith("TypeError") for error in errors.values()) else ValueError
        raise kind(f"All methods failed: {'; '.join(f'{name}: {error}' for name, error in errors.items())}")


def _get_goal(problem: Problem) -> Goal:
    return Goal(problem.metric, problem.constraints, labels=problem.is_multilabel)


def _judge(problem: Problem, models: list[FoldModel], splits: Sequence[Split], seed: int) -> Judged:
    """Judge a member alone, with a calibration and a rule of its own."""
    rows = np.concatenate([held_out for _, held_out in splits])
    held_out, parts = _gather(problem, {models[0].member: models}, splits, rows, seed)
    return judge_nested(held_out, parts, _get_goal(problem), problem.classes)


def _sort(models: dict[int, FoldModel]) -> list[FoldModel]:
    return [models[fold] for fold in sorted(models)]


def _gather(
    problem: Problem,
    results: dict[str, list[FoldModel]],
    splits: Sequence[Split],
    rows: Indices,
    seed: int,
) -> tuple[HeldOutScores, Indices]:
    """Put the scores of all folds together, and say which part each row is judged in."""
    scores = np.stack([np.concatenate([one.scores for one in own]) for own in results.values()])
    y = problem.y[rows] if problem.is_multilabel else np.searchsorted(problem.classes, problem.y[rows])
    weight = None if problem.sample_weight is None else problem.sample_weight[rows]
    parts = np.repeat(np.arange(len(splits)), [len(held_out) for _, held_out in splits])
    if len(splits) == 1:  # weights and rule need rows that do not judge them
        parts = _divide(y, seed)
    return HeldOutScores(scores, y, weight), parts


def _divide(y: Indices, seed: int, n_parts: int = 5) -> Indices:
    """Divide the rows of one split into parts."""
    n_parts = max(2, min(n_parts, len(y) if y.ndim == 2 else int(np.bincount(y).max())))
    splitter = (KFold if y.ndim == 2 else StratifiedKFold)(n_parts, shuffle=True, random_state=seed)
    parts = np.zeros(len(y), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        for number, (_, own) in enumerate(splitter.split(np.zeros(len(y)), y)):
            parts[own] = number
    return parts


def _compare(
    problem: Problem,
    judged: dict[str, Judged],
    results: dict[str, list[FoldModel]],
    splits: Sequence[Split],
) -> Comparison:
    """Summarize the members and the ensemble; the reference is the best member."""
    trials = {}
    for name, own in judged.items():
        folds = results.get(name) or [one for models in results.values() for one in models]
        n_fits = len(folds) / (1 if name in results else len(results))
        times = [sum(getattr(one, kind) for one in folds) / n_fits for kind in ("fit_time", "predict_time")]
        trials[name] = [
            Trial(name, part, float(value), tuple(slacks.tolist()), *times)
            for part, (value, slacks) in enumerate(zip(own.values, own.slacks, strict=True))
        ]
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    names = tuple(one.name for one in problem.constraints)

    def compare_with(reference: str, methods: Sequence[str]) -> Comparison:
        rows = tuple(summarize(trials[name], trials[reference], ratio) for name in methods)
        return Comparison(problem.metric.name, problem.metric.higher_is_better, reference, names, rows)

    members = list(results)
    return compare_with(compare_with(members[0], members).best, list(trials))
