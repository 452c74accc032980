"""CocktailParty as graphs."""

import numpy as np
import pytest

from evalign.papers.data import _party, load

PEOPLE = [f"ID_00{i}" for i in range(1, 7)]
GROUPING = """\
10.2 < ID_006 ID_001 > < ID_002 ID_003 ID_004 ID_005 >\x20
10.4 < ID_006 ID_001 ID_002 ID_003 ID_004 ID_005 >\x20
"""


def frame(stamp, shift):
    people = (f"{name} {i + shift:.2f} {i / 2:.2f}  {-i / 4:.2f}" for i, name in enumerate(PEOPLE))
    return f"{stamp} {' '.join(people)} \n"


TRACKING = frame("10.1", 0) + frame("10.2", 1) + frame("10.3", 2) + frame("10.4", 3)


@pytest.fixture
def put(data_home, monkeypatch):
    monkeypatch.setitem(_party.ROWS, "tracking_hp.log", 4)
    monkeypatch.setitem(_party.ROWS, "grouping.ref", 2)

    def put(tracking=TRACKING, grouping=GROUPING):
        (data_home / "cocktailparty").mkdir()
        (data_home / "cocktailparty" / "tracking_hp.log").write_text(tracking)
        (data_home / "cocktailparty" / "grouping.ref").write_text(grouping)

    return put


def test_each_annotated_frame_is_a_graph(put):
    put()
    data = load("cocktailparty_graph")
    assert data.X.shape == (2, 6, 3)
    assert data.feature_names == ("x", "y", "head angle")
    assert data.X[:, 2].tolist() == [[3, 1, -0.5], [5, 1, -0.5]]
    together = np.zeros((6, 6), dtype=int)
    together[np.ix_([0, 5], [0, 5])] = 1
    together[1:5, 1:5] = 1
    np.testing.assert_array_equal(data.y, [together, np.ones((6, 6))])
    assert data.class_names[1] == "same group"
    assert data.strata.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10.4 ", "10.5 ", "tracking_hp.log with the frame 10.5, which grouping.ref annotates, but got none"),
        ("ID_006 ID_001 >", "ID_006 >", "grouping.ref with each of ID_001, .* once in line 1"),
        ("< ID_006 ID_001", "< ID_007 ID_001", "grouping.ref with each of ID_001, .* once in line 1"),
        ("ID_006 ID_001 ID_002", "ID_006 ID_001 ID_001", "grouping.ref with each of .* once in line 2"),
        ("10.4 <", "10.4", "grouping.ref with a stamp and groups like .* in line 2"),
        ("10.4 <", "\n10.4 <", "grouping.ref with a stamp and groups like .* in line 2"),
        ("10.4 ", "10.2 ", "grouping.ref to have 2 rows, but got 1"),
    ],
)
def test_invalid_groups_are_rejected(put, old, new, message):
    put(grouping=GROUPING.replace(old, new, 1))
    with pytest.raises(ValueError, match=f"Expected the file .*{message}"):
        load("cocktailparty_graph")


@pytest.mark.parametrize(
    ("tracking", "message"),
    [
        ("", "to have 4 rows, but got 0"),
        (TRACKING[: TRACKING.index("10.4")], "to have 4 rows, but got 3"),
        (TRACKING[:-12], "with a stamp, then id, x, y and angle of the same people, in line 4"),
        (TRACKING.replace("ID_003", "ID_002", 1), "of the same people, in line 2"),
        ("10.0\n" + TRACKING, "of the same people, in line 1"),
        (TRACKING.replace("6.00", "six"), "with numbers in frame 10.2"),
        (TRACKING.replace("6.00", "nan"), "with finite numbers in frame 10.2"),
    ],
)
def test_invalid_tracks_are_rejected(put, tracking, message):
    put(tracking=tracking)
    with pytest.raises(ValueError, match=f"Expected the file .*tracking_hp.log.*{message}"):
        load("cocktailparty_graph")
