"""`draw_splits`: folds, fractions, groups, splitters and splits of the user's own."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit

from evalign.estimators import draw_splits

Y = np.repeat([0, 1, 2], [60, 30, 10])
GROUPS = np.arange(100) % 20  # every class is in 10 groups or more
LABELS = np.random.default_rng(0).integers(0, 2, (100, 3))


def test_folds_are_those_of_scikit_learn():
    ours = draw_splits(4, None, Y, random_state=3)
    theirs = StratifiedKFold(4, shuffle=True, random_state=3).split(Y, Y)
    for (train, test), (their_train, their_test) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(train, their_train)
        np.testing.assert_array_equal(test, their_test)
    assert len(draw_splits(None, None, Y)) == 5


@pytest.mark.parametrize("y", [Y, LABELS], ids=["classes", "labels"])
@pytest.mark.parametrize("cv", [4, 0.3])
def test_rows_of_a_group_stay_together(y, cv):
    splits = draw_splits(cv, None, y, GROUPS, random_state=0)
    assert len(splits) == (4 if cv == 4 else 1)
    for train, test in splits:
        assert not set(GROUPS[train]) & set(GROUPS[test])
        assert sorted([*train, *test]) == list(range(100))
    if cv == 4:
        assert sorted(np.concatenate([test for _, test in splits])) == list(range(100))


def test_labels_are_split_by_chance():
    ours = draw_splits(4, None, LABELS, random_state=3)
    for (_, test), (_, theirs) in zip(
        ours, KFold(4, shuffle=True, random_state=3).split(LABELS), strict=True
    ):
        np.testing.assert_array_equal(test, theirs)
    ((train, test),) = draw_splits(0.3, None, LABELS, random_state=3)
    assert (len(train), len(test)) == (70, 30)


@pytest.mark.parametrize(
    ("y", "groups", "folds", "reason"),
    [
        (np.repeat([0, 1], [50, 3]), None, 3, "the rarest class has 3 rows"),
        (np.repeat([0, 1], [50, 1]), None, 2, "the rarest class has 1 row"),
        (np.arange(90) % 2, np.arange(90) // 30, 3, "the rarest class has 3 groups"),
        (np.repeat([0, 1], [80, 10]), np.arange(90) // 10, 2, "the rarest class has 1 group"),
        (LABELS[:4], None, 4, "there are 4 rows"),
        (LABELS, np.arange(100) // 34, 3, "there are 3 groups"),
    ],
)
def test_fewer_folds_if_the_rarest_class_has_fewer_rows_or_groups(y, groups, folds, reason):
    with pytest.warns(UserWarning, match=f"Drew {folds} folds instead of 5, since {reason}."):
        assert len(draw_splits(5, None, y, groups, random_state=0)) == folds


class Halves:
    """A splitter of the user's own, without `get_n_splits` and groups."""

    def split(self, X, y):
        yield np.arange(50), list(range(50, 100))
        yield np.arange(100) >= 50, np.arange(100) < 50


def test_own_splitters_and_pairs():
    whole = np.arange(100)
    for cv in (Halves(), list(Halves().split(None, None)), Halves().split(None, None)):
        (train, test), (other_train, other_test) = draw_splits(cv, whole, Y)
        np.testing.assert_array_equal(train, whole[:50])
        np.testing.assert_array_equal(test, whole[50:])
        np.testing.assert_array_equal(other_train, test)
        np.testing.assert_array_equal(other_test, train)
    past = draw_splits(TimeSeriesSplit(3), whole, Y)
    assert [(len(train), len(test)) for train, test in past] == [(25, 25), (50, 25), (75, 25)]


def test_groups_that_a_splitter_ignores_are_reported():
    with pytest.warns(UserWarning, match="groups parameter is ignored by KFold"):
        draw_splits(KFold(2), np.arange(100), Y, GROUPS)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "`cv` to be a number of folds >= 2, .*, but got 1"),
        (True, "but got True"),
        (2.0, "but got 2.0"),
        ("five", "but got 'five'"),
        ([], "`cv` with at least one split, but got none"),
        ([3, 4], r"`cv` to be pairs \(train, test\), but got 3"),
        ([([0, 1], [])], "`cv` with rows to train on and rows to test on in every split, but got an empty"),
        ([([0, 1], [100])], "`cv` with row numbers from 0 to 99"),
        ([([0, 1], [-1])], "`cv` with row numbers from 0 to 99"),
        ([([0.5], [1])], "`cv` with row numbers from 0 to 99"),
        ([(np.ones(7, dtype=bool), [1])], "`cv` with row numbers from 0 to 99"),
    ],
)
def test_wrong_splits_are_rejected(cv, message):
    with pytest.raises(ValueError, match=message):
        draw_splits(cv, np.arange(100), Y)


def test_one_group_is_rejected():
    for cv in (3, 0.2):
        with pytest.raises(ValueError, match="`groups` with at least two groups, but got 1 group: 'a'"):
            draw_splits(cv, None, Y, np.full(100, "a"))
