"""`evalign predict`: the class of every row of a file, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from evalign.cli._console import Console, usage
from evalign.cli._main import UsageError
from evalign.tables import TableModel, stream, write


def run(console: Console, model: Path, data: str, out: str, proba: bool, keep: list[str], chunk: int) -> None:
    """Read, predict and write."""
    if console.as_json and out == "-":
        raise UsageError("Expected `out` to be a file with --json, but got -: both go to standard output.")
    with usage():
        found = TableModel.load(model)
        if data != "-" and not Path(data).exists():
            raise ValueError(f"There is no file {data}.")
    start, rows = perf_counter(), [0]
    write(_predicted(console, found, data, proba, keep, chunk, rows), out)
    seconds = perf_counter() - start
    rate = rows[0] / max(seconds, 1e-9)
    console.remark(f"{rows[0]:,} rows in {seconds:.1f} s, {rate:,.0f} rows a second.")
    console.result({"out": out, "rows": rows[0], "seconds": seconds, "rows_per_second": rate})


def _predicted(
    console: Console, model: TableModel, data: str, proba: bool, keep: list[str], chunk: int, rows: list[int]
) -> Iterator[Any]:
    import pandas as pd

    for table in stream(data, chunk):
        lost = [name for name in keep if name not in table.columns]
        if lost:
            raise UsageError(f"Expected `keep` to be columns of {data}, but got {lost[0]!r}.")
        columns: dict[str, Any] = {name: table[name] for name in keep}
        X = model.prepared(table)
        new: dict[str, Any] = {"prediction": model.named(model.classifier.predict(X))}
        if proba:
            p = model.classifier.predict_proba(X)
            new |= {f"probability_{label}": p[:, number] for number, label in enumerate(model.labels)}
        twice = [name for name in new if name in columns]
        if twice:
            raise UsageError(f"Expected `keep` without the names of results, but got {twice[0]!r}.")
        rows[0] += len(table)
        yield pd.DataFrame({**columns, **new}, index=table.index)
        if rows[0] > chunk:
            console.remark(f"{rows[0]:,} rows ...")
