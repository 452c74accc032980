"""The time of an epoch: `MetricClassifier` against a hand-written loop and the default of skorch.

The same network, batch size and optimizer, cross-entropy, 20 % of the rows for validation after every
epoch. The fits take turns, and the median time of an epoch counts; only ratios are meaningful. Data:
mammography, and credit card fraud if `EVALIGN_DATA` contains it (its first rows with `--rows`). Two
networks: with 512-256-128 units arithmetic dominates, with 32-16 the overhead of a library.

    python benchmarks/fit_speed.py [--rows 60000] [--epochs 5]
"""

import argparse
import datetime
import gzip
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import evalign as ev
from evalign.estimators import mlp

BATCH = 1024
NETWORKS = ((512, 256, 128), (32, 16))


def data(name: str, rows: int) -> tuple[np.ndarray, np.ndarray] | None:
    if name == "mammography":
        table = ev.datasets.load(name)
        return (table.X - table.X.mean(0)) / table.X.std(0), table.y
    file = Path(os.environ.get("EVALIGN_DATA", "../shared/data")) / "creditcard" / "creditcard.csv.gz"
    if not file.exists():
        return None
    with gzip.open(file, "rt") as lines:
        next(lines)
        cells = [line.replace('"', "").split(",") for _, line in zip(range(rows), lines, strict=False)]
    values = np.array(cells, dtype=np.float32)
    x = values[:, 1:-1]
    return (x - x.mean(0)) / x.std(0), values[:, -1].astype(np.int64)


def by_hand(x: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], epochs: int) -> float:
    """Train as one would without a library; return seconds per epoch."""
    torch.manual_seed(0)
    cut = int(0.8 * len(y))
    features, targets = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    model, loss = mlp(x.shape[1], 2, hidden, dropout=0.25), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        model.train()
        for rows in torch.randperm(cut).split(BATCH):
            optimizer.zero_grad()
            loss(model(features[rows]), targets[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss(model(features[cut:]), targets[cut:]).item()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def metric_classifier(x: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], epochs: int) -> float:
    """Return seconds per epoch: the difference of a long and a short fit, so that set-up does not count."""

    def fit(count: int) -> float:
        model = ev.MetricClassifier(
            "f1", strategy="cross_entropy", rule=False, hidden=hidden, dropout=0.25, batch_size=BATCH,
            max_epochs=count, patience=10**6, random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(x, y)
        return time.perf_counter() - start

    return (fit(epochs + 1) - fit(1)) / epochs


def default_skorch(x: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], epochs: int) -> float:
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    net = NeuralNetClassifier(
        mlp, module__features=x.shape[1], module__outputs=2, module__hidden=hidden, module__dropout=0.25,
        criterion=nn.CrossEntropyLoss, optimizer=torch.optim.AdamW, lr=1e-3, batch_size=BATCH,
        max_epochs=epochs, verbose=0,
    )  # fmt: skip
    net.fit(x.astype(np.float32), y)
    return statistics.median(net.history[:, "dur"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=60000, help="rows of the credit card data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, seed 0, {datetime.date.today()}\n")
    print("| data | rows | network | by hand, ms per epoch | MetricClassifier | skorch | skorch / ours |")
    print("|---|---|---|---|---|---|---|")
    for name in ("mammography", "creditcard"):
        rows = data(name, options.rows)
        if rows is None:
            print(f"| {name} | not found: set EVALIGN_DATA | | | | | |")
            continue
        for hidden in NETWORKS:
            runs = {"hand": by_hand, "ours": metric_classifier, "skorch": default_skorch}
            times = {key: [] for key in runs}
            for _ in range(options.turns):
                for key, run in runs.items():
                    times[key].append(run(*rows, hidden, options.epochs))
            hand, ours, skorch = (statistics.median(times[key]) for key in runs)
            print(
                f"| {name} | {len(rows[1]):,} | {'-'.join(map(str, hidden))} | {1e3 * hand:.0f} "
                f"| {ours / hand:.2f}x | {skorch / hand:.2f}x | {skorch / ours:.2f}x |",
                flush=True,
            )


if __name__ == "__main__":
    main()
