"""The time and the value of decision rules, against scikit-learn's search, argmax and LightGBM.

(a) Two classes: `fit_rule` against `TunedThresholdClassifierCV` on the same stored probabilities, so that
only the search is timed. Its time is linear in the number of thresholds; where 1,000 take too long, it is
timed with two smaller numbers, and the time of 1,000 is extrapolated (and labelled so). (b) Ten unbalanced
classes: `fit_rule` against argmax and one threshold per class. (c) `MetricBooster(n_bags=1)` against LightGBM
with the same settings, early stopping on the same fraction of rows, and a threshold search.

    python benchmarks/decisions.py [--rows 1000000] [--thresholds 10 30] [--turns 3]

`--thresholds 1000` times the complete search of scikit-learn.
"""

import argparse
import datetime
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

import evalign as ev
from evalign.decisions import fit_rule

GRID = 1000


class Stored(ClassifierMixin, BaseEstimator):
    """A classifier that looks its probabilities up by row number."""

    def __init__(self, probabilities: np.ndarray | None = None) -> None:
        self.probabilities = probabilities

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Stored":
        """Learn nothing."""
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the stored rows."""
        return self.probabilities[X[:, 0]]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict the class with the larger probability."""
        return self.predict_proba(X).argmax(1)


def measure(run: Callable[[], Any], turns: int = 1) -> tuple[float, Any]:
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def two_classes(rows: int, thresholds: list[int], turns: int) -> None:
    generator = np.random.default_rng(0)
    y = (generator.random(rows) < 0.05).astype(np.int64)
    second = 1 / (1 + np.exp(4 - 2 * y - generator.normal(size=rows)))
    p = np.stack([1 - second, second], axis=1)
    ours, rule = measure(lambda: fit_rule(p, y, "f1"), turns)

    x = np.arange(rows)[:, None]
    stored = FrozenEstimator(Stored(p).fit(x, y))

    def search(count: int) -> TunedThresholdClassifierCV:
        return TunedThresholdClassifierCV(
            stored, scoring="f1", thresholds=count, cv="prefit", refit=False
        ).fit(x, y)

    times = {count: measure(lambda count=count: search(count)) for count in sorted(thresholds)}
    counts = sorted(times)
    if GRID in times:
        theirs, how = times[GRID][0], "measured"
    else:
        (few, _), (many, _) = times[counts[0]], times[counts[-1]]
        each = (many - few) / (counts[-1] - counts[0])
        theirs, how = few + each * (GRID - counts[0]), f"extrapolated from {counts[0]} and {counts[-1]}"
    # The best value on its grid of 1,000 thresholds, computed here.
    order = np.argsort(-second)
    hits = np.append(0, np.cumsum(y[order]))
    cuts = np.searchsorted(-second[order], -np.linspace(second.min(), second.max(), GRID), side="right")
    reach = (2 * hits[cuts] / (cuts + y.sum())).max()
    print(f"(a) two classes, {rows:,} rows, 5 % positive, F1\n")
    print("| search | thresholds | seconds | F1 |\n|---|---|---|---|")
    for count, (seconds, model) in times.items():
        print(f"| TunedThresholdClassifierCV | {count} | {seconds:.2f} | {model.best_score_:.6f} |")
    if GRID not in times:
        print(f"| TunedThresholdClassifierCV | {GRID} ({how}) | {theirs:.1f} | {reach:.6f} |")
    print(f"| fit_rule | all distinct | {ours:.2f} | {rule.value:.6f} |")
    print(f"\n{theirs / ours:.0f}x faster (promised: 20x), value {rule.value - reach:+.6f}\n", flush=True)


def ten_classes(rows: int = 50_000, d: int = 10) -> None:
    generator = np.random.default_rng(0)
    share = 1.0 / np.arange(1, d + 1) ** 1.5
    share /= share.sum()
    y = generator.choice(d, rows, p=share)
    scores = generator.normal(size=(rows, d)) + np.log(share)
    scores[np.arange(rows), y] += 2.0
    p = np.exp(scores)
    p /= p.sum(1, keepdims=True)
    print(f"(b) {d} classes, {rows:,} rows, shares {share[0]:.2f} to {share[-1]:.3f}\n")
    print("| metric | argmax | threshold per class, difference | quotient | fit_rule | seconds |")
    print("|---|---|---|---|---|---|")
    for name in ("f1", "mcc", "balanced_accuracy"):
        metric = ev.metrics.as_metric(name)
        seconds, rule = measure(lambda metric=metric: fit_rule(p, y, metric))
        t = np.array([fit_rule(p[:, j], (y == j).astype(int), metric).threshold for j in range(d)])
        rivals = [metric.score(y, g.argmax(1)) for g in (p, p - t, p / t.clip(1e-6))]
        values = " | ".join(f"{value:.4f}" for value in [*rivals, rule.value])
        print(f"| {name} | {values} | {seconds:.1f} |", flush=True)


def boosted(turns: int) -> None:
    print("\n(c) MetricBooster(n_bags=1) against LightGBM with early stopping and a threshold search, F1\n")
    import lightgbm

    print(
        f"lightgbm {lightgbm.__version__}, 1 thread; median of {turns}; F1 on 30 % of the rows, one split\n"
    )
    print("| data | rows | LightGBM, s | MetricBooster, s | ratio | F1, LightGBM | F1, MetricBooster |")
    print("|---|---|---|---|---|---|---|")
    for name, (x, y) in tables().items():
        x, new, y, truth = train_test_split(x, y, test_size=0.3, stratify=y, random_state=0)
        booster = ev.estimators.MetricBooster("f1", n_bags=1, n_jobs=1, random_state=0)
        times: list[tuple[float, float]] = []
        for _ in range(turns):
            theirs, (model, threshold) = measure(partial(peer, booster, x, y))
            ours, _ = measure(partial(booster.fit, x, y))
            times.append((theirs, ours))
        theirs, ours = (statistics.median(side) for side in zip(*times, strict=True))
        plain = f1_score(truth, model.predict(new) >= threshold)
        print(
            f"| {name} | {len(y):,} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f}x (promised: 2.5x) "
            f"| {plain:.4f} | {f1_score(truth, booster.predict(new)):.4f} |",
            flush=True,
        )


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    from sklearn.datasets import make_classification

    mammography = ev.datasets.load("mammography")
    synthetic = make_classification(
        60_000, 30, n_informative=12, weights=[0.95], flip_y=0.02, class_sep=0.8, random_state=0
    )
    return {"mammography": (mammography.X, mammography.y), "synthetic": synthetic}


def peer(booster: Any, x: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """Train LightGBM like the booster, with early stopping on as many rows, and fit a threshold."""
    import lightgbm

    params = booster.get_params()
    train, held, y_train, y_held = train_test_split(
        x, y, test_size=params["validation_fraction"], stratify=y, random_state=0
    )
    settings = {name: params[name] for name in ("learning_rate", "num_leaves", "min_child_samples")} | {
        "objective": "binary", "num_threads": params["n_jobs"], "seed": 0, "verbosity": -1,
        "deterministic": True, "force_row_wise": True, **(params["params"] or {}),
    }  # fmt: skip
    rows = lightgbm.Dataset(train, y_train)
    model = lightgbm.train(
        settings, rows, params["n_estimators"], valid_sets=[rows.create_valid(held, y_held)],
        callbacks=[lightgbm.early_stopping(params["patience"], verbose=False)],
    )  # fmt: skip
    return model, fit_rule(model.predict(held), y_held, "f1").threshold


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of (a)")
    parser.add_argument("--thresholds", type=int, nargs="+", default=[10, 30], help="of scikit-learn in (a)")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if len(set(options.thresholds)) < 2 and GRID not in options.thresholds:
        parser.error(f"--thresholds needs two numbers, or {GRID}")
    torch.set_num_threads(1)
    print(
        f"evalign {ev.__version__}, scikit-learn {sklearn.__version__}, torch {torch.__version__}, "
        f"{platform.machine()}, 1 thread, seed 0, {datetime.date.today()}\n"
    )
    two_classes(options.rows, options.thresholds, options.turns)
    ten_classes()
    boosted(options.turns)


if __name__ == "__main__":
    main()
