"""The page in a browser: it draws, it moves, it asks nobody for anything."""

import copy

import pytest
from test_page import HOSTILE, hostile, hostile_facts  # noqa: F401

from evalign.reports import write
from evalign.reports._html import count, number, percent, position
from evalign.reports._sections import ranked


@pytest.fixture
def show(browser, tmp_path):
    """Open the page of some facts; whatever it complains about or asks for fails the test."""
    opened = []

    def show(facts, **window):
        path = tmp_path / f"report {len(opened)}.html"
        write(facts, path)
        browser.open(path, **window)
        opened.append(path.resolve().as_uri())
        return browser

    yield show
    browser.script(True)
    browser.ask("new Promise((done) => setTimeout(done, 50))")
    assert browser.complaints() == []
    outside = [url for url in browser.requests() if url not in opened and not url.startswith("data:")]
    assert outside == []


def text(browser, id_):
    return browser.ask(f"document.getElementById('{id_}').innerText")


def cells(browser):
    rows = "Array.from(document.querySelectorAll('#slider-matrix td'))"
    return browser.ask(f"{rows}.map((cell) => Array.from(cell.children).map((one) => one.textContent))")


def shown(matrix):
    return [[count(n), percent(n / sum(row) if sum(row) else None)] for row in matrix for n in row]


def drawn(browser):
    """The plots that are there, and those that hold a drawing."""
    plots = "Array.from(document.querySelectorAll('.plot'))"
    every = browser.ask(f"{plots}.map((one) => one.id)")
    return every, browser.ask(f"{plots}.filter((one) => one.querySelector('svg path')).map((one) => one.id)")


def sideways(browser):
    """How wide the page is, folded parts open, and which plots are wider than their place."""
    browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    plots = "Array.from(document.querySelectorAll('.plot'))"
    wide = browser.ask(f"{plots}.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.id)")
    return browser.ask("document.documentElement.scrollWidth"), wide


def test_the_slider_moves_by_keyboard_to_what_was_counted(show, facts):
    browser, model = show(facts["two"]), facts["two"]["models"][0]
    every, with_drawing = drawn(browser)
    assert every == with_drawing
    assert len(every) == 6
    slider = model["slider"]
    matrices = [[cells[:2], cells[2:]] for cells in slider["matrices"]]
    browser.ask("document.getElementById('slider').focus()")
    at = slider["chosen"]
    assert cells(browser) == shown(model["matrix"]) == shown(matrices[at])
    first = [text(browser, f"slider-{name}") for name in ("value", "precision", "recall", "bound-0")]
    for key, times, to in (
        ("ArrowRight", 3, at + 3), ("ArrowLeft", 8, at - 5), ("End", 1, len(matrices) - 1), ("Home", 1, 0),
        ("ArrowRight", 40, 40),
    ):  # fmt: skip
        browser.press(key, times)
        (_, fp), (fn, tp) = matrices[to]
        assert browser.ask("Number(document.getElementById('slider').value)") == to
        assert cells(browser) == shown(matrices[to])
        assert text(browser, "slider-position") == position(slider["positions"][to])
        assert text(browser, "slider-value") == number(slider["values"][to])
        assert text(browser, "slider-precision") == number(tp / (tp + fp) if tp + fp else 0.0)
        assert text(browser, "slider-recall") == number(tp / (tp + fn))
        assert text(browser, "slider-predicted") == count(tp + fp)
        slack = slider["constraints"]["precision() >= 0.7"][to]
        kept = "✓ kept" if slack >= 0 else "✗ missed"
        assert text(browser, "slider-bound-0") == f"{number(0.7 + slack)} {kept}"
        (tn, fp), _ = matrices[to]
        kept = "✓ kept" if tn / (tn + fp) <= 0.9 else "✗ missed"
        assert text(browser, "slider-bound-1") == f"{number(tn / (tn + fp))} {kept}"
        told = browser.ask("document.getElementById('slider').getAttribute('aria-valuetext')")
        assert told.startswith(
            f"{position(slider['positions'][to])}: f1 {number(slider['values'][to])}, precision"
        )
        browser.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        mark = browser.ask("(() => { const all = document.getElementById('plot-along').data;"
                           " return [all[all.length - 1].x[0], all[all.length - 1].y[0]]; })()")  # fmt: skip
        assert mark == [slider["positions"][to], slider["values"][to]]
    browser.press("Tab")
    assert browser.ask("document.activeElement.id") == "slider-back"
    browser.press("Enter")
    assert browser.ask("Number(document.getElementById('slider').value)") == at
    assert cells(browser) == shown(model["matrix"])
    assert [text(browser, f"slider-{name}") for name in ("value", "precision", "recall", "bound-0")] == first


def test_the_weight_of_every_class_moves(show, facts):
    browser, model = show(facts["four"]), facts["four"]["models"][0]
    every, with_drawing = drawn(browser)
    assert every == with_drawing
    assert len(every) == 6
    for place, part in enumerate(model["slider"]["classes"]):
        browser.ask(
            f"(() => {{ const one = document.getElementById('slider-class'); one.value = {place};"
            " one.dispatchEvent(new Event('change')); document.getElementById('slider').focus(); })()"
        )
        assert cells(browser) == shown(model["matrix"])
        assert text(browser, "slider-focus") == part["class"]
        browser.press("ArrowRight", 5)
        at = part["chosen"] + 5
        assert cells(browser) == shown(part["matrices"][at])
        assert text(browser, "slider-position") == position(part["positions"][at])
        assert text(browser, "slider-value") == number(part["values"][at])
        assert text(browser, "slider-precision") == number(part["precision"][at])
        assert text(browser, "slider-predicted") == count(part["predicted"][at])
        assert text(browser, "slider-change").startswith(
            number(part["values"][at] - part["values"][part["chosen"]], signed=True)
        )


def test_light_and_dark_on_screen_and_on_paper(show, facts, tmp_path):
    look = "getComputedStyle(document.body).backgroundColor"
    line = "document.getElementById('plot-along').data[0].line.color"
    light, dark = ("rgb(255, 255, 255)", "#0072b2"), ("rgb(20, 23, 27)", "#56b4e9")
    browser = show(facts["two"])
    assert (browser.ask(look), browser.ask(line)) == light
    browser.prefer(dark=True)  # the page follows the system while it is open
    assert (browser.ask(look), browser.ask(line)) == dark
    assert text(browser, "theme") == "Light colours"
    browser.ask(f"window.seen = []; addEventListener('beforeprint', () => seen.push({line}))")
    browser.paper(tmp_path / "report.pdf")
    assert browser.ask("window.seen") == ["#0072b2"]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert (browser.ask(look), browser.ask(line)) == dark
    browser.ask("document.getElementById('theme').click()")
    assert (browser.ask(look), browser.ask(line)) == light
    assert text(browser, "theme") == "Dark colours"


def test_names_from_data_do_nothing_and_long_ones_fit_a_phone(show, hostile_facts):  # noqa: F811
    names = {"network": "m" * 120, "balanced": "b" * 120, "cross-entropy": "verylongname" * 9}
    long = hostile({**hostile_facts, "command": "evalign " + "x" * 300, "answer": "a" * 200}, names)
    browser = show(long, width=375)
    assert sideways(browser) == (375, [])
    assert browser.ask("window.hit") is None
    assert browser.ask("document.querySelectorAll('img, b, a:not(.skip)').length") == 0
    assert text(browser, "slider-focus") in [name.replace("\x00", "�") for name in HOSTILE]
    words = browser.ask("document.getElementById('plot-precision-recall').textContent")
    assert "<img src=x onerror=" in words  # as text, not as an element


def test_without_javascript_the_numbers_are_there(browser, show, facts):
    browser.script(False)
    show(facts["two"])
    words = browser.ask("document.body.innerText")
    assert "Without JavaScript" in words
    assert facts["two"]["answer"] in words
    assert browser.ask("getComputedStyle(document.querySelector('.control')).display") == "none"
    assert browser.ask("getComputedStyle(document.querySelector('.plot')).display") == "none"
    assert cells(browser) == shown(facts["two"]["models"][0]["matrix"])


def test_a_page_with_less_evidence_still_works(show, facts):
    one = copy.deepcopy(facts["two"])
    one["models"][0] |= dict.fromkeys(["slider", "matrix", "calibration", "history"])
    one["models"][1] |= dict.fromkeys(["curves", "per_class", "metrics"])
    browser = show(one)
    wanted = ["plot-comparison", "plot-precision-recall", "plot-training", "plot-calibration-1"]
    assert drawn(browser) == (wanted, wanted)
    check_numbers(browser, facts)
    browser.resize(375)  # a window that is made narrow
    browser.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert sideways(browser) == (375, [])


def check_numbers(browser, facts):
    """Python and JavaScript write numbers alike, and rank methods alike."""
    values = [0.0625, 0.0005, -0.0004, 0.99949999, 1234.5, -2.5e-3, 1e-9, 0.1 + 0.2, 17]
    assert browser.ask(f"{values}.map((one) => number(one))") == [number(one) for one in values]
    places = [0.0, 0.5, 0.00372, 0.99973, 1.0, 16.0, 0.0625, 1e-12, 0.001]
    assert browser.ask(f"{places}.map((one) => position(one))") == [position(one) for one in places]
    signed = [number(one, signed=True) for one in values]
    assert browser.ask(f"{values}.map((one) => number(one, 3, true))") == signed
    assert browser.ask("[0.0625, 1, null].map(percent)") == [percent(one) for one in (0.0625, 1, None)]
    assert browser.ask("[0, 1234567].map(count)") == [count(one) for one in (0, 1234567)]
    ticks = browser.ask("document.getElementById('plot-comparison').layout.yaxis.ticktext")
    assert ticks[::-1] == [row["method"] for row in ranked(facts["two"]["comparison"])]
