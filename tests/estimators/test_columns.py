"""DataFrames of pandas and polars in `MetricBooster` and `MetricClassifier`."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

from evalign.estimators import MetricBooster, MetricClassifier
from evalign.estimators._columns import MAX_DUMMIES, Columns

BOOSTER = MetricBooster("f1", n_estimators=15, metric_rounds=5, n_bags=1, n_jobs=1, random_state=0)
NETWORK = MetricClassifier("f1", hidden=(8,), max_epochs=8, random_state=0)
MODELS = [pytest.param(BOOSTER, id="booster"), pytest.param(NETWORK, id="network")]


def make_lists(rows=400):
    """Columns with gaps, and labels that follow from the city and the size."""
    generator = np.random.default_rng(0)
    city = np.array(["Bern", "Lyon", "Oslo", "Rome"])[generator.integers(0, 4, rows)].tolist()
    size = generator.normal(size=rows).tolist()
    y = np.array([town == "Oslo" or one > 1.5 for town, one in zip(city, size, strict=True)]).astype(int)
    columns = {"size": size, "city": city, "new": (generator.random(rows) < 0.5).tolist()}
    for number, values in enumerate(columns.values()):
        values[number :: 9 + number] = [None] * len(values[number :: 9 + number])
    return columns, y


def make_pandas(columns):
    return pd.DataFrame(
        {"size": pd.array(columns["size"], dtype="Float64"), "city": pd.Categorical(columns["city"]),
         "new": pd.array(columns["new"], dtype="boolean")}
    )  # fmt: skip


FORMS = {
    "nullable": make_pandas,
    "objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "text": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "polars categories": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col("city").cast(pl.Categorical)
    ),
}


@pytest.mark.parametrize("model", MODELS)
def test_every_form_of_a_table_gives_the_same_model(model, tmp_path):
    columns, y = make_lists()
    wanted = None
    for form in FORMS.values():
        table = form(columns)
        fitted = model.fit(table, y)
        p = fitted.predict_proba(table)
        wanted = p if wanted is None else wanted
        np.testing.assert_array_equal(p, wanted)
    # A city is not a number: without it, nobody can tell the classes apart that well.
    assert (fitted.predict(table) == y).mean() > 0.9
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(make_pandas(columns)), wanted)
    assert loaded.columns_ == fitted.columns_


@pytest.mark.parametrize("model", MODELS)
def test_unseen_categories_are_missing(model):
    columns, y = make_lists()
    fitted = model.fit(pd.DataFrame(columns), y)
    unseen, missing = (pd.DataFrame({**columns, "city": [city] * 400}) for city in ("Paris", None))
    np.testing.assert_array_equal(fitted.predict_proba(unseen), fitted.predict_proba(missing))
    seen = pd.DataFrame({**columns, "city": ["Oslo"] * 400})
    assert fitted.predict(seen).mean() > fitted.predict(unseen).mean() + 0.3


@pytest.mark.parametrize("model", MODELS)
def test_columns_are_checked_as_scikit_learn_does(model):
    columns, y = make_lists()
    table = pd.DataFrame(columns)
    fitted = model.fit(table, y)
    with pytest.raises(ValueError, match="must be in the same order"):
        fitted.predict(table[["city", "size", "new"]])
    with pytest.raises(ValueError, match="yet now missing:\n- size"):
        fitted.predict(pl.DataFrame(columns).drop("size"))
    with pytest.raises(ValueError, match="`X` to be a table with the columns of `fit`, but got ndarray"):
        fitted.predict(table.to_numpy())
    with pytest.raises(ValueError, match="numbers in column 'size', as in `fit`"):
        fitted.predict(table.assign(size="big"))
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict(table.assign(size=np.inf))
    with pytest.raises(ValueError, match="numbers, texts or categories in column 'day', but got datetime"):
        model.fit(table.assign(day=pd.Timestamp("2020-01-01")), y)
    with pytest.raises(ValueError, match="numbers, texts or categories in column 'day', but got Date"):
        model.fit(pl.DataFrame(columns).with_columns(day=pl.date(2020, 1, 1)), y)
    with pytest.raises(ValueError, match="column 'list', but got list"):
        model.fit(table.assign(list=[[1]] * 400), y)


@pytest.mark.parametrize("model", MODELS)
def test_tables_of_numbers_are_arrays(model):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(300, 4))
    y = (X[:, 0] > 1).astype(int)
    wanted = model.fit(X, y).predict_proba(X)
    for table in (pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X, schema=list("abcd"))):
        fitted = model.fit(table, y)
        assert fitted.columns_ is None
        np.testing.assert_array_equal(fitted.predict_proba(table), wanted)
    matrix = sparse.csr_array(np.where(np.abs(X) < 1, 0, X))
    table = pd.DataFrame.sparse.from_spmatrix(matrix, columns=list("abcd"))
    np.testing.assert_array_equal(model.fit(table, y).columns_, None)


def test_the_network_gets_what_a_one_hot_encoder_gives():
    columns, _ = make_lists()
    table = pd.DataFrame(columns)[["city"]].fillna("none")
    found = Columns.find(table)
    dummies = found.make_dummies(found.encode(table))
    encoder = OneHotEncoder(categories=[found.columns[0].levels], sparse_output=False)
    np.testing.assert_array_equal(dummies, encoder.fit_transform(table))


def test_missing_numbers_are_the_mean_and_marked():
    table = pd.DataFrame({"a": [1.0, None, 4.0], "b": [1.0, 2.0, 6.0]})
    columns = Columns.find(table)
    dummies = columns.make_dummies(columns.encode(table.assign(b=[None, 2.0, 6.0])))
    np.testing.assert_array_equal(dummies, [[1, 0, 3], [2.5, 1, 2], [4, 0, 6]])
    y = [0, 1, 0] * 20
    fitted = MetricClassifier(hidden=(2,), max_epochs=2, random_state=0).fit(pd.concat([table] * 20), y)
    assert fitted.networks_[0][0].in_features == 3
    assert np.isfinite(fitted.predict_proba(table)).all()


def test_arrays_with_gaps_are_still_refused_by_the_network():
    with pytest.raises(ValueError, match="contains NaN"):
        NETWORK.fit([[1.0], [np.nan], [2.0], [3.0]], [0, 1, 0, 1])


def test_only_the_most_frequent_categories_become_columns():
    names = [f"c{number}" for number in range(100) for _ in range(1 + (number < MAX_DUMMIES))]
    columns = Columns.find(pd.DataFrame({"name": names}))
    dummies = columns.make_dummies(columns.encode(pd.DataFrame({"name": ["c5", "c99", "other"]})))
    assert columns.n_dummies == dummies.shape[1] == MAX_DUMMIES
    assert dummies.sum(1).tolist() == [1, 0, 0]


def test_categories_keep_their_type():
    table = pd.DataFrame(
        {"code": pd.Categorical([3, 1, 3]), "range": pd.cut([1, 5, 9], [0, 4, 10]), "mixed": [1, "a", None]}
    )
    columns = Columns.find(table)
    assert [column.levels for column in columns.columns] == [[3, 1], ["(4, 10]", "(0, 4]"], [1, "a"]]
    assert Columns.from_json(json.loads(json.dumps(columns.to_json()))) == columns
    floats = table.assign(code=[3.0, 1.0, 2.0])  # a file may return integers as floats
    np.testing.assert_array_equal(columns.encode(floats)[:, 0], [0, 1, np.nan])


def test_native_categories_find_sets_that_one_split_on_dummies_cannot():
    generator = np.random.default_rng(0)
    names = np.array([f"n{number}" for number in range(40)])
    code = generator.integers(0, 40, 3000)
    y = (generator.permutation(40) < 12)[code].astype(int)
    table = pd.DataFrame({"name": names[code], "noise": generator.normal(size=3000)})
    dummies = make_column_transformer((OneHotEncoder(sparse_output=False), ["name"])).fit_transform(table)
    stump = MetricBooster("f1", n_estimators=3, metric_rounds=1, n_bags=1, n_jobs=1, random_state=0)
    stump.set_params(num_leaves=2, min_child_samples=1, learning_rate=0.5, params={"min_data_per_group": 1})
    assert stump.fit(table, y).validation_score_ > stump.fit(dummies, y).validation_score_ + 0.2


def test_forged_columns_are_refused(tmp_path):
    columns, y = make_lists()
    BOOSTER.fit(pd.DataFrame(columns), y).save(tmp_path)
    path = next(tmp_path.glob("*.json"))
    facts = json.loads(path.read_text())
    for wrong in ([[["a", "a"], 0.0, False]] * 3, [[None, 0.0, False]], [[[["a"]], 0.0, False]] * 3, "text"):
        path.write_text(json.dumps({**facts, "columns": wrong}))
        with pytest.raises(ValueError, match="Expected `folder`"):
            MetricBooster.load(tmp_path)


def test_new_validation_rows_of_the_network_are_encoded(recwarn):
    columns, y = make_lists()
    table = pd.DataFrame(columns)
    fitted = MetricClassifier(hidden=(4,), max_epochs=3, random_state=0, warm_start=True)
    fitted.fit(table[:300], y[:300], validation_data=(table[300:], y[300:]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.fit(table[:300].iloc[::-1], y[:300][::-1])
    assert fitted.columns_.categorical == [1]
