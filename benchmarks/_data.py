"""The papers' datasets for benchmarks, prepared as in the papers and read from the folder `EVALIGN_DATA`."""

import os
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from evalign.papers import data as papers_data

#: Used if the variable EVALIGN_DATA is not set.
DEFAULT_FOLDER = Path("../shared/data")


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return features as flat rows of float32 and classes, or None if the files are missing."""
    if "EVALIGN_DATA" not in os.environ and DEFAULT_FOLDER.is_dir():
        os.environ["EVALIGN_DATA"] = str(DEFAULT_FOLDER)
    try:
        data = papers_data.load(name.removesuffix("-pca"), download=False)
    except FileNotFoundError:
        return None
    x = data.X.reshape(len(data.y), -1).astype(np.float32, copy=False)
    if data.X.dtype == np.uint8:
        x = x / 255
    if name.endswith("-pca"):
        # Without labels and on all rows: the components that explain 80 % of the variance, at most 64.
        x = PCA(0.8, svd_solver="full").fit_transform(x)[:, :64].astype(np.float32)
    return x, data.y


def sample_rows(x: np.ndarray, y: np.ndarray, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return at most `rows` rows, stratified by class, drawn with seed 0."""
    if rows is None or rows >= len(y):
        return x, y
    sample, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
    return x[np.sort(sample)], y[np.sort(sample)]
