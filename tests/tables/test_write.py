"""Writing: what is read back is what was written, and a failed write leaves nothing behind."""

import errno
import gzip
import io
import os

import numpy as np
import pandas as pd
import pytest

from evalign.tables import read, stream, write

NASTY = ["plain", "a,b", 'say "hi"', "two\nlines", "\r", "", " spaced ", "é\t|;", "NA"]


@pytest.fixture
def nasty():
    return pd.DataFrame(
        {
            "text": NASTY,
            'a, "name"': np.arange(9) / 7,
            "whole": np.arange(9) * 10**17 + 1,
            "flag": [True, False, True] * 3,
            "none": [None, *"bcdefghi"],
        }
    )


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "a.pq"])
def test_what_is_written_is_read_back(name, nasty, tmp_path):
    path = tmp_path / name
    assert write((nasty[start : start + 4] for start in (0, 4, 8)), path) == 9
    table = read(path)
    assert list(table.columns) == list(nasty.columns)
    assert table["text"].tolist() == NASTY
    assert table["whole"].astype(str).tolist() == nasty["whole"].astype(str).tolist()
    assert table.iloc[:, 1].astype(float).tolist() == nasty.iloc[:, 1].tolist()
    assert table["flag"].astype(str).tolist() == ["True", "False", "True"] * 3
    assert table["none"].fillna("").tolist() == ["", *"bcdefghi"]
    assert os.listdir(tmp_path) == [name]


def test_csv_is_what_pandas_would_write(messy, tmp_path):
    """Numbers may be spelt differently (1 for 1.0), and times of another zone are in UTC."""
    frame = messy.drop(columns=["same", "price", "zoned", "huge"])
    write([frame], tmp_path / "a.csv")
    expected = io.StringIO(frame.to_csv(index=False))
    ours, theirs = (pd.read_csv(file, dtype=str) for file in (tmp_path / "a.csv", expected))
    for name in frame.columns.drop(["income", "half", "rooms", "ratio"]):
        assert ours[name].fillna("").tolist() == theirs[name].fillna("").tolist(), name
    for name in ["income", "half", "rooms", "ratio"]:
        assert ours[name].astype(float).equals(theirs[name].astype(float)), name


def test_gz_files_are_reproducible(nasty, tmp_path):
    write([nasty], tmp_path / "a.csv.gz")
    write([nasty], tmp_path / "b.csv.gz")
    write([nasty], tmp_path / "c.csv")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "c.csv").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("values", [["x", None, "", "y"], [1.5, None, np.nan, 2.5]])
def test_one_column_keeps_its_empty_rows(values, tmp_path):
    write([pd.DataFrame({"a": values})], tmp_path / "a.csv")
    assert read(tmp_path / "a.csv")["a"].tolist() == [str(values[0]), "", "", str(values[3])]


def test_text_has_quotes_only_in_chunks_that_need_them(tmp_path):
    chunks = [pd.DataFrame({"a": [text, None], "b": [1, 2.5]}) for text in ("x", "x,y")]
    write(chunks, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == 'a,b\nx,1\n,2.5\n"x,y",1\n,2.5\n'
    write(chunks, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "a\tb\nx\t1\n\t2.5\nx,y\t1\n\t2.5\n"


def test_parquet_chunks_may_start_without_values(tmp_path):
    chunks = [pd.DataFrame({"a": [None, None]}), pd.DataFrame({"a": ["x", None]})]
    write(chunks, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")["a"].fillna("").tolist() == ["", "", "x", ""]


def test_a_file_through_both_formats_is_the_same(messy, tmp_path):
    messy.to_csv(tmp_path / "a.csv", index=False)
    write(stream(tmp_path / "a.csv", rows=40), tmp_path / "b.parquet")
    write(stream(tmp_path / "b.parquet", rows=70), tmp_path / "c.csv")
    pd.testing.assert_frame_equal(read(tmp_path / "a.csv"), read(tmp_path / "c.csv"))


def test_standard_output(capfdbinary, monkeypatch, nasty):
    with os.fdopen(os.dup(1), "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert write([nasty[["text"]], nasty[["text"]]], "-") == 18
    assert read(io.BytesIO(capfdbinary.readouterr().out))["text"].tolist() == NASTY * 2


def test_a_full_disk_behind_standard_output(monkeypatch):
    out = open("/dev/full", "w")  # noqa: SIM115, its close fails
    monkeypatch.setattr("sys.stdout", out)
    with pytest.raises(OSError, match=r"^Expected `target` .* standard output is not: the disk is full\.$"):
        write([pd.DataFrame({"a": range(10_000)})], "-")
    with pytest.raises(OSError, match="No space"):
        out.close()


def test_a_broken_pipe_is_passed_on(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stdout", out)
    with pytest.raises(BrokenPipeError):
        write([pd.DataFrame({"a": range(100_000)})], "-")
    with pytest.raises(BrokenPipeError):
        out.close()


class FullDisk(io.RawIOBase):
    """A file on a disk with room for a few bytes only."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def writable(self):
        return True

    def write(self, content):
        self.room -= len(content)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(content)

    def fileno(self):
        return self.file.fileno()

    def close(self):
        self.file.close()
        super().close()


@pytest.mark.parametrize("room", [0, 2_000])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_a_full_disk_leaves_the_old_file_as_it_was(name, room, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_bytes(b"old")
    open_file = type(path).open

    def open_full(self, *args, **settings):
        return io.BufferedWriter(FullDisk(open_file(self, *args, **settings, buffering=0), room))

    numbers = np.random.default_rng(0).normal(size=(5, 20_000))
    monkeypatch.setattr(type(path), "open", open_full)
    with pytest.raises(OSError, match=rf"{name} is not: the disk is full\.$") as raised:
        write((pd.DataFrame({"a": chunk}) for chunk in numbers), path)
    assert raised.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [name]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, OSError(5, "Input/output error"), ValueError("bad row")]
)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_an_error_of_the_chunks_is_passed_on_and_leaves_nothing(name, error, tmp_path):
    def chunks():
        yield pd.DataFrame({"a": [1]})
        raise error

    kind = error if isinstance(error, type) else type(error)
    with pytest.raises(kind) as raised:
        write(chunks(), tmp_path / name)
    assert raised.value is error or kind is KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_targets_that_cannot_be_written(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(FileNotFoundError, match=r"in a folder that exists, but .*none does not\.$"):
        write([frame], tmp_path / "none" / "a.csv")
    with pytest.raises(ValueError, match=r"`target` to end in .csv, .* but got 'a.xlsx'"):
        write([frame], tmp_path / "a.xlsx")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"is a folder\.$"):
        write([frame], tmp_path / "folder.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is not: Not a directory"):
        write([frame], tmp_path / "file" / "a.csv")
    with pytest.raises(ValueError, match="to be a path or '-', but got int"):
        write([frame], 1)

    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", deny)
    with pytest.raises(PermissionError, match="its folder is not writable"):
        write([frame], tmp_path / "a.csv")


def test_chunks_must_agree(tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(ValueError, match="`frames` with a table, but got none"):
        write([], path)
    with pytest.raises(ValueError, match=r"with the columns \['a'\], but got \['b'\]"):
        write([pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})], path)
    with pytest.raises(ValueError, match="the same types in every chunk"):
        write([pd.DataFrame({"a": [1]}), pd.DataFrame({"a": ["x"]})], path)
    with pytest.raises(ValueError, match="to be a pandas DataFrame, but got list"):
        write([[1]], path)
    assert os.listdir(tmp_path) == []
