"""Reading: encodings, separators, quotes, compression, chunks, and files that are not tables."""

import csv
import gzip
import io
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign.tables import _read, read, stream

ROWS = {"name": ["Zoë", "Bob"], "age": ["41", ""]}
TEXT = "name,age\nZoë,41\nBob,\n"


def as_lists(table):
    return table.to_dict("list")


def check_rejected(content, message):
    rows = 1 + len(content) // 50  # a long file in a few chunks
    for reading in (read, lambda source: list(stream(source, rows=rows))):
        with pytest.raises(ValueError, match=message) as raised:
            reading(io.BytesIO(content))
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encodings_line_ends_and_separators(encoding, end, separator):
    text = TEXT.replace("\n", end).replace(",", separator)
    assert as_lists(read(io.BytesIO(text.encode(encoding)))) == ROWS
    assert as_lists(read(io.BytesIO(text.rstrip("\r\n").encode(encoding)))) == ROWS
    assert as_lists(read(io.BytesIO(gzip.compress(text.encode(encoding))))) == ROWS


def test_windows_1252_is_read_with_a_warning():
    with pytest.warns(UserWarning, match=r"the stream is not UTF-8 \(line 2\): it was read as Windows-1252"):
        assert as_lists(read(io.BytesIO(TEXT.encode("cp1252")))) == ROWS


def test_windows_1252_that_shows_late_is_read_in_chunks():
    """The first byte that is not ASCII is in the third block of the file."""
    content = b"a,b\n" + b"1,plain\n" * 300_000 + "2,Zoë\n".encode("cp1252") * 3
    with pytest.warns(UserWarning, match=r"line 300002"):
        chunks = list(stream(io.BytesIO(content)))
    assert sum(len(chunk) for chunk in chunks) == 300_003
    assert chunks[-1]["b"].tolist()[-4:] == ["plain", "Zoë", "Zoë", "Zoë"]


def test_text_in_two_encodings_is_rejected_with_its_line():
    check_rejected("a,b\nZoë,1\n".encode() + b"Zo\xeb,2\n", "byte 0xeb in line 3")
    check_rejected(b"a,b\n1,\x81\n", "in UTF-8 or Windows-1252, but got the stream with byte 0x81 in line 2")


def test_a_letter_may_be_split_between_blocks():
    """Blocks of 1 MB end before and within the two bytes of a letter."""
    for shift in (0, 1):
        content = ("a\n" + "x" * shift + "é" * 700_000 + "\n").encode()
        assert read(io.BytesIO(content))["a"][0] == "x" * shift + "é" * 700_000


def test_quotes_contain_separators_newlines_and_quotes():
    text = 'a;b\n"x;y";"first\nsecond ""line"""\n3" pipe;2,5\n'
    expected = {"a": ["x;y", '3" pipe'], "b": ['first\nsecond "line"', "2,5"]}
    assert as_lists(read(io.BytesIO(text.encode()))) == expected


def test_the_separator_is_detected_despite_quotes_and_decimal_commas():
    assert as_lists(read(io.BytesIO(b'"a,b,c";d\n"1,2,3";4,5\n'))) == {"a,b,c": ["1,2,3"], "d": ["4,5"]}
    assert as_lists(read(io.BytesIO(b"only\nhello; world\n"))) == {"only": ["hello; world"]}
    assert as_lists(read(io.BytesIO(b"sep=;\na;b,c\n1;2\n"))) == {"a": ["1"], "b,c": ["2"]}


def test_against_pandas_on_a_table_with_every_type(messy):
    text = messy.to_csv(index=False)
    table = read(io.BytesIO(text.encode()))
    expected = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert as_lists(table) == as_lists(expected)


def test_names_are_stripped_and_case_sensitive():
    assert list(read(io.BytesIO(b" y , Y ,z\n1,2,3\n")).columns) == ["y", "Y", "z"]


def test_the_row_index_of_pandas_gets_a_name():
    text = pd.DataFrame({"a": ["x", "y"]}).to_csv()
    assert as_lists(read(io.BytesIO(text.encode()))) == {"column 1": ["0", "1"], "a": ["x", "y"]}


def test_empty_lines_are_skipped_but_empty_values_are_not():
    assert as_lists(read(io.BytesIO(b'\n\na\n1\n\n""\n2\n\n'))) == {"a": ["1", "", "2"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "which is empty"),
        (b" \n\n", "which is empty"),
        (b"a,b\n", "with rows, but got only a header"),
        (b"a,b", "with rows, but got only a header"),
        (b"a,b,a,b\n1,2,3,4\n", "distinct column names, but got 'a', 'b' twice"),
        (b"a, a\n1,2\n", "distinct column names, but got 'a' twice"),
        (b"a,,b,\n1,2,3,4\n", "a name for each column, but got none for column 2, 4"),
        (b"a,b\n1,2\n1,2,3\n", "2 columns in every row, but got 3 in row 3"),
        (b'a,b\n1,"2\n2"\n1\n', "2 columns in every row, but got 1 in row 3"),
        (b'a,b\n1,"2\n3,4\n', "with closed quotes"),
        (b"PK\x03\x04 an archive", "Unpack the archive"),
        (b"<!DOCTYPE html>\n<p>Log in</p>\n", "It is a web page"),
        (b"a,b\n1,\x00\n", "which contains binary data"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-4], "to be a complete gz file"),
        (gzip.compress(TEXT.encode(), mtime=0)[:12] + b"garbage" * 9, "to be a complete gz file"),
        (b"PAR1 and then something else", "to be a complete Parquet file"),
        (b"x" * (2 << 20), "with a header below 1 MB"),
    ],
)
def test_files_that_are_not_tables_are_rejected(content, message):
    check_rejected(content, message)


def test_the_number_of_a_ragged_row_is_reported():
    check_rejected(b"a,b\n" + b"123456,1234567\n" * 700_000 + b"1\n", "got 1 in row 700002")


def test_an_open_quote_in_a_long_file_is_reported():
    check_rejected(b'a,b\n1,"2\n' + b"1,2\n" * 5_000_000, "quote")


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist\.$"):
        read(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match=r"is a folder\.$"):
        read(str(tmp_path))
    with pytest.raises(OSError, match="File name too long"):
        read("x" * 5000)
    with pytest.raises(OSError, match="null"):
        read("a\0b.csv")
    with pytest.raises(ValueError, match="to be a path, '-' or a binary file, but got int"):
        read(3)
    with pytest.raises(ValueError, match="to be opened in binary mode"):
        read(io.StringIO(TEXT))
    with pytest.raises(ValueError, match="`rows` to be an integer >= 1, but got 0"):
        next(stream(io.BytesIO(b"a\n1\n"), rows=0))

    def deny(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", deny)
    with pytest.raises(PermissionError, match=r"access to .*secret\.csv is denied\.$"):
        read(tmp_path / "secret.csv")


def test_formats_are_detected_from_the_content_not_the_name(tmp_path):
    frame = pd.DataFrame({"a": [1, 2]})
    frame.to_parquet(tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert as_lists(read(tmp_path / "a.csv")) == {"a": [1, 2]}
    assert as_lists(read(str(tmp_path / "b.parquet"))) == {"a": ["1", "2"]}


def test_a_column_may_have_the_name_of_a_format():
    assert as_lists(read(io.BytesIO(b"PAR1,PAR2\n1,2\n"))) == {"PAR1": ["1"], "PAR2": ["2"]}


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert as_lists(read("-")) == ROWS
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ValueError, match="standard input, which is empty"):
        read("-")


def test_csv_is_read_from_a_pipe_but_parquet_is_rejected():
    reader, writer = os.pipe()
    os.write(writer, TEXT.encode())
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert as_lists(read(file)) == ROWS
    reader, writer = os.pipe()
    os.write(writer, b"PAR1xxxx")
    os.close(writer)
    with (
        os.fdopen(reader, "rb") as file,
        pytest.raises(ValueError, match="Only text can be read from a pipe"),
    ):
        read(file)


def test_parquet_keeps_its_types_but_not_the_row_index(from_parquet):
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "s": ["x", None]}, index=[7, 9])
    table = from_parquet(frame)
    assert table.dtypes.astype(str).tolist()[0] == "int64[pyarrow]"
    assert table["n"].isna().tolist() == [False, True]
    assert list(table.columns) == ["n", "s"]
    with_key = from_parquet(frame.rename_axis("key"))
    assert with_key["key"].tolist() == [7, 9]


def test_parquet_names_are_checked():
    file = io.BytesIO()
    pa.parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), file)
    check_rejected(file.getvalue(), "'a' twice")
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"a": pa.array([], pa.int64())}), file)
    check_rejected(file.getvalue(), "only a header")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 10, 11, 100])
def test_chunks_add_up_to_the_whole(kind, rows, tmp_path):
    frame = pd.DataFrame({"a": np.arange(10), "b": [f"{row}\n;," for row in range(10)]})
    path = tmp_path / f"table.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, row_group_size=4)
    chunks = list(stream(path, rows))
    assert [len(chunk) for chunk in chunks[:-1]] == [rows] * (len(chunks) - 1)
    assert len(chunks[-1]) == 10 or rows <= len(chunks[-1]) < 2 * rows
    pd.testing.assert_frame_equal(pd.concat(chunks), read(path))


def test_memory_is_bounded_by_the_chunk():
    """A stream of 100 MB that is never in memory as a whole."""

    class Long:
        left = 100

        def read(self, size=-1):
            self.left = max(self.left - 1, 0)
            return b"1.23456,some text,99\n" * (1_000_000 // 21) if self.left else b""

    source = Long()
    chunks = stream(source, rows=20_000)
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() for chunk in chunks if len(chunk)) - before
    assert source.left == 0
    assert most < 50e6  # the whole would take more than 200 MB


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",;\t|"), st.integers(0, 1))
@settings(max_examples=60)
def test_any_text_is_read_back(rows, separator, quoting):
    """Against Python's csv.writer, with quotes where needed or everywhere, whole and in chunks."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator, quoting=quoting).writerows([("a", "b"), *rows])
    content = file.getvalue().encode()
    expected = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    assert as_lists(read(io.BytesIO(content))) == expected
    assert as_lists(pd.concat(stream(io.BytesIO(content), rows=2))) == expected


@pytest.mark.parametrize("quoted", ['"x,\n""y"""', '""', '"\r\n"', '5" pipe', 'a"b"', '"a"b'])
def test_rows_across_blocks_are_the_same_as_in_one(quoted, monkeypatch):
    """Whatever lies at the end of a block: quotes, escaped quotes and line breaks inside of them."""
    content = "a,b\n" + "".join(f"{number},{quoted}\n" for number in range(40))
    whole = read(io.BytesIO(content.encode())).values.tolist()
    assert len(whole) == 40
    for size in range(len(quoted) + 6, len(quoted) + 40):
        monkeypatch.setattr(_read, "_BLOCK", size)
        assert read(io.BytesIO(content.encode())).values.tolist() == whole


class WatchedFile(io.BytesIO):
    """Records which threads read it."""

    def __init__(self, content):
        super().__init__(content)
        self.readers = set()

    def read(self, *size):
        self.readers.add(threading.get_ident())
        return super().read(*size)

    def readinto(self, buffer):
        self.readers.add(threading.get_ident())
        return super().readinto(buffer)


def test_only_the_calling_thread_reads_a_file():
    """Another one could still read when the interpreter ends, and block or crash it."""
    ragged = WatchedFile(b"a,b\n" + b"1,2\n" * 1_000_000 + b"1\n" + b"1,2\n" * 1_000_000)
    with pytest.raises(ValueError, match="with 2 columns in every row, but got 1 in row 1000002"):
        read(ragged)
    abandoned = WatchedFile(ragged.getvalue())
    chunks = stream(abandoned, rows=10)
    next(chunks)
    chunks.close()
    assert ragged.readers == abandoned.readers == {threading.get_ident()}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_header_of_many_columns(from_csv, separator):
    names = [f"column number {number}" for number in range(12_000)]
    rows = "\n".join(separator.join(line) for line in (names, ["1"] * 12_000))
    assert from_csv(rows).shape == (1, 12_000)


def test_a_column_name_that_is_too_long(from_csv):
    with pytest.raises(ValueError, match="with column names below 131,072 characters"):
        from_csv("x" * 200_000 + "\n1\n")


def test_binary_data_behind_the_first_block(from_csv):
    rows = b"a,b\n" + b"1,2\n" * 300_000
    with pytest.raises(ValueError, match="which contains binary data in line 300002"):
        from_csv(rows + b"1,\0\n")


JSON_LINES = (
    b'{"id": 12345678901234567890, "x": 1.50, "on": true, "name": "a, \\"b\\""}\n\n{"x": null, "id": 2}'
)


def test_json_lines(from_csv):
    table = from_csv(JSON_LINES)
    wanted = {
        "id": ["12345678901234567890", "2"],
        "x": ["1.50", ""],
        "on": ["true", ""],
        "name": ['a, "b"', ""],
    }
    assert table.to_dict("list") == wanted
    chunks = list(stream(io.BytesIO(b'{"a": 1, "long": "text"}\n' * 100_000), 25_000))
    assert [len(chunk) for chunk in chunks] == [25_000] * 4
    assert from_csv(gzip.compress(JSON_LINES)).to_dict("list") == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}, {"a": 2}]', "which is one JSON array. Write one object per line"),
        (b'[{"a": 1},' * 200_000, "which is one JSON array"),
        (b'{"a": 1}\n{"a": ', "with a JSON object in every line, but got line 2"),
        (b'{"a": 1}\n[1]', "another value in line 2"),
        (
            b'{"a": "%s"}\n' % (b"x" * 100) * 30_000 + b'{"b": 1}',
            "with the names of its first rows, but got 'b'",
        ),
        (b'{"a": "' + b"x" * (5 << 20), "with rows below 2 MB"),
        (rb'{"a": "\ud800"}', "with whole characters, but got half of one"),
    ],
)
def test_json_that_is_not_a_table(from_csv, content, message):
    with pytest.raises(ValueError, match=message):
        from_csv(content)
