"""The commands of the README, run in order; its Python code runs as a doctest."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalign.cli import main

ROOT = Path(__file__).parents[1]
#: Options that make a command fast enough for a test; the README shows the defaults.
FASTER = {
    "compare": ["--methods", "lightgbm,lightgbm_rule", "--repeats", "2", "--jobs", "1"],
    "fit": ["--methods", "lightgbm,lightgbm_rule", "--folds", "2", "--jobs", "1"],
}


def commands():
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    lines = [line[2:].split("   #")[0] for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    split = [shlex.split(line)[1:] for line in lines if line.startswith("evalign ")]
    return [[str(ROOT / part) if part.startswith("src/") else part for part in command] for command in split]


def customers(rows, seed):
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"age": random.integers(18, 80, rows), "plan": random.choice(["free", "paid"], rows)}
    )
    table["visits"] = random.poisson(5, rows).astype(float)
    table.loc[::7, "visits"] = np.nan
    score = 0.05 * table["age"] - table["visits"].fillna(5) / 3 + (table["plan"] == "free")
    table["churned"] = np.where(score + random.normal(size=rows) > 2.5, "yes", "no")
    return table


@pytest.mark.filterwarnings("default")
def test_every_command_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    customers(400, 0).to_csv("customers.csv", index=False)
    customers(90, 1).to_csv("labelled.csv", index=False)
    customers(90, 2).drop(columns="churned").to_csv("new.csv", index=False)
    names = []
    for command in commands():
        assert main([*command, *FASTER.get(command[0], [])]) == 0, capsys.readouterr().err
        names.append(command[0])
    assert {"compare", "fit", "predict", "evaluate"} <= set(names)
    out = capsys.readouterr().out
    assert "lightgbm_rule" in out
    assert "Confusion matrix" in out
    predictions = pd.read_csv("predictions.csv")
    assert list(predictions) == ["prediction", "probability_no", "probability_yes"]
    assert len(predictions) == 90
    for page in ("evalign-report/report.html", "model/report.html", "report/report.html"):
        assert "</html>" in Path(page).read_text()


def test_make_demo_runs_on_the_bundled_data():
    makefile = (ROOT / "Makefile").read_text()
    line = next(line for line in makefile.splitlines() if "/evalign fit" in line)
    command = shlex.split(line)[1:]
    assert (ROOT / command[1]).exists()
    assert [str(ROOT / part) if part.startswith("src/") else part for part in command] in commands()
