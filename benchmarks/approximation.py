"""How far the soft metric of EAST is from the hard one, by temperature and number of rows.

Made-up rows whose probabilities are true: logits are normal with deviation 2, and the class of a row is drawn
with its probabilities. Each number is the mean over samples of |soft - hard| on the same rows. That of
accuracy has a bound: the share of rows in the steep piece of the step, plus the most that any other row can
lose. The last row compares the hard metric of a sample with that of very many rows: what too few rows do, at
any temperature.

    python benchmarks/approximation.py [--samples 100]
"""

import argparse
import datetime
import platform

import torch
from torch import Tensor

from evalign import metrics
from evalign.metrics import Metric
from evalign.softsets import soft_assign, soft_confusion

TEMPERATURES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
ROWS = (100, 1_000, 10_000)
MANY = 1_000_000
#: The number of classes, and what is added to the first logit: with 3.3, the second class has 16 % of rows.
PROBLEMS = {2: 3.3, 10: 0.0}
#: A metric and a number of rows for each column.
COLUMNS = [*(("f1", rows) for rows in ROWS), ("accuracy", ROWS[-1])]


def draw(rows: int, classes: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    logits = 2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    logits[:, 0] += PROBLEMS[classes]
    p = logits.softmax(1)
    return p, torch.multinomial(p, 1, generator=generator).squeeze(1)


def soft(metric: Metric, p: Tensor, y: Tensor, temperature: float) -> Tensor:
    return metric(soft_confusion(soft_assign(p, temperature), y, p.shape[1]))


def hard(metric: Metric, p: Tensor, y: Tensor) -> Tensor:
    return metric(metrics.hard_confusion(p.argmax(1), y, p.shape[1]))


def bound(p: Tensor, temperature: float) -> float:
    """The bound on what a row's membership of its class changes, on average over rows."""
    first, second = p.topk(2).values.unbind(1)
    steep = (first - second < 5 * temperature * (first + second) / 2).double().mean().item()
    others = p.shape[1] - 1
    return steep + (1 - steep) * others * temperature / (1 + (others - 1) * temperature)


def print_problem(classes: int, count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    many = draw(MANY, classes, generator)
    samples = {rows: [draw(rows, classes, generator) for _ in range(count)] for rows in ROWS}
    columns = [(metrics.as_metric(name), samples[rows]) for name, rows in COLUMNS]

    def average(error) -> str:
        return " | ".join(
            f"{sum(float(abs(error(metric, *pair))) for pair in pairs) / count:.4f}"
            for metric, pairs in columns
        )

    print(f"\n{classes} classes, {float((many[1] == 1).double().mean()):.0%} of the rows in the second\n")
    print("| T | " + " | ".join(f"{name}, {rows:,} rows" for name, rows in COLUMNS) + " | its bound |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for t in TEMPERATURES:
        cells = average(lambda metric, p, y, t=t: soft(metric, p, y, t) - hard(metric, p, y))
        print(f"| {t:g} | {cells} | {bound(many[0], t):.4f} |", flush=True)
    whole = {metric.name: hard(metric, *many) for metric, _ in columns}
    cells = average(lambda metric, p, y: hard(metric, p, y) - whole[metric.name])
    print(f"| hard, but all rows | {cells} | |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for classes in PROBLEMS:
        print_problem(classes, options.samples)
    print(f"\n{options.samples} samples, seed 0, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(datetime.datetime.now(datetime.timezone.utc).date())


if __name__ == "__main__":
    main()
