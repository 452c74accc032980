"""What a decision rule is worth on new rows: by labels, by probabilities, and by both.

For each table, split (half to fit, half to test, stratified) and model: `fit_rule` on out-of-fold
probabilities of the first half, and the metric of its decisions on the second, compared with argmax. Every
result is appended to a file of JSON lines and not computed again, so that a killed run resumes.

    EVALIGN_DATA=../shared/data python benchmarks/rules.py [--tables german ...] [--splits 5]
"""

import argparse
import datetime
import json
import platform
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import _data
import lightgbm as lgb
import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evalign import metrics
from evalign.decisions import fit_rule
from evalign.estimators import TableEncoder

METRICS = ["f1", "mcc", "balanced_accuracy"]
EVIDENCE = ["labels", "mixed", "probabilities"]
#: The search by labels takes long for more than two classes beyond this many probabilities.
MOST = 10_000
#: Tables are cut to this many rows.
ROWS = 6_000


def build(model: str, seed: int) -> object:
    """Return an unfitted classifier by name."""
    if model == "LightGBM":
        return lgb.LGBMClassifier(
            n_estimators=100, num_leaves=15, learning_rate=0.08, n_jobs=1, verbose=-1, random_state=seed
        )
    if model == "extra trees":
        return ExtraTreesClassifier(200, min_samples_leaf=2, random_state=seed)
    if model == "logistic regression":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return make_pipeline(StandardScaler(), MLPClassifier((32,), max_iter=60, random_state=seed))


MODELS = ["LightGBM", "extra trees", "logistic regression", "network"]


def predict(model: str, seed: int, x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Fit a model and predict the probability of each of all classes."""
    fitted = build(model, seed).fit(x, y)
    p = np.zeros((len(new), y.max() + 1))
    p[:, fitted.classes_] = fitted.predict_proba(new)
    return p


def run(name: str, split: int, model: str, table: object, y: np.ndarray) -> Iterator[dict]:
    """Yield the results of all metrics and kinds of evidence."""
    _, y = np.unique(y, return_inverse=True)
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=split)
    encoder = TableEncoder().fit(table.iloc[train])
    x, new = encoder.transform(table.iloc[train]), encoder.transform(table.iloc[test])
    own, truth, d = y[train], y[test], y.max() + 1
    p = np.zeros((len(own), d))
    for fit, held in StratifiedKFold(5, shuffle=True, random_state=split).split(x, own):
        held_p = predict(model, split, x[fit], own[fit], x[held])
        p[held, : held_p.shape[1]] = held_p
    new_p = predict(model, split, x, own, new)
    for metric in map(metrics.as_metric, METRICS):
        base = metric.score(truth, new_p.argmax(1), labels=list(range(d)))
        for evidence in EVIDENCE if d == 2 or p.size <= MOST else EVIDENCE[1:]:
            start = time.process_time()
            rule = fit_rule(p, own, metric, classes=range(d), evidence=evidence)
            seconds = time.process_time() - start
            value = metric.score(truth, rule.predict(new_p), labels=list(range(d)))
            yield {
                "table": name, "split": split, "model": model, "metric": metric.name, "classes": int(d),
                "evidence": evidence, "argmax": base, "value": value, "seconds": seconds,
            }  # fmt: skip


def print_results(results: list[dict]) -> None:
    """Print the mean gains over argmax, and those of each table."""
    for many in (False, True):
        for metric in dict.fromkeys(row["metric"] for row in results):
            own = [row for row in results if (row["classes"] > 2) == many and row["metric"] == metric]
            gains: dict[str, dict[str, list[float]]] = {}
            for row in own:
                gains.setdefault(row["table"], {}).setdefault(row["evidence"], []).append(
                    row["value"] - row["argmax"]
                )
            if not gains:
                continue
            print(f"\n**{metric}, {'more' if many else 'two'} classes**: gain over argmax on new rows\n")
            print("| table | " + " | ".join(EVIDENCE) + " | cases |\n|---" + "|---" * 4 + "|")
            for name, by in gains.items():
                cells = [f"{np.mean(by[one]):+.4f}" if one in by else "" for one in EVIDENCE]
                print(f"| {name} | " + " | ".join(cells) + f" | {len(by['mixed'])} |")
            whole = [by for by in gains.values() if "labels" in by]
            cells = [f"{np.mean([np.mean(by[one]) for by in whole]):+.4f}" for one in EVIDENCE]
            print(f"| mean of {len(whole)} tables with all three | " + " | ".join(cells) + " | |")
            times = {one: [row["seconds"] for row in own if row["evidence"] == one] for one in EVIDENCE}
            cells = [f"{np.median(times[one]) * 1000:.0f} ms" for one in EVIDENCE]
            print("| median CPU time | " + " | ".join(cells) + " | |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=_data.TABLES, choices=_data.TABLES)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("rules.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of classes with fewer rows than folds, and of unfinished networks
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {datetime.date.today()}")
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    done = [json.loads(line) for line in lines]
    known = {(row["table"], row["split"], row["model"]) for row in done}
    for split in range(options.splits):
        for name in options.tables:
            data = _data.load_table(name)
            if data is None:
                print(f"{name}: not found; set EVALIGN_DATA")
                continue
            table, y = data
            kept = np.flatnonzero(np.bincount(y)[y] >= 4)
            if len(kept) > ROWS:
                kept, _ = train_test_split(kept, train_size=ROWS, stratify=y[kept], random_state=0)
            for model in options.models:
                if (name, split, model) in known:
                    continue
                new = list(run(name, split, model, table.iloc[kept].reset_index(drop=True), y[kept]))
                done += new
                with options.results.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in new)
    print_results([row for row in done if row["table"] in options.tables])


if __name__ == "__main__":
    main()
