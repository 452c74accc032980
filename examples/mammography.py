"""Compare cross-entropy with the metric as a loss, on real data with 2.3 % positives.

The same small network is trained twice from the same initial weights, on the same split and with the
same batches: once with cross-entropy, once with `MetricLoss("f1")`, cooled by `Anneal` whenever the
validation loss stalls. F1 on the test part is printed side by side, also for cross-entropy with the
threshold that `fit_rule` finds on the validation part, a strong baseline that costs nothing.

python examples/mammography.py
"""

import copy
import statistics
import sys

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import evalign as ev

Part = tuple[Tensor, Tensor]


def split(data: ev.datasets.Dataset, seed: int) -> list[Part]:
    """Split into 64 % training, 16 % validation and 20 % test rows, stratified and scaled."""
    rest, test = train_test_split(np.arange(len(data.y)), test_size=0.2, stratify=data.y, random_state=seed)
    train, valid = train_test_split(rest, test_size=0.2, stratify=data.y[rest], random_state=seed)
    X = (data.X - data.X[train].mean(0)) / data.X[train].std(0)
    return [(torch.from_numpy(X[part]), torch.from_numpy(data.y[part])) for part in (train, valid, test)]


def train(loss: nn.Module, rows: Part, valid: Part, seed: int, epochs: int) -> nn.Module:
    """Train until the validation loss stalls; cross-entropy ignores the temperature that `Anneal` sets."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    anneal = ev.Anneal(loss, decay=0.8, patience=8)
    x, y = rows
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(1024):
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            anneal.step(loss(model(valid[0]), valid[1]))
        if anneal.improved:
            best = copy.deepcopy(model.state_dict())
        if anneal.done:
            break
    model.load_state_dict(best)
    return model


def compare(data: ev.datasets.Dataset, seed: int, epochs: int) -> tuple[float, float, float]:
    rows, valid, (x, y) = split(data, seed)
    plain = train(nn.CrossEntropyLoss(), rows, valid, seed, epochs)
    aligned = train(ev.MetricLoss("f1"), rows, valid, seed, epochs)
    with torch.no_grad():
        rule = ev.decisions.fit_rule(plain(valid[0]).softmax(1), valid[1], "f1")
        decisions = plain(x).argmax(1), rule.predict(plain(x).softmax(1)), aligned(x).argmax(1)
    return tuple(f1_score(y, predicted) for predicted in decisions)


def main(small: bool) -> None:
    data = ev.datasets.load("mammography")
    seeds, epochs = (2, 10) if small else (8, 150)
    print("F1, seed  cross-entropy  + tuned threshold  MetricLoss('f1'), annealed")
    table = [compare(data, seed, epochs) for seed in range(seeds)]
    means = tuple(statistics.mean(column) for column in zip(*table, strict=True))
    for name, row in (*enumerate(table), ("mean", means)):
        print(f"{name!s:>8}  {row[0]:13.3f}  {row[1]:17.3f}  {row[2]:26.3f}")
    error = statistics.stdev(row[2] - row[0] for row in table) / seeds**0.5
    print(f"MetricLoss - cross-entropy: {means[2] - means[0]:+.3f} +/- {error:.3f} (standard error, paired)")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
