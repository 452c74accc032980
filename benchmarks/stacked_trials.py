"""Ten trials of a small network trained as one stacked network, against one by one.

The network of Tsoi et al. (2022) on mammography, with their F1 loss over nine thresholds, batches of 256,
dropout 0.5 and Adam. Trial k begins with `torch.manual_seed(k)`: weights, orders of rows and masks of
dropout are the same both ways, so that the results can be compared: the validation losses after every
epoch and the weights at the end. Both ways take turns; the median ratio of their times counts.

In single precision a few weights may differ by more than rounding: a row that meets a unit within 1e-7 of
the kink of its ReLU has a gradient one way and none the other way. With seeds 0 to 9 this happens once, to
unit 13 of trial 1 in step 320; the losses hardly notice, and in double precision it does not happen.

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
from evalign.papers.networks import btg_net, stacked, trial_losses
from evalign.softsets import LinearStep

BATCH = 256
RATE = 1e-3

Result = tuple[Tensor, list[nn.Sequential]]


class Data:
    """Mammography, 80 % of the rows to train on, features centred and scaled by them; seed 0."""

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
    """`values[rows]`, which is slow for many rows."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])


def criterion() -> ev.MetricLoss:
    return ev.MetricLoss("f1", task="binary", step=LinearStep(0.2), thresholds="btg")


def one_by_one(data: Data, trials: int, epochs: int) -> Result:
    """The plain loop, trial after trial."""
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


def at_once(data: Data, trials: int, epochs: int) -> Result:
    """The same loop over one stacked network."""
    network, loss = stacked(lambda: btg_net(data.x.shape[1]).to(data.x.dtype), range(trials)), criterion()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    losses = []
    for _ in range(epochs):
        network.train()
        for rows in network.orders(len(data.y)).split(BATCH, dim=1):
            optimizer.zero_grad()
            trial_losses(loss, network(take(data.x, rows)), take(data.y, rows)).sum().backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            losses.append(trial_losses(loss, network(data.x_valid), data.y_valid))
    return torch.stack(losses, dim=1), network.unstack()


def differences(one: Result, other: Result) -> tuple[float, float]:
    """The largest difference of validation losses and of weights."""
    pairs = zip(
        *([p for network in result[1] for p in network.parameters()] for result in (one, other)), strict=True
    )
    return (one[0] - other[0]).abs().max().item(), max((a - b).abs().max().item() for a, b in pairs)


def timed(run, *arguments) -> tuple[float, Result]:
    start = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - start, result


def losses_beside(trials: int, turns: int = 200) -> dict[str, float]:
    """Microseconds of the loss and its gradient on one batch: in a loop, by vmap, by `trial_losses`."""
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
            times[name].append(timed(lambda way=way: way().sum().backward())[0])
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
    print("| numbers | one by one, s | stacked, s | speed-up | losses differ by | weights differ by |")
    print("|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.float64):
        arguments = Data(dtype), trials, epochs
        turns = [(timed(one_by_one, *arguments), timed(at_once, *arguments)) for _ in range(options.turns)]
        alone, together = (statistics.median(turn[way][0] for turn in turns) for way in (0, 1))
        ratios = sorted(turn[0][0] / turn[1][0] for turn in turns)
        speed = f"{statistics.median(ratios):.1f}x ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        in_losses, in_weights = differences(turns[0][0][1], turns[0][1][1])
        cells = f"{alone:.2f} | {together:.2f} | {speed} | {in_losses:.1e} | {in_weights:.1e}"
        print(f"| {str(dtype).removeprefix('torch.')} | {cells} |", flush=True)
    beside = ", ".join(f"{name} {value:.0f}" for name, value in losses_beside(trials).items())
    print(f"\nLoss and gradient of a batch of {trials} trials, microseconds: {beside}.")


if __name__ == "__main__":
    main()
