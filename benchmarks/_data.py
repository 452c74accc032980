"""The papers' datasets for benchmarks, prepared as the papers do; looked for in `EVALIGN_DATA`."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

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
    loader = {
        "adult": _adult,
        "creditcard": _creditcard,
        "cocktailparty": _cocktailparty,
        "caltech256": _caltech,
        "cifar10": _cifar,
    }[folder.name]
    x, y = loader(folder)
    if name.endswith("-pca"):
        # Without labels and on all rows: components that hold 80 % of the variance, at most 64.
        x = PCA(0.8, svd_solver="full").fit_transform(x)[:, :64].astype(np.float32)
    return x, y


def some(x: np.ndarray, y: np.ndarray, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """At most so many rows, with the same shares of all classes; seed 0."""
    if rows is None or rows >= len(y):
        return x, y
    kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
    return x[np.sort(kept)], y[np.sort(kept)]


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


def _cifar(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "cifar10_subset_10k_2k.npz") as file:
        x = np.concatenate([file["x_train"], file["x_test"]]).reshape(-1, 32 * 32 * 3)
        return x.astype(np.float32) / 255, np.concatenate([file["y_train"], file["y_test"]]).astype(np.int64)
