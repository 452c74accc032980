"""Recall at precision >= 0.9 on unseen rows: by the rule, in training, and by boosting.

For each split (80 % to fit, 20 % to test, stratified): precision and recall on the test part of a
network trained under the constraint, and of a network and boosted trees decided by a rule that satisfies it
on held-out rows, without and with a margin for new rows (`confidence=0.95`).

    EVALIGN_DATA=../shared/data python benchmarks/constraints.py [--splits 5] [--rows 20000]
"""

import argparse
import datetime
import platform
import warnings

import _data
import numpy as np
import torch
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import StratifiedShuffleSplit

import evalign as ev

CONSTRAINTS = ["precision >= 0.9"]


def methods(seed: int) -> dict[str, object]:
    network = {"hidden": (128, 64), "learning_rate": 3e-3, "random_state": seed}
    plain = ev.MetricClassifier("recall", strategy="cross_entropy", rule=False, **network)
    return {
        "rule": ev.MetricDecision(plain, "recall", CONSTRAINTS, cv=5, random_state=seed),
        "rule, confidence 0.95": ev.MetricDecision(
            plain, "recall", CONSTRAINTS, cv=5, confidence=0.95, random_state=seed
        ),
        "loss": ev.MetricClassifier("recall", CONSTRAINTS, rule=False, **network),
        "loss and rule": ev.MetricClassifier("recall", CONSTRAINTS, **network),
        "booster": ev.MetricBooster("recall", CONSTRAINTS, n_jobs=1, random_state=seed),
        "booster, confidence 0.95": ev.MetricBooster(
            "recall", CONSTRAINTS, confidence=0.95, n_jobs=1, random_state=seed
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=["mammography", "adult"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, help="the maximum number of rows, stratified")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{platform.machine()}, 1 thread, seeds = splits, {datetime.date.today()}\n")
    print("| data | rows | method | precision >= 0.9 | precision (lowest) | recall |")
    print("|---|---|---|---|---|---|")
    for name in options.datasets:
        data = _data.load(name)
        if data is None:
            print(f"| {name} | not found: set EVALIGN_DATA | | | | |")
            continue
        x, y = _data.sample_rows(*data, options.rows)
        scores: dict[str, list[tuple[float, float]]] = {}
        for split in range(options.splits):
            train, test = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=split).split(x, y))
            for method, model in methods(split).items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # a violation is in the table
                    guess = model.fit(x[train], y[train]).predict(x[test])
                pair = (f(y[test], guess, zero_division=1.0) for f in (precision_score, recall_score))
                scores.setdefault(method, []).append(tuple(pair))
        for method, pairs in scores.items():
            precision, recall = np.array(pairs).T
            satisfied = int((precision >= 0.9).sum())
            print(
                f"| {name} | {len(y):,} | {method} | {satisfied} of {len(pairs)} splits "
                f"| {precision.mean():.3f} ({precision.min():.3f}) "
                f"| {recall.mean():.3f} +/- {recall.std(ddof=1) / len(recall) ** 0.5:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
