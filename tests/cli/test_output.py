"""What is printed: results on standard output, remarks on standard error, JSON for machines, help at once."""

import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import evalign.cli
from evalign import __version__, papers
from evalign.cli import _evaluate, main
from evalign.datasets import NAMES
from evalign.metrics import NAMED
from evalign.papers import MissingDataError, Reproduction
from evalign.selection import METHODS

COMMANDS = [
    "compare", "fit", "predict", "evaluate", "report", "metrics", "methods", "datasets", "reproduce",
]  # fmt: skip
COMPARE = ["--target=churned", "--methods=lightgbm,lightgbm_rule", "--repeats=2", "--jobs=1"]


def words(text):
    """The text without the frames and line breaks of help and tables."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_is_a_command(run, name):
    ran = run(name, "--help")
    assert (ran.status, ran.err) == (0, "")
    text = words(ran.out)
    assert f"Example: evalign {name}" in text
    for option in ("--json", "--quiet", "--debug", "--help"):
        assert option in text
    example = text.split(f"Example: evalign {name}")[1].split()
    for option in (one for one in example if one.startswith("--")):
        assert option in text.split("Example:")[0]


def test_help_lists_every_command(run):
    ran = run("--help")
    assert ran.status == 0
    assert all(re.search(rf"[│ ] {name} ", ran.out) for name in COMMANDS)
    assert run("-h").out == ran.out


def test_without_arguments_it_helps(run):
    ran = run()
    assert ran.status == 2
    assert ran.err == ""
    assert "Usage: evalign" in ran.out


def test_version(run):
    ran = run("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"evalign {__version__}\n", "")


def test_help_comes_at_once_and_imports_nothing_heavy():
    code = (
        "import sys; from evalign.cli import main; status = main(['--help'])\n"
        "print(status, *sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    source = str(Path(evalign.cli.__file__).parents[2])
    start = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": source}
    )
    seconds = time.perf_counter() - start
    status, *modules = ran.stderr.split()
    assert status == "0"
    assert "typer" in modules
    heavy = {
        "torch",
        "pandas",
        "sklearn",
        "numpy",
        "scipy",
        "lightgbm",
        "plotly",
        "pyarrow",
        "optuna",
        "skops",
    }
    assert not heavy & set(modules)
    assert seconds < 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(started, shell):
    script, err = started(_EVALIGN_COMPLETE=f"source_{shell}").communicate()
    assert err == b""
    assert b"_EVALIGN_COMPLETE" in script
    assert b"evalign" in script


def test_completion_completes(started):
    typed = {"_EVALIGN_COMPLETE": "complete_bash", "COMP_WORDS": "evalign eval", "COMP_CWORD": "1"}
    assert started(**typed).communicate()[0].decode().split() == ["evaluate"]


class TestLists:
    """What there is, as a table and as JSON."""

    @pytest.mark.parametrize(
        ("name", "known"), [("metrics", NAMED), ("methods", METHODS), ("datasets", dict.fromkeys(NAMES))]
    )
    def test_lists(self, run, name, known):
        ran = run(name, "--json")
        assert (ran.status, ran.err) == (0, "")
        rows = json.loads(ran.out)[name]
        assert {row["name"] for row in rows} == set(known)
        shown = words(run(name).out)
        for row in rows:
            assert " ".join(row.values()) in shown

    def test_tables(self, run):
        rows = json.loads(run("reproduce", "--json").out)["tables"]
        assert set(papers.TABLES) <= {row["name"] for row in rows}
        assert all(words(row["description"]) in words(run("reproduce").out) for row in rows[:3])

    def test_fetch(self, run):
        found = json.loads(run("datasets", "fetch", "mammography", "--json").out)
        assert (found["name"], found["rows"]) == ("mammography", 11183)
        shown = run("datasets", "fetch", "mammography").out
        assert all(part in shown for part in ("11,183 rows", found["licence"], found["citation"]))


class TestReproduce:
    """The tables of the papers; what runs them has tests of its own."""

    @pytest.fixture
    def runs(self, monkeypatch):
        """What the command asks for, and what is given in place of the work."""
        asked = {}

        def give(outcome):
            def reproduce(table, **settings):
                asked.update(settings, table=table)
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome

            monkeypatch.setattr(papers, "reproduce", reproduce)
            return asked

        return give

    @staticmethod
    def made(complete):
        class Results:
            missing = {"adult": "Put it into a folder."}  # noqa: RUF012

        Results.complete = complete
        return Reproduction(Results(), (Path("a.md"), Path("a.csv")) if complete else ())

    def test_complete(self, run, runs):
        asked = runs(self.made(True))
        ran = run("reproduce", "btg-table4", "--json", "--jobs=2", "--out=here", "--seed=3")
        assert ran.status == 0
        found = json.loads(ran.out)
        assert found == {"table": "btg-table4", "files": ["a.md", "a.csv"], "complete": True}
        assert "btg-table4: without adult. Put it into a folder." in ran.err
        told = {
            "table": "btg-table4",
            "scale": "small",
            "jobs": 2,
            "seed": 3,
            "out": "here",
            "progress": False,
        }
        assert told.items() <= asked.items()
        assert run("reproduce", "btg-table4").out.split() == ["a.md", "a.csv"]

    def test_not_complete(self, run, runs):
        runs(self.made(False))
        ran = run("reproduce", "btg-table4", "--quiet")
        assert ran.status == 1
        assert ran.err == "evalign: btg-table4 is not complete: the same command goes on.\n"

    def test_without_data(self, refused, runs):
        runs(MissingDataError("creditcard is not here."))
        assert refused("reproduce", "btg-table4", status=1) == "evalign: btg-table4: creditcard is not here."

    def test_stopped(self, refused, runs):
        runs(KeyboardInterrupt())
        line = refused("reproduce", "btg-table4", "--storage=postgresql://me:secret@db/x", status=130)
        assert line == "evalign: Stopped. What is done is kept: the same command goes on."


def number(text):
    return pytest.approx(float(text.replace(",", "")), abs=6e-4)


def test_json_of_a_comparison_holds_what_the_text_shows(run, files, tmp_path):
    command = ["compare", files.old_csv, *COMPARE, f"--out={tmp_path}", "--constraint=recall>=0.2"]
    text, found = run(*command), json.loads(run(*command, "--json").out)
    rows = {row["method"]: row for row in found["comparison"]["rows"]}
    assert found["advice"] in text.out
    assert f"Report: {found['report']}" in text.out
    for line in text.out.splitlines():
        cells = re.match(
            r"  (lightgbm\w*) +([\d.]+) \+/- ([\d.]+) +(?:([-+.\d]+) +([-.\d]+) to ([-.\d]+))?", line
        )
        if cells:
            row = rows.pop(cells[1])
            assert (row["mean"], row["standard_error"]) == (number(cells[2]), number(cells[3]))
            assert row["difference"] == (number(cells[4]) if cells[4] else None)
            assert row["interval"] == ([number(cells[5]), number(cells[6])] if cells[5] else None)
            assert f"kept in {row['kept']} of 2" in line
    assert not rows
    for warning in found["warnings"]:
        assert f"Note: {warning}\n" in text.err


def test_json_of_an_evaluation_holds_what_the_text_shows(run, files):
    text, ran = (
        run("evaluate", files.model, files.new_csv),
        run("evaluate", files.model, files.new_csv, "--json"),
    )
    found = json.loads(ran.out)
    for name, one in found["metrics"].items():
        (cells,) = re.findall(rf"  {name} +([\d.]+) +([\d.]+) to ([\d.]+)", text.out)
        assert (one["value"], one["low"], one["high"]) == tuple(map(number, cells))
    for name, row in zip(found["classes"], found["matrix"], strict=True):
        assert re.search(rf"  {name} +{row[0]} +{row[1]}  ", text.out)
    assert f"Expected calibration error: {found['calibration_error']:.3f}" in text.out
    assert "93 rows" in text.out
    assert found["rows"] == 93
    assert text.err == ran.err == ""


def test_json_of_a_fit_and_of_predictions(run, files, tmp_path):
    out = tmp_path / "m"
    ran = run("fit", files.old_csv, "--target=churned", f"--out={out}", "--method=lightgbm", "--json")
    found = json.loads(ran.out)
    assert found["answer"].startswith(f"lightgbm: f1 {found['value']:.3f} on 53 rows set aside")
    assert (found["model"], found["method"]) == (str(out), "lightgbm")
    assert Path(found["report"]).exists()
    assert [f"Note: {one}" for one in found["warnings"]] == [
        line for line in ran.err.splitlines() if line.startswith("Note: ")
    ]
    ran = run("predict", out, files.new_csv, f"--out={tmp_path / 'p.csv'}", "--json", "--proba")
    found = json.loads(ran.out)
    assert (found["out"], found["rows"]) == (str(tmp_path / "p.csv"), 93)
    assert f"93 rows in {found['seconds']:.1f} s" in ran.err
    ran = run("report", out, "--json")
    assert json.loads(ran.out) == {"report": str(out / "report.html")}


def test_quiet_says_nothing_on_standard_error(run, files, tmp_path):
    out = tmp_path / "m"
    for command in (
        ["compare", files.old_csv, *COMPARE, f"--out={tmp_path / 'r'}"],
        ["fit", files.old_csv, "--target=churned", f"--out={out}", "--method=lightgbm"],
        ["predict", out, files.new_csv, f"--out={tmp_path / 'p.csv'}"],
        ["evaluate", out, files.old_csv],
        ["report", out],
        *([name] for name in ("metrics", "methods", "datasets", "reproduce")),
    ):
        ran = run(*command, "--quiet")
        assert (ran.status, ran.err) == (0, "")
        assert (ran.out == "") == (command[0] == "predict")


def test_warnings_are_remarks(run, files, monkeypatch):
    """Those of libraries, and those of workers, which would come as lines of code."""
    seen = []

    def warn(*_):
        warnings.warn("something\nodd", UserWarning, stacklevel=1)
        seen.append(os.environ["PYTHONWARNINGS"])
        return "0"

    monkeypatch.setattr(_evaluate, "fingerprint", warn)
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("evaluate", files.model, files.new_csv).err == "Note: something odd\n"
        assert run("evaluate", files.model, files.new_csv, "--quiet").err == ""
    assert seen == ["ignore", "ignore"]
    assert "PYTHONWARNINGS" not in os.environ


def test_progress_is_for_those_who_watch(run, files, tmp_path, monkeypatch):
    predict = ["predict", files.model, files.new_csv, f"--out={tmp_path / 'p.csv'}", "--chunk=30"]
    assert len(run(*predict).err.splitlines()) == 1
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    err = run(*predict).err
    assert err.startswith("30 rows ...\r60 rows ...\r")
    command = ["compare", files.old_csv, *COMPARE, f"--out={tmp_path / 'r'}"]
    assert "4 of 4 trials" in run(*command).err
    assert "trials" not in run(*command, "--seed=1", "--quiet").err


def test_the_report_tells_the_command(files):
    from evalign.reports import facts_of

    told = facts_of(files.model / "report.html")["command"]
    assert told.startswith("evalign fit ")
    assert told.endswith(" --quiet --method=lightgbm_rule")
    assert told in (files.model / "README.md").read_text()


def test_main_takes_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evalign", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"evalign {__version__}\n"
