"""The matrix for a classifier: by hand, against scikit-learn, finite, row by row, and stored."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evalign.estimators import TargetMeans
from evalign.tables import Column, Preparation, Schema, as_labels

KINDS = Schema(
    (
        Column("number", "number"), Column("flag", "boolean"), Column("day", "date", format="iso"),
        Column("city", "category"), Column("gone", "dropped"),
    )
)  # fmt: skip


def table(rows):
    return pd.DataFrame(rows, columns=["number", "flag", "day", "city"])


def prepare(preparation, rows):
    names = preparation.get_feature_names_out()
    return [dict(zip(names, row, strict=True)) for row in preparation.transform(table(rows)).tolist()]


def test_by_hand():
    """Twelve rows: medians 2 and 1, Rome frequent, Oslo and Bonn rare; 1970-01-02 was a Friday."""
    rows = [("1", "no", "1970-01-02", "Rome")] * 5 + [("2", "yes", "1970-01-01", "Rome")] * 5
    rows += [("inf", "yes", "", "Oslo"), ("9", "?", "1970-03-01 18:00", "Bonn")]
    preparation = Preparation(KINDS).fit(table(rows))
    first, missing = prepare(preparation, [rows[0], ("NA", "", "NaT", "Tokyo")])
    assert first == {
        "number": 1, "flag": 0, "day": 1, "day: month": 1, "day: weekday": 4, "day: hour": 0,
        "number missing": 0, "flag missing": 0, "day missing": 0, "city = Rome": 1, "city rare": 0,
    }  # fmt: skip
    assert missing == {
        "number": 2, "flag": 1, "day": 1, "day: month": 1, "day: weekday": 4, "day: hour": 0,
        "number missing": 1, "flag missing": 1, "day missing": 1, "city = Rome": 0, "city rare": 1,
    }  # fmt: skip


def test_complete_columns_have_no_feature_for_missing_values():
    rows = [("1", "no", "2020-01-01", "Rome"), ("2", "yes", "2020-01-02", "Oslo")] * 3
    preparation = Preparation(KINDS).fit(table(rows))
    names = ["number", "flag", "day", "day: month", "day: weekday", "city = Oslo", "city = Rome"]
    assert preparation.get_feature_names_out().tolist() == names
    unseen = prepare(preparation, [("", "", "", "Tokyo"), ("", "", "", "")])
    assert unseen[0]["city = Oslo"] == unseen[0]["city = Rome"] == 0  # there is no rare category
    assert unseen[0] == unseen[1]


def test_missing_is_a_category():
    rows = [("1", "no", "2020-01-01", city) for city in ["Rome", "", "Rome", "NA"]]
    names = Preparation(KINDS).fit(table(rows)).get_feature_names_out().tolist()
    assert names[-2:] == ["city = (missing)", "city = Rome"]


def test_columns_of_many_categories_stay_narrow():
    """Of 1,000 categories with 12 rows each, 49 have a feature of their own."""
    rows = [("1", "no", "2020-01-01", f"c{number % 1000}") for number in range(12_000)]
    names = Preparation(KINDS).fit(table(rows)).get_feature_names_out().tolist()
    assert len([name for name in names if name.startswith("city")]) == 50
    assert names[-1] == "city rare"


def test_against_scikit_learn(messy):
    """The same transformers combined by hand, for numbers and categories."""
    schema = Schema(
        tuple(column for column in Schema.infer(messy, "y").inputs if column.kind in ("number", "category"))
    )
    table = schema.convert(messy)
    numbers = [column.name for column in schema.inputs if column.kind == "number"]
    cities = [column.name for column in schema.inputs if column.kind == "category"]
    plain = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), numbers),
            ("categories", OneHotEncoder(min_frequency=3, sparse_output=False), cities),
        ]
    )
    expected = plain.fit_transform(table.fillna(dict.fromkeys(cities, "(missing)")))
    np.testing.assert_array_equal(Preparation(schema).fit_transform(messy), expected)


def test_the_same_from_csv_parquet_and_converted_tables(messy, from_csv, from_parquet):
    schema = Schema.infer(messy, "y")
    train, test = np.arange(200), np.arange(200, 300)
    expected = Preparation(schema).fit(messy.iloc[train]).transform(messy.iloc[test])
    for frame in (from_csv(messy), from_parquet(messy), schema.convert(messy)):
        matrix = Preparation(schema).fit(frame.iloc[train]).transform(frame.iloc[test])
        np.testing.assert_array_equal(matrix, expected)
    assert np.isfinite(expected).all()
    assert expected.dtype == np.float64


def test_in_a_pipeline_with_cross_validation(messy, from_csv):
    """Raw text goes through all folds, and the income determines the class."""
    frame = from_csv(messy.assign(y=np.where(messy["income"].fillna(0) > 0, "rich", "poor")))
    schema = Schema.infer(frame, "y")
    model = make_pipeline(Preparation(schema), StandardScaler(), LogisticRegression(C=0.1))
    scores = cross_val_score(model, frame, as_labels(frame["y"]), cv=3, error_score="raise")
    assert scores.mean() > 0.85


def test_only_the_rows_of_fit_are_learned_from(messy):
    schema = Schema.infer(messy, "y")
    expected = Preparation(schema).fit(messy[:100]).transform(messy)
    other = messy.copy()
    other.loc[100:, "income"] = 1e9
    other.loc[100:, "city"] = "Atlantis"
    np.testing.assert_array_equal(Preparation(schema).fit(other[:100]).transform(messy), expected)


def test_a_fold_may_contain_no_values_or_one_row():
    rows = [("", "", "", ""), ("", "", "", ""), ("5", "yes", "2020-05-05 05:05", "Rome")]
    for part in (rows[:2], rows[:1], rows[2:]):
        matrix = Preparation(KINDS).fit(table(part)).transform(table(rows))
        assert np.isfinite(matrix).all()
        assert len(matrix) == 3


@pytest.mark.parametrize("keep", [["number"], ["city"], ["day"], ["flag", "city"]])
def test_tables_of_one_kind(keep):
    schema = Schema(tuple(column for column in KINDS.columns if column.name in keep))
    rows = table([("1", "no", "2020-01-01", "Rome"), ("", "yes", "", ""), ("3", "no", "", "Rome")])
    preparation = Preparation(schema).fit(rows)
    matrix = preparation.transform(rows)
    assert matrix.shape == (3, len(preparation.get_feature_names_out()))
    assert preparation.transform(rows[:0]).shape == (0, matrix.shape[1])


def test_huge_numbers_stay_finite():
    matrix = Preparation(KINDS).fit_transform(
        table([("1.7e308", "no", "9999-12-31", "a")] * 2 + [("-1e400", "", "", "")])
    )
    assert np.isfinite(matrix).all()
    assert np.isfinite(StandardScaler().fit_transform(matrix)).all()


values = st.one_of(st.none(), st.text(max_size=3), st.floats().map(str), st.integers().map(str))
flags = st.sampled_from(["yes", "no", "", None])
days = st.one_of(st.just(""), st.datetimes().map(str), st.dates().map(str))
some = st.lists(st.tuples(st.floats().map(str), flags, days, values), min_size=1, max_size=12)


@given(some, some, st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_any_table_gives_finite_numbers_row_by_row(seen, new, random):
    preparation = Preparation(KINDS).fit(table(seen))
    matrix = preparation.transform(table(new))
    assert np.isfinite(matrix).all()
    rows = [random.randrange(len(new)) for _ in range(5)]
    np.testing.assert_array_equal(preparation.transform(table(new).iloc[rows]), matrix[rows])
    converted = KINDS.convert(table(new))
    pd.testing.assert_frame_equal(KINDS.convert(converted), converted)
    np.testing.assert_array_equal(preparation.transform(converted), matrix)


def test_parameters_and_clones():
    preparation = Preparation(KINDS).fit(table([("1", "no", "", "a"), ("2", "yes", "", "b")]))
    fresh = clone(preparation)
    assert fresh.schema == KINDS
    assert not hasattr(fresh, "medians_")
    with pytest.raises(ValueError, match="not fitted"):
        fresh.transform(table([]))
    with pytest.raises(ValueError, match="`schema` to be a Schema, but got str"):
        Preparation("schema").fit(table([]))
    with pytest.raises(ValueError, match="`X` with rows, but got none"):
        fresh.fit(table([]))


def test_pandas_output_has_the_feature_names():
    rows = table([("1", "no", "", "a"), ("2", "yes", "", "b")])
    preparation = Preparation(KINDS).set_output(transform="pandas").fit(rows)
    matrix = preparation.transform(rows)
    assert list(matrix.columns) == preparation.get_feature_names_out().tolist()


def as_json(facts):
    return json.loads(json.dumps(facts))


def test_packed_and_unpacked_it_is_the_same(messy):
    preparation = Preparation(Schema.infer(messy, "y")).fit(messy[:200])
    facts, arrays = preparation.pack()
    loaded = Preparation.unpack(preparation.schema, as_json(facts), arrays)
    np.testing.assert_array_equal(loaded.transform(messy), preparation.transform(messy))
    assert loaded.get_feature_names_out().tolist() == preparation.get_feature_names_out().tolist()
    again = pickle.loads(pickle.dumps(preparation))  # joblib sends it to other processes in this way
    np.testing.assert_array_equal(again.transform(messy), preparation.transform(messy))


@pytest.fixture(scope="module")
def packed():
    """A preparation with columns of every kind, packed: its schema, facts and arrays."""
    schema = Schema((*KINDS.columns, Column("shop", "category", format="many"), Column("note", "text")))
    rows = table([("1", "no", "2020-01-01 10:00", "Rome"), ("", "yes", "", "Oslo")] * 10)
    rows = rows.assign(
        shop=[f"s{row // 2}" for row in range(20)], note=["good and cheap", "bad and slow"] * 10
    )
    preparation = Preparation(schema).fit(rows)
    preparation.attach(TargetMeans((0,)).fit(preparation.transform(rows), [0, 1] * 10))
    return schema, *preparation.pack(), preparation.transform(rows), rows


def test_an_attached_mean_is_packed_too(packed):
    schema, facts, arrays, matrix, rows = packed
    np.testing.assert_array_equal(Preparation.unpack(schema, as_json(facts), arrays).transform(rows), matrix)


@pytest.mark.parametrize(
    "forged",
    [
        {"medians": [0.0]}, {"medians": [float("nan")] * 6}, {"missing": [99]}, {"missing": [-1]},
        {"missing": [True]}, {"timed": ["number"]}, {"frequent": []}, {"frequent": [["Rome", "Rome"]]},
        {"frequent": [[1]]}, {"has_rare": [3]}, {"levels": []}, {"levels": ["ab"]},
    ],
)  # fmt: skip
def test_forged_facts_are_rejected(packed, forged):
    schema, facts, arrays, *_ = packed
    with pytest.raises(ValueError, match="Expected `model` with"):
        Preparation.unpack(schema, {**facts, **forged}, arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("text 0 buckets", lambda one: one[::-1]),
        ("text 0 buckets", lambda one: one + (1 << 40)),
        ("text 0 buckets", lambda one: one[1:]),
        ("text 0 weights", lambda one: one * np.nan),
        ("text 0 directions", lambda one: one[:, 1:]),
        ("text 0 directions", lambda one: one.astype(np.float64)),
        ("means 0", lambda one: one[:0]),
        ("means 0", lambda one: one * np.inf),
        ("means 0", lambda one: one.astype(np.int64)),
    ],
)
def test_forged_arrays_are_rejected(packed, name, change):
    schema, facts, arrays, *_ = packed
    with pytest.raises(ValueError, match="Expected `(model|folder)` with"):
        Preparation.unpack(schema, facts, {**arrays, name: change(arrays[name])})


def test_a_stored_schema_is_checked(messy):
    preparation = Preparation(Schema.infer(messy, "y")).fit(messy)
    state = preparation.__getstate__()
    state["schema"]["columns"][0]["kind"] = "code"
    with pytest.raises(ValueError, match="`kind` to be one of"):
        Preparation(KINDS).__setstate__(state)
