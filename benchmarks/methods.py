"""`compare()` on the data of the papers: every method, and `AutoClassifier`, on the same splits.

Prints one table per dataset and metric. Every finished trial is written to a folder of JSON lines, so that a
killed run resumes. `AutoClassifier` fits its members without each of its folds inside each training part,
which costs as many additional fits as it has members times folds; `--auto` adds it.

    EVALIGN_DATA=../shared/data python benchmarks/methods.py [--datasets mammography ...] [--repeats 5]
"""

import argparse
import datetime
import platform
import time
from pathlib import Path

import _data
import joblib
import numpy as np
import torch

import evalign as ev
from evalign.selection import KNOWN, METHODS

PAIRS = {
    "mammography": ["f1", "mcc"],
    "adult": ["f1", "mcc"],
    "creditcard": ["f1", "mcc"],
    "cocktailparty": ["f1", "mcc"],
    "caltech256-pca": ["f1"],
    "cifar10-pca": ["f1"],
}


class ResumingAutoClassifier(ev.AutoClassifier):
    """`AutoClassifier` that writes its own models to a folder, too."""

    folder = Path()

    def fit(self, X: np.ndarray, y: np.ndarray) -> ev.AutoClassifier:
        """Fit, resuming where a run was killed."""
        self.checkpoint = self.folder / f"inside-{joblib.hash((X, y, self.metric))}"
        return super().fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--metrics", nargs="+", help="default: F1 and MCC for two classes, macro F1 for more")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--without-bags", action="store_true", help="omit LightGBM with bags and a rule")
    parser.add_argument("--auto", action="store_true", help="add AutoClassifier")
    parser.add_argument("--among", nargs="+", choices=list(KNOWN), help="its members; default: all")
    parser.add_argument("--cv", type=int, default=5, help="its folds")
    parser.add_argument("--time-limit", help='its time, such as "2m"')
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, help="the maximum number of rows, stratified")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("methods"))
    options = parser.parse_args()
    options.results.mkdir(exist_ok=True)
    ResumingAutoClassifier.folder = options.results
    torch.set_num_threads(1)
    print(f"{platform.machine()}, {options.jobs} jobs of 1 thread, seed 0, {datetime.date.today()}")
    for name in options.datasets:
        data = _data.load(name)
        if data is None:
            print(f"\n{name}: not found; set EVALIGN_DATA")
            continue
        x, y = _data.sample_rows(*data, options.rows)
        for metric in options.metrics or PAIRS[name]:
            methods = {method: method for method in options.methods}
            if not options.without_bags:
                # Separates the gain of the bags from that of the rounds on the metric.
                methods["lightgbm_rule, bags"] = ev.MetricBooster(metric, strategy="log_loss")
            if options.auto:
                methods["AutoClassifier"] = ResumingAutoClassifier(
                    metric, methods=options.among, cv=options.cv, time_limit=options.time_limit
                )
            start = time.perf_counter()
            comparison = ev.compare(
                x, y, metric, methods=methods, n_repeats=options.repeats, reference="lightgbm_rule",
                trials_file=options.results / f"{name}-{metric}-{len(y)}.jsonl", n_jobs=options.jobs,
            )  # fmt: skip
            minutes = (time.perf_counter() - start) / 60
            rows = f"{len(y):,} rows, {x.shape[1]} features, {len(np.unique(y))} classes"
            print(f"\n## {name}, {metric}: {rows}, {options.repeats} splits, {minutes:.1f} minutes\n")
            print(comparison.to_markdown(), flush=True)


if __name__ == "__main__":
    main()
