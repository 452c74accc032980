"""The columns of a table against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sk

from evalign.papers.tables import PaperColumn
from evalign.papers.training._predictions import ModelPredictions

LEVELS = np.arange(1, 10) / 10


@pytest.fixture
def two():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(np.int64)
    p = np.clip(0.3 * y + 0.7 * rng.random(300), 0, 1)
    return y, np.stack([1 - p, p], 1)


@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        ("f1", sk.f1_score),
        ("accuracy", sk.accuracy_score),
        ("balanced_accuracy", sk.roc_auc_score),  # the area under a curve of predicted classes
        ("fbeta(beta=2)", lambda y, d: sk.fbeta_score(y, d, beta=2)),
    ],
)
def test_means_over_thresholds(two, metric, reference):
    y, p = two
    predictions = ModelPredictions(p, p.argmax(1), y, 1.0)
    wanted = np.mean([reference(y, (p[:, 1] >= level).astype(int)) for level in LEVELS])
    assert predictions.scores([PaperColumn("c", metric, "thresholds")], "ab")["c"] == pytest.approx(wanted)


def test_decisions_of_a_rule_are_scored_in_every_column(two):
    y, p = two
    decisions = (p[:, 1] > 0.37).astype(np.int64)
    predictions = ModelPredictions(p, decisions, y, 1.0, by_rule=True)
    assert predictions.scores([PaperColumn("c", "f1", "thresholds")], "ab")["c"] == pytest.approx(
        sk.f1_score(y, decisions)
    )


def test_scores_time_and_pace(two):
    y, p = two
    columns = [
        PaperColumn("a", "auroc", "scores"),
        PaperColumn("t", "", "time"),
        PaperColumn("e", "", "pace"),
    ]
    scores = ModelPredictions(p, p.argmax(1), y, 6.0, epochs=3).scores(columns, "ab")
    assert scores == {"a": pytest.approx(sk.roc_auc_score(y, p[:, 1])), "t": 6.0, "e": 2.0}


def test_columns_of_a_class():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 200)
    p = rng.dirichlet([1, 1, 1], 200) + 0.5 * np.eye(3)[y]
    p /= p.sum(1, keepdims=True)
    predictions = ModelPredictions(p, p.argmax(1), y, 1.0)
    columns = [
        PaperColumn("p", "precision", class_name="dog"),
        PaperColumn("r", "recall", class_name="dog"),
        PaperColumn("m", "f1(average='macro')"),
        PaperColumn("a", "auroc", "scores"),
    ]
    scores = predictions.scores(columns, ["001.ant", "002.hot-dog", "003.dog"])
    d = p.argmax(1)
    assert scores["p"] == pytest.approx(sk.precision_score(y, d, average=None)[2])
    assert scores["r"] == pytest.approx(sk.recall_score(y, d, average=None)[2])
    assert scores["m"] == pytest.approx(sk.f1_score(y, d, average="macro"))
    assert scores["a"] == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr"))
