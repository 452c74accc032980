"""The papers' datasets for benchmarks, prepared as the papers do; looked for in `EVALIGN_DATA`."""

import os
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import evalign as ev

BESIDE = Path("../shared/data")


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Features as flat rows of float32 and classes, or None if the files are not there."""
    if "EVALIGN_DATA" not in os.environ and BESIDE.is_dir():
        os.environ["EVALIGN_DATA"] = str(BESIDE)
    try:
        data = ev.datasets.load(name.removesuffix("-pca"), download=False)
    except FileNotFoundError:
        return None
    x = data.X.reshape(len(data.y), -1).astype(np.float32, copy=False)
    if data.X.dtype == np.uint8:
        x = x / 255
    if name.endswith("-pca"):
        # Without labels and on all rows: components that hold 80 % of the variance, at most 64.
        x = PCA(0.8, svd_solver="full").fit_transform(x)[:, :64].astype(np.float32)
    return x, data.y


def some(x: np.ndarray, y: np.ndarray, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """At most so many rows, with the same shares of all classes; seed 0."""
    if rows is None or rows >= len(y):
        return x, y
    kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
    return x[np.sort(kept)], y[np.sort(kept)]
