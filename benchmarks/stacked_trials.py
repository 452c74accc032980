"""Ten trials of a small network, trained as one stack of networks and one by one.

The network of Tsoi et al. (2022) on mammography, with their F1 loss over nine thresholds, batches of 256,
dropout 0.5 and Adam. Trial k starts with `torch.manual_seed(k)`: both ways use the same weights, orders of
rows and dropout masks, so that the validation losses after every epoch and the final weights can be
compared. The two ways alternate; the median ratio of their times is reported.

In single precision a few weights may differ by more than rounding: a row that reaches a unit within 1e-7 of
the kink of its ReLU has a gradient one way and none the other way. With seeds 0 to 9 this happens once, for
unit 13 of trial 1 in step 320, with hardly any effect on the losses; in double precision it does not happen.

    python benchmarks/stacked_trials.py [--epochs 10] [--turns 5] [--trials 10]
"""

import argparse
import datetime
import os
import platform
import statistics
import time

import numpy as np
import torch
from torch import Tensor, nn

import evalign as ev
from evalign.papers.networks import btg_net, stack_networks, trial_losses
from evalign.softsets import LinearStep

BATCH = 256
RATE = 1e-3

Result = tuple[Tensor, list[nn.Sequential]]


class Mammography:
    """Mammography, with 80 % of the rows for training, by which features are standardised; seed 0."""

    def __init__(self, dtype: torch.dtype) -> None:
        table = ev.datasets.load("mammography")
        order = np.random.default_rng(0).permutation(len(table.y))
        train, valid = np.split(order, [int(0.8 * len(order))])
        scaled = (table.X - table.X[train].mean(0)) / table.X[train].std(0)
        self.x, self.y = torch.from_numpy(scaled[train]).to(dtype), torch.from_numpy(table.y[train])
        self.x_valid, self.y_valid = (
            torch.from_numpy(scaled[valid]).to(dtype),
            torch.from_numpy(table.y[valid]),
        )


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return `values[rows]`, faster than by indexing with many rows."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])


def criterion() -> ev.MetricLoss:
    return ev.MetricLoss("f1", task="binary", step=LinearStep(0.2), thresholds="btg")


def train_one_by_one(data: Mammography, trials: int, epochs: int) -> Result:
    """Train trial after trial in a plain loop."""
    losses, networks = [], []
    for seed in range(trials):
        torch.manual_seed(seed)
        network, loss = btg_net(data.x.shape[1]).to(data.x.dtype), criterion()
        optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
        for _ in range(epochs):
            network.train()
            for rows in torch.randperm(len(data.y)).split(BATCH):
                optimizer.zero_grad()
                loss(network(take(data.x, rows)), take(data.y, rows)).backward()
                optimizer.step()
            network.eval()
            with torch.no_grad():
                losses.append(loss(network(data.x_valid), data.y_valid))
        networks.append(network)
    return torch.stack(losses).view(trials, epochs), networks


def train_stack(data: Mammography, trials: int, epochs: int) -> Result:
    """Train all trials in the same loop over one stack."""
    network = stack_networks(lambda: btg_net(data.x.shape[1]).to(data.x.dtype), range(trials))
    loss = criterion()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    losses = []
    for _ in range(epochs):
        network.train()
        for rows in network.draw_orders(len(data.y)).split(BATCH, dim=1):
            optimizer.zero_grad()
            trial_losses(loss, network(take(data.x, rows)), take(data.y, rows)).sum().backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            losses.append(trial_losses(loss, network(data.x_valid), data.y_valid))
    return torch.stack(losses, dim=1), network.unstack()


def differences(one: Result, other: Result) -> tuple[float, float]:
    """Return the largest difference of validation losses and of weights."""
    pairs = zip(
        *([p for network in result[1] for p in network.parameters()] for result in (one, other)), strict=True
    )
    return (one[0] - other[0]).abs().max().item(), max((a - b).abs().max().item() for a, b in pairs)


def measure_time(run, *arguments) -> tuple[float, Result]:
    start = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - start, result


def measure_losses(trials: int, turns: int = 200) -> dict[str, float]:
    """Return the microseconds of loss and gradient on one batch: in a loop, by vmap, by `trial_losses`."""
    loss, generator = criterion(), torch.Generator().manual_seed(0)
    logits = torch.randn(trials, BATCH, 1, generator=generator, requires_grad=True)
    targets = (torch.rand(trials, BATCH, generator=generator) < 0.05).long()
    ways = {
        "a loop": lambda: torch.stack([loss(*pair) for pair in zip(logits, targets, strict=True)]),
        "vmap": lambda: torch.func.vmap(loss)(logits, targets),
        "trial_losses": lambda: trial_losses(loss, logits, targets),
    }
    times = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            times[name].append(measure_time(lambda way=way: way().sum().backward())[0])
    return {name: 1e6 * statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    trials, epochs = options.trials, options.epochs
    machine = f"{platform.machine()} with {os.cpu_count()} cores"
    print(f"torch {torch.__version__}, {machine}, 1 thread, {datetime.date.today()}")
    print(f"{trials} trials with seeds 0 to {trials - 1}, batch {BATCH}, {epochs} epochs\n")
    print("| precision | one by one, s | stacked, s | speed-up | losses differ by | weights differ by |")
    print("|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.float64):
        arguments = Mammography(dtype), trials, epochs
        turns = [
            (measure_time(train_one_by_one, *arguments), measure_time(train_stack, *arguments))
            for _ in range(options.turns)
        ]
        alone, together = (statistics.median(turn[way][0] for turn in turns) for way in (0, 1))
        ratios = sorted(turn[0][0] / turn[1][0] for turn in turns)
        speed = f"{statistics.median(ratios):.1f}x ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        in_losses, in_weights = differences(turns[0][0][1], turns[0][1][1])
        cells = f"{alone:.2f} | {together:.2f} | {speed} | {in_losses:.1e} | {in_weights:.1e}"
        print(f"| {str(dtype).removeprefix('torch.')} | {cells} |", flush=True)
    times = ", ".join(f"{name} {value:.0f}" for name, value in measure_losses(trials).items())
    print(f"\nLoss and gradient of a batch of {trials} trials, microseconds: {times}.")


if __name__ == "__main__":
    main()
