"""The model card and the report as text."""

import re
from dataclasses import replace
from itertools import pairwise

from test_page import rename_report

from evalign.reports import ColumnFacts, DataFacts, TaskFacts, render_card, render_text


def complete(report, **data):
    """A report with what a card needs, and names from data that look like Markdown."""
    task = TaskFacts("da`ta.csv", "# no\nheading", "f1", True, (), ("no", "y`es\n"), "y`es\n")
    columns = (ColumnFacts("a|b", "number", 0, 9), ColumnFacts("id", "dropped", 0, 9, "it numbers the rows"))
    counts = {"no": 1416, "y`es\n": 84}
    facts = DataFacts(1500, columns, counts, fingerprint="f" * 64, **data)
    return replace(report, task=task, data=facts)


def test_names_from_data_stay_on_their_line(reports):
    text = render_card(complete(reports["two"], warnings=("odd\n# values",)), 0.172)
    assert text.startswith("# A classifier of `# no heading`\n\nlogistic: f1 ")
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# A classifier of `# no heading`"
    ]
    assert "; it predicts `y'es` if its probability is at least 0.172.\n" in text
    assert "- **Classes**: `no` (1,416 rows), `y'es` (84 rows); `y'es` is the positive one.\n" in text
    assert "- **Columns**: `a|b` (number).\n" in text
    assert "\n- odd # values\n" in text
    assert "1,500 rows of `da'ta.csv` (fingerprint ffffffffffffffff), seed 0, with evalign 0.1.0.\n" in text
    assert "&" not in text  # Markdown is not HTML


def test_metrics_and_constraints(reports):
    report = complete(reports["two"])
    text, best = render_card(report), report.models[0]
    for name, one in best.metrics.items():
        assert f"\n| `{name}` | {one.value:.3f} | {one.low:.3f} to {one.high:.3f} |\n" in text
    for name, one in best.constraints.items():
        assert f"\n- `{name}`: {'satisfied' if one.satisfied else 'violated'}, {one.value:.3f}\n" in text
    assert "its probability is at least" not in text
    assert "Notes on the data" not in text
    assert "\n\n\n" not in text
    assert text.endswith(".\n")


def test_long_lists_are_shortened(reports):
    names = tuple(f"c{k}" for k in range(60))
    report = complete(reports["two"])
    columns = tuple(ColumnFacts(name, "number", 0, 9) for name in names)
    data = replace(report.data, columns=columns, class_counts=dict.fromkeys(names, 25))
    text = render_card(replace(report, data=data, task=replace(report.task, classes=names, positive=None)))
    assert "`c49` (25 rows) and 10 more.\n" in text
    assert "`c49` (number) and 10 more.\n" in text
    assert "c50" not in text


def test_a_report_as_markdown(reports):
    for report in reports.values():
        text, best = render_text(report), report.models[0]
        assert text.startswith(
            f"# Insects & others\n\n**{report.answer}**\n\nIt was tried.\n\n## What that means in"
        )
        assert "None" not in text
        assert "\n\n\n" not in text
        for name, one in best.metrics.items():
            assert f"\n| `{name}` | {one.value:.3f} | {one.low:.3f} to {one.high:.3f} |\n" in text
        for name, cells in zip(best.classes, best.matrix, strict=True):
            assert f"\n| `{name}` | {' | '.join(map(str, cells))} |\n" in text
        for one in report.explanation.importances:
            assert f"\n| `{one.column}` | " in text
        # Every table has as many cells in every line as in its head.
        for head, line in pairwise(text.splitlines()):
            if head.startswith("|") and line.startswith("|"):
                assert re.sub(r"\\\|", "", head).count("|") == re.sub(r"\\\|", "", line).count("|"), line


def test_names_in_markdown_do_not_end_their_cell(reports):
    names = {"ant": "a|b", "bee": "two\nlines", "cat": "`tick`", "wings": "# x", "c0": "<b>|</b>"}
    text = render_text(rename_report(reports["four"], names))
    assert "`a\\|b`" in text
    assert "`two lines`" in text
    assert "`'tick'`" in text
    assert "`<b>\\|</b>`" in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# Insects & others"]
