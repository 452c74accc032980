"""Rows per second of what grows with the rows, and the bytes that processes exchange.

One thread; the best of several runs. From these, docs/guide/scale.md estimates what a billion rows take.

    OMP_NUM_THREADS=1 python benchmarks/scale.py
"""

import datetime
import platform
import time
from collections.abc import Callable

import numpy as np
import torch

import evalign as ev
from evalign.decisions import fit_rule
from evalign.metrics import hard_confusion


def measure(function: Callable[[], object], repeats: int = 5) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def report(what: str, rows: int, seconds: float) -> None:
    print(f"| {what} | {rows:,} | {rows / seconds / 1e6:.2f} million |", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {datetime.date.today()}\n")
    print("| what | rows at once | rows per second |\n|---|---|---|")
    for classes in (2, 10):
        rows = 2_000_000 // classes
        logits, y = torch.randn(rows, classes), torch.randint(classes, (rows,))
        predicted = logits.argmax(1)
        seconds = measure(lambda p=predicted, y=y, d=classes: hard_confusion(p, y, d))
        report(f"count a confusion matrix, {classes} classes", rows, seconds)
        loss = ev.MetricLoss("f1")
        leaf = logits.requires_grad_()
        seconds = measure(lambda leaf=leaf, y=y, loss=loss: torch.autograd.grad(loss(leaf, y), leaf))
        report(f"MetricLoss and its gradient, {classes} classes", rows, seconds)
    generator = np.random.default_rng(0)
    for rows in (100_000, 1_000_000):
        p = generator.beta(1, 9, rows)
        y = (generator.random(rows) < p).astype(int)
        for evidence in ("labels", "mixed"):
            seconds = measure(lambda p=p, y=y, evidence=evidence: fit_rule(p, y, "f1", evidence=evidence), 3)
            report(f"fit_rule, two classes, evidence {evidence!r}", rows, seconds)
    for classes in (2, 10, 1000):
        print(f"\n{classes} classes: {8 * classes**2:,} bytes per process and step", end="")
    print()


if __name__ == "__main__":
    main()
