"""`evalign predict`: the class of every row of a file, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from evalign._errors import expected, suggest
from evalign.cli._console import Console, running, usage
from evalign.cli._folder import check_file
from evalign.cli._main import UsageError
from evalign.tables import SUFFIXES, TableModel, stream, write


def run(console: Console, model: Path, data: str, out: str, proba: bool, keep: list[str], chunk: int) -> None:
    """Read, predict and write."""
    if console.as_json and out == "-":
        raise UsageError("Expected `out` to be a file with --json, but got -: both go to standard output.")
    with usage():
        if out != "-":
            _check_out(Path(out), data)
        found = TableModel.load(model)
    start, rows = perf_counter(), 0

    def predicted() -> Iterator[Any]:
        nonlocal rows
        for table in _chunks(data, chunk):
            with usage():
                made = _predicted(found, table, proba, keep)
            yield made
            rows += len(table)
            console.progress(f"{rows:,} rows ...")

    with running(target="out"):
        write(predicted(), out)
    seconds = perf_counter() - start
    rate = rows / max(seconds, 1e-9)
    console.remark(f"{rows:,} rows in {seconds:.1f} s, {rate:,.0f} rows a second.")
    console.result({"out": out, "rows": rows, "seconds": seconds, "rows_per_second": rate})


def _check_out(out: Path, data: str) -> None:
    if not out.name.lower().endswith(SUFFIXES):
        raise expected("out", f"to be - or to end in {', '.join(SUFFIXES)}", repr(str(out)))
    check_file(out)
    if data != "-" and out.exists() and out.samefile(data):
        raise expected("out", "to be another file than `data`", str(out))


def _chunks(data: str, size: int) -> Iterator[Any]:
    """What is wrong with the file is no fault of where the predictions go."""
    with usage(source="data"):
        yield from stream(data, size)


def _predicted(model: TableModel, table: Any, proba: bool, keep: list[str]) -> Any:
    import pandas as pd

    lost = [name for name in keep if name not in table.columns]
    if lost:
        raise expected("keep", "to be a column", repr(lost[0]), suggest(lost[0], table.columns))
    kept: dict[str, Any] = {name: table[name] for name in keep}
    new: dict[str, Any] = {}
    if not proba:
        new["prediction"] = model.predict(table)
    else:
        new["prediction"], p = model.predict_both(table)
        new |= {f"probability_{label}": p[:, number] for number, label in enumerate(model.labels)}
    twice = [name for name in new if name in kept]
    if twice:
        raise expected("keep", "without the names of results", repr(twice[0]))
    return pd.DataFrame({**kept, **new}, index=table.index)
