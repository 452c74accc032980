"""Kinds of columns and warnings about them."""

import uuid

import numpy as np
import pandas as pd
import pytest

from evalign.tables import Column, Schema


def infer(values, name="x", rows=60):
    """Infer the schema of one column of repeated values, with another column to learn from."""
    column = (list(values) * rows)[:rows]
    noise = np.random.default_rng(0).normal(size=rows)
    table = pd.DataFrame({name: column, "noise": noise, "y": ["a", "b", "b"] * (rows // 3)}, dtype=object)
    return Schema.infer(table, "y")


def infer_kind(values, **settings):
    return infer(values, **settings).columns[0].kind


def convert(schema, values):
    return Schema(schema.columns[:1]).convert(pd.DataFrame({"x": values}, dtype=object))["x"].tolist()


@pytest.mark.parametrize(
    ("values", "kind", "converted"),
    [
        (["1", "-2.5", ".5"], "number", [1, -2.5, 0.5]),
        ([" 3 ", "1e5", "+7."], "number", [3, 1e5, 7]),
        (["0", "1", "1"], "number", [0, 1, 1]),
        (["1", "NA", "2"], "number", [1, None, 2]),
        (["1", "inf", "-Infinity"], "number", [1, None, None]),
        (["18446744073709551617", "3", "2"], "number", [2.0**64, 3, 2]),
        ([10**30, 1, 2], "number", [1e30, 1, 2]),
        (["3,14", "2", "-0,5"], "number", [3.14, 2, -0.5]),
        (["yes", "no", "YES"], "boolean", [1, 0, 1]),
        (["True", "False", ""], "boolean", [1, 0, None]),
        (["t", "f", "T"], "boolean", [1, 0, 1]),
        (["a", "b", " a "], "category", ["a", "b", "a"]),
        (["t", "f", "g"], "category", ["t", "f", "g"]),
        (["yes", "no", "maybe"], "category", ["yes", "no", "maybe"]),
        (["+", "-", "+"], "category", ["+", None, "+"]),
        (["1,234", "12,500", "7"], "category", ["1,234", "12,500", "7"]),
        (["1.5", "1,5", "2"], "category", ["1.5", "1,5", "2"]),
        (["ÅÄÖ", "日本", "😀"], "category", ["ÅÄÖ", "日本", "😀"]),
        (["2020-01", "2021-02", "2022-03"], "category", ["2020-01", "2021-02", "2022-03"]),
    ],
)
def test_kinds_and_values(values, kind, converted):
    schema = infer(values)
    assert schema.columns[0].kind == kind
    assert [None if value != value else value for value in convert(schema, values)] == converted


@pytest.mark.parametrize(
    ("values", "date_format", "timestamps"),
    [
        (["2020-02-29", "1969-12-31"], "iso", ["2020-02-29", "1969-12-31"]),
        (["2020-02-29T12:30", "2020-3-1 01:02:03.5"], "iso", ["2020-02-29T12:30", "2020-03-01T01:02:03.5"]),
        (["2020-01-01T00:30+01:00", "2020-01-01 00:00:00Z"], "iso", ["2019-12-31T23:30", "2020-01-01"]),
        (["2020-01-01 00:00:00-0530", "2020-01-01"], "iso", ["2020-01-01T05:30", "2020-01-01"]),
        (["2020/01/31", "2021/12/01"], "iso", ["2020-01-31", "2021-12-01"]),
        (["9999-12-31", "0001-01-01"], "iso", ["9999-12-31", "0001-01-01"]),
        (["31/01/2020", "01/02/2020"], "dmy", ["2020-01-31", "2020-02-01"]),
        (["1/31/2020 1:05 PM", "2/1/2020 12:00 AM"], "mdy", ["2020-01-31T13:05", "2020-02-01"]),
        (["01.02.2020", "3.4.2021 07:15"], "dmy", ["2020-02-01", "2021-04-03T07:15"]),
        (["31-12-1999", "01-01-2000"], "dmy", ["1999-12-31", "2000-01-01"]),
    ],
)
def test_dates(values, date_format, timestamps):
    schema = infer(values)
    assert (schema.columns[0].kind, schema.columns[0].format) == ("date", date_format)
    dates = Schema(schema.columns[:1]).convert(pd.DataFrame({"x": [*values, "NA", "2020-02-30"]}))["x"]
    assert dates.to_numpy()[:-2].tolist() == np.array(timestamps, dtype="datetime64[us]").tolist()
    assert dates.isna().tolist()[-2:] == [True, True]


def test_ambiguous_dates_stay_text():
    schema = infer(["01/02/2020", "03/04/2020", "12/12/2020"])
    assert schema.columns[0].kind == "category"
    assert "'01/02/2020' may start with the day or the month" in schema.warnings[0]
    assert infer_kind(["31/01/2020", "01/31/2020"]) == "category"  # both ways at once


@pytest.mark.parametrize(
    ("values", "note", "settings"),
    [
        (["x"], "it is constant", {}),
        (["7.0", "7"], "it is constant", {}),
        (["2020-01-01"], "it is constant", {}),
        (["", "NA", None], "all its values are missing", {}),
        (["inf"], "all its values are missing", {}),
        (range(1, 61), "it numbers the rows", {}),
        ([str(row) for row in range(600, 0, -10)], "it numbers the rows", {}),
        (np.random.default_rng(0).permutation(60), "it numbers the rows", {}),
        (np.random.default_rng(0).choice(10**6, 60, replace=False), "it numbers the rows", {"name": "id"}),
        (
            np.random.default_rng(0).choice(10**6, 60, replace=False),
            "it numbers the rows",
            {"name": "userId"},
        ),
        ([9, 4, 7], "it numbers the rows", {"name": "Customer_ID", "rows": 3}),
        (
            [str(uuid.UUID(int=row)) for row in range(60)],
            "it identifies the rows (60 distinct texts in 60 rows)",
            {},
        ),
    ],
)
def test_columns_that_are_dropped(values, note, settings):
    schema = infer(values, **settings)
    assert (schema.columns[0].kind, schema.columns[0].note) == ("dropped", note)
    assert schema.warnings[0] == f"`{settings.get('name', 'x')}` was left out: {note}."
    assert [column.name for column in schema.inputs] == ["noise"]


@pytest.mark.parametrize(
    ("values", "kind", "settings"),
    [
        (["x", ""], "category", {}),  # whether it is missing is information
        (["1", "NA"], "number", {}),
        (np.arange(60) / 10, "number", {}),  # counts up, but in tenths: a measurement
        (np.random.default_rng(0).normal(size=60), "number", {"name": "id"}),
        (np.random.default_rng(0).choice(10**6, 60, replace=False), "number", {}),
        ([1, 1, 2, 3, 5], "number", {"name": "id"}),  # an identifier of groups
        (range(6), "number", {"rows": 6}),  # too few rows
        (["a", "b", "c"], "category", {"rows": 3}),
        ([f"2020-01-{day:02d}" for day in range(1, 31)], "date", {}),
        (["a very long category that occurs often, as answers in a form do", "no"], "category", {}),
    ],
)
def test_columns_that_are_not_dropped(values, kind, settings):
    assert infer_kind(values, **settings) == kind


def test_a_few_invalid_numbers_are_missing():
    values = [str(number / 7) for number in range(97)] + ["unknown", "unknown", "x"]
    schema = infer(values, rows=99)
    assert schema.columns[0] == Column("x", "number", "2 values such as 'unknown' read as missing")
    assert "`x` contains numbers; 2 values such as 'unknown' read as missing." in schema.warnings
    assert np.isnan(convert(schema, values)[-3:]).all()
    schema = infer(values[:40] + values[-3:] * 10, rows=69)
    assert schema.columns[0].kind == "category"
    assert "`x` mixes numbers (58%) and text, and is treated as text." in schema.warnings


def test_a_few_invalid_dates_are_missing():
    values = [f"{day}/{month}/2020" for day in range(1, 28) for month in range(1, 4)] + ["soon"]
    schema = infer(values, rows=81 + 1 + 2)
    assert (schema.columns[0].kind, schema.columns[0].format) == ("date", "dmy")
    assert "`x` contains dates; 1 value such as 'soon' read as missing." in schema.warnings


def test_ambiguous_commas_are_reported():
    doubt = "the comma in '1,234' may separate thousands or decimals"
    assert f"`x` is treated as text: {doubt}." in infer(["1,234", "2,000", "300"]).warnings
    assert doubt in infer(["1,234", "2,000,000.5"]).warnings[0]
    many = [f"{number},{number:03d}" for number in range(100, 160)]
    assert "may separate thousands or decimals" in infer(many).columns[0].note


def test_missing_values_and_duplicate_rows_are_reported():
    table = pd.DataFrame(
        {"x": [1, None, None, 4, None, 6.5, None], "z": list("abcadef"), "y": list("pqppqqq")}
    )
    assert Schema.infer(table, "y").warnings == ("`x` is missing in 4 of 7 rows.",)
    twice = pd.concat([table, table.iloc[:3]])
    assert "3 of 10 rows are duplicates" in Schema.infer(twice, "y").warnings[-1]


def test_a_column_that_determines_the_target_is_reported():
    noise = np.random.default_rng(0).normal(size=30)
    table = pd.DataFrame({"noise": noise, "Y": ["1", "0", "2"] * 10, "y": ["yes", "no", "?"] * 10})
    schema = Schema.infer(table, "y")
    assert [column.kind for column in schema.columns] == ["number", "number"]
    assert schema.warnings == ("`Y` determines `y`: will it be known when predicting?",)
    table.loc[0, "Y"] = "0"
    assert Schema.infer(table, "y").warnings == ()


def test_tables_that_cannot_be_learned_from():
    table = pd.DataFrame({"Age": [1, 2], "Churned": ["a", "b"]})
    with pytest.raises(ValueError, match="`target` to be a column, but got 'churn'. Did you mean 'Churned'?"):
        Schema.infer(table, "churn")
    with pytest.raises(ValueError, match=r"Choose from 'Age', 'Churned'\."):
        Schema.infer(table, "zzz")
    with pytest.raises(ValueError, match="with rows, but got none"):
        Schema.infer(table[:0], "Churned")
    nothing = r"with a column to learn from, but got none besides 'y'\. `x` was left out: it is constant\.$"
    with pytest.raises(ValueError, match=nothing):
        Schema.infer(pd.DataFrame({"x": [1, 1], "y": [0, 1]}), "y")
    with pytest.raises(ValueError, match="to be a pandas DataFrame, but got dict"):
        Schema.infer({"y": [1]}, "y")
    with pytest.raises(ValueError, match="text as column names, but got 0"):
        Schema.infer(pd.DataFrame([[1, 2]]), 0)
    with pytest.raises(ValueError, match="distinct column names, but got 'a' twice"):
        Schema.infer(pd.DataFrame([[1, 2]], columns=["a", "a"]), "a")
