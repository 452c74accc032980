"""Markdown, CSV and the command."""

import csv
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from toys import TOY

from evalign.papers import Number, _reproduce
from evalign.papers.__main__ import main
from evalign.papers._plan import Plan
from evalign.papers._report import to_csv, to_markdown
from evalign.papers._results import Cell, Results

PLAN = StudyPlan(TOY, "small", 0, ("mammography",))


def cell(*values, **more):
    return Cell(
        [{"F1": value, "MCC": value / 2} for value in values], {"learning_rate": 0.01}, epochs=2.0, **more
    )


@pytest.fixture
def results():
    cells = {"F1*": cell(0.6, 0.7), "Dice": cell(0.4, 0.5), "BCE": cell(0.5, 0.6), "rule": cell(0.66)}
    return StudyResults(PLAN, {("mammography", row): one for row, one in cells.items()}, {})


def lines(text):
    return [re.sub(" +", " ", line) for line in text.splitlines()]


def test_ours_and_the_papers_numbers_side_by_side(results):
    found = lines(to_markdown(results))
    at = found.index("## Mammography")
    deviation = np.std([0.6, 0.7], ddof=1)
    assert found[at + 2 : at + 8] == [
        "| Row | F1 | paper | difference | MCC |",
        "|---|---|---|---|---|",
        f"| F1* | **0.650 ± {deviation:.3f}** | **0.75 ± 0.01** | -0.100 | 0.325 ± {deviation / 2:.3f} |",
        f"| Dice | 0.450 ± {deviation:.3f} | | | 0.225 ± {deviation / 2:.3f} |",
        f"| BCE | 0.550 ± {deviation:.3f} | 0.50 ± 0.02 | +0.050 | 0.275 ± {deviation / 2:.3f} |",
        "| rule (extra) | **0.660** | | | 0.330 |",
    ]


def test_how_it_came_about_is_told(results):
    text = to_markdown(results)
    assert "`python -m evalign.papers toy --scale small --seed 0`" in text
    assert "small. 2 trials a cell, settings searched for a cell: 2 (lr {0.01, 0.003}; batch_size 256" in text
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
    assert "- Columns that the paper lacks: MCC." in text
    assert "- Toys are for tests." in text


def test_csv_has_a_line_for_every_cell_and_column(results):
    found = list(csv.DictReader(to_csv(results).splitlines()))
    assert len(found) == 4 * 2
    first = found[0]
    assert (first["dataset"], first["row"], first["column"]) == ("mammography", "F1*", "F1")
    assert float(first["mean"]) == pytest.approx(0.65)
    assert float(first["difference"]) == pytest.approx(-0.1)
    assert (first["paper_mean"], first["paper_bold"], first["trials"]) == ("0.75", "True", "2")
    assert found[2]["paper_mean"] == ""
    assert found[6]["deviation"] == ""  # of one trial


def test_what_is_not_done_is_told(results):
    cells = {**results.cells, ("mammography", "Dice"): Cell(done=False)}
    half = StudyResults(PLAN, cells, {})
    assert not half.complete
    assert "- Not finished: Dice on mammography." in to_markdown(half)
    assert "| Dice |  |  |  |  |" in to_markdown(half)


@pytest.mark.parametrize(
    ("rule", "bold"),
    [(("at least", "BCE"), {"F1*", "rule"}), (("above", "F1*"), {"rule"}), (("best", ""), {"rule"})],
)
def test_rules_of_bold(results, rule, bold):
    plan = replace(PLAN, table=replace(TOY, bold=rule))
    found = StudyResults(plan, results.cells, {})
    column = TOY.columns[0]
    assert {row.name for row in TOY.rows if found.bold(row, "mammography", column)} == bold
    assert not any(found.bold(row, "mammography", TOY.columns[1]) for row in TOY.rows)  # an extra column


def test_deviation_needs_two_trials():
    assert cell(0.5).number("F1") == Number(0.5, pytest.approx(math.nan, nan_ok=True))
    assert Cell().number("F1") is None


def test_the_command_lists_tables(capsys):
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed[0] == "btg-table1"
    assert len(listed) == 14 + 7


def test_the_command_suggests_near_names(capsys):
    assert main(["btg-tabel4"]) == 2
    assert "to be a known one, but got 'btg-tabel4'. Did you mean 'btg'-table4" in capsys.readouterr().err


@pytest.fixture
def toy_command(monkeypatch, storage, tmp_path):
    monkeypatch.setitem(_reproduce.TABLES, "toy", TOY)
    return lambda *more: main(["toy", "--storage", storage, "--out", str(tmp_path / "out"), *more])


def test_the_command_runs_a_table(toy_command, tmp_path, capsys):
    assert toy_command() == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [str(tmp_path / "out" / f"toy-small.{end}") for end in ("md", "csv")]
    assert "toy small seed 0: 100%" in said.err
    assert "left]" in said.err
    assert (tmp_path / "out" / "toy-small.md").read_text().startswith("# toy: a toy\n")


def test_the_command_writes_a_part_without_running(toy_command, tmp_path):
    assert toy_command("--partial") == 1
    assert "- Not finished: F1* on mammography." in (tmp_path / "out" / "toy-small.md").read_text()


def test_the_command_tells_of_an_interrupt(toy_command, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_reproduce, "work", interrupted)
    assert toy_command() == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_the_command_tells_of_a_storage_that_is_away(toy_command, capsys):
    assert toy_command("--storage", "sqlite:////no/such/folder/s.db") == 2
    assert "cannot be reached" in capsys.readouterr().err
