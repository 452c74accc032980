"""What is printed: results on standard output, remarks on standard error, JSON, and help without delay."""

import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import evalign.cli
from evalign import __version__, papers
from evalign.cli import _evaluate, main
from evalign.datasets import NAMES
from evalign.metrics import NAMED
from evalign.selection import METHODS

COMMANDS = [
    "compare", "fit", "predict", "evaluate", "report", "metrics", "methods", "datasets", "reproduce",
]  # fmt: skip
COMPARE = ["--target=churned", "--methods=lightgbm,lightgbm_rule", "--repeats=2", "--jobs=1"]


def words(text):
    """The text without the frames and line breaks of help texts and tables."""
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


def test_without_arguments_it_prints_help(run):
    ran = run()
    assert ran.status == 2
    assert ran.err == ""
    assert "Usage: evalign" in ran.out


def test_version(run):
    ran = run("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"evalign {__version__}\n", "")


def test_help_is_fast_and_imports_nothing_heavy():
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
        "torch", "pandas", "sklearn", "numpy", "scipy", "lightgbm", "plotly", "pyarrow", "optuna", "skops",
        "jinja2", "tqdm",
    }  # fmt: skip
    assert not heavy & set(modules)
    assert seconds < 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(start, shell):
    script, err = start(_EVALIGN_COMPLETE=f"source_{shell}").communicate()
    assert err == b""
    assert b"_EVALIGN_COMPLETE" in script
    assert b"evalign" in script


def test_completion_completes(start):
    typed = {"_EVALIGN_COMPLETE": "complete_bash", "COMP_WORDS": "evalign eval", "COMP_CWORD": "1"}
    assert start(**typed).communicate()[0].decode().split() == ["evaluate"]


class TestLists:
    """Lists as tables and as JSON."""

    @pytest.mark.parametrize(
        ("name", "known"), [("metrics", NAMED), ("methods", METHODS), ("datasets", dict.fromkeys(NAMES))]
    )
    def test_lists(self, run, name, known):
        ran = run(name, "--json")
        assert (ran.status, ran.err) == (0, "")
        rows = json.loads(ran.out)[name]
        assert {row["name"] for row in rows} == set(known)
        text = words(run(name).out)
        for row in rows:
            assert " ".join(row.values()) in text

    def test_tables(self, run):
        rows = json.loads(run("reproduce", "--json").out)["tables"]
        assert set(papers.TABLES) <= {row["name"] for row in rows}
        assert all(words(row["description"]) in words(run("reproduce").out) for row in rows[:3])

    def test_fetch(self, run):
        result = json.loads(run("datasets", "fetch", "mammography", "--json").out)
        assert (result["name"], result["rows"]) == ("mammography", 11183)
        text = run("datasets", "fetch", "mammography").out
        assert all(part in text for part in ("11,183 rows", result["licence"], result["citation"]))


class TestReproduce:
    """The tables of the papers; the code that runs them has its own tests."""

    @pytest.fixture
    def replace_run(self, monkeypatch):
        """Replace the work by an outcome, and record the arguments it is called with."""
        arguments = {}

        def replace(outcome):
            def reproduce(table, **settings):
                arguments.update(settings, table=table)
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome

            monkeypatch.setattr(papers, "reproduce", reproduce)
            return arguments

        return replace

    @staticmethod
    def outcome(complete):
        results = SimpleNamespace(missing={"adult": "Put it into a folder."}, complete=complete)
        return papers.Reproduction(results, (Path("a.md"), Path("a.csv")) if complete else ())

    def test_complete(self, run, replace_run):
        arguments = replace_run(self.outcome(True))
        ran = run("reproduce", "btg-table4", "--json", "--jobs=2", "--out=here", "--seed=3")
        assert ran.status == 0
        result = json.loads(ran.out)
        assert result == {"table": "btg-table4", "files": ["a.md", "a.csv"], "complete": True}
        assert "btg-table4: without adult. Put it into a folder." in ran.err
        wanted = {
            "table": "btg-table4", "scale": "small", "jobs": 2, "seed": 3, "out": "here", "progress": True,
        }  # fmt: skip
        assert wanted.items() <= arguments.items()
        run("reproduce", "btg-table4", "--quiet")
        assert arguments["progress"] is False
        assert run("reproduce", "btg-table4").out.split() == ["a.md", "a.csv"]

    def test_partial(self, run, fail, replace_run):
        outcome = self.outcome(True)
        outcome.results.complete = False
        arguments = replace_run(outcome)
        ran = run("reproduce", "btg-table4", "--partial")
        assert (ran.status, ran.out.split()) == (0, ["a.md", "a.csv"])
        assert arguments["partial"]
        replace_run(self.outcome(False))
        assert fail("reproduce", "btg-table4", "--partial", status=1).endswith(
            "btg-table4: nothing is done yet."
        )

    def test_chosen_datasets(self, run, fail, replace_run):
        arguments = replace_run(self.outcome(True))
        assert run("reproduce", "east-table1", "--data=adult", "--data=creditcard").status == 0
        assert arguments["data"] == ["adult", "creditcard"]
        message = fail("reproduce", "east-table1", "--data=kaggle", status=2)
        assert "among cocktailparty, mammography, caltech256, adult, cifar10, creditcard" in message

    def test_incomplete(self, run, replace_run):
        replace_run(self.outcome(False))
        ran = run("reproduce", "btg-table4", "--quiet")
        assert ran.status == 1
        assert ran.err == "evalign: btg-table4 is not complete: the same command resumes.\n"

    def test_without_data(self, fail, replace_run):
        replace_run(papers.MissingDataError("creditcard is not here."))
        assert fail("reproduce", "btg-table4", status=1) == "evalign: btg-table4: creditcard is not here."

    def test_interrupted(self, fail, replace_run):
        replace_run(KeyboardInterrupt())
        line = fail("reproduce", "btg-table4", "--storage=postgresql://me:secret@db/x", status=130)
        assert line == "evalign: Stopped. Finished trials are kept: the same command resumes."


@pytest.mark.parametrize(
    ("module", "extra"), [("optuna", "papers"), ("pooch", "data"), ("jinja2", "cli"), ("pyarrow.csv", "cli")]
)
def test_a_missing_module_names_its_extra(fail, files, monkeypatch, module, extra):
    def miss(*_):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(_evaluate, "fingerprint", miss)
    line = fail("evaluate", files.model, files.new_csv, status=1)
    assert line == f"evalign: This command needs {module}: pip install 'evalign[{extra}]'."


def test_out_of_memory_is_one_line(fail, files, monkeypatch):
    def exhaust(*_):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(_evaluate, "fingerprint", exhaust)
    line = fail("evaluate", files.model, files.new_csv, status=1)
    assert line == "evalign: Out of memory. Unable to allocate 9 TiB"


def approximate(text):
    return pytest.approx(float(text.replace(",", "")), abs=6e-4)


def test_json_of_a_comparison_agrees_with_the_text(run, files, tmp_path):
    command = ["compare", files.old_csv, *COMPARE, f"--out={tmp_path}", "--constraint=recall>=0.2"]
    text, result = run(*command), json.loads(run(*command, "--json").out)
    rows = {row["method"]: row for row in result["comparison"]["rows"]}
    assert result["advice"] in text.out
    assert f"Report: {result['report']}" in text.out
    for line in text.out.splitlines():
        cells = re.match(
            r"  (lightgbm\w*) +([\d.]+) \+/- ([\d.]+) +(?:([-+.\d]+) +([-.\d]+) to ([-.\d]+))?", line
        )
        if cells:
            row = rows.pop(cells[1])
            mean, error, gap, low, high = (cells[k] and approximate(cells[k]) for k in range(2, 7))
            assert (row["mean"], row["standard_error"]) == (mean, error)
            assert row["difference"] == gap
            assert row["interval"] == (None if low is None else [low, high])
            assert f"satisfied in {row['n_satisfied']} of 2" in line
    assert not rows
    for warning in result["warnings"]:
        assert f"Note: {warning}\n" in text.err


def test_json_of_an_evaluation_agrees_with_the_text(run, files):
    command = ["evaluate", files.model, files.new_csv]
    text, ran = run(*command), run(*command, "--json")
    result = json.loads(ran.out)
    for name, one in result["metrics"].items():
        (cells,) = re.findall(rf"  {name} +([\d.]+) +([\d.]+) to ([\d.]+)", text.out)
        assert (one["value"], one["low"], one["high"]) == tuple(map(approximate, cells))
    for name, row in zip(result["classes"], result["matrix"], strict=True):
        assert re.search(rf"  {name} +{row[0]} +{row[1]}  ", text.out)
    assert f"Expected calibration error: {result['calibration_error']:.3f}" in text.out
    assert "93 rows" in text.out
    assert result["rows"] == 93
    assert text.err == ran.err == ""


def test_json_of_a_fit_and_of_predictions(run, files, tmp_path):
    out = tmp_path / "m"
    ran = run("fit", files.old_csv, "--target=churned", f"--out={out}", "--method=lightgbm", "--json")
    result = json.loads(ran.out)
    assert result["answer"].startswith("Of 100 real cases of “yes”, the new model finds ")
    assert result["remarks"] == [f"lightgbm: f1 {result['value']:.3f} on 53 held-out rows."]
    assert (result["model"], result["method"]) == (str(out), "lightgbm")
    assert Path(result["report"]).exists()
    assert [f"Note: {one}" for one in result["warnings"]] == [
        line for line in ran.err.splitlines() if line.startswith("Note: ")
    ]
    ran = run("predict", out, files.new_csv, f"--out={tmp_path / 'p.csv'}", "--json", "--proba")
    result = json.loads(ran.out)
    assert (result["out"], result["rows"]) == (str(tmp_path / "p.csv"), 93)
    assert f"93 rows in {result['seconds']:.1f} s" in ran.err
    ran = run("report", out, "--json")
    assert json.loads(ran.out) == {"report": str(out / "report.html")}


def test_quiet_prints_nothing_on_standard_error(run, files, tmp_path):
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
    """Libraries warn in one line, and the workers, which would print lines of code, not at all."""
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


def test_progress_is_shown_on_a_terminal(run, files, tmp_path, monkeypatch):
    predict = ["predict", files.model, files.new_csv, f"--out={tmp_path / 'p.csv'}", "--chunk=30"]
    assert len(run(*predict).err.splitlines()) == 1
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    err = run(*predict).err
    assert re.findall(r"\r(\d+) rows \[", err)[:3] == ["0", "30", "60"]
    assert err.splitlines()[-1].startswith("93 rows in ")
    command = ["compare", files.old_csv, *COMPARE, f"--out={tmp_path / 'r'}"]
    assert re.search(r"\b4(/| of )4\b", run(*command).err)
    assert run(*command, "--seed=1", "--quiet").err == ""


def test_a_fit_on_a_terminal_shows_the_best_score_and_the_time_left(run, files, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    command = ["fit", files.old_csv, "--target=churned", f"--out={tmp_path / 'm'}", "--folds=2", "--jobs=1"]
    err = run(*command, "--methods=lightgbm,linear").err
    shown = re.findall(r"(\d) of (\d) models \[[\d:]+\] (about .*?)\r", err)
    assert [(done, total) for done, total, _ in shown][-1] == ("4", "4")
    assert re.match(r"about \d+ s left, lightgbm fold 1 of 2", shown[0][2])
    assert re.match(r"about 0 s left, best f1 0\.\d{3} \(\w+\), linear fold 2 of 2", shown[-1][2])


def test_the_report_contains_the_command(files):
    from evalign.reports import read_page

    command = read_page(files.model / "report.html").command
    assert command.startswith("evalign fit ")
    assert command.endswith(" --quiet --method=lightgbm_rule")
    assert command in (files.model / "README.md").read_text()


def test_main_takes_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evalign", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"evalign {__version__}\n"


def test_export_writes_what_predict_does_or_says_why_not(run, fail, files, tmp_path):
    pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    assert "'since', a date" in fail("export", files.model, f"--onnx={out}")
    assert not out.exists()
    data = tmp_path / "plain.csv"
    pd.read_csv(files.old_csv, sep=";", decimal=",").drop(columns="since").to_csv(data, index=False)
    model = tmp_path / "model"
    assert run("fit", data, "--target=churned", f"--out={model}", "--method=lightgbm_rule").status == 0
    facts = json.loads(run("export", model, f"--onnx={out}", "--json").out)
    assert facts["rows"] == 10_000
    assert facts["difference"] < 1e-12
    assert facts["bytes"] == out.stat().st_size
    assert "Expected `onnx`" in fail("export", model, f"--onnx={tmp_path}")
