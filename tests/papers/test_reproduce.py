"""`reproduce` and `find`: names, files, the progress bar and interruptions."""

from dataclasses import replace

import pytest
from toys import SETTINGS, TOY

from evalign.papers import FIGURES, TABLES, MissingDataError, _reproduce, find, reproduce
from evalign.papers.studies import _workers
from evalign.papers.tables import PaperData, Scale


@pytest.fixture
def toy(monkeypatch):
    """The name of a toy table among those of the papers."""
    monkeypatch.setitem(TABLES, "toy", TOY)
    return "toy"


def test_there_are_sixteen_tables_and_eight_figures():
    assert (len(TABLES), len(FIGURES)) == (17, 8)
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


def test_a_table_is_run_by_its_name(toy, run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("evalign._progress.PAUSE", 0.0)
    result = run(toy, progress=True)
    assert result.results.complete
    assert result.files == tuple(tmp_path / "out" / f"toy-small.{end}" for end in ("md", "csv"))
    assert result.files[0].read_text().startswith("# toy: a toy\n")
    *lines, last = capsys.readouterr().err.splitlines()
    assert all(" left" in line for line in lines)
    number = len(lines) + 1
    assert last.startswith(f"toy small seed 0: {number} of {number} points, ")
    run(toy, progress=True)  # nothing is left to do
    assert capsys.readouterr().err == ""


def test_nothing_is_written_while_nothing_is_done(toy, run, trials):
    result = run(toy, partial=True)
    assert not result.results.complete
    assert result.files == ()
    assert trials() == []


def test_what_is_done_so_far_is_written_without_running(run, trials, monkeypatch):
    scale = Scale(2, {**SETTINGS, "learning_rate": 0.01})
    data = (*TOY.data, PaperData("synthetic linear", "Synthetic", "linear"))
    table = replace(TOY, data=data, rows=TOY.rows[1:], small=scale)
    run_point = _workers.run_point

    def stop_in_the_second_dataset(table, point, seed):
        if point.data != "mammography" and point.seeds[0] > 1:
            raise KeyboardInterrupt
        return run_point(table, point, seed)

    monkeypatch.setattr(_workers, "run_point", stop_in_the_second_dataset)
    with pytest.raises(KeyboardInterrupt):
        run(table)
    count = len(trials())
    result = run(table, partial=True)
    page = result.files[0].read_text()
    assert not result.results.complete
    assert "## Mammography" in page
    assert "## Synthetic" not in page
    assert "- Left out, since no row is complete: synthetic linear.\n" in page
    assert len(trials()) == count
    done = [trial.user_attrs for trial in trials() if "outcome" in trial.user_attrs]
    times = {data.name: 0.0 for data in table.data}
    for one in done:
        times[one["point"]["data"]] += one["outcome"]["seconds"]
    assert result.results.seconds == pytest.approx(times["mammography"])
    assert times["synthetic linear"] > 0


@pytest.fixture
def two_datasets():
    """A table of two datasets, and two points in each."""
    data = (*TOY.data, PaperData("synthetic linear", "Synthetic", "linear"))
    return replace(TOY, data=data, rows=TOY.rows[1:2], small=Scale(2, {**SETTINGS, "learning_rate": 0.01}))


def test_only_the_chosen_datasets_are_run(two_datasets, run, trials):
    result = run(two_datasets, data=["synthetic linear"])
    assert {trial.user_attrs["point"]["data"] for trial in trials()} == {"synthetic linear"}
    page = result.files[0].read_text()
    assert "## Synthetic" in page
    assert "- Left out, since no row is complete: mammography.\n" in page
    assert not result.results.complete
    result = run(two_datasets, data=["mammography"])  # the files keep what was done before
    assert result.results.complete
    assert {"## Synthetic", "## Mammography"} <= set(result.files[0].read_text().splitlines())
    assert len(trials()) == 4


def test_what_another_machine_has_done_is_written_without_its_data(two_datasets, run, monkeypatch, tmp_path):
    kaggle = PaperData("creditcard", "Kaggle", "btg_net")
    table = replace(two_datasets, data=(*two_datasets.data, kaggle))
    monkeypatch.setenv("EVALIGN_DATA", str(tmp_path))
    run(table, data=["synthetic linear"])

    def not_here(name):
        if name != "mammography":
            raise MissingDataError(f"no {name}")
        return fingerprint(name)

    fingerprint = _reproduce.fingerprint
    monkeypatch.setattr(_reproduce, "fingerprint", not_here)
    result = run(table)
    page = result.files[0].read_text()
    assert {"## Synthetic", "## Mammography"} <= set(page.splitlines())
    assert result.results.missing == {"creditcard": "no creditcard"}
    assert "Not finished" not in page
    monkeypatch.delattr(_reproduce, "fingerprint")  # nor does it look for any data now
    again = run(table, partial=True)
    assert "- Left out, since no row is complete: creditcard.\n" in again.files[0].read_text()
    assert again.results.cells == result.results.cells


def test_chosen_datasets_are_checked(two_datasets, run, monkeypatch, tmp_path):
    with pytest.raises(
        ValueError, match=r"among mammography, .* for toy, but got 'mamography'\. Did you mean"
    ):
        run(two_datasets, data=["mamography"])
    with pytest.raises(ValueError, match="Expected `data` for tables only, but got 'cifar10' for the figure"):
        run("lee-figure5", data=["cifar10"])
    monkeypatch.setenv("EVALIGN_DATA", str(tmp_path))
    table = replace(TOY, data=(*TOY.data, PaperData("creditcard", "Kaggle", "btg_net")))
    with pytest.raises(MissingDataError, match=r"creditcard\.csv"):
        run(table, data=["creditcard"])


def test_an_interruption_is_raised_and_nothing_is_written(toy, run, monkeypatch, tmp_path):
    def work(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_reproduce, "work", work)
    with pytest.raises(KeyboardInterrupt):
        run(toy)
    assert not (tmp_path / "out").exists()
