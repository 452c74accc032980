"""Compare cross-entropy with the metric as a loss, on real data with 2.3 % positives.

The same small network is trained twice from the same initial weights, on the same split and with the same
batches: once with cross-entropy, once with `MetricLoss("f1")`, cooled whenever the validation loss stalls.
F1 on the test part is printed side by side, also for cross-entropy with the threshold that is best on the
validation part, a strong baseline that costs nothing.
"""

import copy
import statistics
import time

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import evalign as ev

SEEDS = 8
BATCH = 1024
EPOCHS = 150
PATIENCE = 8

f1 = ev.metrics.f1()


def network(features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))


def split(data: ev.datasets.Dataset, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Split into 64 % training, 16 % validation and 20 % test rows, stratified and scaled."""
    rest, test = train_test_split(np.arange(len(data.y)), test_size=0.2, stratify=data.y, random_state=seed)
    train, valid = train_test_split(rest, test_size=0.2, stratify=data.y[rest], random_state=seed)
    center, spread = data.X[train].mean(0), data.X[train].std(0)
    return [
        (torch.from_numpy((data.X[part] - center) / spread), torch.from_numpy(data.y[part]))
        for part in (train, valid, test)
    ]


def train(model: nn.Module, loss: nn.Module, parts: list[tuple[Tensor, Tensor]], seed: int) -> nn.Module:
    """Train until the validation loss stalls; a metric loss is then cooled and training continues (EAST)."""
    (x, y), (x_valid, y_valid), _ = parts
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(seed)
    best, best_state, stalled = float("inf"), copy.deepcopy(model.state_dict()), 0
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(len(y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            value = loss(model(x_valid), y_valid).item()
        stalled += 1
        if value < best:
            best, best_state, stalled = value, copy.deepcopy(model.state_dict()), 0
        elif stalled >= PATIENCE:
            if not isinstance(loss, ev.MetricLoss) or loss.temperature < 0.02:
                break
            loss.temperature *= 0.8
            best, stalled = float("inf"), 0
            model.load_state_dict(best_state)
    model.load_state_dict(best_state)
    return model


@torch.no_grad()
def f1_on_test(model: nn.Module, parts: list[tuple[Tensor, Tensor]], tuned: bool = False) -> float:
    _, (x_valid, y_valid), (x, y) = parts
    threshold = 0.5
    if tuned:
        scores = model(x_valid).softmax(-1)[:, 1]
        levels = scores.unique()
        matrices = ev.softsets.binary_soft_confusion(scores, y_valid, levels, ev.softsets.HardStep())
        threshold = levels[f1(matrices).argmax()].item()
    return f1.score(y, model(x).softmax(-1)[:, 1] >= threshold)


def main() -> None:
    torch.set_num_threads(1)
    data = ev.datasets.load("mammography")
    print(f"mammography: {len(data.y):,} rows, {data.y.mean():.1%} positive")
    print(f"F1 on the test part, {SEEDS} seeds\n")
    print("seed  cross-entropy  + tuned threshold  MetricLoss('f1'), annealed")
    start, table = time.perf_counter(), []
    for seed in range(SEEDS):
        parts = split(data, seed)
        torch.manual_seed(seed)
        first = network(data.X.shape[1])
        second = copy.deepcopy(first)
        plain = train(first, nn.CrossEntropyLoss(), parts, seed)
        aligned = train(second, ev.MetricLoss("f1"), parts, seed)
        table.append(
            (f1_on_test(plain, parts), f1_on_test(plain, parts, tuned=True), f1_on_test(aligned, parts))
        )
        print(f"{seed:4d}  {table[-1][0]:13.3f}  {table[-1][1]:17.3f}  {table[-1][2]:26.3f}", flush=True)
    means = [statistics.mean(column) for column in zip(*table, strict=True)]
    print(f"mean  {means[0]:13.3f}  {means[1]:17.3f}  {means[2]:26.3f}")
    gains = [row[2] - row[0] for row in table]
    error = statistics.stdev(gains) / SEEDS**0.5
    mean = statistics.mean(gains)
    print(f"\nMetricLoss - cross-entropy: {mean:+.3f} +/- {error:.3f} (standard error, paired)")
    if abs(mean) < 2 * error:
        print("This is not a clear difference: with so few positives, chance matters as much as the loss.")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
