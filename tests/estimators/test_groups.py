"""Rows of one group are never trained on and held out at once, in bags and in validation parts."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from evalign import AutoClassifier, MetricBooster, MetricClassifier, compare
from evalign.estimators._rows import Targets, split_groups, split_rows

X, Y = make_classification(240, 5, weights=[0.75], random_state=0)
NAMES = np.array([f"patient {number}" for number in np.random.default_rng(1).integers(0, 24, 240)])
LABELS = np.stack([Y, X[:, 0] > 0, X[:, 1] > 1], 1).astype(int)
NETWORK = {"hidden": (4,), "max_epochs": 1, "random_state": 0}
TREES = {"n_estimators": 3, "metric_rounds": 2, "n_jobs": 1, "random_state": 0}
MODELS = {
    "network": lambda **bags: MetricClassifier(**NETWORK, **bags),
    "booster": lambda **bags: MetricBooster(**TREES, **bags),
}


@pytest.fixture
def parts(monkeypatch):
    """The splits that classifiers draw inside of `fit`, and the groups that they keep together."""
    drawn, split = [], Targets.split

    def record(self, *arguments):
        splits = split(self, *arguments)
        drawn.append((splits, arguments[-1]))
        return splits

    monkeypatch.setattr(Targets, "split", record)
    return drawn


def check_groups(splits, groups):
    """Every row is on one side of each split, and so is its group."""
    for train, valid in splits:
        assert sorted([*train, *valid]) == list(range(len(groups)))
        assert min(len(train), len(valid)) > 0
        assert not set(groups[train]) & set(groups[valid])


@pytest.mark.parametrize("y", [Y, LABELS], ids=["classes", "labels"])
@pytest.mark.parametrize("n_bags", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_groups_never_straddle(name, n_bags, y, parts):
    MODELS[name](n_bags=n_bags).fit(X, y, groups=NAMES)
    ((splits, _),) = parts
    assert len(splits) == n_bags
    check_groups(splits, NAMES)
    straddling = Targets.read(y).split(n_bags, 0.2, 0)
    with pytest.raises(AssertionError):
        check_groups(straddling, NAMES)  # without groups, they do


def test_the_bags_of_a_booster_are_at_most_the_groups_of_the_rarest_class(parts):
    groups = np.where(Y == 1, np.arange(240) % 3, 3 + np.arange(240) % 10)
    MetricBooster(**TREES).fit(X, Y, groups=groups)
    assert len(parts[0][0]) == 3
    check_groups(parts[0][0], groups)
    with pytest.warns(UserWarning, match="Drew 3 bags instead of 4, since the rarest class has 3 groups."):
        MetricBooster(n_bags=4, **TREES).fit(X, Y, groups=groups)


def test_a_group_per_row_is_as_good_as_none():
    _, valid = split_groups(Y, np.arange(240), 0.25, seed=0)
    assert len(valid) == pytest.approx(60, abs=1)
    assert Y[valid].mean() == pytest.approx(Y.mean(), abs=0.01)


def draw_table(seed):
    """Classes that are in few groups of very different sizes."""
    rng = np.random.default_rng(seed)
    cells = rng.choice([0, 0, 1, 2, 5, 50], (rng.integers(2, 9), rng.integers(2, 5)))
    cells[0] += 1
    rows = [(group, label) for (group, label), n in np.ndenumerate(cells) for _ in range(n)]
    table = np.array(rows).reshape(-1, 2)
    groups, y = (np.unique(column, return_inverse=True)[1] for column in table.T)
    return groups, y


@pytest.mark.filterwarnings("ignore:Drew .* bags instead of 4")
def test_every_class_is_trained_on_whatever_the_groups():
    drawn = 0
    for seed in range(300):
        groups, y = draw_table(seed)
        n_groups = [len(np.unique(groups[y == label])) for label in np.unique(y)]
        for n_bags in (1, 4):
            try:
                splits = split_rows(y, n_bags, 0.2, seed, groups)
            except ValueError as error:
                assert (min(n_groups, default=0) < 2 and "`groups`" in str(error)) or len(y) == 0
                continue
            drawn += 1
            check_groups(splits, groups)
            for train, _ in splits:
                assert set(y[train]) == set(y)
    assert drawn > 400


def test_a_class_in_two_groups_is_validated():
    y, groups = np.repeat([0, 1, 0, 1], [60, 3, 60, 40]), np.repeat([0, 0, 1, 1], [60, 3, 60, 40])
    y, groups = np.append(y, np.zeros(200, int)), np.append(groups, 2 + np.arange(200) // 20)
    for seed in range(5):
        _, valid = split_groups(y, groups, 0.2, seed)
        assert set(y[valid]) == {0, 1}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(240), "Expected `groups` that share a class, .* but got 1 group"),
        (Y, "Expected `groups` that share a class, .* but got 2 groups"),
        (NAMES[:239], "Expected `groups` with one group for each of 240 rows, but got 239"),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_wrong_groups_are_refused(name, groups, message):
    with pytest.raises(ValueError, match=message):
        MODELS[name](n_bags=1).fit(X, Y, groups=groups)


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("preprocessor", [None, StandardScaler()])
def test_comparisons_pass_groups_to_the_methods(routing, preprocessor, parts):
    methods = {"own": MODELS["network"](), "named": "lightgbm"}
    settings = {"methods": methods, "preprocessor": preprocessor, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=routing):
        compare(X, Y, groups=NAMES, n_repeats=1, **settings)
        AutoClassifier(cv=GroupKFold(2), **settings).fit(X, Y, groups=NAMES)
    # The folds of AutoClassifier validate LightGBM; only the network holds rows out itself, in each fold.
    assert len(parts) == 2 + 2
    for splits, groups in parts:
        check_groups(splits, groups)
