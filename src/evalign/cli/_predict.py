"""`evalign predict`: the class of every row of a file, one chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from evalign._errors import expected, suggest
from evalign.cli._console import Console, blame_run, blame_usage
from evalign.cli._main import RunError, UsageError
from evalign.cli._paths import check_file
from evalign.tables import SUFFIXES, Counts, Drift, Profile, TableModel, is_address, stream, write


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The options of `evalign predict`; `out` is - for standard output."""

    model: Path
    data: str
    out: str
    proba: bool
    keep: tuple[str, ...]
    chunk: int
    raw: bool
    threshold: float | None
    strict: bool
    verify: Path | None
    query: str | None


def run(console: Console, options: PredictOptions) -> None:
    """Read, predict and write chunk by chunk."""
    out = options.out
    if console.as_json and out == "-":
        raise UsageError("Expected `out` to be a file with --json, but got -: both go to standard output.")
    with blame_usage():
        if out != "-":
            _check_out(Path(out), options.data)
        model = TableModel.load(options.model, options.verify)
        if options.threshold is not None:
            model = model.with_threshold(options.threshold)
        monitor = Monitor(model.profile)
    start = perf_counter()

    def predict_chunks() -> Iterator[Any]:
        with console.progress("rows") as bar:
            for table in _read_chunks(options):
                with blame_usage(table="data"):
                    predictions = _predict(model, table, options, monitor)
                yield predictions
                bar.update(len(table))
        if options.strict and monitor.drifts:
            texts = " ".join(drift.text for drift in monitor.drifts)
            raise RunError(f"The rows differ from those of the training. {texts}")

    with blame_run(target="out"):
        rows = write(predict_chunks(), out, options.raw)
    seconds = perf_counter() - start
    rate = rows / max(seconds, 1e-9)
    console.warn(drift.text for drift in monitor.drifts)
    console.remark(f"{rows:,} rows in {seconds:.1f} s, {rate:,.0f} rows per second.")
    console.print_json(
        {
            "out": out, "rows": rows, "seconds": seconds, "rows_per_second": rate,
            "drift": [asdict(drift) for drift in monitor.drifts],
        }
    )  # fmt: skip


class Monitor:
    """Counts what differs from the training rows, chunk by chunk; nothing for a model without a profile."""

    def __init__(self, profile: Profile | None) -> None:
        self.profile = profile
        self.counts: dict[str | None, Counts] = {}

    def add(self, table: Any, predictions: Any) -> None:
        """Count the values of a converted chunk, and the predictions for it."""
        if self.profile is not None:
            for name, counts in self.profile.count(table, predictions).items():
                self.counts[name] = self.counts[name] + counts if name in self.counts else counts

    @property
    def drifts(self) -> list[Drift]:
        """The differences that are worth a remark."""
        return [] if self.profile is None or not self.counts else self.profile.find_drift(self.counts)


def _check_out(out: Path, data: str) -> None:
    if not out.name.lower().endswith(SUFFIXES):
        raise expected("out", f"to be - or to end in {', '.join(SUFFIXES)}", repr(str(out)))
    check_file(out)
    if data != "-" and not is_address(data) and out.exists() and out.samefile(data):
        raise expected("out", "to be another file than `data`", str(out))


def _read_chunks(options: PredictOptions) -> Iterator[Any]:
    """Read chunks; an error in the file is blamed on `data`, not on `out`."""
    with blame_usage(source="data"):
        yield from stream(options.data, options.chunk, options.query)


def _predict(model: TableModel, table: Any, options: PredictOptions, monitor: Monitor) -> Any:
    import pandas as pd

    for name in options.keep:
        if name not in table.columns:
            raise expected("keep", "to be a column", repr(name), suggest(name, table.columns))
    converted = model.schema.convert(table)
    predictions, p = model.predict_converted(converted)
    monitor.add(converted, predictions)
    results: dict[str, Any] = {"prediction": predictions}
    if options.proba:
        results |= {f"probability_{label}": p[:, number] for number, label in enumerate(model.labels)}
    for name in options.keep:
        if name in results:
            raise expected("keep", "without the names of results", repr(name))
    return pd.DataFrame({**{name: table[name] for name in options.keep}, **results}, index=table.index)
