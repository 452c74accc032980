"""The page in a browser: it draws, the slider moves, and nothing is requested."""

from dataclasses import replace

import pytest
from test_page import HOSTILE, hostile_report, rename_report  # noqa: F401

from evalign.reports import write_report
from evalign.reports._format import count, number, percent, position


@pytest.fixture
def show(browser, tmp_path):
    """Open the page of a report; any complaint of the console and any request fail the test."""
    pages = []

    def show(report, **window):
        path = tmp_path / f"report {len(pages)}.html"
        write_report(report, path)
        browser.open(path, **window)
        pages.append(path.resolve().as_uri())
        return browser

    yield show
    browser.script(True)
    browser.ask("new Promise((done) => setTimeout(done, 50))")
    assert browser.complaints() == []
    outside = [url for url in browser.requests() if url not in pages and not url.startswith("data:")]
    assert outside == []


def text(browser, id_):
    return browser.ask(f"document.getElementById('{id_}').innerText")


def cells(browser):
    rows = "Array.from(document.querySelectorAll('#slider-matrix td'))"
    return browser.ask(f"{rows}.map((cell) => Array.from(cell.children).map((one) => one.textContent))")


def format_cells(matrix):
    return [[count(n), percent(n / sum(row) if sum(row) else None)] for row in matrix for n in row]


def list_plots(browser):
    """The ids of all plots, and of those with a drawing."""
    plots = "Array.from(document.querySelectorAll('.plot'))"
    every = browser.ask(f"{plots}.map((one) => one.id)")
    return every, browser.ask(f"{plots}.filter((one) => one.querySelector('svg path')).map((one) => one.id)")


def measure_width(browser):
    """The width of the page with all details open, and the plots that are wider than their place."""
    browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    plots = "Array.from(document.querySelectorAll('.plot'))"
    wide = browser.ask(f"{plots}.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.id)")
    return browser.ask("document.documentElement.scrollWidth"), wide


def test_the_slider_moves_by_keyboard(show, reports):
    browser, model = show(reports["two"]), reports["two"].models[0]
    every, with_drawing = list_plots(browser)
    assert every == with_drawing
    assert len(every) == 12
    slider = model.slider
    matrices = [[cells[:2], cells[2:]] for cells in slider.matrices]
    browser.ask("document.getElementById('slider').focus()")
    at = slider.start
    assert cells(browser) == format_cells(model.matrix) == format_cells(matrices[at])
    first = [text(browser, f"slider-{name}") for name in ("value", "precision", "recall", "bound-0")]
    for key, times, to in (
        ("ArrowRight", 3, at + 3), ("ArrowLeft", 8, at - 5), ("End", 1, len(matrices) - 1), ("Home", 1, 0),
        ("ArrowRight", 40, 40),
    ):  # fmt: skip
        browser.press(key, times)
        (tn, fp), (fn, tp) = matrices[to]
        assert browser.ask("Number(document.getElementById('slider').value)") == to
        assert cells(browser) == format_cells(matrices[to])
        assert text(browser, "slider-position") == position(slider.positions[to])
        assert text(browser, "slider-value") == number(slider.values[to])
        assert text(browser, "slider-precision") == number(tp / (tp + fp) if tp + fp else 0.0)
        assert text(browser, "slider-recall") == number(tp / (tp + fn))
        assert text(browser, "slider-predicted") == count(tp + fp)
        slack = slider.constraints["precision() >= 0.7"][to]
        status = "✓ satisfied" if slack >= 0 else "✗ violated"
        assert text(browser, "slider-bound-0") == f"{number(0.7 + slack)} {status}"
        status = "✓ satisfied" if tn / (tn + fp) <= 0.9 else "✗ violated"
        assert text(browser, "slider-bound-1") == f"{number(tn / (tn + fp))} {status}"
        label = browser.ask("document.getElementById('slider').getAttribute('aria-valuetext')")
        assert label.startswith(
            f"{position(slider.positions[to])}: f1 {number(slider.values[to])}, precision"
        )
        browser.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        mark = browser.ask("(() => { const all = document.getElementById('plot-along').data;"
                           " return [all[all.length - 1].x[0], all[all.length - 1].y[0]]; })()")  # fmt: skip
        assert mark == [slider.positions[to], slider.values[to]]
    browser.press("Tab")
    assert browser.ask("document.activeElement.id") == "slider-back"
    browser.press("Enter")
    assert browser.ask("Number(document.getElementById('slider').value)") == at
    assert cells(browser) == format_cells(model.matrix)
    assert [text(browser, f"slider-{name}") for name in ("value", "precision", "recall", "bound-0")] == first


def test_the_weight_of_every_class_moves(show, reports):
    browser, model = show(reports["four"]), reports["four"].models[0]
    every, with_drawing = list_plots(browser)
    assert every == with_drawing
    assert len(every) == 12
    for place, track in enumerate(model.slider.classes):
        browser.ask(
            f"(() => {{ const one = document.getElementById('slider-class'); one.value = {place};"
            " one.dispatchEvent(new Event('change')); document.getElementById('slider').focus(); })()"
        )
        assert cells(browser) == format_cells(model.matrix)
        assert text(browser, "slider-focus") == track.class_
        browser.press("ArrowRight", 5)
        at = track.start + 5
        assert cells(browser) == format_cells(track.matrices[at])
        assert text(browser, "slider-position") == position(track.positions[at])
        assert text(browser, "slider-value") == number(track.values[at])
        assert text(browser, "slider-precision") == number(track.precision[at])
        assert text(browser, "slider-predicted") == count(track.predicted[at])
        assert text(browser, "slider-change").startswith(
            number(track.values[at] - track.values[track.start], signed=True)
        )


COSTS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]


def read_costs(browser):
    rows = "Array.from(document.querySelectorAll('#cost-table tbody tr'))"
    return browser.ask(
        f"{rows}.map((row) => Array.from(row.querySelectorAll('td'), (one) => one.textContent))"
    )


def format_costs(benefit, k, miss, alarm):
    per = 1000 / sum(benefit.support)
    table = []
    for one in benefit.methods:
        missed, alarms = per * one.missed[k], per * one.false_alarms[k]
        found = 100 * (1 - one.missed[k] / benefit.support[k])
        cost = f"{miss * missed + alarm * alarms:,.1f}"
        table.append([number(found, 1), number(missed, 1), number(alarms, 1), cost])
    return table


def test_costs_move_by_keyboard(show, reports):
    browser, benefit = show(reports["two"]), reports["two"].benefit
    assert read_costs(browser) == format_costs(benefit, 1, 1, 1)
    browser.ask("document.getElementById('cost-miss').focus()")
    browser.press("ArrowRight", 4)
    assert text(browser, "cost-miss-value") == "20"
    assert browser.ask("document.getElementById('cost-miss').getAttribute('aria-valuetext')") == "20"
    browser.press("Tab")
    assert browser.ask("document.activeElement.id") == "cost-alarm"
    browser.press("ArrowRight", 1)
    assert read_costs(browser) == format_costs(benefit, 1, 20, 2)
    own, rival = (float(row[3].replace(",", "")) for row in read_costs(browser)[:2])
    words = text(browser, "cost-summary")
    assert words.startswith(f"In 1,000 rows the model costs {own:,.1f}, ")
    assert f"{'less' if rival > own else 'more'} than LightGBM with a tuned threshold" in words
    slider = reports["two"].models[0].slider
    cheapest = min(20 * fn + 2 * fp for _, fp, fn, _ in slider.matrices) * 1000 / sum(benefit.support)
    assert f", with {cheapest:,.1f}." in words
    browser.press("End")
    assert read_costs(browser) == format_costs(benefit, 1, 20, COSTS[-1])
    browser.press("Home")
    assert read_costs(browser) == format_costs(benefit, 1, 20, 0)


def test_costs_of_every_class(show, reports):
    browser, benefit = show(reports["four"]), reports["four"].benefit
    rarest = benefit.support.index(min(benefit.support))
    assert read_costs(browser) == format_costs(benefit, rarest, 1, 1)
    for k, name in enumerate(benefit.classes):
        browser.ask(
            f"(() => {{ const one = document.getElementById('cost-class'); one.value = {k};"
            " one.dispatchEvent(new Event('input')); })()"
        )
        assert read_costs(browser) == format_costs(benefit, k, 1, 1)
        assert f"are “{name}”" in text(browser, "cost-caption")


def test_light_and_dark_on_screen_and_on_paper(show, reports, tmp_path):
    look = "getComputedStyle(document.body).backgroundColor"
    line = "document.getElementById('plot-along').data[0].line.color"
    light, dark = ("rgb(255, 255, 255)", "#0072b2"), ("rgb(20, 23, 27)", "#56b4e9")
    browser = show(reports["two"])
    assert (browser.ask(look), browser.ask(line)) == light
    browser.prefer(dark=True)  # the open page follows the system
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


def test_names_from_data_do_nothing_and_long_ones_fit_a_phone(show, hostile_report):  # noqa: F811
    names = {"network": "m" * 120, "balanced": "b" * 120, "cross-entropy": "verylongname" * 9}
    report = replace(hostile_report, command="evalign " + "x" * 300, answer="a" * 200)
    browser = show(rename_report(report, names), width=375)
    assert measure_width(browser) == (375, [])
    assert browser.ask("window.hit") is None
    assert browser.ask("document.querySelectorAll('img, b, a:not(.skip)').length") == 0
    assert text(browser, "slider-focus") in [name.replace("\x00", "�") for name in HOSTILE]
    words = browser.ask("document.getElementById('plot-precision-recall').textContent")
    assert "<img src=x onerror=" in words  # as text, not as an element


def test_without_javascript_the_numbers_are_there(browser, show, reports):
    browser.script(False)
    show(reports["two"])
    words = browser.ask("document.body.innerText")
    assert "Without JavaScript" in words
    assert reports["two"].answer in words
    assert browser.ask("getComputedStyle(document.querySelector('.control')).display") == "none"
    assert browser.ask("getComputedStyle(document.querySelector('.plot')).display") == "none"
    assert cells(browser) == format_cells(reports["two"].models[0].matrix)


def test_a_page_with_less_evidence_still_works(show, reports):
    first, second = reports["two"].models
    first = replace(first, slider=None, matrix=(), calibration=None, history=None)
    second = replace(second, curves=None, per_class=(), metrics={})
    report = replace(reports["two"], explanation=None, learning=None, benefit=None)
    browser = show(replace(report, models=(first, second)))
    wanted = ["plot-comparison", "plot-precision-recall", "plot-training", "plot-calibration-1"]
    assert list_plots(browser) == (wanted, wanted)
    check_numbers(browser, reports["two"].comparison)
    browser.resize(375)  # a window that is made narrow
    browser.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert measure_width(browser) == (375, [])


def test_a_method_that_is_alone_has_no_plot_of_differences(show, reports):
    comparison = reports["two"].comparison
    alone = replace(comparison.ranking[0], difference=None, low=None, high=None)
    alone = replace(comparison, rows=(alone,), reference=alone.method, best=alone.method)
    browser = show(replace(reports["two"], comparison=alone), width=375)
    layout = "document.getElementById('plot-comparison').layout"
    assert browser.ask(f"[{layout}.xaxis2.visible, {layout}.yaxis.domain]") == [False, [0, 1]]
    browser = show(reports["two"], width=375)
    assert browser.ask(f"{layout}.xaxis2.visible")
    assert browser.ask(f"{layout}.yaxis.domain")[0] > 0.5


def check_numbers(browser, comparison):
    """Python and JavaScript format numbers alike, and rank methods alike."""
    values = [0.0625, 0.0005, -0.0004, 0.99949999, 1234.5, -2.5e-3, 1e-9, 0.1 + 0.2, 17]
    assert browser.ask(f"{values}.map((one) => number(one))") == [number(one) for one in values]
    places = [0.0, 0.5, 0.00372, 0.99973, 1.0, 16.0, 0.0625, 1e-12, 0.001]
    assert browser.ask(f"{places}.map((one) => position(one))") == [position(one) for one in places]
    signed = [number(one, signed=True) for one in values]
    assert browser.ask(f"{values}.map((one) => number(one, 3, true))") == signed
    assert browser.ask("[0.0625, 1, null].map(percent)") == [percent(one) for one in (0.0625, 1, None)]
    assert browser.ask("[0, 1234567].map(count)") == [count(one) for one in (0, 1234567)]
    ticks = browser.ask("document.getElementById('plot-comparison').layout.yaxis.ticktext")
    assert ticks[::-1] == [row.method for row in comparison.ranking]
