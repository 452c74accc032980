"""A model as an ONNX file: onnxruntime predicts what the model does, and what does not convert is named."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.svm import LinearSVC

from evalign import AutoClassifier, MetricBooster, MetricClassifier, MetricDecision, MetricLinear
from evalign.estimators import CatBoost
from evalign.tables import Preparation, Schema, TableModel

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from evalign.tables.export import Agreement, build_onnx, compare_graph, draw_rows  # noqa: E402

FACTS = {"metric": "f1", "constraints": [], "method": "x", "target": "y", "seed": 0}


def draw(rows, d, seed):
    """Numbers, of which some are in float32, booleans and categories, with gaps; and classes."""
    make = np.random.default_rng(seed)
    table = pd.DataFrame({"age": make.integers(18, 90, rows).astype(float)})
    table["income"] = np.exp(make.normal(8, 2, rows))
    table["label"] = make.normal(size=rows).astype(np.float32).astype(float)
    table["member"] = make.random(rows) < 0.4
    table["city"] = make.choice(["Rome", "Oslo", "7", "x y"], rows, p=[0.4, 0.3, 0.295, 0.005])
    score = table["age"] / 30 + np.log(table["income"]) / 3 - table["member"] + (table["city"] == "Rome")
    score += make.normal(0, 0.5, rows)
    y = np.digitize(score, np.quantile(score, [0.85] if d == 2 else [0.6, 0.85]))
    for name in ("age", "income", "city", "member"):
        table[name] = table[name].astype(object).where(make.random(rows) > 0.05, None)
    return table, y


@pytest.fixture(scope="module")
def tables():
    """For two and three classes: a preparation, the prepared rows and their classes, and new rows."""
    parts = {}
    for d in (2, 3):
        table, y = draw(500, d, 0)
        schema = Schema.infer(table.assign(y=y), "y")
        preparation = Preparation(schema).fit(table)
        parts[d] = preparation, preparation.transform(table), y, draw(10_000, d, 1)[0]
    return parts


def fit(classifier, tables, d):
    preparation, X, y, new = tables[d]
    model = TableModel(preparation.schema, preparation, classifier.fit(X, y), ("no", "yes", "ja")[:d], FACTS)
    return model, new


@pytest.fixture(scope="module")
def linear(tables):
    """A model of two classes, and new rows."""
    return fit(MetricLinear("f1", random_state=0), tables, 2)


SMALL = {"n_estimators": 20, "metric_rounds": 10, "n_jobs": 1, "random_state": 0}
CLASSIFIERS = {
    "linear": lambda: MetricLinear("f1", random_state=0),
    "booster": lambda: MetricBooster("f1", n_bags=2, **SMALL),
    "plain booster": lambda: MetricBooster("f1", strategy="log_loss", rule=False, n_bags=1, **SMALL),
    "network": lambda: MetricClassifier("f1", hidden=(8,), max_epochs=3, n_bags=2, random_state=0),
    "network of bins": lambda: MetricClassifier("f1", hidden=(8,), n_bins=5, max_epochs=3, random_state=0),
    "plain network": lambda: MetricClassifier("f1", hidden=(8,), max_epochs=2, rule=False, dropout=0.1),
    "forest": lambda: MetricDecision(
        RandomForestClassifier(15, random_state=0), "f1", cv="out_of_bag", random_state=0
    ),
    "catboost": lambda: MetricDecision(CatBoost(n_estimators=20, n_jobs=1, random_state=0), "f1", cv=2),
}


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_onnxruntime_predicts_the_same(tables, name, d):
    if name == "catboost":
        pytest.importorskip("catboost")
    model, new = fit(CLASSIFIERS[name](), tables, d)
    agreement = compare_graph(build_onnx(model), model, new)
    assert agreement.rows == 10_000
    assert agreement.difference < 1e-12
    assert agreement.labels == 0
    assert compare_graph(build_onnx(model), model, draw_rows(model, 500)).holds


@pytest.mark.parametrize("d", [2, 3])
def test_an_ensemble_with_all_kinds_of_members(tables, d):
    forest = RandomForestClassifier(10, random_state=0)
    members = {"lightgbm": "lightgbm", "logistic": "logistic", "forest": forest}
    model, new = fit(AutoClassifier("f1", methods=members, cv=2, random_state=0), tables, d)
    content = build_onnx(model)
    agreement = compare_graph(content, model, new)
    assert agreement.difference < 1e-12
    assert agreement.labels == 0
    onnx.checker.check_model(content, full_check=True)


def test_the_file_alone_suffices(linear):
    """Without evalign: inputs by the names of the columns, labels as texts, and the facts beside them."""
    model, _ = linear
    session = onnxruntime.InferenceSession(build_onnx(model))
    assert [one.name for one in session.get_inputs()] == ["age", "income", "label", "member", "city"]
    assert [one.type for one in session.get_inputs()] == ["tensor(double)"] * 4 + ["tensor(string)"]
    assert [one.name for one in session.get_outputs()] == ["label_", "probabilities"]  # a column has the name
    nan, inf = np.nan, np.inf
    rows = {
        "age": [40.0, nan, inf, 1e300, 40.0, 40.0], "income": [2e3, nan, 5e3, 1.0, 2e3, 2e3],
        "label": [0.0, 1.0, nan, -1.0, 0.0, 0.0], "member": [1.0, nan, 0.0, 1.0, 1.0, 1.0],
        "city": ["Rome", "", "NA", "Atlantis", "7.0", "(missing)"],
    }  # fmt: skip
    columns = {
        name: np.array(values, dtype=object if name == "city" else float)[:, None]
        for name, values in rows.items()
    }
    labels, p = session.run(None, columns)
    names, wanted = model.predict_both(pd.DataFrame(rows))
    assert labels.tolist() == names.tolist()
    np.testing.assert_allclose(p, wanted, atol=1e-12)
    facts = session.get_modelmeta().custom_metadata_map
    assert facts["classes"] == '["no", "yes"]'
    assert float(facts["threshold"]) == model.threshold


def test_what_cannot_be_exported_is_named(tables):
    for estimator, words in (
        (GradientBoostingClassifier(n_estimators=2), "a GradientBoostingClassifier"),
        (LinearSVC(), "a LinearSVC without probabilities"),
    ):
        model, _ = fit(MetricDecision(estimator, "f1", cv=2), tables, 2)
        with pytest.raises(ValueError, match=f"of parts that can be exported, but got {words}"):
            build_onnx(model)
    table, y = draw(200, 2, 0)
    table["since"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(200), "D")
    schema = Schema.infer(table.assign(y=y), "y")
    preparation = Preparation(schema).fit(table)
    model = replace(model, schema=schema, preparation=preparation)
    with pytest.raises(ValueError, match="'since', a date \\(ONNX cannot parse dates\\)"):
        build_onnx(model)
    table["since"] = [f"shop {number % 100}" for number in range(200)]
    schema = Schema.infer(table.assign(y=y), "y")
    model = replace(model, schema=schema, preparation=Preparation(schema).fit(table))
    with pytest.raises(ValueError, match="'since', a column of many categories \\(each method encodes"):
        build_onnx(model)


def test_a_graph_of_another_model_is_noticed(linear):
    model, new = linear
    content = build_onnx(model)
    stricter = model.with_threshold(min(model.threshold + 0.1, 1.0))
    agreement = compare_graph(content, stricter, new[:500])
    assert agreement.labels > agreement.rounded
    assert not agreement.holds
    assert not Agreement(10, 1e-4, 0, 0).holds
    assert Agreement(10, 1e-6, 2, 2).holds
