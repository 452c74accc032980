"""The page as text: its contents, what it leaves out, and that names from data stay text."""

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest

from evalign.reports import (
    ColumnFacts,
    ComparisonFacts,
    MethodFacts,
    Report,
    TaskFacts,
    as_plain,
    read_page,
    render_page,
    write_report,
)
from evalign.reports.facts import ClassFacts, WeightSlider

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

HOSTILE = [
    "</script><script>window.hit = 1</script>", '<img src=x onerror="window.hit = 1">', "{{ facts }}", "<!--",
    "'\" onmouseover=window.hit=1 &amp; \u2028\u2029", "<a href='https://evil.example'>x</a>", "<b>bold</b>",
    "]]>\x00", "\\u003c/script\\u003e",
]  # fmt: skip


class Outline(HTMLParser):
    """Tags, attributes and texts of a page, and whether every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def rename(value, names):
    """The same plain facts with other names in place of texts from data."""
    if isinstance(value, dict):
        return {names.get(key, key): rename(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [rename(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def rename_report(report, names):
    """The same report with other names in place of texts from data."""
    return Report.from_json(json.dumps(rename(as_plain(report), names)))


@pytest.fixture(scope="session")
def hostile_report(reports):
    """A report of data with names that try to become markup."""
    names = ["ant", "bee", "cat", "dog", "decision", "wings", "insects.csv", "species", "logistic"]
    return rename_report(reports["four"], dict(zip(names, HOSTILE, strict=True)))


def change_model(report, **changes):
    """The same report with another first model."""
    return replace(report, models=(replace(report.models[0], **changes), *report.models[1:]))


def test_reports_are_read_back_from_their_pages(reports, hostile_report, tmp_path):
    path = tmp_path / "report.html"
    for report in (reports["two"], reports["four"], hostile_report):
        write_report(report, path)
        assert path.read_text() == render_page(report)
        assert read_page(path) == report
        assert read_page(str(path)) == report
    assert os.listdir(tmp_path) == ["report.html"]


def test_the_page_shows_the_facts(reports):
    report = reports["two"]
    outline, best = Outline(render_page(report)), report.models[0]
    for wanted in (
        "Insects & others", "1 June 2025, 10:05 UTC", report.answer, "12 duplicate rows were dropped.",
        "evalign compare insects.csv --target species", "InvalidParameterError", f"{best.value:.3f}",
        "precision() >= 0.7", "3 (0.6 %)", "Subject to precision >= 0.7",
    ):  # fmt: skip
        assert wanted in outline.text, wanted
    for row in best.matrix:
        for n in row:
            assert f" {n} {100 * n / sum(row):.1f} %" in outline.text
    assert f"{best.metrics['f1'].low:.3f} to {best.metrics['f1'].high:.3f}" in outline.text


def test_sentences_are_separated(reports):
    for report in reports.values():
        leads = re.findall(r'<p class="lead">(.*?)</p>', render_page(report), re.DOTALL)
        assert len(leads) > 3
        assert not [lead for lead in leads if re.search(r"[a-z)”][.;:][A-Z“]", lead)]
    page = render_page(reports["two"])
    assert "probable class. Each method raises the false alarms of its own threshold here" in page
    assert "These intervals include chance in the training" in page


@pytest.mark.parametrize(
    ("higher", "slacks", "wanted"),
    [
        (True, (None, None, None), "high middle low"),
        (False, (None, None, None), "low middle high"),
        (True, (0.1, -0.01, -0.2), "low middle high"),
        (True, (0.1, 0.3, -0.2), "middle low high"),
    ],
)
def test_methods_that_satisfy_the_constraints_come_first(higher, slacks, wanted):
    scores = zip(("low", "middle", "high"), (0.1, 0.5, 0.9), slacks, strict=True)
    rows = [MethodFacts(name, mean=mean, slack=slack) for name, mean, slack in scores]
    rows.insert(1, MethodFacts("broken", error="ValueError: no"))
    comparison = ComparisonFacts("f1", higher, "low", "low", 2, rows=tuple(rows))
    text = render_page(Report(comparison=comparison))
    methods = re.findall(r'<th scope="row">(\w+)', text)
    assert " ".join(methods) == wanted
    assert "ValueError: no" in Outline(text).text


def test_headings_are_in_order_and_ids_unique(reports):
    for report in reports.values():
        outline = Outline(render_page(report))
        levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        for _, attrs in outline.tags:
            for key in ("aria-labelledby", "for", "list"):
                assert attrs.get(key, ids[0]) in ids
        titles = [attrs["id"] for attrs in outline.all("section")]
        assert titles == [
            "answer", "benefit", "task", "comparison", "members", "decisions", "curves", "move", "columns",
            "groups", "learning", "training", "calibration", "classes", "data", "origin",
        ]  # fmt: skip


def test_every_plot_has_a_sentence_and_a_table(reports):
    for report in reports.values():
        outline = Outline(render_page(report))
        plots = [attrs for attrs in outline.all("div") if attrs.get("class") == "plot"]
        assert {attrs["id"] for attrs in plots} == {
            "plot-comparison", "plot-precision-recall", "plot-along", "plot-training", "plot-calibration-0",
            "plot-calibration-1", "plot-importance", "plot-dependence-0", "plot-dependence-1",
            "plot-dependence-2", "plot-dependence-3", "plot-learning",
        }  # fmt: skip
        for attrs in plots:
            assert attrs["role"] == "img"
            assert re.search(r"\d\.\d{3}", attrs["aria-label"])
        assert len(outline.all("details")) == len(plots) - 1  # the table of the comparison is always visible


def test_names_from_data_stay_text(hostile_report):
    text = render_page(hostile_report)
    outline = Outline(text)
    assert len(outline.all("script")) == 3
    assert len(outline.all("img")) == len(outline.all("b")) == 0
    assert [attrs["href"] for attrs in outline.all("a")] == ["#main"]
    assert not any(key.startswith("on") for _, attrs in outline.tags for key in attrs)
    for name in HOSTILE:
        assert " ".join(name.split()) in outline.text
    body = text.split('id="facts">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(body)
    json.loads(body)


def test_no_name_is_escaped_twice(hostile_report):
    outline = Outline(render_page(hostile_report))
    values = [value for _, attrs in outline.tags for value in attrs.values() if value]
    for escape in ("&lt;", "&gt;", "&#34;", "&#39;", "&amp;lt;"):
        assert escape not in outline.text
        assert not [value for value in values if escape in value]


def test_only_the_scripts_of_the_page_may_run(reports):
    text = render_page(reports["two"])
    (policy,) = [attrs["content"] for attrs in Outline(text).all("meta") if "http-equiv" in attrs]
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert "connect-src" not in rules
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    sums = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert rules["script-src"] == " ".join(f"'sha256-{one}'" for one in sums)
    shell = text.replace(scripts[0], "")
    assert not re.search(r"(src|href)=.?(https?:)?//", shell)
    assert "innerHTML" not in scripts[1]
    assert "eval" not in scripts[1]


@pytest.mark.parametrize(
    ("change", "sections"),
    [
        ({"task": None}, {"task"}),
        ({"answer": None}, {"answer"}),
        ({"data": None}, {"data"}),
        ({"comparison": None}, {"comparison"}),
        ({"models": ()}, {"decisions", "curves", "move", "training", "calibration", "classes"}),
        ({"benefit": None}, {"benefit"}),
        ({"members": ()}, {"members"}),
        ({"explanation": None}, {"columns"}),
        ({"learning": None}, {"learning"}),
        ({"groups": None}, {"groups"}),
        ({"command": None}, set()),
        ({"versions": {}}, set()),
        ({"created": None}, set()),
        ({"seed": None}, set()),
    ],
)
def test_a_missing_part_is_left_out(reports, change, sections):
    whole = Outline(render_page(reports["two"]))
    outline = Outline(render_page(replace(reports["two"], **change)))
    assert "None" not in outline.text
    left = {attrs["id"] for attrs in outline.all("section")}
    assert {attrs["id"] for attrs in whole.all("section")} - left == sections


def test_an_empty_report_is_a_page():
    assert Outline(render_page(Report())).all("h1")


@pytest.mark.parametrize(
    "change",
    [
        {"slider": None}, {"curves": None}, {"calibration": None}, {"history": None}, {"metrics": {}},
        {"per_class": ()}, {"constraints": {}},
    ],
)  # fmt: skip
def test_evidence_may_lack_parts(reports, change):
    report = change_model(reports["two"], **change)
    assert "None" not in Outline(render_page(report)).text
    assert "None" not in Outline(render_page(replace(report, models=report.models[:1]))).text


def test_the_matrix_of_many_classes_is_not_a_table(reports):
    d = 257
    names = tuple(f"class {k}" for k in range(d))
    matrix = tuple(tuple(90 if i == j else 7 if j == i + 1 else 0 for j in range(d)) for i in range(d))
    model = reports["four"].models[0]
    track = replace(model.slider.classes[0], class_="class 3", matrices=None)
    changes = {
        "classes": names, "matrix": matrix, "slider": WeightSlider(classes=(track,)),
        "per_class": tuple(ClassFacts(name, 97, 0.9, 0.9, 0.9) for name in names),
    }  # fmt: skip
    report = replace(reports["four"], models=(replace(model, **changes),))
    text = render_page(report)
    outline = Outline(text)
    assert len(outline.all("td")) < 3000
    assert "The 15 most confused of 256 pairs" in outline.text
    assert "class 0 class 1 7 7.2 %" in outline.text
    assert "plot-matrix-0" not in text
    report = change_model(report, classes=names[:30], matrix=tuple(row[:30] for row in matrix[:30]))
    assert 'id="plot-matrix-0"' in render_page(report)


def test_columns_of_a_wide_table_are_folded_away(reports):
    columns = tuple(ColumnFacts(f"c{k}", "number", 0, 9, "odd" * (k == 4)) for k in range(30))
    report = replace(reports["two"], data=replace(reports["two"].data, columns=columns))
    outline = Outline(render_page(report))
    assert "30 columns: 30 number." in outline.text
    assert "1 column with a note" in outline.text
    assert "All 30 columns" in outline.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<html></html>", "Expected `path` to be a report of evalign"),
        ("\x89PNG\ufffd", "Expected `path` to be a report of evalign"),
        ('<script type="application/json" id="facts">{</script>', "Expected `report` to be JSON"),
        ('<script type="application/json" id="facts">[]</script>', "Expected `report` with an object, but"),
    ],
)  # fmt: skip
def test_files_that_are_not_reports_are_rejected(tmp_path, content, message):
    (tmp_path / "page.html").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_page(tmp_path / "page.html")


def test_binary_files_are_rejected(tmp_path):
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ValueError, match="Expected `path` to be a report of evalign"):
        read_page(tmp_path / "picture.html")


def test_a_folder_that_does_not_exist_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="Expected `path` in a folder that exists"):
        write_report(Report(), tmp_path / "nowhere" / "report.html")


def test_a_write_that_fails_leaves_the_old_page(tmp_path, monkeypatch):
    write_report(Report(title="old"), tmp_path / "report.html")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_report(Report(title="new"), tmp_path / "report.html")
    assert read_page(tmp_path / "report.html") == Report(title="old")
    assert os.listdir(tmp_path) == ["report.html"]


def test_texts_that_are_not_unicode_are_written(tmp_path):
    report = Report(title="caf\udce9", task=TaskFacts("a.csv", "\udce9", "f1"))
    write_report(report, tmp_path / "report.html")
    assert read_page(tmp_path / "report.html") == report


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_enough_contrast_in_light_and_dark():
    style = resources.files("evalign.reports").joinpath("page.css").read_text()
    themes = [dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in style.split("  color-scheme:")[1:4]]
    assert themes[1] == themes[2]  # dark by the system and dark by the button
    for theme in themes[:2]:
        for ground in ("paper", "card"):
            for text in ("ink", "soft", "good", "bad"):
                assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
        for line in ("one", "two", "three", "four", "five", "six", "seven", "focus"):
            assert contrast(theme[line], theme["paper"]) >= 3, line
