"""Tables in their official formats, and broken or wrong files."""

import gzip
import math

import numpy as np
import pytest

from evalign.datasets import _tables, load

ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Widowed, Sales, Not-in-family, White, Male, 2174, 0, 40, Peru, <=50K
50, ?, 83311, Bachelors, 13, Divorced, Exec-managerial, Husband, White, Male, 0, 0, 13, Cuba, >50K
38, Private, 215646, HS-grad, 9, Divorced, ?, Not-in-family, Black, Female, 0, 0, 40, ?, <=50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 7, 41, Cuba, <=50K.
28, Local-gov, 336951, Assoc-acdm, 12, Divorced, Protective-serv, Husband, White, Male, 0, 0, 40, ?, >50K.

"""


@pytest.fixture
def rows(monkeypatch):
    """Make the row counts of the small files in this module the official ones."""
    for file, count in {"adult.data": 3, "adult.test": 2, "creditcard.csv": 2, "cp_binary.csv": 2}.items():
        monkeypatch.setitem(_tables.ROWS, file, count)


def put(folder, name, text):
    folder.mkdir(exist_ok=True)
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return folder / name


def creditcard(*rows):
    header = ",".join(f'"{name}"' for name in ("Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"))
    return "\n".join([header, *rows]) + "\n"


def transaction(amount, label, v1="0.5"):
    return ",".join(["7", v1, *["-1.25"] * 27, str(amount), f'"{label}"'])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_adult_drops_the_weight_and_codes_the_text(data_home, rows, suffix):
    put(data_home / "adult", f"adult.data{suffix}", ADULT_TRAIN)
    put(data_home / "adult", f"adult.test{suffix}", ADULT_TEST)
    data = load("adult")
    assert data.X.shape == (5, 13)
    assert "fnlwgt" not in data.feature_names
    assert data.y.tolist() == [0, 1, 0, 0, 1]
    assert data.official_test.tolist() == [3, 4]
    column = {name: data.X[:, i].tolist() for i, name in enumerate(data.feature_names)}
    assert column["age"] == [39, 50, 38, 25, 28]
    assert column["capital-loss"] == [0, 0, 0, 7, 0]
    # Codes are in alphabetical order over both files; a question mark is a category.
    assert column["workclass"] == [3, 0, 2, 2, 1]
    assert column["education"] == [2, 2, 3, 0, 1]
    assert column["native-country"] == [2, 1, 0, 1, 0]
    assert data.source == f"adult.data{suffix}, adult.test{suffix}"
    assert data.licence == "CC BY 4.0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (", <=50K", "", "with 15 cells in line 1, but got 14"),
        ("39, ", "39, 1, ", "with 15 cells in line 1, but got 16"),
        (">50K", ">60K", "the label <=50K or >50K in line 2, but got '>60K'"),
        ("38, ", "?, ", "a number as age in line 3, but got '[?]'"),
        ("2174", "nan", "a number as capital-gain in line 1, but got 'nan'"),
        ("50, ", "-50, ", "a number as age in line 2"),
    ],
)
def test_errors_name_the_wrong_line_of_adult(data_home, rows, old, new, message):
    file = put(data_home / "adult", "adult.data", ADULT_TRAIN.replace(old, new, 1))
    put(data_home / "adult", "adult.test", ADULT_TEST)
    with pytest.raises(ValueError, match=message) as caught:
        load("adult")
    assert str(file) in str(caught.value)


def test_swapped_truncated_and_empty_files_of_adult_are_rejected(data_home, rows):
    put(data_home / "adult", "adult.test", ADULT_TEST)
    for text, count in ((ADULT_TEST, 2), ("", 0), (ADULT_TRAIN.splitlines()[0], 1)):
        put(data_home / "adult", "adult.data", text)
        with pytest.raises(ValueError, match=f"adult.data to have 3 rows, but got {count}"):
            load("adult")


def test_creditcard_drops_the_time_and_takes_the_log(data_home, rows):
    put(
        data_home / "creditcard",
        "creditcard.csv.gz",
        creditcard(transaction(149.62, 0), transaction(0, 1, "-3")),
    )
    data = load("creditcard")
    assert data.X.shape == (2, 29)
    assert data.y.tolist() == [0, 1]
    assert data.X[:, 0].tolist() == [0.5, -3]
    np.testing.assert_allclose(data.X[:, -1], [math.log(149.621), math.log(0.001)], rtol=1e-6)
    assert data.feature_names[0] == "V1"
    assert data.feature_names[-1] == "log Amount"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "to begin with the 31 columns Time, V1, ..., Class, but got nothing"),
        ("a,b\n1,2\n", "to begin with the 31 columns Time, V1, ..., Class, but got a, b"),
        (creditcard(), "to have 2 rows, but got 0"),
        (creditcard(transaction(1, 0)), "to have 2 rows, but got 1"),
        (creditcard(*[transaction(1, 0)] * 3), "to have 2 rows, but got 3"),
        (creditcard(transaction(1, 0), transaction("x", 0)), "with numbers in every row, but got .*'x'"),
        (creditcard(transaction(1, 0), transaction("", 0)), "with numbers in every row"),
        (creditcard(transaction(1, 0), "1,2,3"), "with numbers in every row"),
        (creditcard(transaction(1, 0), transaction(1, 0, "nan")), "only, but got nan as V1 in row 1"),
        (creditcard(transaction(1, 0), transaction(1, 0, "1e39")), "only, but got inf as V1 in row 1"),
        (creditcard(transaction(1, 0), transaction(1, 0, "1e400")), "finite numbers only, but got inf"),
        (creditcard(transaction(1, 0), transaction(1, 2)), "with Class 0 or 1"),
        (creditcard(transaction(1, 0), transaction(-1, 0)), "with no Amount below 0, but got -1"),
        (creditcard(transaction(1, 0)).encode() + b"\xff\xfe", "to be text"),
        (creditcard(*[transaction(1, 0)] * 300).encode() + b"\xff\xfe", "to be text"),
    ],
)  # fmt: skip
def test_invalid_creditcard_files_are_rejected(data_home, rows, text, message):
    file = put(data_home / "creditcard", "creditcard.csv", text)
    with pytest.raises(ValueError, match=message) as caught:
        load("creditcard")
    assert f"Expected the file {file} " in str(caught.value)


@pytest.mark.parametrize("cut", [0, 5, 40, -1, -9])
def test_truncated_gzip_files_are_rejected(data_home, rows, cut):
    whole = gzip.compress(creditcard(*[transaction(1, 0)] * 2).encode())
    put(data_home / "creditcard", "creditcard.csv", "")
    file = data_home / "creditcard" / "creditcard.csv"
    file.rename(file.with_suffix(".csv.gz"))
    file.with_suffix(".csv.gz").write_bytes(whole[:cut])
    with pytest.raises(ValueError, match=r"Expected the file .*creditcard.csv.gz"):
        load("creditcard")


def test_flipped_bits_in_a_gzip_file_are_detected(data_home, rows):
    whole = bytearray(gzip.compress(creditcard(transaction(1, 0), transaction(2, 1)).encode()))
    for at in range(20, len(whole), 7):
        broken = bytearray(whole)
        broken[at] ^= 1
        (data_home / "creditcard").mkdir(exist_ok=True)
        (data_home / "creditcard" / "creditcard.csv.gz").write_bytes(broken)
        with pytest.raises(ValueError, match=r"Expected the file .*creditcard.csv.gz"):
            load("creditcard")


def test_a_folder_instead_of_a_file_is_rejected(data_home):
    (data_home / "creditcard" / "creditcard.csv").mkdir(parents=True)
    with pytest.raises(ValueError, match="creditcard.csv to be readable"):
        load("creditcard")


def test_cocktailparty_has_22_features_and_an_inverted_target(data_home, rows):
    values = [str(i / 4) for i in range(24)]
    lines = [f"1.5,{i},True,0,1,ID_001,ID_002,{','.join(values)},{i}" for i in (0, 1)]
    put(data_home / "cocktailparty", "cp_binary.csv.gz", "\n".join([",".join(_tables.PAIRS), *lines]))
    data = load("cocktailparty")
    assert data.y.tolist() == [1, 0]
    assert data.X.shape == (2, 22)
    # dyad1_y and dyad2_y, the second and the sixth column, are left out.
    assert data.X[0].tolist() == [i / 4 for i in range(24) if i not in (1, 5)]
    assert data.licence == "research and academic use only"
