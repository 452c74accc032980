"""The figure when-it-pays: paired gains, their errors, and what is claimed about them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evalign.papers import FIGURES
from evalign.papers._figure_page import to_markdown
from evalign.papers.data import Synthetic
from evalign.papers.figures import _when, draw
from evalign.papers.studies import Cell, StudyPlan, StudyResults
from evalign.papers.tables import WHEN

FIGURE = FIGURES["when-it-pays"]
PLAN = StudyPlan(WHEN, "small", 0, tuple(data.name for data in WHEN.data))
COLUMNS = [column.name for column in WHEN.columns]


def make_results(changes):
    """A study in which every score is 0.5 in three trials, except those of (level, row): three scores."""
    values = {(data.name, row.name): (0.5, 0.5, 0.5) for data, row in PLAN.cells()}
    values |= {(f"synthetic {level}", row): scores for (level, row), scores in changes.items()}
    cells = {key: Cell([dict.fromkeys(COLUMNS, one) for one in scores]) for key, scores in values.items()}
    return StudyResults(PLAN, cells, {})


def test_a_gain_is_a_mean_of_paired_differences():
    results = make_results({("linear", "aligned"): (0.6, 0.7, 0.8), ("linear", "CE + rule"): (0.5, 0.6, 0.6)})
    gain = _when.measure_gain(results, "linear", "aligned")
    assert gain.values == pytest.approx((0.1, 0.1, 0.2))
    assert gain.mean == pytest.approx(0.4 / 3)
    assert gain.error == pytest.approx(np.std([0.1, 0.1, 0.2], ddof=1) / math.sqrt(3))
    assert str(gain) == "+0.133 ± 0.033"


def test_every_panel_shows_the_levels_of_its_factor():
    gains = {("32-16, share 0.01", "EAST"): (0.6, 0.7, 0.8), ("8", "aligned"): (0.4, 0.4, 0.4)}
    gains[("32-16", "aligned, MCC")] = (0.9, 0.9, 0.9)
    panels = {panel.title: panel for panel in FIGURE.panels(make_results(gains))}
    assert len(panels) == 7

    def points(panel, series, repetition=0):
        lines = [
            line for line in panels[panel].lines if (line.series, line.repetition) == (series, repetition)
        ]
        (line,) = lines
        return dict(zip(line.x, np.round(line.y, 6), strict=True))

    assert points("Imbalance", "EAST, 32-16") == {0.01: 0.2, 0.03: 0, 0.1: 0, 0.3: 0}
    assert points("Imbalance", "EAST, 32-16", 3)[0.01] == 0.3
    assert points("Capacity", "aligned") == {14: 0, 74: -0.1, 786: 0, 168066: 0}  # 7 x 2 weights, ...
    assert points("Metric", "aligned, 32-16") == {1: 0, 2: 0.4, 3: 0, 4: 0}
    assert panels["Metric"].names == ("F1", "MCC", "balanced accuracy", "F2")
    assert set(points("Wrong labels", "surrogate, q = 0.7, linear")) == {0, 0.1, 0.2, 0.3}


def test_claims_follow_the_numbers():
    small, rich = ("linear", "aligned"), ("512-256-128", "aligned")
    noisy = [("linear, noise 0.3", f"surrogate, q = {q}") for q in (0, 0.7)]
    holds = {small: (0.6, 0.6, 0.61), noisy[0]: (0.1, 0.1, 0.1), noisy[1]: (0.3, 0.3, 0.3)}
    assert [claim.holds for claim in FIGURE.claims(make_results(holds))] == [True] * 4
    fails = {small: (0.5, 0.4, 0.6), rich: (0.6, 0.6, 0.6), ("linear, bend 0", "aligned"): (0.6, 0.6, 0.6)}
    assert [claim.holds for claim in FIGURE.claims(make_results({**fails, noisy[1]: (0.1,) * 3}))] == [
        False
    ] * 4


def test_the_page_and_the_picture(monkeypatch):
    monkeypatch.setattr(_when, "find_best_possible", lambda spec: 0.75)
    results = make_results({("linear", "aligned"): (0.6, 0.6, 0.6)})
    text = to_markdown(FIGURE, results, "picture.png")
    assert "| linear | 0.750 | 0.500 | 0.500 | +0.000 ± 0.000 | +0.100 ± 0.000 |" in text
    assert draw(FIGURE.kind, FIGURE.panels(results)).startswith(b"\x89PNG")
    unfinished = replace(results, cells={**results.cells, ("synthetic 8", "CE"): Cell(done=False)})
    assert "Some runs are unfinished" in to_markdown(FIGURE, unfinished, "picture.png")


def test_the_best_possible_score_is_that_of_the_true_probabilities():
    """The best F1 over all thresholds of the true probabilities, by a loop."""
    spec = Synthetic(share=0.3)
    data = spec.draw("best", 1)
    p, y = spec.probabilities(data.X)[data.official_test, 1], data.y[data.official_test]
    scores = [2 * (y[p >= t]).sum() / ((p >= t).sum() + y.sum()) for t in np.linspace(0.05, 0.95, 91)]
    assert _when.find_best_possible(spec) == pytest.approx(max(scores), abs=0.004)
