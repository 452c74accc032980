"""Facts as JSON: what is written is read back, and anything else is rejected with a hint."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from evalign.reports import Report, as_plain, facts, render_page

OLD = Path(__file__).parents[1] / "tables" / "fixtures" / "format-1" / "lightgbm_rule" / "report.json"


def test_reports_are_read_back_unchanged(reports):
    for report in reports.values():
        text = report.to_json()
        assert Report.from_json(text) == report
        assert Report.from_json(text).to_json() == text


def test_json_has_plain_types_and_no_nan():
    one = facts.Interval(float("nan"), 0.5, float("inf"))
    assert as_plain(one) == {"value": None, "low": 0.5, "high": None}
    assert as_plain(facts.ClassFacts("a", 1, 1.0, 1.0, 1.0))["class"] == "a"


def test_facts_are_frozen():
    kinds = [one for one in vars(facts).values() if is_dataclass(one)]
    assert len(kinds) > 15
    assert all(kind.__dataclass_params__.frozen for kind in kinds)


def test_a_report_of_the_first_format_is_read():
    """Keys that have been renamed since are known by their old names."""
    old = json.loads(OLD.read_text())
    report = Report.from_json(OLD.read_text())
    assert (report.title, report.seed, report.answer) == (old["title"], 0, old["answer"])
    assert [column.name for column in report.data.columns] == [one["name"] for one in old["data"]["columns"]]
    model, before = report.models[0], old["models"][0]
    assert as_plain(model.matrix) == before["matrix"]
    assert model.slider.start == before["slider"]["chosen"]
    assert as_plain(model.curves[0].operating_point) == before["curves"][0]["chosen"]
    assert as_plain(model.metrics) == before["metrics"]
    assert old["answer"] in render_page(report)


def test_the_comparison_of_the_first_format_is_read(reports):
    plain = as_plain(reports["two"])
    for row in plain["comparison"]["rows"]:
        row["kept"] = row.pop("n_satisfied")
    assert Report.from_json(json.dumps(plain)) == reports["two"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "to be JSON"),
        ("{" * 100_000, "to be JSON"),
        ("[]", r"with an object, but got \[\]"),
        ("3", "with an object, but got 3"),
        ('{"models": 3}', "with a list as models, but got 3"),
        ('{"models": ["nothing"]}', "with an object as models, but got 'nothing'"),
        ('{"models": [{"name": "a"}]}', "with all keys as models"),
        ('{"title": 3}', "with a text as title, but got 3"),
        ('{"title": null}', "with a text as title, but got None"),
        ('{"seed": true}', "with an integer as seed, but got True"),
        ('{"seed": 1.5}', "with an integer as seed, but got 1.5"),
        ('{"versions": []}', r"with an object as versions, but got \[\]"),
        ('{"future": 3}', "with known keys only, but got 'future'"),
        ('{"data": {"rows": "all"}}', "with an integer as data.rows, but got 'all'"),
    ],
)
def test_anything_else_is_rejected(text, message):
    with pytest.raises(ValueError, match=f"Expected `report` {message}"):
        Report.from_json(text)


def test_errors_name_what_to_do():
    with pytest.raises(ValueError, match=r"Fit the model again, or upgrade evalign if a newer version wrote"):
        Report.from_json('{"future": 3}')


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": [[1, 2]]},
        {"matrix": [[1, 2, 3], [4, 5, 6]]},
        {"slider": {"kind": "dial"}},
        {"slider": "threshold"},
        {"value": "high"},
        {"curves": [{"class": "yes"}]},
    ],
)
def test_evidence_that_does_not_fit_together_is_rejected(reports, change):
    plain = as_plain(reports["two"])
    plain["models"][0] |= change
    with pytest.raises(ValueError, match="Expected `"):
        Report.from_json(json.dumps(plain))


@pytest.mark.parametrize("change", [{"start": 1000}, {"start": -1}, {"values": [0.5]}])
def test_a_slider_that_does_not_fit_together_is_rejected(reports, change):
    plain = as_plain(reports["two"])
    plain["models"][0]["slider"] |= change
    with pytest.raises(ValueError, match="Expected `track` with one value per position"):
        Report.from_json(json.dumps(plain))


def test_confused_pairs_are_sorted_by_rows(reports):
    model = reports["four"].models[0]
    pairs = model.confusions
    assert [pair.rows for pair in pairs] == sorted((pair.rows for pair in pairs), reverse=True)
    assert sum(pair.rows for pair in pairs) == model.rows - sum(model.matrix[k][k] for k in range(4))
    for pair in pairs:
        row = model.matrix[model.classes.index(pair.true)]
        assert pair.rows == row[model.classes.index(pair.predicted)]
        assert pair.share == pair.rows / sum(row)


def test_every_field_of_the_report_is_in_its_json(reports):
    assert set(json.loads(reports["two"].to_json())) == {one.name for one in fields(Report)}
