"""CatBoost on the log-loss, whose trees are kept as arrays: they predict and load without CatBoost."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from evalign._errors import check_integer, expected, show
from evalign._typing import Floats, Indices
from evalign.boosting import choose_threads
from evalign.estimators._rows import Targets, normalize_weights
from evalign.estimators._validation import ValidationRows

if TYPE_CHECKING:
    from typing_extensions import Self

#: The fraction of the rows that stops the rounds when no validation data is given.
HELD_OUT = 0.15
#: The rows that are predicted at a time, to bound memory.
BLOCK = 4096


@dataclass(frozen=True, eq=False)
class ObliviousTrees:
    """Trees that ask the same question of all branches at a level, so that the answers number the leaf.

    Args:
        features: The feature of each question, (trees, depth).
        borders: A row answers yes if the feature is above, (trees, depth); NaN never is.
        leaves: The values of the leaves, (trees, 2^depth, outputs).
        bias: What is added to the sum of all trees, (outputs,).
    """

    features: Indices
    borders: Floats
    leaves: Floats
    bias: Floats

    @classmethod
    def read(cls, content: dict[str, Any]) -> ObliviousTrees:
        """Read CatBoost's JSON form. Trees of fewer levels get questions that nobody answers with yes."""
        trees = content["oblivious_trees"]
        scale, bias = content["scale_and_bias"]
        n_outputs = len(bias)
        depth = max(len(tree["splits"] or ()) for tree in trees)
        features = np.zeros((len(trees), depth), dtype=np.int64)
        borders = np.full((len(trees), depth), np.inf)
        leaves = np.zeros((len(trees), 1 << depth, n_outputs))
        for number, tree in enumerate(trees):
            for level, split in enumerate(tree["splits"] or ()):
                features[number, level] = split["float_feature_index"]
                borders[number, level] = split["border"]
            values = np.array(tree["leaf_values"]).reshape(-1, n_outputs)
            leaves[number, : len(values)] = scale * values
        return cls(features, borders, leaves, np.array(bias, dtype=np.float64))

    def score(self, X: Floats) -> Floats:
        """The sum over all trees, (n, outputs)."""
        scores = np.empty((len(X), len(self.bias)))
        for start in range(0, len(X), BLOCK):
            block = X[start : start + BLOCK].astype(np.float32)  # as CatBoost compares
            total = np.tile(self.bias, (len(block), 1))
            for features, borders, leaves in zip(self.features, self.borders, self.leaves, strict=True):
                total += leaves[(block[:, features] > borders) @ (1 << np.arange(len(features)))]
            scores[start : start + BLOCK] = total
        return scores

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise unless the arrays fit together: those of a forged file may not."""
        sides = self.features, self.borders, self.leaves, self.bias
        valid = (
            all(isinstance(side, np.ndarray) for side in sides)
            and [side.dtype.kind for side in sides] == ["i", "f", "f", "f"]
            and self.features.ndim == 2
            and self.features.shape == self.borders.shape
            and self.features.shape[1] <= 16
            and self.leaves.shape == (len(self.features), 1 << self.features.shape[1], n_outputs)
            and self.bias.shape == (n_outputs,)
            and ((self.features >= 0) & (self.features < n_features)).all()
            and np.isfinite(self.leaves).all()
            and np.isfinite(self.bias).all()
            and not np.isnan(self.borders).any()
        )
        if not valid:
            raise expected("folder", "with trees as CatBoost has them", "others")


class CatBoost(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """CatBoost with its own settings, stopped early; features are numbers. Requires the extra `catboost`.

    Args:
        n_estimators: The maximum number of rounds.
        patience: The number of rounds without improvement after which it stops.
        n_jobs: The number of threads; None for as many as there is enough work for.
        random_state: The seed.

    >>> X, y = np.arange(200.0)[:, None] % 7, np.arange(200) % 7 > 3
    >>> model = CatBoost(n_estimators=50, n_jobs=1, random_state=0).fit(X, y)
    >>> model.predict(X[:7]).tolist()
    [False, False, False, False, True, True, True]

    References:
        Prokhorenkova et al. (2018), CatBoost: unbiased boosting with categorical features.
    """

    trees_: ObliviousTrees

    def __init__(
        self,
        *,
        n_estimators: int = 1000,
        patience: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation_data: Any = None) -> Self:
        """Boost the trees; `validation_data`, (X, y) or (X, y, sample_weight), stops them."""
        check_integer(n_estimators=self.n_estimators, patience=self.patience)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", ensure_all_finite="allow-nan", ensure_min_samples=2
        )
        targets = Targets.read(y)
        self.classes_ = targets.classes
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = ValidationRows(X, targets.indices, normalize_weights(sample_weight, X))
        if validation_data is None:
            ((fit, held),) = targets.split(1, HELD_OUT, seed, None)
            rows, held_out = _take(rows, fit), _take(rows, held)
        else:
            held_out = self._read_validation(*validation_data)
        self.trees_ = self._boost(rows, held_out, seed)
        self.n_iter_ = len(self.trees_.leaves)
        return self

    def _read_validation(self, X: Any, y: Any, sample_weight: Any = None) -> ValidationRows:
        X = validate_data(self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=False)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise expected("validation_data", "with classes of `y` only", show(unknown[0]))
        return ValidationRows(X, np.searchsorted(self.classes_, y), normalize_weights(sample_weight, X))

    def _boost(self, rows: ValidationRows, held_out: ValidationRows, seed: int) -> ObliviousTrees:
        from catboost import CatBoostClassifier, Pool  # noqa: PLC0415

        model = CatBoostClassifier(
            iterations=int(self.n_estimators), early_stopping_rounds=int(self.patience), random_seed=seed,
            thread_count=choose_threads(rows.X, self.n_jobs), verbose=False,
            loss_function="Logloss" if len(self.classes_) == 2 else "MultiClass",
            classes_count=None if len(self.classes_) == 2 else len(self.classes_), allow_writing_files=False,
        )  # fmt: skip
        sides = [Pool(_as_dense(one.X), one.indices, weight=one.weight) for one in (rows, held_out)]
        model.fit(sides[0], eval_set=sides[1])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.save_model(str(path), format="json")
            return ObliviousTrees.read(json.loads(path.read_text()))

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=False)
        scores = self.trees_.score(_as_dense(X))
        if scores.shape[1] == 1:
            return np.asarray(expit(np.concatenate([-scores, scores], axis=1)))
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def check_trees(self) -> None:
        """Raise unless the trees fit to the features and classes."""
        self.trees_.check(self.n_features_in_, 1 if len(self.classes_) == 2 else len(self.classes_))


def _take(rows: ValidationRows, kept: Indices) -> ValidationRows:
    return ValidationRows(
        rows.X[kept], rows.indices[kept], None if rows.weight is None else rows.weight[kept]
    )


def _as_dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X
