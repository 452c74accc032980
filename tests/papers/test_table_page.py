"""Tables as Markdown and CSV."""

import csv
import math
import re
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from toys import TOY

from evalign.papers._table_page import to_csv, to_markdown
from evalign.papers.studies import Cell, StudyPlan, StudyResults
from evalign.papers.tables import Number, Protocol

PLAN = StudyPlan(TOY, "small", 0, ("mammography",))


def cell(*values, **options):
    return Cell(
        [{"F1": value, "MCC": value / 2} for value in values], {"learning_rate": 0.01}, epochs=2.0, **options
    )


@pytest.fixture
def results():
    cells = {"F1*": cell(0.6, 0.7), "Dice": cell(0.4, 0.5), "BCE": cell(0.5, 0.6), "rule": cell(0.66)}
    return StudyResults(PLAN, {("mammography", row): one for row, one in cells.items()}, {})


def lines(text):
    return [re.sub(" +", " ", line) for line in text.splitlines()]


def test_our_numbers_and_the_papers_are_side_by_side(results):
    page = lines(to_markdown(results))
    at = page.index("## Mammography")
    deviation = np.std([0.6, 0.7], ddof=1)
    assert page[at + 2 : at + 8] == [
        "| Row | F1 | paper | difference | MCC |",
        "|---|---|---|---|---|",
        f"| F1* | **0.650 ± {deviation:.3f}** | **0.75 ± 0.01** | -0.100 | 0.325 ± {deviation / 2:.3f} |",
        f"| Dice | 0.450 ± {deviation:.3f} | | | 0.225 ± {deviation / 2:.3f} |",
        f"| BCE | 0.550 ± {deviation:.3f} | 0.50 ± 0.02 | +0.050 | 0.275 ± {deviation / 2:.3f} |",
        "| rule (extra) | **0.660** | | | 0.330 |",
    ]


def test_the_circumstances_are_described(results):
    text = to_markdown(results)
    assert "`evalign reproduce toy --scale small --seed 0`" in text
    assert (
        "small. Trials per cell: 2; settings compared per cell: 2 (learning_rate {0.01, 0.003}; batch" in text
    )
    for word in (
        "- Seed: 0",
        "- Date: 20",
        "- Machine: ",
        "Python 3.",
        "torch ",
        "optuna ",
        "Nobody (2000).",
    ):
        assert word in text
    assert "- Bold, in the paper and here: at least BCE." in text
    assert "- Columns that are not in the paper: MCC." in text
    assert "- This table is a toy." in text


def test_rows_are_compared_with_a_reference_trial_by_trial(results):
    plan = replace(PLAN, table=replace(TOY, reference="BCE"))
    both = StudyResults(plan, {**results.cells, ("mammography", "F1*"): cell(0.8, 0.7)}, {})
    page = lines(to_markdown(both))
    at = page.index("Differences to BCE, paired by trial, with their standard errors on this one split:")
    error = np.std([0.8 - 0.5, 0.7 - 0.6], ddof=1) / math.sqrt(2)
    assert page[at + 2 : at + 7] == [
        "| Row | F1 | MCC |",
        "|---|---|---|",
        f"| F1* | +0.200 ± {error:.3f} | +0.100 ± {error / 2:.3f} |",
        "| Dice | -0.100 ± 0.000 | -0.050 ± 0.000 |",
        "| rule | | |",  # it has one trial only
    ]
    splits = replace(plan.table, protocol=Protocol(split_per_trial=True))
    text = to_markdown(replace(both, plan=replace(plan, table=splits)))
    assert "Differences to BCE, paired by trial, with their standard errors:\n" in text
    first = next(csv.DictReader(to_csv(both).splitlines()))
    assert float(first["to_reference"]) == pytest.approx(0.2)
    assert float(first["to_reference_error"]) == pytest.approx(error)


def test_without_a_reference_there_are_no_differences(results):
    skipped = replace(TOY, reference="BCE", small=replace(TOY.small, skip=(("", "BCE"),)))
    cells = {key: one for key, one in results.cells.items() if key[1] != "BCE"}
    for one in (results, StudyResults(replace(PLAN, table=skipped), cells, {})):
        assert "Differences" not in to_markdown(one)
        assert {row["to_reference"] for row in csv.DictReader(to_csv(one).splitlines())} == {""}


def test_differences_need_all_trials():
    alone, failed, running = cell(0.5), cell(0.5, 0.6, errors=["no pairs"]), cell(0.5, 0.6, done=False)
    for other in (alone, failed, running):
        assert cell(0.8, 0.7).difference(other, "F1") is None is other.difference(cell(0.8, 0.7), "F1")
    assert Cell().difference(Cell(), "F1") is None
    assert cell(0.75).difference(alone, "F1") == Number(0.25, pytest.approx(math.nan, nan_ok=True))


@pytest.mark.parametrize(("value", "shown"), [(0.75, "+0.250 | +0.125"), (0.4999, "+0.000 | +0.000")])
def test_a_difference_of_single_trials_has_no_error(value, shown):
    plan = replace(PLAN, table=replace(TOY, reference="BCE", rows=(TOY.rows[0], TOY.rows[2])))
    cells = {("mammography", row): cell(own) for row, own in (("BCE", 0.5), ("F1*", value))}
    assert f"| F1* | {shown} |" in to_markdown(StudyResults(plan, cells, {}))


def test_what_datasets_replace_is_not_described_as_if_it_were_used(results):
    spec = replace(TOY.small, by_data={"mammography": {"batch_size": 32, "trials": 4}})
    table = replace(TOY, small=spec)
    text = to_markdown(replace(results, plan=replace(PLAN, table=table)))
    assert "Trials per cell: 4; settings" in text
    assert "batch_size 256" not in text
    assert "mammography: batch_size 32" in text
    table = replace(table, data=(*TOY.data, replace(TOY.data[0], name="adult")))
    both = replace(PLAN, table=table, data=("mammography", "adult"))
    cells = {(data, row): cell(0.5) for data in both.data for row in ("F1*", "Dice", "BCE", "rule")}
    text = to_markdown(StudyResults(both, cells, {}))
    assert "Trials per cell: 2 to 4; settings" in text
    assert "batch_size 256" in text


def test_csv_has_one_line_per_cell_and_column(results):
    rows = list(csv.DictReader(to_csv(results).splitlines()))
    assert len(rows) == 4 * 2
    first = rows[0]
    assert (first["dataset"], first["row"], first["column"]) == ("mammography", "F1*", "F1")
    assert float(first["mean"]) == pytest.approx(0.65)
    assert float(first["difference"]) == pytest.approx(-0.1)
    assert (first["paper_mean"], first["paper_bold"], first["trials"]) == ("0.75", "True", "2")
    assert rows[2]["paper_mean"] == rows[2]["to_reference"] == ""
    assert rows[6]["deviation"] == ""  # of one trial


def test_cells_that_were_cut_off_are_marked(results):
    assert "- Cells at the cap of epochs: 0 of 4.\n" in to_markdown(results)
    cut = {
        "F1*": cell(0.6, 0.7, capped=1, temperature=0.128),
        "Dice": cell(0.4, 0.5, grid_capped=2),
    }
    cells = {**results.cells, **{("mammography", row): one for row, one in cut.items()}}
    text = to_markdown(StudyResults(PLAN, cells, {}))
    assert "- Cells at the cap of epochs: 2 of 4. These are marked; no verdict can be based on them" in text
    assert "| F1* [at cap: 1 of 2 trials, T = 0.128] |" in text
    assert "| Dice [at cap: 2 of 2 settings] |" in text
    assert "| BCE |" in text
    rows = {row["row"]: row for row in csv.DictReader(to_csv(StudyResults(PLAN, cells, {})).splitlines())}
    assert (rows["F1*"]["capped"], rows["F1*"]["temperature"]) == ("1", "0.128")
    assert (rows["BCE"]["capped"], rows["BCE"]["temperature"]) == ("0", "")


def test_rows_that_are_not_run_show_the_papers_numbers(results):
    table = replace(TOY, small=replace(TOY.small, skip=(("mammography", "F1*"),)))
    plan = replace(PLAN, table=table)
    assert [row.name for _, row in plan.cells()] == ["Dice", "BCE", "rule"]
    cells = {key: one for key, one in results.cells.items() if key[1] != "F1*"}
    text = to_markdown(StudyResults(plan, cells, {}))
    assert "| F1* | not run | **0.75 ± 0.01** |  | not run |" in text
    assert plan.table.identity("small", 0) == TOY.identity("small", 0)  # a later run only adds the row


def test_splits_and_time_are_described(results):
    assert "- Splits: one for all trials, stratified, the official test part" in to_markdown(results)
    for seconds, text in ((42, "42 s"), (150, "2 min"), (3 * 3600 + 300, "3 h 5 min")):
        assert f"- Time: {text} of one processor" in to_markdown(replace(results, seconds=seconds))


def test_the_date_is_that_of_the_trainings_not_of_the_page(results):
    first, last = date(2001, 2, 3), date(2001, 2, 5)
    for days, text in (((first,), "2001-02-03"), ((first, last), "2001-02-03 to 2001-02-05")):
        assert f"- Date: {text}\n" in to_markdown(replace(results, days=days))


def test_unfinished_cells_are_listed(results):
    cells = {**results.cells, ("mammography", "Dice"): Cell(done=False)}
    partial = StudyResults(PLAN, cells, {})
    assert not partial.complete
    assert "- Not finished: Dice on mammography." in to_markdown(partial)
    assert "| Dice |  |  |  |  |" in to_markdown(partial)


@pytest.mark.parametrize(
    ("rule", "bold"),
    [(("at least", "BCE"), {"F1*", "rule"}), (("above", "F1*"), {"rule"}), (("best", ""), {"rule"})],
)
def test_rules_for_bold(results, rule, bold):
    plan = replace(PLAN, table=replace(TOY, bold=rule))
    results = StudyResults(plan, results.cells, {})
    column = TOY.columns[0]
    assert {row.name for row in TOY.rows if results.is_bold(row, "mammography", column)} == bold
    assert not any(results.is_bold(row, "mammography", TOY.columns[1]) for row in TOY.rows)  # an extra column


def test_deviation_needs_two_trials():
    assert cell(0.5).number("F1") == Number(0.5, pytest.approx(math.nan, nan_ok=True))
    assert Cell().number("F1") is None
