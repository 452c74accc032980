"""Trees in LightGBM's text form: what it writes is read unchanged, and forged trees are rejected."""

import re

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.datasets import make_classification

from evalign import MetricBooster
from evalign.estimators._untrusted import check_lightgbm_text


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 6, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    X[:, 3] = np.random.default_rng(0).integers(0, 30, 600)  # categories, where asked for
    return X, y


def trained(rows, rounds=8, categories="auto", **settings):
    X, y = rows
    labels = y if settings.get("num_class") else (y > 0).astype(int)
    data = lgb.Dataset(X, labels ^ (X[:, 3].astype(int) % 2), categorical_feature=categories)
    settings = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1, **settings}
    return lgb.train(settings, data, rounds)


def squared(scores, data):
    return scores - data.get_label(), np.ones_like(scores)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"objective": "multiclass", "num_class": 4}, {"boosting": "dart"}, {"objective": squared},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, {"categories": [3]},
        {"monotone_constraints": [1, 0, 0, 0, 0, 0]}, {"min_data_in_leaf": 1000},
    ],
)  # fmt: skip
def test_what_lightgbm_writes_predicts_the_same(rows, settings):
    booster = trained(rows, **settings)
    text = booster.model_to_string()
    read = lgb.Booster(model_str=check_lightgbm_text(text.encode()))
    assert (read.predict(rows[0]) == booster.predict(rows[0])).all()
    assert read.num_trees() == booster.num_trees()
    assert ("num_cat=0" not in text.split("Tree=1")[0]) == ("categories" in settings)


#: A part of the text, its forgery and the reason given: LightGBM would crash, read elsewhere or never end.
FORGED = {
    "child beyond": (r"left_child=\S+", "left_child=99999999", "a branch that leads elsewhere"),
    "leaf beyond": (r"left_child=\S+", "left_child=-99999999", "a branch that leads elsewhere"),
    "right beyond": (r"right_child=\S+", "right_child=6", "a branch that leads elsewhere"),
    "circle": (r"left_child=\S+", "left_child=0", "a branch that leads elsewhere"),
    "fraction": (r"num_leaves=\d+", "num_leaves=7.5", "tree 0"),
    "feature beyond": (r"split_feature=\S+", "split_feature=6", "a feature that does not exist"),
    "feature below": (r"split_feature=\S+", "split_feature=-1", "a feature that does not exist"),
    "no feature": (r"split_feature=\S+", "split_feature=nan", "tree 0"),
    "many leaves": (r"num_leaves=\d+", "num_leaves=100000000", "numbers instead of"),
    "no leaves": (r"num_leaves=\d+", "num_leaves=-1", "an unknown kind"),
    "linear": (r"is_linear=0", "is_linear=1", "an unknown kind"),
    "no category": (r"threshold=\S+", "threshold=nan", "categories that do not exist"),
    "feature in between": (r"split_feature=\S+", "split_feature=1.5", "tree 0"),
    "underscore": (r"num_leaves=7", "num_leaves=0_7", "tree 0"),
    "category beyond": (r"threshold=\S+", "threshold=99", "categories that do not exist"),
    "category bounds": (r"cat_boundaries=0 \d+", "cat_boundaries=0 900", "tree 0"),
    "category bounds back": (r"cat_boundaries=0 ", "cat_boundaries=1 ", "categories that do not exist"),
    "line twice": (r"shrinkage=1", "shrinkage=1\nnum_cat=9", "the line 'num_cat=9'"),
    "unknown line": (r"shrinkage=1", "shrinkage=1\nnum_dog=9", "the line 'num_dog=9'"),
    "text": (r"leaf_value=\S+", "leaf_value=x;y", "tree 0"),
    "many features": (r"max_feature_idx=\d+", "max_feature_idx=2000000000", "the number of its features"),
    "many classes": (r"num_class=1", "num_class=7", "its header"),
    "trees a round": (r"num_tree_per_iteration=1", "num_tree_per_iteration=7", "its header"),
    "header twice": (r"num_class=1", "num_class=1\nnum_class=7", "the line 'num_class=7'"),
    "no sizes": (r"tree_sizes=.*", "tree_sizes=", "an end of its trees"),
    "sizes below": (r"tree_sizes=\d+", "tree_sizes=-5", "its header"),
    "sizes beyond": (r"tree_sizes=\d+", "tree_sizes=99999999", "tree 0"),
    "sizes that hide a tree": (r"tree_sizes=(\d+) (\d+)", r"tree_sizes=\1\2", "tree 0"),
    "no end": (r"end of trees", "end of threes", "an end of its trees"),
}  # fmt: skip


@pytest.mark.parametrize("attack", FORGED)
def test_forged_trees_are_rejected(rows, attack):
    pattern, forged, reason = FORGED[attack]
    old = trained(rows, categories=[3]).model_to_string()
    assert re.search(r"Tree=0\nnum_leaves=7\nnum_cat=[1-9]", old)
    new = re.sub(pattern, forged, old, count=1)
    assert new != old
    if "tree_sizes" not in forged:  # correct sizes, so that the trees are found
        first = new.index("Tree=1\n") - new.index("Tree=0\n")
        new = re.sub(r"tree_sizes=\d+", f"tree_sizes={first}", new, count=1)
    with pytest.raises(ValueError, match="^Expected `folder` with trees as LightGBM writes them") as refused:
        check_lightgbm_text(new.encode())
    assert reason in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\x80\x04junk", b"tree\n", b"tree\nnum_class=1\n\nTree=0\n"])
def test_other_content_is_rejected(content):
    with pytest.raises((ValueError, KeyError)):
        check_lightgbm_text(content)


def test_linear_trees_are_not_saved(rows, tmp_path):
    X, y = rows
    model = MetricBooster(
        strategy="log_loss", n_bags=1, params={"linear_tree": True}, n_estimators=5, n_jobs=1
    )
    with pytest.raises(ValueError, match="Expected `params` without linear trees, to be saved"):
        model.fit(X, y > 0).save(tmp_path / "m")
