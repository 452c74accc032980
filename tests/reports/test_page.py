"""The page as text: what it holds, what it leaves out, and that names from data stay text."""

import base64
import copy
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest

from evalign.reports import facts_of, page, write

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

HOSTILE = [
    "</script><script>window.hit = 1</script>", '<img src=x onerror="window.hit = 1">', "{{facts}}", "<!--",
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


def hostile(value, names):
    """The same facts with other names in place of all texts from data."""
    if isinstance(value, dict):
        return {names.get(key, key): hostile(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [hostile(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="session")
def hostile_facts(facts):
    given = ["ant", "bee", "cat", "dog", "ruled", "wings", "insects.csv", "species", "logistic"]
    return hostile(facts["four"], dict(zip(given, HOSTILE, strict=True)))


def test_facts_are_read_back_as_they_were(facts, hostile_facts, tmp_path):
    for one in (facts["two"], facts["four"], hostile_facts):
        assert facts_of(page(one)) == one
        write(one, tmp_path / "report.html")
        assert facts_of(tmp_path / "report.html") == one
        assert facts_of(str(tmp_path / "report.html")) == one
    assert os.listdir(tmp_path) == ["report.html"]


def test_the_page_tells_what_the_facts_say(facts):
    found = Outline(page(facts["two"]))
    best = facts["two"]["models"][0]
    for wanted in (
        "Insects & others", "1 June 2025, 10:05 UTC", facts["two"]["answer"],
        "12 duplicate rows were dropped.",
        "evalign compare insects.csv --target species", "InvalidParameterError", f"{best['value']:.3f}",
        "precision() >= 0.7", "3 (0.6 %)",
    ):  # fmt: skip
        assert wanted in found.text, wanted
    for row in best["matrix"]:
        for n in row:
            assert f" {n} {100 * n / sum(row):.1f} %" in found.text
    low, high = (best["metrics"]["f1"][key] for key in ("low", "high"))
    assert f"{low:.3f} to {high:.3f}" in found.text


@pytest.mark.parametrize(
    ("higher", "slacks", "wanted"),
    [
        (True, (None, None, None), "high middle low"),
        (False, (None, None, None), "low middle high"),
        (True, (0.1, -0.01, -0.2), "low middle high"),
        (True, (0.1, 0.3, -0.2), "middle low high"),
    ],
)
def test_methods_are_ranked_among_those_that_keep_the_constraints(higher, slacks, wanted):
    found = zip(("low", "middle", "high"), (0.1, 0.5, 0.9), slacks, strict=True)
    rows = [{"method": name, "mean": mean, "slack": slack} for name, mean, slack in found]
    rows.insert(1, {"method": "broken", "mean": None, "error": "ValueError: no"})
    text = page({"comparison": {"rows": rows, "higher_is_better": higher, "reference": "low", "repeats": 2}})
    told = re.findall(r'<th scope="row">(\w+)', text)
    assert " ".join(told) == wanted
    assert "ValueError: no" in Outline(text).text


def test_headings_are_in_order_and_names_unique(facts):
    for one in facts.values():
        found = Outline(page(one))
        levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        for _, attrs in found.tags:
            for key in ("aria-labelledby", "for", "list"):
                assert attrs.get(key, ids[0]) in ids
        titles = [attrs["id"] for attrs in found.all("section")]
        wanted = ["asked", "answer", "comparison", "decisions", "curves", "move", "training", "calibration"]
        assert titles == [*wanted, "classes", "data", "origin"]


def test_every_plot_has_words_and_a_table(facts):
    for one in facts.values():
        found = Outline(page(one))
        plots = [attrs for attrs in found.all("div") if attrs.get("class") == "plot"]
        assert {attrs["id"] for attrs in plots} == {
            "plot-comparison", "plot-precision-recall", "plot-along", "plot-training", "plot-calibration-0",
            "plot-calibration-1",
        }  # fmt: skip
        for attrs in plots:
            assert attrs["role"] == "img"
            assert re.search(r"\d\.\d{3}", attrs["aria-label"])
        assert len(found.all("details")) == len(plots) - 1  # the comparison's table is there for all to see


def test_names_from_data_stay_text(hostile_facts):
    text = page(hostile_facts)
    found = Outline(text)
    assert len(found.all("script")) == 3
    assert len(found.all("img")) == len(found.all("b")) == 0
    assert [attrs["href"] for attrs in found.all("a")] == ["#main"]
    assert not any(key.startswith("on") for _, attrs in found.tags for key in attrs)
    for name in HOSTILE:
        assert " ".join(name.split()) in found.text
    body = text.split('id="facts">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(body)
    json.loads(body)


def test_only_the_scripts_of_the_page_may_run(facts):
    text = page(facts["two"])
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
    "gone", ["task", "answer", "data", "comparison", "models", "command", "versions", "created"]
)
def test_a_missing_part_is_left_out(facts, gone):
    whole = Outline(page(facts["two"]))
    for one in ({**facts["two"], gone: None}, {k: v for k, v in facts["two"].items() if k != gone}):
        found = Outline(page(one))
        assert "None" not in found.text
        left = {attrs["id"] for attrs in found.all("section")}
        lost = {attrs["id"] for attrs in whole.all("section")} - left
        own = {
            "task": {"asked"}, "answer": {"answer"}, "data": {"data"}, "comparison": {"comparison"},
            "models": {"decisions", "curves", "move", "training", "calibration", "classes"},
        }  # fmt: skip
        assert lost == own.get(gone, set())


def test_a_page_of_nothing_is_a_page():
    assert Outline(page({})).all("h1")


@pytest.mark.parametrize(
    "gone", ["slider", "curves", "calibration", "history", "metrics", "per_class", "constraints"]
)
def test_evidence_may_miss_parts(facts, gone):
    one = copy.deepcopy(facts["two"])
    one["models"][0][gone] = None
    assert "None" not in Outline(page(one)).text
    one["models"] = one["models"][:1]
    assert "None" not in Outline(page(one)).text


def test_many_classes_are_no_table_of_their_squares(facts):
    d = 257
    one = copy.deepcopy(facts["four"])
    names = [f"class {k}" for k in range(d)]
    matrix = [[90 if i == j else 7 if j == i + 1 else 0 for j in range(d)] for i in range(d)]
    row = {"support": 97, "precision": 0.9, "recall": 0.9, "f1": 0.9}
    part = {**one["models"][0]["slider"]["classes"][0], "class": "class 3", "matrices": None}
    change = {
        "classes": names, "matrix": matrix, "per_class": [{"class": name, **row} for name in names],
        "slider": {"kind": "class_weight", "classes": [part]},
    }  # fmt: skip
    one["models"] = [{**one["models"][0], **change}]
    found = Outline(page(one))
    assert len(found.all("td")) < 3000
    assert "The 15 most confused of 256 pairs" in found.text
    assert "class 0 class 1 7 7.2 %" in found.text
    assert "plot-matrix-0" not in page(one)
    change = {"classes": names[:30], "matrix": [row[:30] for row in matrix[:30]]}
    one["models"] = [{**one["models"][0], **change}]
    assert 'id="plot-matrix-0"' in page(one)


def test_columns_of_a_wide_table_are_folded_away(facts):
    one = copy.deepcopy(facts["two"])
    column = {"kind": "number", "missing": 0, "distinct": 9}
    one["data"]["columns"] = [{**column, "name": f"c{k}", "note": "odd" * (k == 4)} for k in range(30)]
    found = Outline(page(one))
    assert "30 columns: 30 number." in found.text
    assert "1 column with a note" in found.text
    assert "All 30 columns" in found.text


def test_what_is_no_report_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Expected `page` to be a report of evalign"):
        facts_of("<html></html>")
    with pytest.raises(ValueError, match="Expected `page` with readable facts"):
        facts_of('<script type="application/json" id="facts">{</script>')
    with pytest.raises(ValueError, match="Expected `page` with facts by name, but got list."):
        facts_of('<script type="application/json" id="facts">[]</script>')
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ValueError, match="Expected `page` to be a report of evalign"):
        facts_of(tmp_path / "picture.html")
    with pytest.raises(ValueError, match="Expected `facts` of the form of a report"):
        page({"models": ["nothing"]})
    with pytest.raises(ValueError, match="Expected `path` in a folder that is there"):
        write({}, tmp_path / "nowhere" / "report.html")


def test_a_write_that_fails_leaves_the_old_page(tmp_path, monkeypatch):
    write({"title": "old"}, tmp_path / "report.html")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write({"title": "new"}, tmp_path / "report.html")
    assert facts_of(tmp_path / "report.html") == {"title": "old"}
    assert os.listdir(tmp_path) == ["report.html"]


def test_texts_that_are_no_unicode_are_written(tmp_path):
    write({"title": "caf\udce9", "task": {"target": "\udce9"}}, tmp_path / "report.html")
    assert facts_of(tmp_path / "report.html")["title"] == "caf\udce9"


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read_in_light_and_dark():
    style = resources.files("evalign.reports").joinpath("page.css").read_text()
    themes = [dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in style.split("  color-scheme:")[1:4]]
    assert themes[1] == themes[2]  # dark by the system and dark by the button
    for theme in themes[:2]:
        for ground in ("paper", "card"):
            for text in ("ink", "soft", "good", "bad"):
                assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
        for line in ("one", "two", "three", "four", "five", "six", "seven", "focus"):
            assert contrast(theme[line], theme["paper"]) >= 3, line
