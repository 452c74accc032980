"""Labels of any type as text, and fingerprints."""

import datetime
import io

import numpy as np
import pandas as pd
import pytest

from evalign.tables import as_labels, fingerprint, read

DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 5, 6)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0], ["1", "0"]),
        ([1.0, 0.0], ["1", "0"]),
        ([-1, 1], ["-1", "1"]),
        ([0.5, 1.0], ["0.5", "1.0"]),
        ([True, False], ["True", "False"]),
        (["yes", " no "], ["yes", "no"]),
        (["+", "-"], ["+", "-"]),
        (["None", "mild"], ["None", "mild"]),
        (["01", "02"], ["01", "02"]),
        (["Zoë", "日本"], ["Zoë", "日本"]),
        (["1", "x"], ["1", "x"]),
        (DAYS, ["2020-01-01", "2021-05-06"]),
        (pd.to_datetime(DAYS), ["2020-01-01", "2021-05-06"]),
        (
            pd.to_datetime(["2020-01-01 12:00", "2021-01-01 00:00"]),
            ["2020-01-01 12:00:00", "2021-01-01 00:00:00"],
        ),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
        (pd.Categorical([2, 1]), ["2", "1"]),
        (pd.array([2, 1], dtype="Int64"), ["2", "1"]),
        (np.array([0.1, 0.2], dtype="float32"), ["0.1", "0.2"]),
        (np.array([2**63 + 1, 5], dtype="uint64"), [str(2**63 + 1), "5"]),
    ],
)
def test_labels_are_the_same_from_every_source(values, expected, from_csv, from_parquet):
    frame = pd.DataFrame({"y": pd.Series(values).repeat(3), "z": 0})
    expected = np.repeat(expected, 3).tolist()
    for table in (frame, from_csv(frame), from_parquet(frame)):
        labels = as_labels(table["y"])
        assert labels.dtype.kind == "U"
        assert labels.tolist() == expected


def test_numbers_of_the_same_value_are_one_class():
    assert as_labels(pd.Series(["1", "1.0", "0"])).tolist() == ["1", "1", "0"]
    assert as_labels(pd.Series(["0.50", "0.5", "1"])).tolist() == ["0.5", "0.5", "1.0"]
    assert as_labels(pd.Series(["1e3", "10"])).tolist() == ["1000", "10"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["a", "", "b", None],
            r"`churn` with a label in every row, but got 2 of 4 missing, the first in row 2\.",
        ),
        ([1.0, 0.0, np.nan], "1 of 3 missing, the first in row 3. Remove these rows, or fill them in."),
        (["a", "NA", "b"], "1 of 3 missing"),
        (["a", "a"], "with at least two classes, but got only 'a' in all 2 rows"),
        ([1, 1.0], "with at least two classes, but got only '1' in all 2 rows"),
        ([], "with rows, but got none"),
        (list(range(101)) * 5, "with classes, but got 101 distinct numbers in 505 rows. Quantities are not"),
        (np.arange(20) / 7, "with classes, but got 20 distinct numbers in 20 rows"),
    ],
)
def test_invalid_labels_are_rejected(values, message):
    with pytest.raises(ValueError, match=message) as raised:
        as_labels(pd.Series(values, name="churn", dtype=object))
    assert "\n" not in str(raised.value)


def test_many_classes_of_text_are_classes():
    assert len(set(as_labels(pd.Series([f"c{number}" for number in range(300)])))) == 300
    assert len(set(as_labels(pd.Series(list(range(100)) * 3)))) == 100
    assert as_labels(pd.Series([3, 1, 2])).tolist() == ["3", "1", "2"]


@pytest.mark.parametrize(
    ("values", "known", "expected"),
    [
        ([1.0, 1.0], ["0", "1"], ["1", "1"]),
        ([1], ["0.5", "1.0"], ["1.0"]),
        (["1.0", "0"], ["False", "0", "1"], ["1", "0"]),
        ([True, False], ["false", "true"], ["true", "false"]),
        (["YES", "no"], ["no", "yes"], ["yes", "no"]),
        (["a", "A"], ["A", "a"], ["a", "A"]),
    ],
)
def test_known_classes_are_spelt_as_in_the_model(values, known, expected):
    assert as_labels(pd.Series(values), known).tolist() == expected


@pytest.mark.parametrize("values", [["maybe"], ["aA"], [2], ["01"]])
def test_unknown_classes_are_rejected(values):
    known = ["no", "yes", "AA", "aa", "1", "1.0"]
    with pytest.raises(ValueError, match=r"with classes of the model \('no', 'yes', 'AA', .*\), but got '"):
        as_labels(pd.Series(values), known)


def test_fingerprints_depend_on_content_only(messy, from_csv, from_parquet):
    expected = fingerprint(messy)
    assert len(expected) == 64
    assert fingerprint(from_csv(messy)) == fingerprint(from_parquet(messy)) == expected
    assert fingerprint(from_csv(messy, sep=";", encoding="utf-8-sig")) == expected
    assert fingerprint(messy.set_axis(range(5, 305))) == expected


def test_fingerprints_are_stable():
    """Stored models contain such sums, so they must never change."""
    table = pd.DataFrame(
        {"a": ["1", "", "2.5"], "b": ["x", "yz", "NA"], "c": ["2020-01-01", "2020-01-02", ""]}
    )
    assert fingerprint(table) == "b5f62496ed3354695f51a36b38ee84fafa74b9e1bf60f000996eafcacb20db7b"


def test_different_tables_have_different_fingerprints():
    base = pd.DataFrame({"a": ["x", "yz"], "b": ["1", "2"]})
    others = [
        base.assign(a=["xy", "z"]),
        base.assign(a=["yz", "x"]),
        base.assign(b=["1", "3"]),
        base.assign(b=["1", ""]),
        base.rename(columns={"a": "A"}),
        base[["b", "a"]],
        base[:1],
        base.assign(c=""),
    ]
    sums = [fingerprint(table) for table in [base, *others]]
    assert len(set(sums)) == len(sums)


def test_the_fingerprint_of_a_long_file():
    """10 MB are read in several blocks."""
    long = "x" * 500
    whole = read(io.BytesIO(b"a,b\n" + f"1.5,{long}\n2,y\n".encode() * 20_000))
    again = pd.DataFrame({"a": [1.5, 2.0] * 20_000, "b": [long, "y"] * 20_000})
    assert fingerprint(whole) == fingerprint(again)
