"""Datasets for benchmarks, from the folder `EVALIGN_DATA`: small tables, and the data of the papers."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from evalign.papers import data as papers_data

#: Used if the variable EVALIGN_DATA is not set.
DEFAULT_FOLDER = Path("../shared/data")


#: Tables of the folder `tables`, those of scikit-learn, and those of the papers with their number of rows.
SMALL = [
    "german", "phoneme", "pima_indians_diabetes", "glass", "ecoli", "winequality_red", "new_thyroid",
    "haberman", "horse_colic", "breast_cancer", "ionosphere",
]  # fmt: skip
SKLEARN = ["digits", "wine"]
PAPERS = {
    "mammography": None, "cocktailparty": None, "adult": 10_000, "creditcard": 30_000, "cifar10-pca": 4_000,
    "fashion_mnist-pca": 4_000,
}  # fmt: skip
#: Cut to 30 rows of the second class.
RARE = {"mammography-30": "mammography", "adult-30": "adult"}
#: Every table by name.
TABLES = [*SMALL, *SKLEARN, *PAPERS, *RARE]


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


@cache
def load_table(name: str) -> tuple[pd.DataFrame, np.ndarray] | None:
    """Return a table and class indices, or None if the files are missing."""
    if name in SKLEARN:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    elif name in SMALL:
        folder = Path(os.environ.get("EVALIGN_DATA", DEFAULT_FOLDER))
        path = folder / "tables" / f"{name}.csv.gz"
        if not path.exists():
            return None
        x = pd.read_csv(path)
        y = x.pop("class")
    else:
        data = load(RARE.get(name, name))
        if data is None:
            return None
        x, y = sample_rows(*data, PAPERS[RARE.get(name, name)])
    y = np.unique(y, return_inverse=True)[1]
    if name in RARE:
        rare = np.flatnonzero(y == 1)
        drawn = np.random.default_rng(0).choice(rare, 30, replace=False)
        kept = np.sort(np.concatenate([np.flatnonzero(y == 0), drawn]))
        x, y = x[kept], y[kept]
    return pd.DataFrame(x), y
