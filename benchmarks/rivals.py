"""What evalign brings over what people use: scikit-learn and LightGBM, tuned, and AutoGluon in the same time.

For each table, metric and split (70 % to fit, 30 % to test, stratified): the metric on the test part; of
`AutoClassifier` also that of its best member, by its own cross-fitting. `AutoClassifier` and AutoGluon have
the same time on the same two cores, one after the other; single models have one thread, two at a time.
AutoGluon runs in a virtual environment of its own, which is made where there is none. Every result is
appended to a file of JSON lines and not computed again, so that a killed run resumes; `--print` only prints
what there is.

    EVALIGN_DATA=../shared/data python benchmarks/rivals.py [--tables german ...] [--metrics f1 ...]
"""

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import _data
import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evalign as ev
from evalign.estimators import TableEncoder

#: With scikit-learn's names, for its tuned threshold.
METRICS = {"f1": "f1", "mcc": "matthews_corrcoef", "balanced_accuracy": "balanced_accuracy"}
OURS = ["AutoClassifier", "MetricBooster", "MetricLinear"]
RIVALS = {
    "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "histogram boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "LightGBM": lambda seed: lgb.LGBMClassifier(verbose=-1, n_jobs=1, random_state=seed),
    "random forest": lambda seed: RandomForestClassifier(300, random_state=seed),
}
BALANCED = "LightGBM, balanced"
AUTOGLUON = "AutoGluon"
METHODS = [*OURS, *RIVALS, BALANCED, AUTOGLUON]
#: They get all cores for a limited time; the others are single models.
LIMITED = [OURS[0], AUTOGLUON]


def build_rival(method: str, metric: str, split: int, two: bool) -> object:
    """Return an unfitted classifier for numbers: for two classes, with scikit-learn's tuned threshold."""
    if method == BALANCED:
        return lgb.LGBMClassifier(class_weight="balanced", verbose=-1, n_jobs=1, random_state=split)
    model = RIVALS[method](split)
    folds = StratifiedKFold(5, shuffle=True, random_state=split)
    return TunedThresholdClassifierCV(model, scoring=METRICS[metric], cv=folds) if two else model


def build_ours(method: str, metric: str, split: int, seconds: float) -> object:
    """Return one of our classifiers, which take tables as they are."""
    if method == "AutoClassifier":
        return ev.AutoClassifier(metric, time_limit=seconds, n_jobs=2, random_state=split)
    return getattr(ev, method)(metric, n_jobs=1, random_state=split)


def run_autogluon(
    python: Path, metric: str, seconds: float, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame
) -> tuple[np.ndarray, float]:
    """Fit AutoGluon in its own environment; return its predictions and the seconds of `fit`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train.assign(**{"class": y}).to_parquet(folder / "train.parquet")
        test.to_parquet(folder / "test.parquet")
        script = Path(__file__).with_name("_autogluon.py")
        subprocess.run(  # noqa: S603
            [python, script, folder, metric, str(seconds)], check=True, capture_output=True, timeout=1200
        )
        result = json.loads((folder / "predicted.json").read_text())
    return np.array(result["predicted"]), result["seconds"]


def make_environment(folder: Path) -> Path:
    """Return the Python of an environment with AutoGluon, which is made if there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making an environment with AutoGluon in {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)  # noqa: S603
        packages = ["torch==2.13.0", "autogluon.tabular[lightgbm,catboost,xgboost]==1.6.3"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)  # noqa: S603
    return python


def run(name: str, metric: str, split: int, method: str, options: argparse.Namespace) -> list[dict]:
    """Fit one method on one split, and return its score, or those for all metrics if they change nothing."""
    table, y = _data.load_table(name)
    table = table.set_axis([str(column) for column in table.columns], axis=1)
    strata = np.where(np.bincount(y)[y] < 4, np.bincount(y).argmax(), y)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=strata, random_state=split)
    x, x_test = (table.iloc[rows].reset_index(drop=True) for rows in (train, test))
    if method == AUTOGLUON:
        python = make_environment(options.environment)
        predicted, seconds = run_autogluon(python, metric, options.seconds, x, y[train], x_test)
    else:
        if method in OURS:
            model = build_ours(method, metric, split, options.seconds)
        else:
            model = build_rival(method, metric, split, y.max() == 1)
            encoder = TableEncoder().fit(x)
            x, x_test = encoder.transform(x), encoder.transform(x_test)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes with fewer rows than folds
            model.fit(x, y[train])
        seconds = time.perf_counter() - start
        predicted = model.predict(x_test)
    key = {"table": name, "split": split, "method": method, "fit_seconds": seconds, "limit": options.seconds}
    if method == "AutoClassifier":
        key["answer"] = model.answer_
        key["single"] = measure(metric, y[test], model.best_single_.predict(x_test), y.max() + 1)
    is_fixed = method == BALANCED or (method in RIVALS and y.max() > 1)
    return [
        {**key, "metric": one, "score": measure(one, y[test], predicted, y.max() + 1)}
        for one in (METRICS if is_fixed else [metric])
    ]


def run_cases(cases: list[tuple], options: argparse.Namespace) -> Iterator[list[dict]]:
    """Run single models two at a time with one thread each, then the others one by one."""
    single = [case for case in cases if case[-1] not in LIMITED]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        workers = joblib.Parallel(n_jobs=2, return_as="generator_unordered")
        yield from workers(joblib.delayed(run)(*case, options) for case in single)
    for case in cases:
        if case[-1] in LIMITED:
            yield run(*case, options)


def measure(metric: str, y: np.ndarray, predicted: np.ndarray, n_classes: int) -> float:
    return ev.metrics.as_metric(metric).score(y, predicted, labels=list(range(n_classes)))


def difference(gains: np.ndarray) -> str:
    error = f" +/- {gains.std(ddof=1) / len(gains) ** 0.5:.4f}" if len(gains) > 1 else ""
    return f"{gains.mean():+.4f}{error}"


def print_metric(results: list[dict], metric: str) -> None:
    """Print means per table, then mean, mean rank and wins of all methods on complete cases."""
    scores: dict[tuple[str, int], dict[str, float]] = {}
    seconds: dict[str, list[float]] = {}
    for row in results:
        if row["metric"] == metric:
            scores.setdefault((row["table"], row["split"]), {})[row["method"]] = row["score"]
            seconds.setdefault(row["method"], []).append(row["fit_seconds"])
    methods = [method for method in METHODS if method in seconds]
    complete = {case: own for case, own in scores.items() if len(own) == len(methods)}
    if not complete:
        return
    tables = list(dict.fromkeys(table for table, _ in complete))

    def average(value: Callable[[dict[str, float]], float]) -> np.ndarray:
        return np.array(
            [np.mean([value(own) for (t, _), own in complete.items() if t == table]) for table in tables]
        )

    print(f"\n**{metric}**: {len(tables)} tables, {len(complete)} splits\n")
    print("| table | " + " | ".join(methods) + " |\n|---" * 1 + "|---" * len(methods) + "|")
    columns = {method: average(lambda own, method=method: own[method]) for method in methods}
    for place, table in enumerate(tables):
        print(f"| {table} | " + " | ".join(f"{columns[method][place]:.3f}" for method in methods) + " |")
    ranks = np.mean([rankdata([-own[method] for method in methods]) for own in complete.values()], axis=0)
    print(
        "\n| method | mean | mean rank | AutoClassifier - it (tables) | won / tied / lost | median fit (s) |"
    )
    print("|---|---|---|---|---|---|")
    for method, rank in zip(methods, ranks, strict=True):
        gains = columns[OURS[0]] - columns[method] if OURS[0] in columns else np.zeros(len(tables))
        won, lost = int((gains > 1e-9).sum()), int((gains < -1e-9).sum())
        compared = difference(gains), f"{won} / {len(gains) - won - lost} / {lost}"
        cells = ("", "") if method == OURS[0] else compared
        print(f"| {method} | {columns[method].mean():.4f} | {rank:.2f} | {cells[0]} | {cells[1]} | ", end="")
        print(f"{np.median(seconds[method]):.1f} |")
    print_single(results, metric)


def print_single(results: list[dict], metric: str) -> None:
    """Print what mixing gains over the best member, by the ensemble's own cross-fitting."""
    gains: dict[str, list[float]] = {}
    for row in results:
        if row["metric"] == metric and "single" in row:
            gains.setdefault(row["table"], []).append(row["score"] - row["single"])
    if gains:
        means = np.array([np.mean(own) for own in gains.values()])
        print(f"\nAutoClassifier - its best member: {difference(means)} over {len(means)} tables.")


def print_mixing(results: list[dict], metrics: list[str]) -> None:
    """Print what mixing gains on each table, by metric and on average over the metrics of a split."""
    gains: dict[str, dict[tuple[str, int], float]] = {}
    for row in results:
        if "single" in row:
            own = gains.setdefault(row["table"], {})
            own[row["metric"], row["split"]] = row["score"] - row["single"]
    if not gains:
        return
    print("\n**AutoClassifier - its best member**: over splits, with standard errors\n")
    print(f"| {' | '.join(['table', *metrics, 'mean of the metrics'])} |")
    print("|---" * (len(metrics) + 2) + "|")
    for table, own in gains.items():
        splits = sorted({split for _, split in own if all((metric, split) in own for metric in metrics)})
        cells = np.array([[own[metric, split] for split in splits] for metric in metrics])
        print(f"| {table} | " + " | ".join(map(difference, (*cells, cells.mean(0)))) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=_data.TABLES, choices=_data.TABLES)
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=list(METRICS))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0, help="of AutoClassifier and AutoGluon")
    parser.add_argument("--environment", type=Path, default=Path("autogluon"), help="with AutoGluon")
    parser.add_argument("--results", type=Path, default=Path("docs/results/rivals.jsonl"))
    parser.add_argument("--print", action="store_true", help="print the results of earlier runs only")
    options = parser.parse_args()
    print(f"{platform.machine()}, 2 cores, limit {options.seconds:.0f} s, {datetime.date.today()}")
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    done = [json.loads(line) for line in lines]
    known = {(row["table"], row["metric"], row["split"], row["method"]) for row in done}
    tables = [] if options.print else options.tables
    missing = [name for name in tables if _data.load_table(name) is None]
    if missing:
        print(f"not found: {', '.join(missing)}; set EVALIGN_DATA")
    splits = range(options.first_split, options.first_split + options.splits)
    for split in () if options.print else splits:
        for metric in options.metrics:
            cases = [
                (name, metric, split, method)
                for method in options.methods
                for name in tables
                if name not in missing and (name, metric, split, method) not in known
            ]
            for rows in run_cases(cases, options):
                done += rows
                known |= {(row["table"], row["metric"], row["split"], row["method"]) for row in rows}
                with options.results.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
    for metric in options.metrics:
        print_metric(done, metric)
    print_mixing(done, options.metrics)


if __name__ == "__main__":
    main()
