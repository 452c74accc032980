"""`evalign serve`: real requests to a real process."""

import asyncio
import csv
import http.client
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest

import evalign.cli
from evalign.tables import TableModel, read

pytest.importorskip("fastapi")
from evalign.cli.serving._batches import Batcher
from evalign.cli.serving._bodies import Intake, RefusedError

MAIN = Path(evalign.cli.__file__).parents[1] / "__main__.py"
LIMITS = ["--max-rows=1000", "--max-mb=1", "--timeout=1"]
JSON, CSV = "application/json", "text/csv"


@pytest.fixture(scope="module")
def serve(script, files, tmp_path_factory):
    """Start the command on a free port, and return its process and its address."""

    def start(*options):
        out = tmp_path_factory.mktemp("serve") / "out"
        words = ["serve", files.model, "--port=0", "--json", *options]
        process = script(MAIN, *words, stdout=out, imports=["evalign.cli.serving"])
        said = lambda: out.exists() and out.read_text().endswith("}\n")  # noqa: E731
        assert wait_for(lambda: said() or process.poll() is not None, 60), "it says nothing"
        assert said(), process.errors
        return process, urlsplit(json.loads(out.read_text())["url"])

    return start


@pytest.fixture(scope="module")
def server(serve):
    return serve(*LIMITS)[1]


def send(address, method, path, body=None, kind=None, **headers):
    """Send a request, and return the status, the headers and the body of the answer."""
    with closing(http.client.HTTPConnection(address.hostname, address.port, timeout=120)) as connection:
        with_kind = {"Content-Type": kind} if kind else {}
        connection.request(method, path, body, {**with_kind, **headers})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def predict(address, body, kind=CSV, query=""):
    status, _, content = send(address, "POST", f"/predict{query}", body, kind)
    assert status == 200, content
    return json.loads(content)


def refuse(address, body, kind=JSON, query="", **headers):
    """Send a request that is refused in one sentence, and return the status and the sentence."""
    status, _, content = send(address, "POST", f"/predict{query}", body, kind, **headers)
    answer = json.loads(content)
    assert list(answer) == ["detail"], content
    assert "Traceback" not in answer["detail"]
    assert len(answer["detail"]) < 700
    return status, answer["detail"]


@pytest.fixture(scope="module")
def wanted(files, tmp_path_factory):
    """What `evalign predict` writes for the new rows."""
    out = tmp_path_factory.mktemp("wanted") / "out.csv"
    command = ["predict", files.model, files.new_csv, f"--out={out}", "--proba", "--quiet"]
    assert evalign.cli.main([*map(str, command)]) == 0
    return read_pairs(out)


def read_pairs(path):
    with path.open(newline="") as file:
        return [(row["prediction"], {name: float(row[f"probability_{name}"]) for name in ("no", "yes")})
                for row in csv.DictReader(file)]  # fmt: skip


def as_pairs(answer):
    return [(row["prediction"], row["probabilities"]) for row in answer["predictions"]]


@pytest.fixture(scope="module")
def rows(files):
    """The new rows as objects, with numbers as numbers and gaps as null."""
    table = read(files.new_csv)
    texts = [
        {name: value or None for name, value in row.items()}
        for row in table.drop(columns="churned").to_dict("records")
    ]
    for row in texts:
        row["spent"] = row["spent"] and float(row["spent"].replace(",", "."))
        row["visits"] = row["visits"] and int(row["visits"])
        row["member"] = None if row["member"] is None else row["member"] == "TRUE"
    return texts


def test_answers_equal_the_command_predict(server, files, wanted, rows):
    answer = predict(server, files.new_csv.read_bytes())
    assert as_pairs(answer) == wanted
    assert answer["threshold"] == TableModel.load(files.model).classifier.rule_.threshold
    as_json = [predict(server, json.dumps(body), JSON) for body in (rows, {"rows": rows})]
    assert as_pairs(as_json[0]) == as_pairs(as_json[1]) == wanted
    one_by_one = [as_pairs(predict(server, json.dumps([row]), JSON))[0] for row in rows[:5]]
    assert one_by_one == wanted[:5]


def test_concurrent_requests_get_their_own_answers(server, wanted, rows):
    with ThreadPoolExecutor(16) as pool:
        bodies = [json.dumps(rows[start : start + 3]) for start in range(0, 90, 3)]
        answers = list(pool.map(lambda body: predict(server, body, JSON), bodies))
    assert [pair for answer in answers for pair in as_pairs(answer)] == wanted[:90]


def test_the_threshold_of_a_request(server, files, wanted, rows):
    body = json.dumps(rows)
    for threshold in (0, 0.1, wanted[0][1]["yes"], 1):
        answer = predict(server, body, JSON, f"?threshold={threshold!r}")
        assert answer["threshold"] == threshold
        names = ["yes" if p["yes"] >= threshold else "no" for _, p in wanted]
        assert [name for name, _ in as_pairs(answer)] == names
    for wrong in ("1.5", "-1", "nan", "x", ""):
        status, reason = refuse(server, body, query=f"?threshold={wrong}")
        assert (status, reason) == (422, f"Expected `threshold` in [0, 1], but got {wrong}.")


def test_the_model_describes_itself(server, files):
    facts = json.loads(send(server, "GET", "/model")[2])
    model = TableModel.load(files.model)
    assert facts["classes"] == list(model.labels) == ["no", "yes"]
    assert facts["threshold"] == model.classifier.rule_.threshold
    assert (facts["metric"], facts["target"], facts["method"]) == ("f1", "churned", "lightgbm_rule")
    assert facts["card"] == (files.model / "README.md").read_text()
    assert {"name": "since", "kind": "date"} in facts["columns"]
    assert facts["limits"] == {"bytes": 1 << 20, "rows": 1000, "seconds": 1.0}
    assert json.loads(send(server, "GET", "/health")[2]) == {"status": "ok"}
    routes = json.loads(send(server, "GET", "/openapi.json")[2])["paths"]
    assert set(routes) == {"/predict", "/health", "/model"}
    content = routes["/predict"]["post"]["requestBody"]["content"]
    assert content[JSON]["schema"]["anyOf"][0]["items"]["required"] == [
        column["name"] for column in facts["columns"]
    ]
    assert send(server, "GET", "/docs")[0] == 404  # its page would need the network


def test_nothing_may_be_embedded_sniffed_or_read_from_elsewhere(server):
    for method, path in (("GET", "/"), ("GET", "/model"), ("GET", "/nothing"), ("POST", "/predict")):
        _, headers, _ = send(server, method, path, Origin="https://example.org")
        headers = {name.lower(): value for name, value in headers.items()}
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers
        assert not [name for name in headers if name.startswith("access-control")]
    status, headers, _ = send(
        server,
        "OPTIONS",
        "/predict",
        Origin="https://example.org",
        **{"Access-Control-Request-Method": "POST"},
    )
    assert status == 405
    assert not [name for name in headers if name.lower().startswith("access-control")]


ROW = {"visits": 3, "spent": 41.5, "city": "Rome", "since": "2021-05-01", "member": True}
WITHOUT_CITY = {name: value for name, value in ROW.items() if name != "city"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "with rows, but got an empty one"),
        (b" \n", "with rows, but got an empty one"),
        (b"[]", "with rows, but got an empty list"),
        (b"{", "to be JSON"),
        (b"\xff\xfe\xfd", "to be JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"rows": ' * 50_000, "nested too deeply"),
        (b"1", "to be a list of rows"),
        (b'"text"', "to be a list of rows"),
        (b'{"rows": 1}', "to be a list of rows"),
        (json.dumps(ROW), "to be a list of rows"),
        (b"[1]", "to be objects"),
        (b"[null]", "to be objects"),
        (b"[{}]", "with the columns visits"),
        (json.dumps([{"x": 1}]), "with the columns visits"),
        (json.dumps([WITHOUT_CITY]), "one without 'city'"),
        (json.dumps([{**WITHOUT_CITY, "City": "Rome"}]), "one without 'city'"),
        (json.dumps([{**ROW, "spent": "much"}]), "`spent` to contain numbers"),
        (json.dumps([{**ROW, "spent": [1]}]), "a list in row 1"),
        (json.dumps([ROW, {**ROW, "city": {"a": 1}}]), "an object in row 2"),
        (json.dumps([{**ROW, "since": "soon"}]), "`since` to contain dates"),
        (json.dumps([{**ROW, "city": "\ud800"}]), "`body` with whole characters, but got half of one"),
    ],
)  # fmt: skip
def test_wrong_json_is_refused_in_words(server, body, words):
    status, reason = refuse(server, body)
    assert status == 422
    assert words in reason


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\n\n", "an empty one"),
        (b"visits;spent\n1", "2 columns in every row, but got 1"),
        (b'visits,spent\n"1,2\n', "closed quotes"),
        (b"visits,spent,city,since,member\n", "only a header"),
        (b"visits,visits\n1,2\n", "distinct column names"),
        (b"visits\n1\n", "one without 'spent'"),
        (b"a\0b\n1\n", "binary data"),
        (b"PK\x03\x04rest", "which is neither"),
        (b"PAR1\x15\x04" + bytes(50), "binary data"),
        (b"\x1f\x8b\x08\x00\x01\x02,\n1\n", "binary data"),
        (b"," * 5000 + b"\n1\n", "at most 1,010 columns"),
    ],
)  # fmt: skip
def test_wrong_csv_is_refused_in_words(server, body, words):
    status, reason = refuse(server, body, CSV)
    assert status == 422
    assert words in reason
    assert "source" not in reason


def test_strange_values_are_what_predict_makes_of_them(server, files, tmp_path, run):
    strange = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "1e300",
        "-1e300",
        "9" * 5000,
        "null",
        '"?"',
        '"  7 "',
    ]
    lines = [json.dumps({**ROW, "spent": 0, "more": [1]}).replace('"spent": 0', f'"spent": {one}')
             for one in strange]  # fmt: skip
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.csv"
    source.write_text("\n".join(lines) + "\n")
    assert run("predict", files.model, source, f"--out={out}", "--proba").status == 0
    answer = predict(server, f"[{','.join(lines)}]", JSON)
    assert as_pairs(answer) == read_pairs(out)
    assert len({row["probabilities"]["yes"] for row in answer["predictions"][:4]}) == 1  # all missing


def test_the_type_and_the_size_of_a_body(server):
    body = json.dumps([ROW])
    for kind in (None, "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        assert refuse(server, body, kind)[0] == 415
    assert refuse(server, body, **{"Content-Encoding": "gzip"})[0] == 415
    assert len(predict(server, body, "Application/JSON; charset=utf-8")["predictions"]) == 1
    status, reason = refuse(server, json.dumps([ROW] * 1001))
    assert (status, reason) == (413, "Expected at most 1,000 rows per request, but got 1,001.")
    assert send(server, "GET", "/predict")[0] == 405


def talk(address, text):
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    connection.sendall(text)
    return connection


def receive(connection):
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/csv\r\n"


def test_a_body_is_refused_before_it_is_read(server):
    with talk(server, HEAD + b"Content-Length: 99999999\r\n\r\n") as claimed:
        assert claimed.recv(100).startswith(b"HTTP/1.1 413")
    block = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent, answer = 0, b""
    with talk(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as endless:
        with suppress(ConnectionError):  # the rest is not even received
            while sent < 200:
                endless.sendall(block)
                sent += 1
        with suppress(ConnectionError):
            answer = endless.recv(100)
    assert sent < 200 or answer.startswith(b"HTTP/1.1 413")
    assert json.loads(send(server, "GET", "/health")[2]) == {"status": "ok"}


def test_a_slow_body_is_given_up(server):
    start = time.monotonic()
    with talk(server, HEAD + b"Content-Length: 100\r\n\r\nvisits") as slow:
        assert receive(slow).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_requests_in_flight_are_answered_before_it_stops(serve, files, sent, status):
    process, address = serve()
    body = files.new_csv.read_bytes()
    with (
        ThreadPoolExecutor(1) as pool,
        talk(address, HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:1000]) as half,
    ):
        assert send(address, "GET", "/health")[0] == 200
        ended = pool.submit(process.ended, sent)
        time.sleep(0.5)
        half.sendall(body[1000:])
        answer = receive(half)
        assert answer.startswith(b"HTTP/1.1 200")
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["predictions"]) == len(read(files.new_csv))
        assert ended.result(30) == (status, ["evalign: Stopped."])


def test_several_workers(serve, files, wanted):
    process, address = serve("--workers=2")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: predict(address, files.new_csv.read_bytes()), range(16)))
    assert all(as_pairs(answer) == wanted for answer in answers)
    children = list_children(process.pid)
    assert len(children) >= 2  # and what Python needs to track them
    os.kill(int(children[-1]), signal.SIGKILL)
    assert wait_for(lambda: set(list_children(process.pid)) - set(children))  # another one replaces it
    children = list_children(process.pid)
    assert process.ended(signal.SIGTERM) == (143, ["evalign: Stopped."])
    assert wait_for(lambda: not any(map(is_running, children)))


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_workers_that_load_the_model_end_at_once(serve, files, sent, status):
    """A signal from a terminal reaches them before they serve: nobody waits for them to answer then."""
    process, _ = serve("--workers=2")
    assert wait_for(lambda: len(list_children(process.pid)) >= 2)
    time.sleep(0.6)  # until the parent has looked after them once
    start = time.monotonic()
    assert process.ended(sent) == (status, ["evalign: Stopped."])
    assert time.monotonic() - start < 20


def list_children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_running(pid):
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_wrong_usage(fail, files, tmp_path, server):
    taken = fail("serve", files.model, f"--port={server.port}")
    assert "Expected `host` and `port` to be free" in taken
    assert "Expected `model`" in fail("serve", tmp_path / "none")
    assert "Expected `host`" in fail("serve", files.model, "--host=256.256.256.256", "--port=0")
    changed = tmp_path / "model"
    changed.mkdir()
    for path in files.model.rglob("*"):
        if path.is_file():
            (changed / path.relative_to(files.model)).parent.mkdir(exist_ok=True)
            (changed / path.relative_to(files.model)).write_bytes(path.read_bytes())
    text = (changed / "model.json").read_text()
    (changed / "model.json").write_text(text.replace('"yes"', '"oh"', 1))
    assert "another checksum" in fail("serve", changed, "--port=0")
    assert "signature" in fail("serve", files.model, "--port=0", f"--verify={write_key(tmp_path)}")


def write_key(folder):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate().public_key()
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path = folder / "key.pub"
    path.write_bytes(pem)
    return path


def test_requests_are_gathered_and_one_that_fails_fails_alone():
    sizes = []

    def double(table):
        sizes.append(len(table))
        if (table["x"] < 0).any():
            raise ValueError("negative")
        return table["x"].to_numpy() * 2, np.stack([table["x"], table["x"]], axis=1)

    async def ask_all():
        batcher = Batcher(double, max_rows=10)
        batcher.start()
        tables = [
            pd.DataFrame({"x": [float(start), start + 0.5]}) for start in [*range(9), -5, *range(10, 20)]
        ]
        answers = await asyncio.gather(*map(batcher.predict, tables), return_exceptions=True)
        given_up = asyncio.create_task(batcher.predict(tables[0]))
        await asyncio.sleep(0)
        given_up.cancel()
        last = await batcher.predict(pd.DataFrame({"x": np.arange(25.0)}))
        await batcher.stop()
        return tables, answers, last

    tables, answers, last = asyncio.run(ask_all())
    for table, answer in zip(tables, answers, strict=True):
        if table["x"].min() < 0:
            assert isinstance(answer, ValueError)
        else:
            assert answer[0].tolist() == (2 * table["x"]).tolist()
            assert answer[1].shape == (2, 2)
    assert sizes == [10, 10, 2, 2, 2, 2, 2, 10, 10, 25]  # four batches; the one with -5 again, one by one
    assert last[0].tolist() == (2 * np.arange(25.0)).tolist()


def test_all_bodies_together_are_limited():
    intake = Intake(max_bytes=10, max_total=15)

    async def blocks(*sizes):
        for size in sizes:
            yield bytes(size)

    async def read_all():
        first = await intake.read(blocks(4, 4), None)
        with pytest.raises(RefusedError) as busy:
            await intake.read(blocks(4, 4), None)
        assert (busy.value.status, intake.held) == (503, 8)  # what was refused is no longer counted
        for length, sizes in (("11", ()), (None, (6, 6))):
            with pytest.raises(RefusedError) as large:
                await intake.read(blocks(*sizes), length)
            assert (large.value.status, intake.held) == (413, 8)
        intake.release(first)
        assert len(await intake.read(blocks(5, 5), "10")) == intake.held == 10

    asyncio.run(read_all())
