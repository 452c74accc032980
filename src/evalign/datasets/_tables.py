"""Tables: mammography, adult, creditcard and cocktailparty, prepared as BtG does."""

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

from evalign.datasets.reading import Content, counted, lines, refused

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
ADULT_NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")

CREDITCARD = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class")

#: What says who and when, and what is always 0.
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


def mammography() -> Content:
    """Read the bundled table; class '1' is positive."""
    packed = resources.files("evalign.datasets").joinpath("data/mammography.csv.gz").read_bytes()
    header, *body = csv.reader(io.StringIO(gzip.decompress(packed).decode()))
    return Content(
        X=np.array([row[:-1] for row in body], dtype=np.float32),
        y=np.array([row[-1] == "'1'" for row in body], dtype=np.int64),
        feature_names=tuple(header[:-1]),
        class_names=("-1", "1"),
    )


def adult(files: Sequence[Path]) -> Content:
    """Drop `fnlwgt`, turn text into category codes; the second file is the test part."""
    parts = [_adult_rows(file) for file in files]
    cells = np.array([row for part in parts for row in part], dtype=object)
    kept = [column for column in ADULT if column != "fnlwgt"]
    columns = [
        cells[:, ADULT.index(name)].astype(np.float32)
        if name in ADULT_NUMBERS
        else np.unique(cells[:, ADULT.index(name)].astype(str), return_inverse=True)[1]
        for name in kept
    ]
    return Content(
        X=np.stack(columns, axis=1).astype(np.float32),
        y=np.array([row[-1] == ">50K" for part in parts for row in part], dtype=np.int64),
        feature_names=tuple(kept),
        class_names=("<=50K", ">50K"),
        official_test=np.arange(len(parts[0]), len(cells), dtype=np.int64),
    )


def _adult_rows(file: Path) -> list[list[str]]:
    """Cells of one file, checked; the first line of adult.test is a comment, its labels end in a dot."""
    rows = []
    with lines(file) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip() or line.startswith("|"):
                continue
            row = [cell.strip() for cell in line.split(",")]
            row[-1] = row[-1].removesuffix(".")
            _check_adult(file, number, row)
            rows.append(row)
    counted(file, len(rows))
    return rows


def _check_adult(file: Path, number: int, row: list[str]) -> None:
    if len(row) != len(ADULT) + 1:
        wanted = f"with {len(ADULT) + 1} cells in line {number}"
        raise refused(file, wanted, f"{len(row)}")
    if row[-1] not in ("<=50K", ">50K"):
        raise refused(file, f"with the label <=50K or >50K in line {number}", repr(row[-1]))
    for name in ADULT_NUMBERS:
        if not row[ADULT.index(name)].isdecimal():
            raise refused(file, f"with a number as {name} in line {number}", repr(row[ADULT.index(name)]))


def creditcard(files: Sequence[Path]) -> Content:
    """Drop `Time`; `Amount` becomes log(Amount + 0.001)."""
    kept = CREDITCARD[1:-1]
    X, y = _numbers(files[0], CREDITCARD, kept)
    if X[:, -1].min() < 0:
        raise refused(files[0], "with no Amount below 0", X[:, -1].min())
    X[:, -1] = np.log(X[:, -1] + 0.001)
    return Content(X, y, (*kept[:-1], "log Amount"), ("genuine", "fraud"))


def cocktailparty(files: Sequence[Path]) -> Content:
    """Pairs of people; the target is inverted, so that positive means: not in one group."""
    kept = tuple(name for name in PAIRS[:-1] if name not in PAIR_IDS + PAIR_ZEROS)
    X, y = _numbers(files[0], PAIRS, kept)
    return Content(X, 1 - y, kept, ("same group", "different groups"))


def _numbers(
    file: Path, header: tuple[str, ...], kept: Sequence[str]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Some columns of a table of numbers, and its last column as classes 0 and 1."""
    with lines(file) as stream:
        found = tuple(next(csv.reader(stream), []))
        if found != header:
            wanted = f"to begin with the {len(header)} columns {header[0]}, {header[1]}, ..., {header[-1]}"
            raise refused(file, wanted, f"{', '.join(found)[:80] or 'nothing'}")
        columns = [header.index(name) for name in (*kept, header[-1])]
        try:
            with warnings.catch_warnings(), np.errstate(over="ignore"):
                warnings.simplefilter("ignore", UserWarning)  # no rows: counted below
                cells = np.loadtxt(
                    stream, np.float32, comments=None, delimiter=",", usecols=columns, ndmin=2, quotechar='"'
                )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise refused(file, "with numbers in every row", f"{error} (rows count from 0)") from None
    counted(file, len(cells))
    if not np.isfinite(cells).all():
        row, column = np.argwhere(~np.isfinite(cells))[0]
        at = f"{cells[row, column]} as {(*kept, header[-1])[column]} in row {row}"
        raise refused(file, "with finite numbers only", at)
    if not np.isin(cells[:, -1], (0, 1)).all():
        raise refused(file, f"with {header[-1]} 0 or 1", np.unique(cells[:, -1])[:5].tolist())
    return np.ascontiguousarray(cells[:, :-1]), cells[:, -1].astype(np.int64)
