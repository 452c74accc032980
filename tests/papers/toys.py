"""Small tables for the tests, and a script that runs one: `python toys.py STORAGE OUT [SECONDS A POINT]`."""

import sys
import time
from dataclasses import replace

from evalign.papers import Column, Data, Number, Row, Scale, Table, reproduce

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
    notes=("Toys are for tests.",),
)  # fmt: skip

#: One of its losses does not exist.
BROKEN = replace(TOY, name="broken", rows=(*TOY.rows[:1], PaperRow("no loss", "nothing")))


def slow(seconds):
    """Make every point take longer, so that there is a middle in which to interrupt."""
    from evalign.papers import _engine

    run = _engine.run

    def slower(table, point, seed):
        time.sleep(seconds)
        return run(table, point, seed)

    _engine.run = slower


if __name__ == "__main__":
    storage, out, *rest = sys.argv[1:]
    slow(float(rest[0]) if rest else 0)
    try:
        made = reproduce(TOY, storage=storage, out=out, progress=False, interval=1, grace=2)
    except KeyboardInterrupt:
        sys.exit(130)
    print("done" if made.results.complete else "not done")
