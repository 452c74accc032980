"""Measure the memory of `ExactStep` over a million rows: the peak of a process with it and without it.

The same process is started twice: the first one only creates the data and the 512-256-128 network, the
second one also backpropagates F1 over all rows at once. The difference is the memory of the step.

    python benchmarks/exact_memory.py [--rows 1000000] [--micro-batch 4096]
"""

import argparse
import resource
import subprocess
import sys
import time

import torch
from torch import nn

import evalign as ev


def work(rows: int, micro_batch: int) -> None:
    """Create data and network, take the step unless `micro_batch` is 0, and print the peak in MB."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    x, y = torch.randn(rows, 64), (torch.rand(rows) < 0.02).long()
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 2),
    )  # fmt: skip
    start = time.perf_counter()
    if micro_batch:
        ev.training.ExactStep(model, ev.MetricLoss("f1"), micro_batch=micro_batch).backward(x, y)
    seconds = time.perf_counter() - start
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds)


def measure(rows: int, micro_batch: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--worker", f"--rows={rows}", f"--micro-batch={micro_batch}"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    peak, seconds = output.split()
    return float(peak), float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--micro-batch", type=int, default=4096)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.rows, options.micro_batch)
        return
    alone, _ = measure(options.rows, 0)
    whole, seconds = measure(options.rows, options.micro_batch)
    print(f"data and network alone: {alone:,.0f} MB at the peak")
    print(f"with ExactStep over {options.rows:,} rows: {whole:,.0f} MB at the peak, {seconds:.0f} s")
    print(f"difference: {whole - alone:,.0f} MB")


if __name__ == "__main__":
    main()
