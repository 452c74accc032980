"""Free text as numbers: TF-IDF of words and pairs of words, or of characters, and its main directions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils.extmath import randomized_svd

from evalign._errors import expected
from evalign._typing import Floats, Indices

#: The number of buckets that terms are hashed to, and the most that are used: the most frequent ones.
_BUCKETS, _MAX_TERMS = 1 << 18, 20_000
#: The most directions of a column, and the most rows that they are found with.
_MAX_DIRECTIONS, _MAX_ROWS = 100, 50_000
#: The most characters of a text that are read.
_MAX_LENGTH = 20_000
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """What is remembered of a column of texts: the terms in use, their weights, and directions among them.

    A text becomes the TF-IDF of its terms, scaled to length 1, projected on the directions in which the texts
    of `fit` vary most (latent semantic analysis), and the logarithm of its number of words. Terms are words
    and pairs of neighbouring words or, for scripts without spaces, characters and pairs of them. Terms that
    were not seen in `fit`, or in one text only, count for nothing; a missing text is an empty one.

    >>> texts = np.array(["good and cheap", "bad and cheap", None, "good and fast"] * 5, dtype=object)
    >>> TextFeatures.fit(texts).transform(texts).shape
    (20, 4)
    """

    by_character: bool
    #: The buckets of the terms, sorted, and the inverse document frequency of each.
    buckets: Indices
    weights: Floats
    #: One row per direction, one column per term.
    directions: NDArray[np.float32]

    @classmethod
    def fit(cls, texts: NDArray[np.object_], by_character: bool = False) -> TextFeatures:
        """Find the terms and directions of texts."""
        counts = _count_terms(texts, by_character)
        frequency = np.bincount(counts.indices, minlength=_BUCKETS)
        known = np.flatnonzero(frequency >= 2)
        if len(known) > _MAX_TERMS:
            known = np.sort(known[np.argsort(-frequency[known], kind="stable")[:_MAX_TERMS]])
        weights = np.log((1 + len(texts)) / (1 + frequency[known])) + 1
        empty = np.zeros((0, len(known)), dtype=np.float32)
        start = cls(by_character, known, weights, empty)
        n_directions = min(_MAX_DIRECTIONS, len(known) - 1, len(texts) - 1)
        if n_directions < 1:
            return start
        if len(texts) > _MAX_ROWS:
            counts = counts[np.sort(np.random.default_rng(0).choice(len(texts), _MAX_ROWS, replace=False))]
        _, sizes, directions = randomized_svd(start._weigh(counts), n_directions, random_state=0)
        found = directions[sizes > 1e-6 * sizes[0]] if sizes[0] > 0 else empty
        return cls(by_character, known, weights, found.astype(np.float32))

    @property
    def n_features(self) -> int:
        """The number of features: the directions and the number of words."""
        return len(self.directions) + 1

    def transform(self, texts: NDArray[np.object_]) -> Floats:
        """Return the features of texts."""
        weighted = self._weigh(_count_terms(texts, self.by_character))
        projected = np.asarray(weighted @ self.directions.T.astype(np.float64))
        words = [0 if text is None else len(_WORD.findall(text[:_MAX_LENGTH])) for text in texts]
        return np.concatenate([projected, np.log1p(words)[:, None]], axis=1)

    def _weigh(self, counts: Any) -> Any:
        """The TF-IDF of the terms in use, with rows of length 1."""
        matrix = counts[:, self.buckets]
        matrix.data = (1 + np.log(matrix.data)) * self.weights[matrix.indices]
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return sparse.diags_array(scale).tocsr() @ matrix

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The terms, weights and directions as arrays by name."""
        return {"buckets": self.buckets, "weights": self.weights, "directions": self.directions}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], by_character: bool) -> TextFeatures:
        """Build the features from the result of `to_arrays`, checking every part of it."""
        buckets, weights, directions = (arrays[name] for name in ("buckets", "weights", "directions"))
        valid = (
            buckets.dtype == np.int64 and weights.dtype == np.float64 and directions.dtype == np.float32
            and buckets.ndim == 1 and weights.shape == buckets.shape and directions.ndim == 2
            and directions.shape[1] == len(buckets) <= _MAX_TERMS and len(directions) <= _MAX_DIRECTIONS
            and (np.diff(buckets) > 0).all() and ((buckets >= 0) & (buckets < _BUCKETS)).all()
            and np.isfinite(weights).all() and np.isfinite(directions).all()
        )  # fmt: skip
        if not valid:
            raise expected("model", "with the terms of its texts", "others")
        return cls(by_character, buckets, weights, directions)


def _count_terms(texts: NDArray[np.object_], by_character: bool) -> Any:
    """Count the terms of each text, in a sparse matrix of buckets."""
    kind: dict[str, Any] = {"analyzer": "word", "token_pattern": r"\w+"}
    if by_character:
        kind = {"analyzer": "char"}
    vectorizer = HashingVectorizer(
        n_features=_BUCKETS, ngram_range=(1, 2), alternate_sign=False, norm=None, **kind
    )
    return vectorizer.transform(["" if text is None else text[:_MAX_LENGTH] for text in texts])
