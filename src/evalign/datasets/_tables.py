"""Readers of the tables mammography, adult, creditcard and cocktailparty, prepared as BtG does."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evalign._typing import Indices
from evalign.datasets._files import Content, check_row_count, file_error, open_text

#: The number of rows of each official file: a truncated file may look intact otherwise.
ROWS = {"adult.data": 32561, "adult.test": 16281, "creditcard.csv": 284807, "cp_binary.csv": 4800}

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
ADULT_NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")

CREDITCARD = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class")

#: Columns that identify people and times, and columns that are always 0.
PAIR_IDS = (
    "stamp", "sample_no", "swapped", "person1_index", "person2_index", "person1_id", "person2_id",
)  # fmt: skip
PAIR_ZEROS = ("dyad1_y", "dyad2_y")
PAIRS = (
    *PAIR_IDS,
    *(
        f"{person}_{feature}"
        for person in ("dyad1", "dyad2", "context1", "context2", "context3", "context4")
        for feature in ("x", "y", "cosa", "sina")
    ),
    "target",
)


def read_mammography() -> Content:
    """Read the table that comes with the package; class '1' is positive."""
    compressed = resources.files("evalign.datasets").joinpath("data/mammography.csv.gz").read_bytes()
    header, *body = csv.reader(io.StringIO(gzip.decompress(compressed).decode()))
    return Content(
        X=np.array([row[:-1] for row in body], dtype=np.float32),
        y=np.array([row[-1] == "'1'" for row in body], dtype=np.int64),
        feature_names=tuple(header[:-1]),
        class_names=("-1", "1"),
    )


def read_adult(files: Sequence[Path]) -> Content:
    """Read adult: drop `fnlwgt` and turn text into category codes; the second file is the test part."""
    parts = [_adult_rows(file) for file in files]
    cells = np.array([row for part in parts for row in part], dtype=object)
    names = [name for name in ADULT if name != "fnlwgt"]
    columns = [
        cells[:, ADULT.index(name)].astype(np.float32)
        if name in ADULT_NUMBERS
        else np.unique(cells[:, ADULT.index(name)].astype(str), return_inverse=True)[1]
        for name in names
    ]
    return Content(
        X=np.stack(columns, axis=1).astype(np.float32),
        y=np.array([row[-1] == ">50K" for part in parts for row in part], dtype=np.int64),
        feature_names=tuple(names),
        class_names=("<=50K", ">50K"),
        official_test=np.arange(len(parts[0]), len(cells), dtype=np.int64),
    )


def _adult_rows(file: Path) -> list[list[str]]:
    """Return the checked cells of a file; adult.test begins with a comment and its labels end in a dot."""
    rows = []
    with open_text(file) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip() or line.startswith("|"):
                continue
            row = [cell.strip() for cell in line.split(",")]
            row[-1] = row[-1].removesuffix(".")
            _check_adult(file, number, row)
            rows.append(row)
    check_row_count(file, len(rows), ROWS)
    return rows


def _check_adult(file: Path, number: int, row: list[str]) -> None:
    if len(row) != len(ADULT) + 1:
        wanted = f"with {len(ADULT) + 1} cells in line {number}"
        raise file_error(file, wanted, f"{len(row)}")
    if row[-1] not in ("<=50K", ">50K"):
        raise file_error(file, f"with the label <=50K or >50K in line {number}", repr(row[-1]))
    for name in ADULT_NUMBERS:
        if not row[ADULT.index(name)].isdecimal():
            raise file_error(file, f"with a number as {name} in line {number}", repr(row[ADULT.index(name)]))


def read_creditcard(files: Sequence[Path]) -> Content:
    """Read creditcard: drop `Time` and replace `Amount` by log(Amount + 0.001)."""
    names = CREDITCARD[1:-1]
    X, y = _read_numbers(files[0], CREDITCARD, names)
    if X[:, -1].min() < 0:
        raise file_error(files[0], "with no Amount below 0", X[:, -1].min())
    X[:, -1] = np.log(X[:, -1] + 0.001)
    return Content(X, y, (*names[:-1], "log Amount"), ("genuine", "fraud"))


def read_cocktailparty(files: Sequence[Path]) -> Content:
    """Read pairs of people; the target is inverted, so that positive means in different groups."""
    names = tuple(name for name in PAIRS[:-1] if name not in PAIR_IDS + PAIR_ZEROS)
    X, y = _read_numbers(files[0], PAIRS, names)
    return Content(X, 1 - y, names, ("same group", "different groups"))


def _read_numbers(
    file: Path, header: tuple[str, ...], names: Sequence[str]
) -> tuple[NDArray[np.float32], Indices]:
    """Return the named columns of a table of numbers, and its last column as classes 0 and 1."""
    with open_text(file) as stream:
        columns = tuple(next(csv.reader(stream), []))
        if columns != header:
            wanted = f"to begin with the {len(header)} columns {header[0]}, {header[1]}, ..., {header[-1]}"
            raise file_error(file, wanted, f"{', '.join(columns)[:80] or 'nothing'}")
        places = [header.index(name) for name in (*names, header[-1])]
        try:
            with warnings.catch_warnings(), np.errstate(over="ignore"):
                warnings.simplefilter("ignore", UserWarning)  # no rows: checked below
                cells = np.loadtxt(
                    stream, np.float32, comments=None, delimiter=",", usecols=places, ndmin=2, quotechar='"'
                )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise file_error(
                file, "with numbers in every row", f"{error} (rows are counted from 0)"
            ) from None
    check_row_count(file, len(cells), ROWS)
    if not np.isfinite(cells).all():
        row, column = np.argwhere(~np.isfinite(cells))[0]
        at = f"{cells[row, column]} as {(*names, header[-1])[column]} in row {row}"
        raise file_error(file, "with finite numbers only", at)
    if not np.isin(cells[:, -1], (0, 1)).all():
        raise file_error(file, f"with {header[-1]} 0 or 1", np.unique(cells[:, -1])[:5].tolist())
    return np.ascontiguousarray(cells[:, :-1]), cells[:, -1].astype(np.int64)
