"""Every example runs in its small form, and prints the numbers of both sides."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"

#: For each example: the lines that report a result, by how they begin, and how many scores each has.
RESULTS = {
    "boosters": {"lightgbm": 2, "xgboost": 2, "catboost": 2},
    "cost_table": {"most probable class": 0, "MetricDecision": 0},
    "legacy_model": {"as it is, threshold 0.5": 1, "MetricDecision, threshold": 1},
    "mammography": {"0": 3, "1": 3, "mean": 3},
    "multilabel": {"binary cross-entropy": 2, "MetricLoss('f1')": 2},
    "ordinal_grading": {"cross-entropy": 1, "cross-entropy + rule": 1, "MetricClassifier": 1},
    "recall_at_precision": {"LightGBM at 0.5": 2, "LightGBM + rule": 2, "MetricBooster": 2},
    "segmentation": {"cross-entropy": 1, "+ tuned threshold": 1, "MetricLoss('jaccard')": 1},
    "text_huggingface": {"cross-entropy": 1, "MetricLoss('f1')": 1},
}

#: What an example needs beyond evalign alone.
EXTRAS = {
    "boosters": ("lightgbm", "xgboost", "catboost"),
    "cost_table": ("pandas",),
    "recall_at_precision": ("lightgbm",),
    "text_huggingface": ("transformers", "accelerate"),
}

#: These start processes of their own: test_example_processes.py.
IN_PROCESSES = {"ddp", "lightning_ddp"}


def read_scores(output, start):
    """The numbers with three digits in the line that begins like this."""
    lines = [line for line in output.splitlines() if re.match(rf"\s*{re.escape(start)}\s", line)]
    assert lines, f"no line begins with {start!r} in:\n{output}"
    return [float(number) for number in re.findall(r"-?\d\.\d{3}\b", lines[0])]


def run_example(name, monkeypatch, capsys):
    """Run an example as a script, in this process; return what it prints."""
    for extra in EXTRAS.get(name, ()):
        pytest.importorskip(extra)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--small"])
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng():
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    return capsys.readouterr().out


def check_costs(output):
    """The rule, fitted on other rows, is cheaper; no cost is above the highest of the table."""
    plain, ruled = (float(number) for number in re.findall(r"([\d.]+) euros", output))
    assert 0 < ruled < plain < 400


def check_means(output):
    """The last row of the table is the mean of the others, and the difference is that of the means."""
    first, second, mean = (read_scores(output, start) for start in ("0", "1", "mean"))
    assert [(a + b) / 2 for a, b in zip(first, second, strict=True)] == pytest.approx(mean, abs=0.0011)
    assert read_scores(output, "MetricLoss - cross-entropy:")[0] == pytest.approx(
        mean[2] - mean[0], abs=0.0011
    )


CHECKS = {"cost_table": check_costs, "mammography": check_means}


@pytest.mark.parametrize("name", RESULTS)
def test_example_prints_both_sides(name, monkeypatch, capsys):
    output = run_example(name, monkeypatch, capsys)
    for start, count in RESULTS[name].items():
        scores = read_scores(output, start)
        assert len(scores) == count, output
        assert all(0 <= score <= 1 for score in scores), output
    if name in CHECKS:
        CHECKS[name](output)


def test_every_example_is_short_tested_and_in_the_gallery():
    gallery = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == RESULTS.keys() | IN_PROCESSES
    for name in names:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 80, name
        assert f"examples/{name}.py" in gallery, name
        assert f"](gallery/{name}.png)" in gallery, name
        assert (EXAMPLES.parent / "docs" / "gallery" / f"{name}.png").stat().st_size < 60_000, name
