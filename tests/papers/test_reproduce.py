"""`reproduce` and `find`: names, files, the progress bar and interruptions."""

import pytest
from toys import TOY

from evalign.papers import FIGURES, TABLES, _reproduce, find, reproduce


@pytest.fixture
def toy(monkeypatch):
    """The name of a toy table among those of the papers."""
    monkeypatch.setitem(TABLES, "toy", TOY)
    return "toy"


def test_there_are_sixteen_tables_and_eight_figures():
    assert (len(TABLES), len(FIGURES)) == (16, 8)
    assert next(iter(TABLES)) == "btg-table1"
    assert all(find(name) is table for name, table in TABLES.items())


def test_an_unknown_name_is_rejected_with_a_hint():
    message = (
        "Expected `table` to be a known table or figure, but got 'btg-tabel4'. Did you mean .*btg-table4"
    )
    with pytest.raises(ValueError, match=message):
        find("btg-tabel4")
    with pytest.raises(ValueError, match=message):
        reproduce("btg-tabel4")


def test_a_table_is_run_by_its_name(toy, run, tmp_path, capsys):
    result = run(toy, progress=True)
    assert result.results.complete
    assert result.files == tuple(tmp_path / "out" / f"toy-small.{end}" for end in ("md", "csv"))
    assert result.files[0].read_text().startswith("# toy: a toy\n")
    err = capsys.readouterr().err
    assert "toy small seed 0: 100%" in err
    assert "left]" in err


def test_what_is_done_so_far_is_written_without_running(toy, run, trials):
    result = run(toy, partial=True)
    assert not result.results.complete
    assert "- Not finished: F1* on mammography." in result.files[0].read_text()
    assert trials() == []


def test_an_interruption_is_raised_and_nothing_is_written(toy, run, monkeypatch, tmp_path):
    def work(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_reproduce, "work", work)
    with pytest.raises(KeyboardInterrupt):
        run(toy)
    assert not (tmp_path / "out").exists()
