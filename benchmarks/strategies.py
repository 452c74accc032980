"""All strategies of `MetricClassifier` on the data of the papers, on the same splits.

For each dataset and split (80 % to fit, 20 % to test, stratified): the metric on the test part, as is
and with a tuned threshold (two classes: the best of all on the validation rows), and the mean and standard
error of the paired difference from cross-entropy. Every result is appended to a file of JSON lines and
not computed again, so that a killed run resumes.

    EVALIGN_DATA=../shared/data python benchmarks/strategies.py [--datasets mammography ...] [--splits 5]
"""

import argparse
import datetime
import json
import platform
import time
from pathlib import Path

import _data
import numpy as np
import torch
from sklearn.model_selection import StratifiedShuffleSplit

import evalign as ev
from evalign.decisions import fit_rule

DATASETS = ["mammography", "adult", "creditcard", "cocktailparty", "caltech256"]
STRATEGIES = [
    "aligned", "cross_entropy", "weighted_cross_entropy", "focal", "softset", "east", "surrogate_fbeta",
]  # fmt: skip
BINARY_ONLY = {"softset", "surrogate_fbeta"}


def run(name: str, strategy: str, split: int, x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    rest, test = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=split).split(x, y))
    train, valid = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=split).split(x[rest], y[rest]))
    train, valid = rest[train], rest[valid]
    metric = ev.metrics.f1()
    start = time.perf_counter()
    model = ev.MetricClassifier(metric, strategy=strategy, rule=False, random_state=split)
    model.fit(x[train], y[train], validation_data=(x[valid], y[valid]))
    score = metric.score(y[test], model.predict(x[test]))
    seconds = time.perf_counter() - start
    result = {"dataset": name, "strategy": strategy, "split": split, "plain": score, "seconds": seconds}
    result["epochs"] = model.n_iter_
    if len(model.classes_) == 2:
        rule = fit_rule(model.predict_proba(x[valid]), y[valid], metric)
        result["tuned"] = metric.score(y[test], rule.predict(model.predict_proba(x[test])))
    return result


def table(results: list[dict[str, object]]) -> None:
    print("| dataset | strategy | splits | F1 | - cross-entropy | F1, tuned | - cross-entropy, tuned |")
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["dataset"] for row in results):
        own = [row for row in results if row["dataset"] == name]
        base = {row["split"]: row for row in own if row["strategy"] == "cross_entropy"}
        for strategy in STRATEGIES:
            rows = [row for row in own if row["strategy"] == strategy and row["split"] in base]
            if not rows:
                continue
            cells = [name, strategy, str(len(rows))]
            for key in ("plain", "tuned"):
                if key not in rows[0]:
                    cells += ["", ""]
                    continue
                gains = np.array([row[key] - base[row["split"]][key] for row in rows])
                error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
                cells.append(f"{np.mean([row[key] for row in rows]):.3f}")
                cells.append("" if strategy == "cross_entropy" else f"{gains.mean():+.3f} +/- {error:.3f}")
            print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, choices=STRATEGIES)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("strategies.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = (
        [json.loads(line) for line in options.results.read_text().splitlines()]
        if options.results.exists()
        else []
    )
    known = {(row["dataset"], row["strategy"], row["split"]) for row in done}
    for name in options.datasets:
        data = _data.load(name)
        if data is None:
            print(f"{name}: not found; set EVALIGN_DATA")
            continue
        for split in range(options.splits):
            for strategy in options.strategies:
                many = len(np.unique(data[1])) > 2
                if (name, strategy, split) in known or (many and strategy in BINARY_ONLY):
                    continue
                done.append(run(name, strategy, split, *data))
                with options.results.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    machine = f"torch {torch.__version__}, {platform.machine()}, 1 thread"
    print(f"\n{machine}, seeds = splits, {datetime.date.today()}\n")
    table(done)


if __name__ == "__main__":
    main()
