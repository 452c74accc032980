"""Tables of our own, which the papers lack: what each part of EAST contributes, and when it pays at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evalign.papers.tables._east import PATIENCE, PATIENT, PRECISION_NOTE, STOPPED, WITHOUT_PATIENT
from evalign.papers.tables._table import (
    STOPPED_NOTE,
    PaperColumn,
    PaperData,
    PaperRow,
    PaperTable,
    Protocol,
    Scale,
    Settings,
)

CITATION = "A study of our own."
PROTOCOL = Protocol(split_per_trial=True)
F1 = {"metric": "f1"}


def _row(name: str, **settings: object) -> PaperRow:
    return PaperRow(name, "metric", {**F1, **settings})


#: Everything that differs from the row EAST is in the name of a row; see also `BY_ROW`.
ROWS = (
    PaperRow("CE", "ce"), PaperRow("CE + rule", "ce", rule=True),
    replace(STOPPED, extra=False), replace(PATIENT, extra=False), _row("EAST"),
    _row("T = 0.2, not annealed", step="linear"), _row("r = 0.5"), _row("r = 0.9"),
    _row("floor 0.1"), _row("floor 0.002"),
    _row("threshold 1/d, not annealed", step="at 1/d"),
    PaperRow("plain softmax", "soft fbeta", {"beta": 1.0}),
    _row("batches of 64"), _row("batches of 1024"), _row("memory 0.9", memory=0.9),
    _row("CE first", warm=True), _row("anchor 0.3", anchor=0.3), PaperRow("aligned", "aligned"),
)  # fmt: skip
BY_ROW: dict[str, Settings] = {
    "r = 0.5": {"decay": 0.5}, "r = 0.9": {"decay": 0.9},
    "floor 0.1": {"floor": 0.1}, "floor 0.002": {"floor": 0.002},
    "batches of 64": {"batch_size": 64}, "batches of 1024": {"batch_size": 1024},
}  # fmt: skip
SETTINGS = {
    "learning_rate": 0.001, "batch_size": 256, "dropout": 0.25, "decay": 0.8, "floor": 0.02,
    "max_epochs": 5000, "patience": 20,
}  # fmt: skip
TINY = {"network": "darknet_tiny", "batch_size": 64}
SKIP = (("cifar10", "batches of 64"),)  # all of its rows have them

ABLATION = PaperTable(
    name="ablation",
    title="what each part of EAST contributes",
    citation=CITATION,
    data=(
        PaperData("cocktailparty", "CocktailParty"), PaperData("mammography", "Mammography"),
        PaperData("caltech256", "Caltech256"), PaperData("cifar10", "CIFAR-10", "darknet19"),
    ),
    rows=ROWS,
    columns=(
        PaperColumn("F1", "f1"), PaperColumn("Acc", "accuracy"), PaperColumn("MCC", "mcc"),
    ),
    full=Scale(10, {**SETTINGS, "max_epochs": 20000, "patience": 50}, by_row=BY_ROW, skip=WITHOUT_PATIENT),
    medium=Scale(
        5, {**SETTINGS, "patience": 10},
        by_data={"cifar10": {**TINY, "rows": 2000, "precision": "mixed"}},
        by_row={**BY_ROW, **PATIENCE}, skip=SKIP,
    ),
    small=Scale(
        2, {**SETTINGS, "max_epochs": 20, "patience": 5},
        by_data={"cifar10": {**TINY, "rows": 500, "max_epochs": 2}}, by_row=BY_ROW,
        skip=(*SKIP, *WITHOUT_PATIENT),
    ),
    protocol=PROTOCOL,
    reference="EAST",
    notes=(
        "The row EAST has r = 0.8, a floor of 0.02, and batches of 256 rows (64 images). Each row below it "
        "changes one thing, which its name says ('batches of 64' is EAST itself on CIFAR-10, and not run "
        "there); 'threshold 1/d' is to be compared with 'not annealed', and 'aligned' is CE first, anchor "
        "0.3 and memory 0.9 together, with weights chosen by the hard metric.",
        STOPPED_NOTE,
        "For two classes the dynamic threshold is always 0.5 = 1/d: both rows are the same training, up to "
        "rounding, and differ by chance only.",
        "Rows of a trial share their split and their initial weights.",
        "Caltech256 are CLIP features of 7,556 images; CIFAR-10 may be a subset, and its network is Tiny "
        "Darknet at the scales small and medium.",
        PRECISION_NOTE,
    ),
)  # fmt: skip

#: The networks of the study when-it-pays by their hidden units.
NETWORKS = {"linear": "linear", "8": "mlp 8", "32-16": "mlp 32-16", "512-256-128": "mlp"}
#: One change of the data each: an argument of `Synthetic`, its values, and what else changes with it.
CHANGES: dict[str, dict[str, Any]] = {
    "": {},
    **{f", share {share}": {"share": share} for share in (0.01, 0.03, 0.3)},
    **{f", rows {rows}": {"rows": rows} for rows in (500, 1500, 12000)},
    **{f", noise {noise}": {"noise": noise} for noise in (0.1, 0.2, 0.3)},
    **{f", classes {n}": {"classes": n, "share": 0.2 / n} for n in (3, 6, 12)},
}
#: The made-up data of each level: the first word is the network, the rest the change.
LEVELS: dict[str, dict[str, Any]] = {
    **{network + change: given for network in ("linear", "32-16") for change, given in CHANGES.items()},
    "8": {}, "512-256-128": {},
    **{f"linear, bend {bend}": {"bend": bend} for bend in (0, 0.5, 2)},
}  # fmt: skip
NOISY = tuple(f"synthetic {level}" for level in LEVELS if level in NETWORKS or "noise" in level)
BASES = ("synthetic linear", "synthetic 32-16")
OTHER_METRICS = {"MCC": "mcc", "balanced accuracy": "balanced_accuracy", "F2": "fbeta(beta=2)"}

WHEN = PaperTable(
    name="when-it-pays",
    title="training runs for the study when-it-pays",
    citation=CITATION,
    data=tuple(
        PaperData(f"synthetic {level}", level, NETWORKS[level.split(",")[0]]) for level in LEVELS
    ),
    rows=(
        PaperRow("CE", "ce"), PaperRow("CE + rule", "ce", rule=True), _row("EAST"),
        PaperRow("aligned", "aligned"),
        *(PaperRow(f"surrogate, q = {q}", "surrogate", {"beta": 1.0, "q": q}, data=NOISY) for q in (0, 0.7)),
        *(PaperRow(f"CE + rule, {name}", "ce", {"metric": metric}, rule=True, data=BASES)
          for name, metric in OTHER_METRICS.items()),
        *(PaperRow(f"aligned, {name}", "aligned", {"metric": metric}, data=BASES)
          for name, metric in OTHER_METRICS.items()),
    ),
    columns=(
        PaperColumn("F1", "f1"), *(PaperColumn(name, metric) for name, metric in OTHER_METRICS.items()),
    ),
    full=Scale(20, {"learning_rate": (0.01, 0.001), "batch_size": 256, "max_epochs": 5000, "patience": 50}),
    medium=Scale(5, {"learning_rate": 0.01, "batch_size": 256, "max_epochs": 2000, "patience": 10},
                 by_data={"synthetic 512-256-128": {"learning_rate": 0.001}}),
    small=Scale(2, {"learning_rate": 0.01, "batch_size": 256, "max_epochs": 5, "patience": 3}),
    protocol=PROTOCOL,
)  # fmt: skip
