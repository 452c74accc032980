"""The tables as data: the numbers of the papers, and that every row and column can be built."""

import math
from dataclasses import replace

import pytest
import torch

from evalign.papers.data import NAMES as DATA_NAMES
from evalign.papers.data import Parts
from evalign.papers.studies import StudyPlan
from evalign.papers.tables import (
    ESTIMATORS,
    TABLES,
    Number,
    PaperColumn,
    PaperData,
    PaperRow,
    PaperTable,
    Scale,
    grid_settings,
)
from evalign.papers.tables._table import parse_numbers
from evalign.papers.training._losses import build_loss, build_metric
from evalign.training import TrainingData

NAMES = [
    "btg-table1", "btg-table2", "btg-table3", "btg-table4", "btg-fbeta", "btg-time",
    "fbeta-table1", "fbeta-table2",
    *(f"east-table{number}" for number in range(1, 4)), "east-images",
    *(f"east-table{number}" for number in range(4, 8)), "ablation",
]  # fmt: skip


def parts(classes):
    names = ("ant", "dog", "056.frog", "bee", *map(str, range(classes)))[:classes]
    rows = TrainingData(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))
    return Parts(rows, rows, rows, names)


def test_every_table_of_the_papers_is_there():
    assert list(TABLES) == NAMES


@pytest.mark.parametrize(
    ("table", "row", "data", "column", "number"),
    [
        ("btg-table1", "F1*", "cocktailparty", "F1-Score", (0.75, 0.01, True)),
        ("btg-table1", "F1*", "adult", "Accuracy", (0.78, 0.04, False)),
        ("btg-table1", "F1 adversarial", "creditcard", "F1-Score", (0.76, 0.06, True)),
        ("btg-table1", "AUROC*", "adult", "F1-Score", (0.42, 0.01, True)),
        ("btg-table1", "AUROC WMW", "creditcard", "Accuracy", (0.93, 0.15, False)),
        ("btg-table1", "BCE", "creditcard", "AUROC", (0.73, 0.16, False)),
        ("btg-table2", "Accuracy*", "cifar10_frog", "F1-Score", (0.74, 0.01, True)),
        ("btg-table3", "BCE", "cocktailparty_graph", "Accuracy", (0.75, 0.03, False)),
        ("btg-table4", "F3*", "mammography", "Recall", (0.81, 0.03, False)),
        ("btg-table4", "F1*", "mammography", "Precision", (0.70, 0.06, False)),
        ("fbeta-table1", "F-beta R*", "cifar10", "Recall (Dog)", (0.810, 0.03, True)),
        ("fbeta-table1", "F-beta P*", "caltech256", "Recall (Dog)", (0.046, 0.04, False)),
        ("fbeta-table2", "CE", "creditcard", "F1-Score", (0.294, 0.01, False)),
        ("fbeta-table2", "F1*", "adult", "F1-Score", (0.251, 0.09, True)),
        ("east-table1", "MCC*", "caltech256", "MCC", (0.214, 0.01, False)),
        ("east-table1", "Dice", "cocktailparty", "MCC", (-0.025, 0.05, False)),
        ("east-table1", "CE", "creditcard", "F1", (0.855, 0.01, False)),
        ("east-table1", "MCC*", "mammography", "F1", (0.787, 0.03, False)),
        ("east-table2", "CCS", "cifar10", "Accuracy", (0.111, 0.0, False)),
        ("east-table3", "RF", "adult", "Macro F1", (0.739, 0.01, False)),
        ("east-table3", "F1*", "adult", "F1", (0.364, 0.10, False)),
        ("east-images", "F1*", "caltech256_images", "F1", (0.358, 0.01, False)),
        ("east-images", "RF", "caltech256_images", "Acc", (0.180, 0.0, False)),
        ("east-table4", "F-beta R* (Frog)", "cifar10", "Recall (Frog)", (0.879, 0.02, False)),
        ("east-table4", "CE", "caltech256", "Precision (Frog)", (0.022, 0.06, False)),
        ("east-table5", "F-beta P*", "caltech256", "Recall (Frog)", (0.080, 0.06, False)),
        ("east-table6", "beta = 2.5", "cifar10", "Precision", (0.656, 0.04, False)),
        ("east-table6", "beta = 10", "cifar10", "Recall", (0.712, 0.04, False)),
        ("east-table7", "F-beta=2.5*", "cifar10", "Macro F1-Score", (0.768, 0.01, False)),
    ],
)
def test_numbers_of_the_papers(table, row, data, column, number):
    assert TABLES[table].numbers[row, data, column] == Number(*number)


def test_the_count_of_numbers_of_each_table():
    counts = {name: len(table.numbers) for name, table in TABLES.items()}
    assert counts == {
        "btg-table1": 72, "btg-table2": 12, "btg-table3": 6, "btg-table4": 15, "btg-fbeta": 0, "btg-time": 0,
        "fbeta-table1": 18, "fbeta-table2": 8, "east-table1": 90, "east-table2": 16, "east-table3": 32,
        "east-images": 19, "east-table4": 34, "east-table5": 16, "east-table6": 14, "east-table7": 6,
        "ablation": 0,
    }  # fmt: skip


def test_bold_in_btg_means_at_least_bce():
    """In the tables of BtG bold means at least the BCE row, to the printed digits."""
    for name in ("btg-table2", "btg-table3"):
        numbers = TABLES[name].numbers
        for (row, data, column), number in numbers.items():
            if row != "BCE":
                assert number.bold == (number.mean >= numbers["BCE", data, column].mean), (
                    name,
                    row,
                    column,
                )


@pytest.mark.parametrize("name", NAMES)
def test_numbers_belong_to_rows_data_and_columns(name):
    table = TABLES[name]
    rows, data, columns = ({one.name for one in side} for side in (table.rows, table.data, table.columns))
    assert len(rows) == len(table.rows)
    assert len(columns) == len(table.columns)
    assert {table.reference} <= rows | {""}
    for row, dataset, column in table.numbers:
        assert row in rows
        assert dataset in data
        assert column in columns
        assert not next(one for one in table.rows if one.name == row).extra


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", ["small", "medium", "full"])
def test_every_cell_has_settings_and_a_loss(name, scale):
    table = TABLES[name]
    if scale not in table.scales:
        return
    assert set(table.scale(scale).by_data) <= set(DATA_NAMES)
    assert set(table.scale(scale).by_row) <= {row.name for row in table.rows}
    assert {data.name for data in table.data} <= set(DATA_NAMES)
    for data, row in table.cells():
        grid = grid_settings(table, scale, data, row)
        if row.method in ESTIMATORS:
            assert len(grid) == 1
            continue
        assert all(
            {"learning_rate", "batch_size", "max_epochs", "patience"} <= set(setting) for setting in grid
        )
        toy = parts({"cifar10": 10, "caltech256": 257}.get(data.name, 2))
        if row.method != "aligned":
            build_loss(row, toy)
        assert build_metric(row, toy, table.metric).higher_is_better


def test_the_papers_grids():
    """EAST, appendix E.4: 5 batch sizes x 3 rates x 2 dropouts, and 2 decays for what is annealed."""
    table = TABLES["east-table1"]
    size = {
        (data.name, row.name): len(grid_settings(table, "full", data, row)) for data, row in table.cells()
    }
    assert size["adult", "F1*"] == 60
    assert size["adult", "CE"] == 30
    assert size["creditcard", "MCC*"] == 84
    assert size["cifar10", "F1*"] == 4 * 3 * 2  # Darknet-19 has no dropout
    assert size["caltech256", "Dice"] == 2 * 3 * 2
    assert size["adult", "MetricBooster"] == 1


def test_the_scales_of_tables_of_numbers_do_not_cut_training_off():
    """Annealing from 0.2 to 0.02 takes at least patience x (1 + log 0.1 / log decay) epochs."""
    for table in TABLES.values():
        for name in {"medium", "full"} & set(table.scales):
            for data, row in table.cells():
                for setting in grid_settings(table, name, data, row):
                    if row.method in ESTIMATORS or data.network != "mlp":
                        continue
                    rounds = 1 + math.log(0.1) / math.log(setting.get("decay", 0.8))
                    assert setting["max_epochs"] > 5 * rounds * setting["patience"], (table.name, row.name)
                    assert setting["patience"] >= (10 if name == "medium" else 20)


def test_the_protocols_of_the_papers():
    """BtG: Adam and a new split in every trial. EAST, appendix C: 64/16/20 of all rows, unit variance."""
    btg, east = TABLES["btg-table1"].protocol, TABLES["east-table1"].protocol
    assert (btg.weight_decay, btg.split_per_trial, btg.official_test) == (0, True, True)
    assert (east.weight_decay, east.split_per_trial, east.official_test) == (0.01, False, False)
    assert east.unit_variance
    assert not btg.unit_variance


def test_every_table_has_an_extra_row_and_an_extra_column():
    for name, table in TABLES.items():
        if name == "ablation":  # there is no paper
            continue
        assert any(row.extra for row in table.rows), name
        assert any(column.extra for column in table.columns), name


def test_betas_of_a_class_become_a_list():
    row = PaperRow("P", "metric", {"betas": {"frog": 0.25}})
    assert build_metric(row, parts(4)).name == "fbeta(beta=[1.0, 1.0, 0.25, 1.0])"


def test_the_identity_depends_on_the_work_only():
    scale = Scale(1, {"learning_rate": 0.1})
    table = PaperTable(
        "t", "", "", (PaperData("d", "D"),), (PaperRow("r", "ce"),), (PaperColumn("c", "f1"),), scale, scale
    )
    same = PaperTable(
        "t", "other words", "x", table.data, table.rows, table.columns, scale, scale,
        notes=("n",), reference="r",
    )  # fmt: skip
    assert table.identity("full", 0) == same.identity("full", 0)
    other = PaperTable(
        "t", "", "", table.data, table.rows, table.columns, Scale(2, {"learning_rate": 0.1}), scale
    )
    assert table.identity("full", 0) != other.identity("full", 0)
    assert table.identity("small", 0) == other.identity("small", 0)
    assert len({table.identity(scale, seed) for scale in ("small", "full") for seed in (0, 1)}) == 4
    cheaper = replace(table, full=replace(scale, grid={"floor": 0.2}))
    tuned = replace(table, rows=(PaperRow("r", "ce", tuned_as="ce"),))
    assert len({one.identity("full", 0) for one in (table, cheaper, tuned)}) == 3
    elsewhere, here = (replace(table, full=Scale(1, scale.settings, {name: {"trials": 2}})) for name in "xd")
    assert elsewhere.identity("full", 0) == table.identity("full", 0) != here.identity("full", 0)


def test_a_dataset_may_have_another_number_of_trials():
    scale = Scale(5, {"learning_rate": 0.1}, {"few": {"trials": 3}})
    assert (scale.count_trials("few"), scale.count_trials("others")) == (3, 5)
    data, row = PaperData("few", "Few"), PaperRow("CE", "ce")
    table = PaperTable("t", "", "", (data,), (row,), (), scale, scale)
    plan = StudyPlan(table, "full", 0, ("few",))
    assert [point.seeds for point in plan.runnable_points({})] == [(1,), (2,), (3,)]
    assert plan.settings(data, row) == [{"learning_rate": 0.1}]


@pytest.mark.parametrize(
    ("name", "data"),
    [("east-table1", "cifar10"), ("east-images", "caltech256_images"), ("ablation", "cifar10")],
)
def test_cross_entropy_has_more_patience_in_a_row_of_its_own_at_medium_only(name, data):
    table = TABLES[name]
    place, rows = table.find_cells(data, ["CE, stopped by F1", "CE, stopped by F1, patience 20"])
    usual, patient = (grid_settings(table, "medium", place, row) for row in rows)
    assert patient == [{**setting, "patience": 20} for setting in usual] != usual
    for scale in ("small", "full"):
        assert [table.scale(scale).skips(data, row.name) for row in rows] == [False, True]


def test_lines_of_another_length_are_rejected():
    with pytest.raises(ValueError, match="shorter|longer"):
        parse_numbers(["a"], ["F1", "Acc"], "CE | 0.5 0.1")
