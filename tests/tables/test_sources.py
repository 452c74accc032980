"""Feather, Excel, databases and addresses: the same table as from CSV, and clear errors."""

import datetime
import functools
import http.server
import io
import sqlite3
import threading
import zipfile

import openpyxl
import pandas as pd
import pytest
import sqlalchemy

from evalign.tables import Schema, fingerprint, read, stream

TABLE = pd.DataFrame(
    {
        "age": [41, 23, 35] * 10,
        "city": ["Rome", None, 'a, "b"'] * 10,
        "score": [0.5, 1.25, None] * 10,
        "seen": [datetime.datetime(2024, 1, day, 12) for day in range(1, 31)],
        "y": ["no", "yes", "no"] * 10,
    }
)


@pytest.fixture(scope="module")
def from_csv():
    return read(io.BytesIO(TABLE.to_csv(index=False).encode()))


def assert_same(table, other):
    """The same names, kinds and values, whatever the types in the file."""
    assert list(table.columns) == list(other.columns)
    kinds = [[(one.name, one.kind) for one in Schema.infer(part, "y").columns] for part in (table, other)]
    assert kinds[0] == kinds[1]
    assert fingerprint(table) == fingerprint(other)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather(from_csv, tmp_path, compression):
    TABLE.to_feather(tmp_path / "a.feather", compression=compression)
    assert_same(read(tmp_path / "a.feather"), from_csv)
    assert [len(chunk) for chunk in stream(tmp_path / "a.feather", 12)] == [12, 18]
    content = (tmp_path / "a.feather").read_bytes()
    with pytest.raises(ValueError, match="to be a complete Feather file"):
        read(io.BytesIO(content[: len(content) // 2]))


def test_excel(from_csv, tmp_path):
    TABLE.to_excel(tmp_path / "a.xlsx", index=False)
    assert_same(read(tmp_path / "a.xlsx"), from_csv)
    assert [len(chunk) for chunk in stream(tmp_path / "a.xlsx", 12)] == [12, 18]


def write_sheet(path, *rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_excel_as_people_write_it(tmp_path):
    """Empty lines above and between, an empty column at the end, dates without a time."""
    day = datetime.date(2024, 5, 1)
    path = write_sheet(tmp_path / "a.xlsx", [], ["a", "day", None], [1, day, None], [], [2.5], [None, day])
    assert read(path).to_dict("list") == {"a": ["1", "2.5", ""], "day": ["2024-05-01", "", "2024-05-01"]}


def test_excel_that_is_not_a_table(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="whose first sheet is empty"):
        read(write_sheet(tmp_path / "a.xlsx"))
    with pytest.raises(ValueError, match="only a header"):
        read(write_sheet(tmp_path / "a.xlsx", ["a", "b"]))
    with pytest.raises(ValueError, match="with 1 columns in every row"):
        read(write_sheet(tmp_path / "a.xlsx", ["a"], [1, 2]))
    with pytest.raises(ValueError, match="with distinct column names"):
        read(write_sheet(tmp_path / "a.xlsx", ["a", "a"], [1, 2]))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
    with pytest.raises(ValueError, match="which is neither. Unpack the archive"):
        read(tmp_path / "b.zip")
    monkeypatch.setattr("evalign.tables._excel._MAX_BYTES", 100)
    with pytest.raises(ValueError, match="below 1 GB when unpacked"):
        read(write_sheet(tmp_path / "a.xlsx", ["a"], [1]))


def fill(address):
    """Write the table into a database."""
    engine = sqlalchemy.create_engine(address)
    with engine.begin() as connection:
        TABLE.to_sql("people", connection, index=False)
    engine.dispose()


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('sql') / 'people.db'}"
    fill(address)
    return address


QUERY = "select * from people order by seen"


def test_sqlite(from_csv, sqlite):
    assert len(read(sqlite, "delete from people returning *")) == 30  # which is never committed
    assert_same(read(sqlite, QUERY), from_csv)
    assert [len(chunk) for chunk in stream(sqlite, 12, QUERY)] == [12, 18]


def test_postgresql(from_csv, postgresql):
    """A real server, started by the test as a user would."""
    fill(postgresql)
    assert_same(read(postgresql, QUERY), from_csv)
    assert [len(chunk) for chunk in stream(postgresql, 12, QUERY)] == [12, 18]
    with pytest.raises(ValueError, match="Expected `query` that the database understands"):
        read(postgresql, "select nothing from nowhere")
    with pytest.raises(ValueError, match="Expected `query` that the database understands"):
        read(postgresql, "delete from people returning *")
    assert len(read(postgresql, QUERY)) == 30


@pytest.mark.parametrize(
    ("address", "query", "message"),
    [
        ("ADDRESS", "select * from nobody", "`source` to be a database that answers, .*no such table"),
        ("ADDRESS", "select * from people where age > 99", "only a header|with rows"),
        ("ADDRESS", "create table other (a int)", "Expected `query` to select rows"),
        ("nosql://me:secret@db/x", "select 1", r"address of a database with a query, but got nosql://me:\*\*\*@db/x"),
        ("people.csv", "select 1", "to be the address of a database with a query, but got people.csv"),
        ("postgresql+psycopg://me:secret@127.0.0.1:1/x", "select 1", r"that answers, but got .*:\*\*\*@127"),
        ("postgresql://me:secret@db/x", None, r"me:\*\*\*@db/x\. A database needs a query"),
    ],
)  # fmt: skip
def test_databases_that_do_not_answer(sqlite, address, query, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(sqlite if address == "ADDRESS" else address, query)
    assert "secret" not in str(raised.value)


def test_a_database_that_does_not_exist_is_not_created(tmp_path):
    file = tmp_path / "none.db"
    with pytest.raises(FileNotFoundError, match=r"to be a file, but .*none\.db does not exist"):
        read(f"sqlite:///{file}", "select 1")
    assert not file.exists()
    assert read("sqlite://", "select 1 as a").to_dict("list") == {"a": ["1"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A web server on this machine."""
    folder = tmp_path_factory.mktemp("web")
    TABLE.to_csv(folder / "a.csv.gz", index=False)
    TABLE.to_parquet(folder / "a.parquet")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet"])
def test_web_addresses(from_csv, server, name):
    assert_same(read(f"{server}/{name}"), from_csv)
    with pytest.raises(
        FileNotFoundError, match=r"Expected `source` to be a file, but .*none\.csv does not exist"
    ):
        read(f"{server}/none.csv")


def test_addresses_of_other_kinds(from_csv):
    import fsspec

    with fsspec.open("memory://bucket/a.csv", "wb") as file:
        file.write(TABLE.to_csv(index=False).encode())
    assert_same(read("memory://bucket/a.csv"), from_csv)
    with pytest.raises(ValueError, match="with a known protocol such as https:// or s3://"):
        read("gopher://x/a.csv")


def test_sqlite_is_not_a_file_of_text(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("create table a (b int)")
    with pytest.raises(ValueError, match="which is neither"):
        read(tmp_path / "a.db")
