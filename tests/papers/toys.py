"""Small tables for the tests, and a script: `python toys.py STORAGE OUT [SECONDS_PER_POINT [JOBS]]`."""

import multiprocessing
import sqlite3
import sys
import time
from dataclasses import replace

import sqlalchemy

from evalign.papers import reproduce
from evalign.papers.tables import Number, PaperColumn, PaperData, PaperRow, PaperTable, Scale


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def do_not_wait_for_the_disk(connection, _):
    """What SQLite has written survives a killed process anyway, though not a power cut."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


SOFT_SET = {"metric": "f1", "task": "binary", "step": "linear", "thresholds": "btg"}
SETTINGS = {"learning_rate": (0.01, 0.003), "batch_size": 256, "max_epochs": 2, "patience": 2, "rows": 600}

TOY = PaperTable(
    name="toy",
    title="a toy",
    citation="Nobody (2000).",
    data=(PaperData("mammography", "Mammography", "btg_net"),),
    rows=(
        PaperRow("F1*", "metric", SOFT_SET), PaperRow("Dice", "dice"), PaperRow("BCE", "ce"),
        PaperRow("rule", "ce", rule=True, extra=True),
    ),
    columns=(PaperColumn("F1", "f1", "thresholds"), PaperColumn("MCC", "mcc", extra=True)),
    full=Scale(3, SETTINGS),
    small=Scale(2, SETTINGS),
    numbers={
        ("F1*", "mammography", "F1"): Number(0.75, 0.01, True),
        ("BCE", "mammography", "F1"): Number(0.5, 0.02),
    },
    bold=("at least", "BCE"),
    digits=2,
    notes=("This table is a toy.",),
)  # fmt: skip

#: One of its losses does not exist.
BROKEN = replace(TOY, name="broken", rows=(*TOY.rows[:1], PaperRow("no loss", "nothing")))


def slow_down(seconds):
    """Make every point take longer, so that a test can interrupt it."""
    from evalign.papers.studies import _workers

    run_point = _workers.run_point

    def slower(table, point, seed):
        time.sleep(seconds)
        return run_point(table, point, seed)

    _workers.run_point = slower


if __name__ == "__main__":
    storage, out, *rest = sys.argv[1:]
    slow_down(float(rest[0]) if rest else 0)
    jobs = int(rest[1]) if len(rest) > 1 else 1
    fork = multiprocessing.get_context("fork")  # a spawned process would spend seconds on imports
    multiprocessing.get_context = lambda method: fork
    try:
        result = reproduce(TOY, storage=storage, out=out, progress=False, interval=1, grace=2, jobs=jobs)
    except KeyboardInterrupt:
        sys.exit(130)
    print("done" if result.results.complete else "not done")
