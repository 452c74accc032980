"""Many categories, texts and kinds of the user through the whole command line: fit, save, load, predict."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from evalign.cli import main
from evalign.tables import TableModel

GOOD, BAD = ["solid", "fast", "lovely"], ["broken", "late", "rude"]


def draw(n, seed):
    """60 shops with rates of their own, and a remark of four words, of which one leans to a class."""
    rates = np.random.default_rng(5).beta(0.4, 0.8, 60)
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, 60, n)
    y = rng.random(n) < rates[shop]
    words = [rng.choice(BAD if rng.random() < (0.75 if bad else 0.25) else GOOD) for bad in y]
    return pd.DataFrame(
        {
            "shop": [f"shop {one}" for one in shop], "x": rng.normal(size=n).round(3),
            "remark": [f"order {k} was {word}" for k, word in enumerate(words)],
            "fraud": np.where(y, "yes", "no"),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    for name, rows, seed in (("train", 900, 0), ("test", 600, 1)):
        draw(rows, seed).to_csv(folder / f"{name}.csv", index=False)
    return folder


def fit(files, out, *options):
    return main(["fit", str(files / "train.csv"), "--target=fraud", f"--out={out}", "--jobs=1", *options])


def score(files, model):
    """The F1 of what `evalign predict` writes, which the loaded model predicts, too."""
    out = model.with_suffix(".csv")
    assert main(["predict", str(model), str(files / "test.csv"), f"--out={out}", "--quiet"]) == 0
    truth, predicted = pd.read_csv(files / "test.csv"), pd.read_csv(out)["prediction"]
    assert TableModel.load(model).predict(truth).tolist() == predicted.tolist()
    return f1_score(truth["fraud"], predicted, pos_label="yes")


@pytest.mark.parametrize("options", [["--method=linear"], ["--methods=lightgbm,logistic", "--folds=2"]])
def test_shops_and_remarks_are_learned_from(files, tmp_path, options, capsys):
    assert fit(files, tmp_path / "model", "--json", *options) == 0
    assert "left out" not in json.dumps(json.loads(capsys.readouterr().out)["warnings"])
    without = ["--kind=shop=dropped", "--kind=remark=dropped", "--quiet"]
    assert fit(files, tmp_path / "without", *options, *without) == 0
    assert score(files, tmp_path / "model") > score(files, tmp_path / "without") + 0.1
    names = {path.name.split("-")[0] for path in (tmp_path / "model").iterdir()}
    assert {"preparation.json", "preparation"} <= names
    assert not list((tmp_path / "model").rglob("*.skops"))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("shop", "Expected `kind` of the form NAME=KIND"),
        ("shp=text", "Expected `kind` of columns to learn from, but got 'shp'. Did you mean 'shop'?"),
        ("shop=txt", "Did you mean 'text'?"),
        ("shop=number", "Expected `shop` to contain numbers"),
    ],
)
def test_wrong_kinds_are_refused(files, tmp_path, option, message, capsys):
    assert fit(files, tmp_path / "model", f"--kind={option}") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
