"""Networks of the papers trained in float32 and in mixed precision: do their scores differ, and their times?

Each trial trains the same network twice, on the same split and from the same weights, with the settings of
the ablation at scale medium. The differences on test rows (mixed - float32) are paired by trial.

    EVALIGN_DATA=../shared/data python benchmarks/mixed_precision.py [--data mammography ...] [--trials 5]
"""

import argparse
import datetime
import platform
from typing import Any

import numpy as np
import torch

from evalign.papers.tables import TABLES, grid_settings
from evalign.papers.training import Outcome, Point, multiplies_bfloat16, run_point

TABLE = TABLES["ablation"]
ROWS = ("CE", "EAST")


def train(data: str, row: str, precision: str, seed: int) -> Outcome:
    place, rows = TABLE.find_cells(data, [row])
    (setting,) = grid_settings(TABLE, "medium", place, rows[0])
    return run_point(TABLE, Point("trial", data, (row,), {**setting, "precision": precision}, (seed,)), 0)


def describe(pairs: list[tuple[Outcome, Outcome]], row: str) -> str:
    def gain(of: Any) -> str:
        gains = np.array([of(mixed) - of(single) for single, mixed in pairs])
        return f"{gains.mean():+.4f} +/- {gains.std(ddof=1) / len(gains) ** 0.5:.4f}"

    scores = [gain(lambda one, name=name: one.scores[0][row][name]) for name in ("F1", "MCC")]
    single, mixed = (
        sum(pair[way].seconds for pair in pairs) / sum(pair[way].epochs[0] for pair in pairs)
        for way in (0, 1)
    )
    return " | ".join([*scores, gain(lambda one: one.valid_loss), f"{mixed / single:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["cocktailparty", "mammography"])
    parser.add_argument("--trials", type=int, default=5)
    options = parser.parse_args()
    if not multiplies_bfloat16("cpu"):
        parser.error("this processor has no instructions for bfloat16: both would be float32")
    torch.set_num_threads(1)
    print("| data | row | F1 | MCC | validation loss | time per epoch, ratio |\n|---|---|---|---|---|---|")
    for data in options.data:
        for row in ROWS:
            pairs = [
                (train(data, row, "single", seed), train(data, row, "mixed", seed))
                for seed in range(1, options.trials + 1)
            ]
            print(f"| {data} | {row} | {describe(pairs, row)} |", flush=True)
    print(f"\n{options.trials} trials, torch {torch.__version__}, {platform.machine()}, 1 thread, ", end="")
    print(datetime.datetime.now(datetime.timezone.utc).date())


if __name__ == "__main__":
    main()
