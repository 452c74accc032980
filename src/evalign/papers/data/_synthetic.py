"""Made-up data whose true probabilities, and so its best decisions, are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from evalign.datasets import Dataset
from evalign.papers.tables import LEVELS

#: The rows of the test part, enough for a standard error of about 0.005 of an F1.
TEST_ROWS = 20000
FEATURES = 6
#: How far the classes are apart.
SLOPE = 1.5


@dataclass(frozen=True)
class Synthetic:
    """Classes drawn from P(y | x) = softmax(1.5 (x W + bend (x^2 - 1) V) + b), with x of six normal features.

    For two classes W and V are one direction each, for more classes one per class; b gives the classes
    their shares. Without `bend` a linear model can represent the probabilities, with it none can.

    Attributes:
        rows: The rows of the training and validation parts.
        share: The share of the rarest class; the others follow geometrically.
        classes: The number of classes.
        noise: The share of labels, outside the test part, that are replaced by another class.
        bend: The size of the quadratic part.
    """

    rows: int = 4000
    share: float = 0.1
    classes: int = 2
    noise: float = 0.0
    bend: float = 1.0

    def draw(self, name: str, seed: int) -> Dataset:
        """Draw new rows with a seed; the last `TEST_ROWS` are the test part.

        >>> data = Synthetic(rows=1000, share=0.2, noise=0.1).draw("toy", seed=0)
        >>> data.X.shape, float(data.y[data.official_test].mean().round(2))
        ((21000, 6), 0.2)
        """
        generator = np.random.default_rng(seed)
        x = generator.normal(size=(self.rows + TEST_ROWS, FEATURES))
        p = self.probabilities(x)
        y = (p.cumsum(1) < generator.random((len(x), 1))).sum(1).clip(max=self.classes - 1)
        wrong = (generator.random(len(x)) < self.noise) & (np.arange(len(x)) < self.rows)
        y[wrong] = (y[wrong] + generator.integers(1, self.classes, wrong.sum())) % self.classes
        return Dataset(
            name=name,
            X=x.astype(np.float32),
            y=y.astype(np.int64),
            feature_names=tuple(f"x{number}" for number in range(FEATURES)),
            class_names=tuple(map(str, range(self.classes))),
            citation="made up",
            official_test=np.arange(self.rows, len(x)),
        )

    def probabilities(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the true probability of each class for each row, (n, classes)."""
        # The same classes for every seed: what differs between trials are the rows.
        generator = np.random.default_rng(0)
        directions = generator.normal(size=(2, FEATURES, self.classes)) / np.sqrt(FEATURES)
        if self.classes == 2:
            directions[:, :, 0] = 0.0
        scores = SLOPE * (x @ directions[0] + self.bend * (x**2 - 1) @ directions[1])
        shares = np.geomspace(1, _first_ratio(self.share, self.classes), self.classes)
        shares /= shares.sum()
        offsets = np.log(shares)
        for _ in range(30):
            offsets += np.log(shares) - np.log(softmax(scores + offsets, axis=1).mean(0))
        return np.asarray(softmax(scores + offsets, axis=1))


def _first_ratio(share: float, classes: int) -> float:
    """The ratio of the rarest to the most frequent class of a geometric series with this smallest share."""
    ratios = np.geomspace(1e-4, 1, 2000)
    smallest = [ratio / np.geomspace(1, ratio, classes).sum() for ratio in ratios]
    return float(np.interp(share, smallest, ratios))


#: The data of the study when-it-pays by name.
SYNTHETIC = {f"synthetic {level}": Synthetic(**given) for level, given in LEVELS.items()}
