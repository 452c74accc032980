"""Grade from 0 to 4, judged by quadratic kappa: a mistake by two grades costs four times one by one grade.

The same network is trained with cross-entropy, where it predicts the most probable grade, and on the
metric, where it decides by a rule fitted for kappa. Most rows have grade 0, as in screening. Kappa on
new rows is printed for both.

python examples/ordinal_grading.py
"""

import sys

import numpy as np
import torch
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import train_test_split

import evalign as ev


def draw_patients(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and grades: a hidden severity, cut into 65, 15, 10, 6 and 4 % of the rows."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 10)).astype(np.float32)
    severity = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + generator.normal(size=n)
    return X, np.digitize(severity, np.quantile(severity, [0.65, 0.8, 0.9, 0.96]))


def main(small: bool) -> None:
    torch.set_num_threads(1)
    X, y = draw_patients(1000 if small else 8000, seed=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    common = {
        "metric": ev.metrics.cohen_kappa(weights="quadratic"), "hidden": (64, 32),
        "max_epochs": 5 if small else 100, "random_state": 0,
    }  # fmt: skip
    models = {
        "cross-entropy": ev.MetricClassifier(**common, strategy="cross_entropy", rule=False),
        "cross-entropy + rule": ev.MetricClassifier(**common, strategy="cross_entropy"),
        "MetricClassifier": ev.MetricClassifier(**common),
    }
    print(f"quadratic kappa on {len(y_test):,} new rows")
    for name, model in models.items():
        predicted = model.fit(X, y).predict(X_test)
        print(f"{name:20}  {cohen_kappa_score(y_test, predicted, weights='quadratic'):.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
