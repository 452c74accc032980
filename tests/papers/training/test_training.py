"""Networks, losses and trials of the tables."""

import numpy as np
import pytest
import torch
from torch import nn

from evalign.metrics import f1
from evalign.papers import Column, Data, Row, Scale, Table
from evalign.papers import _units as units
from evalign.papers._data import Parts, prepare
from evalign.papers._models import BlockwiseNetwork, BlockwiseLoss, PairLogits, TwoLogits, build_loss, build_network
from evalign.papers._training import is_stackable, train
from evalign.papers._units import Point
from evalign.training import TrainingData as Rows

SETTING = {"learning_rate": 0.01, "batch_size": 64, "max_epochs": 30, "patience": 30}
SOFT_SET = PaperRow("F1*", "metric", {"metric": "f1", "task": "binary", "step": "linear", "thresholds": "btg"})


def made(*shape, label):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    table = Rows(x, label(x).long())
    return Parts(table, table, table, ("no", "yes"))


def test_one_logit_as_two_classes():
    x = torch.randn(5, 3)
    network = nn.Linear(3, 1)
    torch.testing.assert_close(TwoLogits(network)(x).softmax(-1)[:, 1], network(x).sigmoid().squeeze(1))


def test_each_pair_of_people_once():
    logits = PairLogits(lambda people: people @ people.mT)(torch.eye(3).expand(2, 3, 3) + 1)
    assert logits.shape == (2, 2, 3)
    torch.testing.assert_close(logits[:, 1], torch.full((2, 3), 5.0))  # (2, 1, 1) . (1, 2, 1)


def test_blocks_change_no_result():
    images = torch.randn(600, 3, 8, 8)
    judge = nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    expected = judge(images)
    torch.testing.assert_close(BlockwiseNetwork(judge).eval()(images), expected)
    torch.testing.assert_close(BlockwiseNetwork(judge).train()(images), expected)
    x, network = torch.randn(600, 4), nn.Linear(4, 2)
    y = torch.randint(0, 2, (600,))
    loss = nn.CrossEntropyLoss()
    torch.testing.assert_close(BlockwiseLoss(loss, 25)(network(x), y), loss(network(x), y))


def test_trials_at_once_learn_and_differ():
    parts = made(400, 3, label=lambda x: x.sum(1) > 1)
    assert is_stackable(SOFT_SET, "btg_net")
    assert not is_stackable(SOFT_SET, "mlp")
    assert not is_stackable(PaperRow("E", "metric", {"metric": "f1"}), "btg_net")  # it cools
    trained = train(SOFT_SET, "btg_net", parts, SETTING, f1(), (1, 2, 3))
    found = [one.probabilities(parts.test.x) for one in trained]
    scores = [f1().score(parts.test.y, p.argmax(1)) for p in found]
    assert min(scores) > 0.7
    assert not torch.equal(found[0], found[1])
    again = train(SOFT_SET, "btg_net", parts, SETTING, f1(), (3, 1))
    # Each has the random numbers it would have alone, whichever trials stand beside it.
    torch.testing.assert_close(again[1].probabilities(parts.test.x), found[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("method", ["ce", "aligned"])
def test_graphs_are_judged_pair_by_pair(method):
    pairs = torch.triu_indices(4, 4, 1)
    parts = made(150, 4, 3, label=lambda x: (x[:, pairs[0], 0] - x[:, pairs[1], 0]).abs() < 0.7)
    (one,) = train(PaperRow("r", method), "graph_network", parts, SETTING, f1(), (1,))
    p = one.probabilities(parts.test.x)
    assert p.shape == (150 * 6, 2)
    assert f1().score(parts.test.y.flatten(), p.argmax(1)) > 0.85


def test_an_unknown_network_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'darknet19'"):
        build_network("darknet91", made(4, 3, label=lambda x: x[:, 0] > 0), {})


def test_fewer_rows_keep_the_shares_of_the_classes():
    few = prepare("mammography", 1100, 0)
    sizes = [len(part) for part in (few.train, few.valid, few.test)]
    assert np.allclose(np.array(sizes) / sum(sizes), [0.64, 0.16, 0.2], atol=0.01)
    assert 22 <= sum(int(part.y.sum()) for part in (few.train, few.valid, few.test)) <= 28  # 2.32 %
    torch.testing.assert_close(few.train.x.mean(0), torch.zeros(6), atol=1e-4, rtol=0)


def test_estimators_see_components_of_images(monkeypatch):
    parts = made(80, 3, 8, 8, label=lambda x: x[:, 0].mean((1, 2)) > 0)
    monkeypatch.setattr(units, "prepare", lambda *_: parts)
    scale = Scale(1, {})
    rows = (PaperRow("RF", "forest", {"n_estimators": 5}), PaperRow("CCS", "ccs"))
    columns = (PaperColumn("F1", "f1"),)
    table = PaperTable("t", "", "", (PaperData("d", "D"),), rows, columns, scale, scale)
    for row in rows:
        outcome = units.run(table, Point("trial", "d", row.name, {}, (1,)), 0)
        assert outcome.scores[0]["F1"] > 0.7
    assert len(units._estimator(rows[0], f1(), "images", 0).steps) == 2


def test_the_best_constant_guess_of_soft_sets_is_certainty():
    """With 70 % positives, F1 and accuracy of one guess for all rise up to p = 1; BCE stops at p = 0.7."""
    y = (torch.arange(100) < 70).long()
    parts = Parts(*[Rows(torch.zeros(100, 1), y)] * 3, ("no", "yes"))
    guesses = torch.linspace(0.02, 0.98, 49, dtype=torch.float64)
    logits = [torch.stack([torch.zeros(100), g.logit().expand(100)], 1) for g in guesses]
    accuracy = PaperRow("Acc", "metric", {**SOFT_SET.settings, "metric": "accuracy"})
    for row in (SOFT_SET, accuracy):
        values = torch.stack([build_loss(row, parts)(one, y) for one in logits])
        assert (values.diff() < 0).all()
    entropy = torch.stack([build_loss(PaperRow("BCE", "ce"), parts)(one, y) for one in logits])
    assert guesses[entropy.argmin()] == pytest.approx(0.7)


@pytest.mark.parametrize(("network", "collapses"), [("graph_network", True), ("graph_network_normed", False)])
def test_normed_affinities_do_not_run_away_together(network, collapses):
    pairs = torch.triu_indices(4, 4, 1)
    parts = made(150, 4, 3, label=lambda x: (x[:, pairs[0], 0] - x[:, pairs[1], 0]).abs() < 1.5)
    share = float(parts.test.y.double().mean())
    assert 0.65 < share < 0.75
    (one,) = train(SOFT_SET, network, parts, {**SETTING, "max_epochs": 20}, f1(), (1,))
    decided = one.probabilities(parts.test.x).argmax(1)
    right = float((decided == parts.test.y.flatten()).double().mean())
    assert (float(decided.double().mean()) == 1.0) == collapses
    assert right == pytest.approx(share) if collapses else right > share + 0.1
