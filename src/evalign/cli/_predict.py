"""`evalign predict`: the class of every row of a file, one chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from evalign._errors import expected, suggest
from evalign.cli._console import Console, blame_run, blame_usage
from evalign.cli._main import UsageError
from evalign.cli._paths import check_file
from evalign.tables import SUFFIXES, TableModel, stream, write


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The options of `evalign predict`; `out` is - for standard output."""

    model: Path
    data: str
    out: str
    proba: bool
    keep: tuple[str, ...]
    chunk: int


def run(console: Console, options: PredictOptions) -> None:
    """Read, predict and write chunk by chunk."""
    out = options.out
    if console.as_json and out == "-":
        raise UsageError("Expected `out` to be a file with --json, but got -: both go to standard output.")
    with blame_usage():
        if out != "-":
            _check_out(Path(out), options.data)
        model = TableModel.load(options.model)
    start, rows = perf_counter(), 0

    def predict_chunks() -> Iterator[Any]:
        nonlocal rows
        with console.progress("rows") as bar:
            for table in _read_chunks(options.data, options.chunk):
                with blame_usage():
                    predictions = _predict(model, table, options.proba, options.keep)
                yield predictions
                rows += len(table)
                bar.update(len(table))

    with blame_run(target="out"):
        write(predict_chunks(), out)
    seconds = perf_counter() - start
    rate = rows / max(seconds, 1e-9)
    console.remark(f"{rows:,} rows in {seconds:.1f} s, {rate:,.0f} rows per second.")
    console.print_json({"out": out, "rows": rows, "seconds": seconds, "rows_per_second": rate})


def _check_out(out: Path, data: str) -> None:
    if not out.name.lower().endswith(SUFFIXES):
        raise expected("out", f"to be - or to end in {', '.join(SUFFIXES)}", repr(str(out)))
    check_file(out)
    if data != "-" and out.exists() and out.samefile(data):
        raise expected("out", "to be another file than `data`", str(out))


def _read_chunks(data: str, size: int) -> Iterator[Any]:
    """Read chunks; an error in the file is blamed on `data`, not on `out`."""
    with blame_usage(source="data"):
        yield from stream(data, size)


def _predict(model: TableModel, table: Any, proba: bool, keep: tuple[str, ...]) -> Any:
    import pandas as pd

    for name in keep:
        if name not in table.columns:
            raise expected("keep", "to be a column", repr(name), suggest(name, table.columns))
    results: dict[str, Any] = {}
    if not proba:
        results["prediction"] = model.predict(table)
    else:
        results["prediction"], p = model.predict_both(table)
        results |= {f"probability_{label}": p[:, number] for number, label in enumerate(model.labels)}
    for name in keep:
        if name in results:
            raise expected("keep", "without the names of results", repr(name))
    return pd.DataFrame({**{name: table[name] for name in keep}, **results}, index=table.index)
