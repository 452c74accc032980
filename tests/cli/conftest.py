"""The command in this process or in another, a messy table as files, and a model trained on it."""

import csv
import io
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalign.cli

SOURCE = Path(evalign.cli.__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """The exit status, standard output and standard error of a command."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    """Run a command in this process."""

    def call(*arguments):
        capsys.readouterr()
        status = evalign.cli.main([str(one) for one in arguments])
        return Outcome(status, *capsys.readouterr())

    return call


@pytest.fixture
def fail(run):
    """Run a command that fails: one line on standard error, and the status of wrong usage."""

    def call(*arguments, status=2):
        ran = run(*arguments)
        assert ran.status == status, ran
        lines = [line for line in ran.err.splitlines() if line.startswith("evalign: ")]
        assert lines == ran.err.splitlines()[-1:], ran.err
        assert "Traceback" not in ran.err
        assert ran.out == ""
        return lines[0]

    return call


@pytest.fixture
def start(environment):
    """Start a command in a new interpreter, for commands that import little."""

    def call(*arguments, stdout=subprocess.PIPE, **more):
        command = [sys.executable, "-m", "evalign", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env={**environment, **more}, **pipes)

    return call


@pytest.fixture
def fork(script):
    """Start a command in a forked process, for commands that import much."""
    return partial(script, SOURCE / "evalign" / "__main__.py")


def customers(rows, seed):
    """Rows of mixed columns with gaps, and whether a customer stayed."""
    generator = np.random.default_rng(seed)
    cities = ["Rome", "Oslo; Norway", 'the "old" town', "Bonn\nam Rhein", "København"]
    table = pd.DataFrame({"email": [f"u{k}@x.org" for k in range(rows)], "plan": "basic"})
    table["visits"] = generator.poisson(6, rows)
    table["spent"] = generator.gamma(2.0, 30.0, rows).round(2)
    table["city"] = generator.choice(cities, rows)
    table.loc[10:11, "city"] = ["Nowhere", "Hamlet"]  # too rare to learn from
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(generator.integers(0, 900, rows), "D")
    table["since"] = day
    table["member"] = generator.random(rows) < 0.4
    score = 0.5 * table["visits"] - table["spent"] / 30 + 2 * table["member"] - (table["city"] == "Rome")
    table["churned"] = np.where(score + generator.normal(0, 0.7, rows) < 0.6, "yes", "no")
    for name in ("visits", "spent", "city", "since", "member"):
        table[name] = table[name].astype(object).where(generator.random(rows) > 0.06, None)
    table = pd.concat([table, table.iloc[:3]], ignore_index=True)  # only their ids differ
    table.insert(0, "id", np.arange(len(table)) + 1000 * seed)
    return table


def as_csv(table, path, mark="\ufeff", separator=";", end="\r\n"):
    """Write a CSV file as a spreadsheet does: a byte order mark, quotes, decimal commas."""

    def text(value):
        if value is None or value is pd.NaT:
            return ""
        if isinstance(value, bool | np.bool_):
            return "TRUE" if value else "FALSE"
        if isinstance(value, float):
            return str(value).replace(".", ",")
        return str(value.date()) if isinstance(value, pd.Timestamp) else str(value)

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator, lineterminator=end)
    writer.writerow(table.columns)
    writer.writerows([text(value) for value in row] for row in table.itertuples(index=False))
    path.write_bytes((mark + lines.getvalue()).encode())
    return path


def as_parquet(table, path):
    """Write the same as Parquet, with types: integers and booleans with nulls, dates, categories."""
    kinds = {"visits": "Int64", "spent": "float64", "member": "boolean", "city": "category"}
    table = table.astype({name: kind for name, kind in kinds.items() if name in table})
    table.assign(since=pd.to_datetime(table["since"])).to_parquet(path)
    return path


@dataclass(frozen=True)
class Files:
    """A table to learn from and one to predict, each as CSV and as Parquet; a model of the first."""

    folder: Path

    def __getattr__(self, name):
        table, kind = name.rsplit("_", 1)
        return self.folder / f"{table}.{kind}"

    @property
    def model(self):
        return self.folder / "model"


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Messy files; `new` has categories, a column and an order of columns that `old` does not have."""
    folder = tmp_path_factory.mktemp("customers")
    old, new = customers(260, 1), customers(90, 2)
    new.loc[[4, 40, 41], "city"] = ["Atlantis", 'Über, "all"', "x" * 300]
    new["remark"] = "none"
    new = new[["churned", "remark", *(name for name in old if name != "churned")]]
    for name, table in (("old", old), ("new", new)):
        as_csv(table, folder / f"{name}.csv")
        as_parquet(table, folder / f"{name}.parquet")
    command = ["fit", folder / "old.csv", "--target=churned", f"--out={folder / 'model'}", "--quiet"]
    assert evalign.cli.main([*map(str, command), "--method=lightgbm_rule"]) == 0
    return Files(folder)


@pytest.fixture
def table(tmp_path):
    """Write a CSV file and return its path."""

    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def commands(files, tmp_path):
    """Every command that reads a table, as a function of the table."""
    out = tmp_path / "out"
    return {
        "compare": lambda data: ["compare", data, "--target=churned", f"--out={out}"],
        "fit": lambda data: ["fit", data, "--target=churned", "--method=lightgbm", f"--out={out}"],
        "predict": lambda data: ["predict", files.model, data, f"--out={out}.csv"],
        "evaluate": lambda data: ["evaluate", files.model, data, f"--out={out}"],
    }


@pytest.fixture
def left(tmp_path):
    """List the folder of a test, including hidden files."""
    return lambda: sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
