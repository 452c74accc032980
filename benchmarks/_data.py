"""The papers' datasets for benchmarks, prepared as the papers do; looked for in `EVALIGN_DATA`."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np

import evalign as ev

DROPPED = {
    "cocktailparty": {
        "stamp", "sample_no", "swapped", "person1_index", "person2_index", "person1_id", "person2_id",
        "dyad1_y", "dyad2_y",
    },
    "creditcard": {"Time"},
}  # fmt: skip


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Features and classes, or None if the files are not there."""
    if name == "mammography":
        table = ev.datasets.load(name)
        return table.X, table.y
    folder = Path(os.environ.get("EVALIGN_DATA", "../shared/data")) / name.split("-")[0]
    if not folder.exists():
        return None
    return {
        "adult": _adult,
        "creditcard": _creditcard,
        "cocktailparty": _cocktailparty,
        "caltech256": _caltech,
    }[folder.name](folder)


def _rows(file: Path, skip: str | None = None) -> list[list[str]]:
    with gzip.open(file, "rt") as lines:
        kept = (line for line in lines if line.strip() and not (skip and line.startswith(skip)))
        return list(csv.reader(kept, skipinitialspace=True))


def _columns(file: Path, name: str, target: str) -> tuple[np.ndarray, np.ndarray]:
    header, *body = _rows(file)
    cells = np.array(body)
    keep = [i for i, column in enumerate(header) if column not in DROPPED[name] | {target}]
    y = cells[:, header.index(target)].astype(np.float32).astype(np.int64)
    return cells[:, keep].astype(np.float32), y


def _creditcard(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    x, y = _columns(folder / "creditcard.csv.gz", "creditcard", "Class")
    x[:, -1] = np.log(x[:, -1] + 0.001)
    return x, y


def _cocktailparty(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    x, y = _columns(folder / "cp_binary.csv.gz", "cocktailparty", "target")
    return x, 1 - y


def _adult(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rows = _rows(folder / "adult.data.gz") + _rows(folder / "adult.test.gz", skip="|")
    cells = np.array([row for row in rows if len(row) == 15], dtype=object)
    y = np.array([str(label).rstrip(".") == ">50K" for label in cells[:, -1]], dtype=np.int64)
    numeric = (0, 4, 10, 11, 12)
    columns = [
        cells[:, i].astype(np.float32)
        if i in numeric
        else np.unique(cells[:, i].astype(str), return_inverse=True)[1]
        for i in range(14)
        if i != 2  # fnlwgt
    ]
    return np.stack(columns, axis=1).astype(np.float32), y


def _caltech(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "caltech256_clip_vitb32.npz") as file:
        return file["x"].astype(np.float32), file["y"].astype(np.int64)
