"""The page of `evalign serve` in the browser of the report tests, against a real server."""

import csv
import json
import socket
import threading
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from evalign import MetricLinear
from evalign.tables import Preparation, Schema, TableModel, write

uvicorn = pytest.importorskip("uvicorn")
from evalign.cli.serving._application import Limits, build_application  # noqa: E402

HOSTILE = '<img src=x onerror="window.hit=1">'


def train(labels):
    """A model of these classes, from a number and a category with names that must remain text."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {"size, in m": generator.normal(size=300), HOSTILE: generator.choice(["a", "b"], 300)}
    )
    y = np.digitize(
        table["size, in m"] + generator.normal(0, 0.5, 300), np.linspace(-1, 1, len(labels) + 1)[1:-1]
    )
    schema = Schema.infer(table.assign(y=y), "y")
    preparation = Preparation(schema).fit(table)
    classifier = MetricLinear("f1", random_state=0).fit(preparation.transform(table), y)
    facts = {"metric": "f1", "constraints": [], "method": "linear", "target": "kind & </title>", "seed": 0}
    return TableModel(schema, preparation, classifier, tuple(labels), facts), table


@contextmanager
def serving(model):
    """A server of a model in a thread of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            build_application(model, Limits(max_rows=500)), log_config=None, log_level="warning", ws="none"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def two_classes():
    model, table = train(["no", "=yes"])
    with serving(model) as address:
        yield model, table, address


@pytest.fixture
def show(browser):
    """Open the page; any complaint of the console and any request to elsewhere fail the test."""
    opened = []

    def show(address, **window):
        browser.open(address, **window)
        opened.append(address)
        return browser

    yield show
    assert [one for one in browser.complaints() if "422" not in str(one)] == []
    outside = [url for url in browser.requests() if not url.startswith((*opened, "data:", "blob:"))]
    assert outside == []


def paste(browser, text):
    browser.ask(f"document.getElementById('text').value = {json.dumps(text)}")
    browser.ask("document.getElementById('predict').click()")
    browser.wait("!document.getElementById('predict').disabled")


def texts(browser, selector):
    return browser.ask(f"Array.from(document.querySelectorAll('{selector}')).map((one) => one.innerText)")


def counted(browser):
    names, numbers = texts(browser, "#counts dt"), texts(browser, "#counts dd")
    return {
        name: int(number.split()[0].replace(",", "")) for name, number in zip(names, numbers, strict=True)
    }


def count_names(names, labels):
    return {label: int((names == label).sum()) for label in labels}


def test_the_threshold_moves_and_the_result_is_downloaded(show, two_classes, tmp_path):
    model, table, address = two_classes
    browser = show(address)
    names, p = model.predict_both(table)
    paste(browser, table.to_csv(index=False))
    assert counted(browser) == count_names(names, model.labels)
    assert texts(browser, "#body tr td:nth-child(2)") == names[:100].tolist()
    assert texts(browser, "#body tr td:nth-child(4)") == [f"{one:.3f}" for one in p[:100, 1]]
    assert texts(browser, "#shown") == ["The first 100 of 300 rows"]
    assert browser.ask("document.activeElement.id") == "result"
    browser.ask("document.getElementById('threshold').focus()")
    for key, times in (("End", 1), ("ArrowLeft", 60), ("Home", 1), ("ArrowRight", 23)):
        browser.press(key, times)
        threshold = browser.ask("threshold")
        assert texts(browser, "#position") == [f"{threshold:g}"]
        assert counted(browser) == count_names(model.with_threshold(threshold).decide(p), model.labels)
    assert threshold == 0.023
    check_download(browser, model, table, threshold, tmp_path)
    browser.ask("document.getElementById('back').click()")
    assert counted(browser) == count_names(names, model.labels)
    assert browser.ask("threshold") == model.threshold


def check_download(browser, model, table, threshold, folder):
    """Compare the file with what the command writes."""
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.ask("document.getElementById('download').click()")
    file, wanted = folder / "predictions.csv", folder / "wanted.csv"
    for _ in range(200):
        if file.exists():
            break
        browser.ask("new Promise((done) => setTimeout(done, 20))")
    names, p = model.with_threshold(threshold).predict_both(table)
    columns = {f"probability_{label}": p[:, number] for number, label in enumerate(model.labels)}
    write([pd.DataFrame({"prediction": names, **columns})], wanted)
    with file.open(newline="") as one, wanted.open(newline="") as other:
        rows, others = list(csv.reader(one)), list(csv.reader(other))
    assert rows[0] == others[0] == ["prediction", "probability_no", "probability_=yes"]
    assert {row[0] for row in rows[1:]} == {"no", "'=yes"}  # no spreadsheet runs it
    assert [[row[0], *map(float, row[1:])] for row in rows[1:]] == [
        [row[0], *map(float, row[1:])] for row in others[1:]
    ]


def test_a_file_and_a_wrong_one(show, two_classes, tmp_path):
    model, table, address = two_classes
    browser = show(address)
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    table[:7].to_csv(good, index=False, sep=";")
    bad.write_text("x,y\n1,2\n")
    hidden = "document.getElementById('result').hidden"
    paste(browser, "")
    assert texts(browser, "#problem") == ["There are no rows yet: paste some, or choose a file."]
    browser.choose_file("file", good)
    click = "document.getElementById('predict').click()"
    browser.ask(click)
    browser.wait(f"!{hidden}")
    assert texts(browser, "#shown") == ["All 7 rows"]
    assert texts(browser, "#problem") == [""]
    browser.choose_file("file", bad)
    browser.ask(click)
    browser.wait(hidden)
    assert texts(browser, "#problem")[0].startswith("Expected `rows` with all columns of the schema")
    browser.ask("document.getElementById('header').click()")
    first = browser.ask("document.getElementById('text').value").splitlines()[0]
    assert next(csv.reader([first])) == [column.name for column in model.schema.inputs]


def test_names_remain_text_and_a_phone_in_the_dark_suffices(show, two_classes):
    _, table, address = two_classes
    browser = show(address, width=375, dark=True)
    paste(browser, table.to_csv(index=False))
    browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") == 375
    assert browser.ask("window.hit") is None
    assert browser.ask("document.title") == "Predict kind & </title>"
    assert HOSTILE in texts(browser, "details th")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    unnamed = (
        "Array.from(document.querySelectorAll('button, input, textarea')).filter((one) =>"
        " !one.innerText && !(one.labels && one.labels.length)).map((one) => one.id)"
    )
    assert browser.ask(unnamed) == []


def test_three_classes_have_no_threshold(show):
    model, table = train(["ant", "bee", "cat"])
    with serving(model) as address:
        browser = show(address)
        paste(browser, table.to_csv(index=False))
        assert counted(browser) == count_names(model.predict(table), model.labels)
        assert texts(browser, "#head th")[2:] == [
            "probability of ant",
            "probability of bee",
            "probability of cat",
        ]
        assert browser.ask("document.getElementById('threshold')") is None
        browser.ask("window.stop()")
