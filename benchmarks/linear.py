"""`MetricLinear` against logistic regression with a fitted rule and with scikit-learn's tuned threshold.

For each table, metric and split (70 % to fit, 30 % to test, stratified): the metric on the test part and the
time of `fit`. All three have the same scaled features, penalty and folds. Every result is appended to a file
of JSON lines and not computed again, so that a killed run resumes. `--speed` prints the time ratio on
30,000 rows with 25 features instead.

    EVALIGN_DATA=../shared/data python benchmarks/linear.py [--tables german ...] [--metrics f1 ...]
"""

import argparse
import datetime
import json
import platform
import time
import warnings
from pathlib import Path

import _data
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evalign as ev
from evalign.estimators import TableEncoder

#: With scikit-learn's names.
METRICS = {"f1": "f1", "mcc": "matthews_corrcoef", "balanced_accuracy": "balanced_accuracy"}
METHODS = ["MetricLinear", "rule", "tuned"]


def build(method: str, metric: str, split: int) -> object:
    if method == "MetricLinear":
        return ev.MetricLinear(metric, random_state=split)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if method == "rule":
        return ev.MetricDecision(pipeline, metric, random_state=split)
    folds = StratifiedKFold(5, shuffle=True, random_state=split)
    return TunedThresholdClassifierCV(pipeline, scoring=METRICS[metric], cv=folds)


def run(name: str, metric: str, split: int, method: str, table: pd.DataFrame, y: np.ndarray) -> dict:
    strata = np.where(np.bincount(y)[y] < 4, np.bincount(y).argmax(), y)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=strata, random_state=split)
    encoder = TableEncoder().fit(table.iloc[train])
    x, x_test = encoder.transform(table.iloc[train]), encoder.transform(table.iloc[test])
    model = build(method, metric, split)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Drew . folds instead of")
        model.fit(x, y[train])
    seconds = time.process_time() - start
    score = ev.metrics.as_metric(metric).score(
        y[test], model.predict(x_test), labels=list(range(y.max() + 1))
    )
    result = {"table": name, "metric": metric, "split": split, "method": method}
    return {**result, "score": score, "seconds": seconds, "chosen": getattr(model, "chosen_", None)}


def difference(gains: np.ndarray) -> str:
    error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    return f"{gains.mean():+.3f} +/- {error:.3f}"


def print_table(results: list[dict], metric: str) -> None:
    print(f"\n**{metric}**\n")
    print("| table | rule | tuned | MetricLinear | - rule | - tuned | trained on the metric | time / rule |")
    print("|---|---|---|---|---|---|---|---|")
    means: dict[str, list[float]] = {"rule": [], "tuned": [], "time": []}
    for name in dict.fromkeys(row["table"] for row in results if row["metric"] == metric):
        own = [row for row in results if (row["table"], row["metric"]) == (name, metric)]
        scores = {
            method: np.array([row["score"] for row in own if row["method"] == method]) for method in METHODS
        }
        linear = scores["MetricLinear"]
        if len(linear) == 0 or len(linear) != len(scores["rule"]):
            continue
        seconds = [sum(row["seconds"] for row in own if row["method"] == method) for method in METHODS[:2]]
        means["rule"].append(float((linear - scores["rule"]).mean()))
        means["time"].append(seconds[0] / seconds[1])
        chosen = [row["chosen"] != "logistic regression" for row in own if row["method"] == "MetricLinear"]
        cells = [name, f"{scores['rule'].mean():.3f}", "", f"{linear.mean():.3f}"]
        cells += [difference(linear - scores["rule"]), "", f"{sum(chosen)} of {len(chosen)}"]
        if len(scores["tuned"]) == len(linear):
            means["tuned"].append(float((linear - scores["tuned"]).mean()))
            cells[2], cells[5] = f"{scores['tuned'].mean():.3f}", difference(linear - scores["tuned"])
        print("| " + " | ".join([*cells, f"{means['time'][-1]:.1f}"]) + " |")
    gains = np.array(means["rule"])
    print(f"\nMean gain over the rule {difference(gains)} ({len(gains)} tables), ", end="")
    print(f"over the tuned threshold {difference(np.array(means['tuned']))} ({len(means['tuned'])} tables); ")
    print(f"time ratio, median {np.median(means['time']):.1f}.")


def print_speed() -> None:
    x, y = make_classification(30_000, 25, n_informative=10, weights=[0.78], flip_y=0.05, random_state=0)
    ev.MetricLinear(random_state=0).fit(x[:500], y[:500])
    times: dict[str, list[float]] = {"rule": [], "linear": []}
    for _ in range(5):
        start = time.process_time()
        ev.MetricDecision(LogisticRegression(), "f1", random_state=0).fit(x, y)
        middle = time.process_time()
        ev.MetricLinear("f1", random_state=0).fit(x, y)
        times["rule"].append(middle - start)
        times["linear"].append(time.process_time() - middle)
    rule, linear = (float(np.median(times[key])) for key in ("rule", "linear"))
    print(f"30,000 x 25, CPU seconds, median of 5: rule {rule:.2f}, MetricLinear {linear:.2f}, ", end="")
    print(f"ratio {linear / rule:.1f}")


def main() -> None:
    known = _data.TABLES
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=known, choices=known)
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=list(METRICS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("linear.jsonl"))
    parser.add_argument("--speed", action="store_true", help="the time ratio on 30,000 rows only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {datetime.date.today()}")
    if options.speed:
        print_speed()
        return
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    done = [json.loads(line) for line in lines]
    known_keys = {(row["table"], row["metric"], row["split"], row["method"]) for row in done}
    for metric in options.metrics:
        for name in options.tables:
            data = _data.load_table(name)
            if data is None:
                print(f"{name}: not found; set EVALIGN_DATA")
                continue
            for split in range(options.splits):
                for method in METHODS if data[1].max() == 1 else METHODS[:2]:
                    if (name, metric, split, method) in known_keys:
                        continue
                    done.append(run(name, metric, split, method, *data))
                    with options.results.open("a") as file:
                        file.write(json.dumps(done[-1]) + "\n")
    for metric in options.metrics:
        print_table([row for row in done if row["table"] in options.tables], metric)


if __name__ == "__main__":
    main()
