"""The speed and the memory of `evalign predict` on a file larger than memory should need to hold.

Makes a CSV file of many rows (seven columns of numbers, one of categories) in a temporary folder, fits a
small model on its first rows, and predicts the whole file in a process of its own. The peak is that of
this process, as the system counted it.

    python benchmarks/predict.py [--rows 5000000] [--method lightgbm_rule] [--out csv]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import evalign

NUMBERS, CITIES = 7, ("Rome", "Oslo", "Bonn", "Lima", "Cairo", "Quito")
BLOCK = 250_000
#: Rows to fit on, and the most memory that predicting may take.
FITTED, MOST = 20_000, 1024


def write(path: Path, rows: int) -> None:
    make = np.random.default_rng(0)
    with path.open("w") as file:
        for start in range(0, rows, BLOCK):
            size = min(BLOCK, rows - start)
            table = pd.DataFrame(make.normal(size=(size, NUMBERS)).round(7)).add_prefix("x")
            table["city"] = make.choice(CITIES, size)
            score = table["x0"] + table["x1"] ** 2 + (table["city"] == "Rome") + make.normal(0, 0.5, size)
            table["y"] = np.where(score > 2.5, "yes", "no")
            table.to_csv(file, index=False, header=start == 0)


def evalign_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evalign", *map(str, arguments)]


def peak_and_seconds(command: list[str]) -> tuple[float, float]:
    """The memory in MB and the time that a process took."""
    source = str(Path(evalign.__file__).parents[1])
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source})  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(process.returncode)
    return usage.ru_maxrss / 1024, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--method", default="lightgbm_rule")
    parser.add_argument("--out", default="csv", choices=["csv", "csv.gz", "parquet"])
    options = parser.parse_args()
    len_small = min(FITTED, options.rows)
    with tempfile.TemporaryDirectory() as folder:
        small, large, model = (Path(folder, name) for name in ("small.csv", "large.csv", "model"))
        write(small, len_small)
        write(large, options.rows)
        print(f"{options.rows:,} rows, {large.stat().st_size / 2**20:,.0f} MB of CSV")
        fit = ["fit", small, "--target=y", f"--method={options.method}", f"--out={model}", "--quiet"]
        peak_and_seconds(evalign_command(*fit))
        base, started = peak_and_seconds(
            evalign_command("predict", model, small, f"--out={folder}/s.csv", "--quiet")
        )
        out = Path(folder, f"predictions.{options.out}")
        predict = evalign_command("predict", model, large, f"--out={out}", "--proba", "--quiet")
        peak, seconds = peak_and_seconds(predict)
        speed = f"{options.rows / seconds:,.0f} rows a second"
        print(f"{speed}, {seconds:.0f} s with the {started:.0f} s of a start")
        print(f"{peak:,.0f} MB at the peak, {peak - base:,.0f} MB more than for {len_small:,} rows")
        if peak > MOST:
            sys.exit(f"more than {MOST} MB")


if __name__ == "__main__":
    main()
