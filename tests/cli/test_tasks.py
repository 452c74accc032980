"""Tasks of all kinds: constraints, three classes, costs, formulas, labels of any type."""

import json

import numpy as np
import pandas as pd
import pytest

from evalign import metrics
from evalign.cli._task import encode_classes
from evalign.selection import Problem
from evalign.tables import TableModel

COMPARE = ["--methods=lightgbm,lightgbm_rule", "--repeats=2", "--jobs=1", "--json", "--quiet"]
FIT = ["--method=lightgbm_rule", "--json", "--quiet"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write a file with these two or three classes."""
    generator, folder = np.random.default_rng(0), tmp_path_factory.mktemp("tasks")
    a, b = generator.normal(size=(2, 200)).round(3)
    score = a + b**2 + generator.normal(0, 0.4, 200)

    def write(names):
        target = np.array(names, dtype=object)[np.digitize(score, [1.2, 2.4][: len(names) - 1])]
        path = folder / f"{'-'.join(map(str, names))}.csv"
        pd.DataFrame({"a": a, "b": b, "target": target}).to_csv(path, index=False)
        return path

    return write


TASKS = {
    "constraint": (["no", "yes"], "recall", ["precision>=0.5"], ("no", "yes")),
    "two constraints": (["no", "yes"], "f1", ["precision>=0.3", "recall>=0.3"], ("no", "yes")),
    "three classes": (["low", "mid", "high"], "f1(average='macro')", [], ("high", "low", "mid")),
    "three classes, constraint": (["a", "b", "c"], "mcc", ["accuracy>=0.2"], ("a", "b", "c")),
    "cost": (["no", "yes"], "cost([[0, 1], [5, 0]])", [], ("no", "yes")),
    "formula": (["no", "yes"], "2*tp/(2*tp+fp+3*fn)", [], ("no", "yes")),
    "sum": (["no", "yes"], "0.5*f1() + 0.5*mcc()", [], ("no", "yes")),
    "integers": ([0, 1], "f1", [], ("0", "1")),
    "other integers": ([7, -2], "mcc", [], ("7", "-2")),
    "booleans": ([False, True], "balanced_accuracy", [], ("False", "True")),
    "fractions": ([0.5, 1.5], "f1", [], ("0.5", "1.5")),
    "label": (["no", "yes"], "recall['no']", ["precision['yes'] >= 0.5"], ("no", "yes")),
    "label of three": (["low", "mid", "high"], "recall['mid']", ["precision['mid'] >= 0.2"],
                       ("high", "low", "mid")),
    "label that is a number": ([7, -2], "f1['7']", [], ("7", "-2")),
    "label that is a boolean": ([False, True], "f1['False']", ["recall['True'] >= 0.5"], ("False", "True")),
    "costs by label": (["no", "yes"], "cost([[0, 5], [1, 0]], classes=['yes', 'no'])", [], ("no", "yes")),
    "strange names": (["a,b", "c\nd"], "f1", [], ("a,b", "c\nd")),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_fit_predict_evaluate(run, table, tmp_path, name):
    names, metric, bounds, labels = TASKS[name]
    data, out = table(names), tmp_path / "m"
    options = [f"--metric={metric}", *(f"--constraint={bound}" for bound in bounds)]
    ran = run("fit", data, "--target=target", f"--out={out}", *options, *FIT)
    assert ran.err == ""
    result, model = json.loads(ran.out), TableModel.load(out)
    assert ran.status == (0 if all(one["satisfied"] for one in result["constraints"].values()) else 3)
    assert model.labels == labels
    assert result["method"] == "lightgbm_rule"
    target = metrics.as_metric(metric).with_classes(labels)
    assert model.metric.name == target.name
    assert [one.name for one in model.constraints] == [metrics.as_constraint(bound).name for bound in bounds]
    ran = run("predict", out, data, f"--out={tmp_path / 'p.parquet'}", "--keep=target", "--quiet")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    pairs = pd.read_parquet(tmp_path / "p.parquet").astype(str)
    matrix = (
        pd.crosstab(pairs["target"], pairs["prediction"])
        .reindex(labels)
        .reindex(columns=labels, fill_value=0)
    )
    result = json.loads(run("evaluate", out, data, "--json").out)
    assert result["matrix"] == matrix.values.tolist()
    assert result["value"] == pytest.approx(float(target(matrix.values.tolist())), abs=1e-9)
    for bound in bounds:
        constraint = metrics.as_constraint(bound).with_classes(labels)
        satisfied = bool(constraint.slack(matrix.values.tolist()) >= 0)
        assert result["constraints"][constraint.name]["satisfied"] == satisfied
    card = (out / "README.md").read_text()
    assert target.name in card
    assert ("lower is better" in card) == name.startswith("cost")
    assert ("higher is better" in card) == (not name.startswith("cost"))


@pytest.mark.parametrize("name", ["constraint", "three classes", "cost", "formula", "booleans", "label"])
def test_compare(run, table, tmp_path, name):
    names, metric, bounds, _ = TASKS[name]
    options = [f"--metric={metric}", *(f"--constraint={bound}" for bound in bounds)]
    ran = run("compare", table(names), "--target=target", f"--out={tmp_path}", *options, *COMPARE)
    assert (ran.status, ran.err) == (0, "")
    result = json.loads(ran.out)
    rows = {row["method"]: row for row in result["comparison"]["rows"]}
    assert list(rows) == ["lightgbm", "lightgbm_rule"]
    assert all(np.mean(row["values"]) == pytest.approx(row["mean"]) for row in rows.values())
    assert result["comparison"]["higher_is_better"] == (name != "cost")
    best = (min if name == "cost" else max)(rows, key=lambda method: rows[method]["mean"])
    if not bounds:
        assert result["best"] == best
    assert result["advice"].startswith(f"{result['best']}: {metrics.as_metric(metric).name} ")
    assert json.loads((tmp_path / "comparison.json").read_text()) == result["comparison"]


def test_auto_explains_its_choice(run, table, tmp_path):
    options = [
        "--target=target",
        f"--out={tmp_path / 'm'}",
        "--methods=lightgbm,lightgbm_rule",
        "--folds=3",
        "--jobs=1",
    ]
    ran = run("fit", table(["no", "yes"]), *options)
    assert ran.status == 0
    method = TableModel.load(tmp_path / "m").facts["method"]
    assert f"\n{method}: " in ran.out
    assert "in cross-validation" in ran.out
    assert f"Model: {tmp_path / 'm'} (report: " in ran.out
    assert f"**Method**: {method}, " in (tmp_path / "m" / "README.md").read_text()


@pytest.mark.parametrize(
    ("method", "kind"), [("network_rule", "MetricClassifier"), ("random_forest_rule", "MetricDecision")]
)
def test_networks_and_forests_are_saved_too(run, table, tmp_path, method, kind):
    data, out = table(["no", "yes"]), tmp_path / "m"
    ran = run("fit", data, "--target=target", f"--out={out}", f"--method={method}", "--quiet")
    assert (ran.status, ran.err) == (0, "")
    model = TableModel.load(out)
    assert type(model.classifier).__name__ == kind
    assert json.loads(run("evaluate", out, data, "--json").out)["value"] > 0.7


@pytest.mark.parametrize(
    ("values", "positive", "labels"),
    [
        (["yes", "no", "no"], None, ("no", "yes")),
        (["yes", "yes", "no"], None, ("no", "yes")),  # by its name, although it is more frequent
        (["bad", "good", "good"], None, ("good", "bad")),  # the rarer one
        (["bad", "good", "good"], "good", ("bad", "good")),
        ([1, 0, 1, 1], None, ("0", "1")),
        ([1, -1, 1, 1], None, ("-1", "1")),
        ([1.0, 0.0, 1.0], "0", ("1", "0")),
        ([True, True, False], None, ("False", "True")),
        (["TRUE", "FALSE", "TRUE"], None, ("FALSE", "TRUE")),
        (["b", "a", "c"], None, ("a", "b", "c")),
    ],
)
def test_which_class_is_positive(values, positive, labels):
    names, y = encode_classes(pd.Series(values), positive)
    assert names == labels
    texts = [str(int(value)) if isinstance(value, float) else str(value) for value in values]
    assert [names[index] for index in y] == texts


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_the_problem_is_built_once(run, table, tmp_path, monkeypatch, command):
    problems, check = [], Problem.check

    def record(*arguments, **options):
        problems.append(check(*arguments, **options))
        return problems[-1]

    monkeypatch.setattr(Problem, "check", staticmethod(record))
    options = ["--methods=lightgbm,lightgbm_rule", "--jobs=1", "--quiet"]
    ran = run(command, table(["no", "yes"]), "--target=target", f"--out={tmp_path / 'm'}", *options)
    assert (ran.status, ran.err) == (0, "")
    assert len(problems) == 1
