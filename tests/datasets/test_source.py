"""Where files are found, and downloads: with the right checksum and as a whole, or not at all."""

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evalign.datasets import _load, _source, _tables, load

ROW = "39, Private, 77516, HS-grad, 9, Widowed, Sales, Husband, White, Male, 0, 0, {}, Peru, <=50K"
FILES = {
    "adult.data": "\n".join(ROW.format(hours) for hours in range(20)).encode(),
    "adult.test": b"|comment\n" + "\n".join(ROW.format(hours) + "." for hours in range(5)).encode(),
}


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    monkeypatch.setitem(_tables.ROWS, "adult.data", 20)
    monkeypatch.setitem(_tables.ROWS, "adult.test", 5)


class Handler(BaseHTTPRequestHandler):
    """Serves the files above; `server.mood` determines how it misbehaves."""

    def do_GET(self):
        name = self.path.strip("/")
        self.server.requests.append(name)
        if self.server.mood == "gone":
            self.send_error(404)
            return
        body = FILES[name] if self.server.mood != "other" else FILES[name][::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.server.mood == "cut" else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.mood = [], "good"
    server.address = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    entry = _load.ENTRIES["adult"]
    remote = {name: (server.address + name, hashlib.sha256(raw).hexdigest()) for name, raw in FILES.items()}
    source = replace(entry.source, remote=remote)
    monkeypatch.setitem(_load.ENTRIES, "adult", replace(entry, source=source))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def put(folder):
    (folder / "adult").mkdir(parents=True)
    for name, raw in FILES.items():
        (folder / "adult" / name).write_bytes(raw)


def test_a_download_is_cached_and_not_repeated(data_home, server, capfd):
    first = load("adult")
    assert server.requests == ["adult.data", "adult.test"]
    assert "100%" in capfd.readouterr().err
    cache = data_home.parent / "cache" / "adult"
    assert {file.name: file.read_bytes() for file in cache.iterdir()} == FILES
    again = load("adult")
    assert server.requests == ["adult.data", "adult.test"]
    assert (again.X == first.X).all()
    assert first.X.shape == (25, 13)


def test_the_folder_takes_precedence_over_the_cache_and_the_cache_over_a_download(data_home, server):
    put(data_home.parent / "cache")
    assert load("adult").source == "adult.data, adult.test"
    (data_home / "adult").mkdir()
    for name, raw in FILES.items():
        (data_home / "adult" / f"{name}.gz").write_bytes(gzip.compress(raw))
    assert load("adult").source == "adult.data.gz, adult.test.gz"
    assert server.requests == []


def test_files_in_the_cache_are_not_downloaded_again(data_home, server):
    cache = data_home.parent / "cache" / "adult"
    cache.mkdir(parents=True)
    (cache / "adult.data").write_bytes(FILES["adult.data"])
    load("adult")
    assert server.requests == ["adult.test"]


@pytest.mark.parametrize(
    ("mood", "error", "message"),
    [
        ("other", ValueError, "to have the sha256 .*, but got another file, which was discarded"),
        # Some versions of the client notice the truncation, others only the wrong checksum.
        ("cut", (OSError, ValueError), "Could not download http://127.0.0.1|to have the sha256"),
        ("gone", OSError, "Could not download http://127.0.0.1.*404.*Put adult.data and adult.test"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(data_home, server, mood, error, message):
    server.mood = mood
    with pytest.raises(error, match=message):
        load("adult")
    assert list((data_home.parent / "cache" / "adult").iterdir()) == []
    server.mood = "good"
    assert len(load("adult").y) == 25


def test_the_error_without_a_network_explains_what_to_put_where(data_home, server, monkeypatch):
    entry = _load.ENTRIES["adult"]
    remote = {"adult.data": ("http://127.0.0.1:9/adult.data", "0" * 64)}
    source = replace(entry.source, remote=remote)
    monkeypatch.setitem(_load.ENTRIES, "adult", replace(entry, source=source))
    with pytest.raises(
        ConnectionError, match="Could not download .* Put adult.data and adult.test .* 'adult'"
    ):
        load("adult")


def test_the_error_names_a_cache_that_cannot_be_written(data_home, server):
    (data_home.parent / "cache").write_text("a file instead of the folder")
    with pytest.raises(OSError, match="Could not download .* into .*cache"):
        load("adult")


def test_nothing_is_downloaded_without_permission(data_home, server):
    with pytest.raises(FileNotFoundError, match="The data of 'adult' is not on this machine"):
        load("adult", download=False)
    assert server.requests == []


def test_some_of_the_files_are_not_enough(data_home):
    put(data_home)
    (data_home / "adult" / "adult.test").unlink()
    with pytest.raises(FileNotFoundError, match=r"data.adult \(only adult.data\)"):
        load("adult", download=False)


def test_the_error_without_the_extra_explains_what_to_install(data_home, monkeypatch):
    monkeypatch.setattr(_source, "find_spec", lambda name: None)
    with pytest.raises(
        FileNotFoundError, match=r"Put adult.data .* download it: pip install 'evalign\[data\]'"
    ):
        load("adult")
    put(data_home)
    assert len(load("adult").y) == 25


def test_the_error_without_the_extra_and_without_a_folder(monkeypatch):
    monkeypatch.setattr(_source, "find_spec", lambda name: None)
    monkeypatch.delenv("EVALIGN_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Searched: nothing, since EVALIGN_DATA is not set"):
        load("creditcard")


def test_the_cache_is_the_users_own():
    platformdirs = pytest.importorskip("platformdirs")
    assert _source.cache_folder() == platformdirs.user_cache_path("evalign", appauthor=False)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_folder_that_does_not_exist_is_rejected(tmp_path, monkeypatch, kind):
    if kind == "file":
        (tmp_path / "place").write_text("")
    monkeypatch.setenv("EVALIGN_DATA", str(tmp_path / "place"))
    with pytest.raises(ValueError, match="Expected `EVALIGN_DATA` to name a folder, but got .*place"):
        load("adult")
