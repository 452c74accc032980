"""What is shown of long work, on a terminal and elsewhere."""

import io
import sys

import pytest

from evalign import _progress
from evalign._progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, which only a test changes."""
    now = [0.0]
    monkeypatch.setattr(_progress, "monotonic", lambda: now[0])
    return now


def advance(progress, clock, times):
    for done, seconds in times:
        clock[0] = seconds
        progress.update(done)


def test_a_line_per_minute_and_one_at_the_end(clock, capsys):
    with Progress("study", "points", 12, done=2) as progress:
        advance(progress, clock, [(3, 20), (4, 59), (5, 90), (5, 200), (6, 210), (7, 220), (12, 230)])
    assert capsys.readouterr().err.splitlines() == [
        "study: 5 of 12 points, 1 min 30 s, about 3 min 30 s left",
        "study: 6 of 12 points, 3 min 30 s, about 5 min 15 s left",
        "study: 12 of 12 points, 3 min 50 s",
    ]


def test_short_work_is_silent(clock, capsys):
    with Progress("study", "points", 3) as progress:
        advance(progress, clock, [(1, 10), (2, 20), (3, 59)])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("hidden", [{"visible": False}, {"lines": False}])
def test_lines_can_be_switched_off(hidden, clock, capsys):
    with Progress("study", "points", 2, **hidden) as progress:
        advance(progress, clock, [(1, 100), (2, 200)])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("hidden", [{}, {"lines": False}, {"visible": False}])
def test_a_terminal_has_a_bar_and_no_lines(hidden, clock, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("study", "points", 2, **hidden) as progress:
        advance(progress, clock, [(1, 100), (2, 200)])
    shown = stream.getvalue()
    assert ("study: 100%" in shown and "2 of 2 points" in shown) == ("visible" not in hidden)
    assert "min" not in shown


def test_a_program_without_standard_error_runs(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("study", "points", 2) as progress:
        advance(progress, clock, [(1, 100), (2, 200)])
    assert progress.done == 2
