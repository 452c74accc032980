"""New tables converted by a schema, the same from CSV and Parquet, whole or in chunks."""

import datetime
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign.tables import Column, Schema, read, stream, write

SCHEMA = Schema(
    (
        Column("n", "number"),
        Column("d", "dropped"),
        Column("t", "date", format="iso"),
        Column("c", "category"),
    )
)


def test_new_tables_in_any_order_with_more_columns():
    table = pd.DataFrame({"c": [1, 2], "more": 0, "t": ["2020-01-01", None], "n": ["5", "6"]}, index=[8, 9])
    converted = SCHEMA.convert(table)
    assert list(converted.columns) == ["n", "t", "c"]
    assert converted.dtypes.astype(str).tolist() == ["float64", "datetime64[us]", "object"]
    assert converted["c"].tolist() == ["1", "2"]
    assert converted.index.tolist() == [8, 9]
    pd.testing.assert_frame_equal(SCHEMA.convert(converted), converted)
    assert len(SCHEMA.convert(table[:0])) == 0


def test_new_tables_without_a_column():
    with pytest.raises(ValueError, match="one without 'n', 't'. Did you mean 'N'?") as raised:
        SCHEMA.convert(pd.DataFrame({"N": [1], "when": [2], "c": [3]}))
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r"without 'n', 't', 'c'\. Choose from 'xyz'\.$"):
        SCHEMA.convert(pd.DataFrame({"xyz": [1]}))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("n", ["a", "3,5", "1"], "Expected `n` to contain numbers, but got 'a' and 1 more"),
        ("n", [True, False, None], "Expected `n` to contain numbers, but got 'True' and 1 more"),
        ("n", pd.to_datetime(["2020-01-01"] * 3), "Expected `n` to contain numbers, but got '2020-01-01'"),
        ("t", [1.5, 2, 3], "Expected `t` to contain dates, but got '1.5' and 2 more"),
        ("t", ["31/12/2020"] * 3, "Expected `t` to contain dates, but got '31/12/2020'"),
    ],
)
def test_new_columns_of_another_type(column, values, message):
    table = pd.DataFrame({"n": [1, 2, 3], "t": ["2020-01-01"] * 3, "c": list("abc")}).assign(
        **{column: values}
    )
    with pytest.raises(ValueError, match=message):
        SCHEMA.convert(table)


def test_one_invalid_value_in_a_sparse_column_is_missing():
    table = pd.DataFrame({"n": [""] * 999 + ["x"]})
    assert Schema((Column("n", "number"),)).convert(table)["n"].isna().all()


def test_booleans_may_be_spelt_differently():
    schema = Schema((Column("b", "boolean"),))
    for values in (["Yes", "N"], [1, 0], [1.0, 0.0], ["1.0", "off"], [True, False]):
        assert schema.convert(pd.DataFrame({"b": values}))["b"].tolist() == [1, 0], values


def test_json_round_trip(messy):
    schema = Schema.infer(messy, "y")
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (None, "with a list of columns, but got None"),
        ({"columns": 3}, "with a list of columns, but got 3"),
        ({"columns": ["age"], "warnings": []}, "with a list of columns"),
        ({"columns": []}, "with a list of warnings, but got None"),
        ({"columns": [{"name": "a"}], "warnings": []}, "format, kind, name, note of each column"),
        ({"columns": [{"name": "a", "kind": "number", "x": 1}], "warnings": []}, "of each column"),
        ({"columns": [{"name": "a", "kind": "object"}], "warnings": []}, "to be one of number, boolean"),
        ({"columns": [{"name": 3, "kind": "number"}], "warnings": []}, "`name` to be text, but got 3"),
        ({"columns": [{"name": "a", "kind": "date"}], "warnings": []}, "`format` to be one of"),
        ({"columns": [{"name": "a", "kind": "number"}] * 2, "warnings": []}, "with distinct names"),
    ],
)
def test_json_is_checked(facts, message):
    with pytest.raises(ValueError, match=message):
        Schema.from_json(facts)


def test_csv_and_parquet_give_the_same(messy, from_csv, from_parquet):
    frames = {"csv": from_csv(messy), "parquet": from_parquet(messy), "pandas": messy}
    frames["excel"] = from_csv(messy, sep=";", decimal=",", encoding="utf-8-sig")
    schemas = {name: Schema.infer(frame, "y") for name, frame in frames.items()}
    assert schemas["csv"] == schemas["parquet"] == schemas["pandas"]
    kinds = {column.name: column.kind for column in schemas["csv"].columns}
    assert kinds == {
        **dict.fromkeys(["income", "half", "children", "rooms", "price", "huge", "ratio", "grade"], "number"),
        **dict.fromkeys(["owner", "member", "answer"], "boolean"),
        **dict.fromkeys(["seen", "zoned", "born"], "date"),
        **dict.fromkeys(["clock", "city", "colour"], "category"),
        **dict.fromkeys(["customer", "same", "empty", "email"], "dropped"),
        "remark": "text",
    }
    assert {column.name: column.kind for column in schemas["excel"].columns} == kinds
    expected = schemas["csv"].convert(frames["csv"])
    for name in ("parquet", "pandas"):
        pd.testing.assert_frame_equal(schemas["csv"].convert(frames[name]), expected, check_exact=True)
    pd.testing.assert_frame_equal(schemas["excel"].convert(frames["excel"]), expected, check_exact=True)


@pytest.mark.parametrize("rows", [37, 299])
def test_chunks_are_converted_like_the_whole(rows, messy, tmp_path):
    schema = Schema.infer(messy, "y")
    for name in ("a.csv", "a.parquet"):
        path = tmp_path / name
        messy.to_csv(path, index=False) if name.endswith("csv") else messy.to_parquet(path)
        parts = [schema.convert(chunk) for chunk in stream(path, rows)]
        pd.testing.assert_frame_equal(pd.concat(parts), schema.convert(read(path)), check_exact=True)


def test_columns_of_rare_types(from_parquet, tmp_path):
    """Types that CSV can only contain as text give the same text, and short floats their shortest digits."""
    rare = pa.table(
        {
            "list": pa.array([[1, 2], None, []]),
            "record": pa.array([{"a": 1}, {"a": 2}, None]),
            "bytes": pa.array([b"x", "é".encode(), None]),
            "garbage": pa.array([b"\xff", b"\xfe", None]),
            "short": pa.array(np.array([0.1, 0.2, 1.5], dtype=np.float16)),
            "long": pa.array([1, 2, None], pa.decimal256(60, 3)),
            "day": pa.array([0, 86_400_000, None], pa.date64()),
        }
    ).to_pandas(types_mapper=pd.ArrowDtype)
    kinds = ["category"] * 4 + ["number"] * 2 + ["date"]
    formats = [""] * 6 + ["iso"]
    schema = Schema(tuple(map(Column, rare.columns, kinds, [""] * 7, formats)))
    converted = schema.convert(rare)
    assert converted["list"].tolist() == ["[1, 2]", None, "[]"]
    assert converted["bytes"].tolist() == ["x", "é", None]
    assert converted["short"].tolist() == [0.1, 0.2, 1.5]
    assert converted["long"].tolist()[:2] == [1, 2]
    assert converted["day"].dt.day.tolist()[:2] == [1, 2]
    pd.testing.assert_frame_equal(schema.convert(from_parquet(rare)), converted)
    path = tmp_path / "rare.csv"
    write([rare], path)
    pd.testing.assert_frame_equal(schema.convert(read(path)), converted, atol=1e-4, rtol=0)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
@settings(max_examples=50)
def test_numbers_are_the_same_to_the_last_bit(values):
    schema = Schema((Column("x", "number"),))
    text = io.BytesIO(pd.DataFrame({"x": values, "z": 0}).to_csv(index=False).encode())
    expected = np.where(np.isfinite(values), values, np.nan)
    np.testing.assert_array_equal(schema.convert(read(text))["x"], expected)
    np.testing.assert_array_equal(schema.convert(pd.DataFrame({"x": values}))["x"], expected)


@given(st.datetimes(), st.integers(-23 * 60, 23 * 60))
@settings(max_examples=50)
def test_dates_against_python(timestamp, ahead):
    """The same time in three formats, and in one more with another zone."""
    zone = datetime.timezone(datetime.timedelta(minutes=ahead))
    clock = f"{timestamp:%H:%M:%S.%f}"
    texts = {
        "iso": timestamp.isoformat(" "),
        "dmy": f"{timestamp.day}/{timestamp.month:02d}/{timestamp.year:04d} {clock}",
        "mdy": f"{timestamp.month}/{timestamp.day:02d}/{timestamp.year:04d} {timestamp:%I:%M:%S.%f %p}",
    }
    for date_format, text in texts.items():
        schema = Schema((Column("x", "date", format=date_format),))
        converted = schema.convert(pd.DataFrame({"x": [text]}))["x"].to_numpy()
        assert converted[0] == np.datetime64(timestamp), text
    schema = Schema((Column("x", "date", format="iso"),))
    converted = schema.convert(pd.DataFrame({"x": [timestamp.replace(tzinfo=zone).isoformat()]}))[
        "x"
    ].to_numpy()
    assert converted[0] == np.datetime64(timestamp) - np.timedelta64(ahead, "m")
