"""PhotoNetwork, and networks that are judged in and after every epoch."""

import numpy as np
import pytest
import torch
from sklearn.metrics import fbeta_score
from torch import nn

from evalign.metrics import f1
from evalign.papers import Column, Row
from evalign.papers._curves import MomentumFit, PhotoNetwork, _value, follow
from evalign.papers._data import prepare_photos
from evalign.papers._lee import COLUMNS, ROWS
from evalign.papers._models import build_loss
from evalign.training import TrainingData as Rows
from evalign.training._fit import Phase

SETTING = {"learning_rate": 0.01, "batch_size": 16, "max_epochs": 8, "shrink": 2}


def test_photos_are_prepared_as_in_the_paper(photos):
    parts = prepare_photos("made", None, 0)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [86, 10, 24]
    assert parts.train.x.shape[1:] == (3, 28, 28)
    assert torch.equal(parts.train.x[:, 0], parts.train.x[:, 2])  # grey, three times
    torch.testing.assert_close(parts.train.x.mean(0), torch.zeros(3, 28, 28), atol=1e-6, rtol=0)
    assert parts.test.x.mean(0).abs().max() > 1e-3  # the mean is that of the training part
    assert parts.test.y.tolist() == photos.y[:24].tolist()
    other = prepare_photos("made", None, 1)
    assert not torch.equal(other.valid.x, parts.valid.x)  # each repetition draws its own
    few = prepare_photos("made", 60, 0)
    assert [len(part) for part in (few.train, few.valid, few.test)] == [43, 5, 12]


@pytest.mark.parametrize("side", [28, 32])
def test_training_sees_windows_of_the_padded_photo(side):
    photos = torch.rand(40, 3, side, side, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    seen = PhotoNetwork(nn.Identity())(photos)
    assert seen.shape == (40, 3, 32, 32)
    room = side + 8 - 32 + 1
    places = set()
    for photo, cut in zip(photos, seen, strict=True):
        wide = torch.zeros(3, side + 8, side + 8)
        wide[:, 4:-4, 4:-4] = photo
        for mirrored in (False, True):
            given = wide.flip(-1) if mirrored else wide
            places |= {
                (top, left, mirrored)
                for top in range(room) for left in range(room)
                if torch.equal(given[:, top : top + 32, left : left + 32], cut)
            }  # fmt: skip
    assert len(places) > 20  # one for each photo, of 50 or 162
    assert {mirrored for *_, mirrored in places} == {False, True}


def test_judging_sees_the_middle():
    photos = torch.rand(2, 3, 28, 28)
    model = PhotoNetwork(nn.Identity()).eval()
    assert torch.equal(model(photos)[:, :, 2:30, 2:30], photos)
    assert model(photos).sum() == pytest.approx(float(photos.sum()), rel=1e-5)
    assert torch.equal(model(torch.ones(1, 3, 32, 32)), torch.ones(1, 3, 32, 32))
    small = PhotoNetwork(nn.Identity(), shrink=2).eval()(photos)
    assert small.shape == (2, 3, 16, 16)
    torch.testing.assert_close(small[0, 0, 1, 1], photos[0, 0, :2, :2].mean())


def test_momentum_is_that_of_sgd():
    x, y = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 2
    data, ours, theirs = Rows(x, y), nn.Linear(4, 2), nn.Linear(4, 2)
    theirs.load_state_dict(ours.state_dict())
    fit = MomentumFit(ours, data, data, f1(), batch_size=30, seed=0)
    fit.run([Phase("p", nn.CrossEntropyLoss(), 0.1, 5, 5)])
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)  # full batches: the last weights are the best


def test_columns_are_scikit_learns():
    truth, logits = torch.randint(0, 2, (200,)), torch.randn(200, 2)
    for column in COLUMNS:
        if column.metric.startswith("fbeta"):
            beta = float(column.name.split(" F")[1])
            wanted = fbeta_score(truth, logits.argmax(1), beta=beta)
            assert _value(column, nn.CrossEntropyLoss(), logits, truth) == pytest.approx(wanted)
    own = _value(PaperColumn("l", "loss", "train epochs"), nn.CrossEntropyLoss(), logits, truth)
    assert own == pytest.approx(float(nn.functional.cross_entropy(logits, truth)))


@pytest.mark.parametrize("name", ["MAE", "BCE", "surrogate F2", "soft F2", "weighted soft F2"])
def test_losses_are_the_papers_formulas(photos, name):
    """Eq. 15, 18 and 20 with the weights n / n_y, and eq. 23 and 24, row by row."""
    parts = prepare_photos("made", None, 0)
    loss = build_loss(next(row for row in ROWS if row.name == name), parts)
    y = parts.train.y.numpy()
    share = y.mean()
    logits = torch.randn(50, 2, dtype=torch.float64)
    targets = torch.arange(50) % 5 == 0  # another share than in the training part
    f, wanted = logits.softmax(1)[:, 1].numpy(), 0.0
    for probability, positive in zip(f, targets.tolist(), strict=True):
        term = {
            "MAE": 2 * (1 - probability) if positive else 2 * probability,
            "BCE": -np.log(probability) if positive else -np.log(1 - probability),
            "surrogate F2": -np.log(probability)
            if positive
            else np.log(4 * share / (1 - share) + probability),
        }
        weight = 1 / share if positive else 1 / (1 - share)
        wanted += weight * term.get(name, 0.0) / 50
    if name.endswith("soft F2"):
        missed, taken, p = (1 - f[targets]).mean(), f[~targets].mean(), 0.2
        if name.startswith("weighted"):  # the share of positives in the batch, each row counted n / n_y times
            p = 0.2 / share / (0.2 / share + 0.8 / (1 - share))
        wanted = 1 - 5 * p * (1 - missed) / (p * (4 + 1 - missed - taken) + taken)
    assert float(loss(logits, targets.long())) == pytest.approx(wanted, rel=1e-5)


def test_a_run_is_judged_in_and_after_every_epoch(photos):
    parts = prepare_photos("made", None, 0)
    row = PaperRow("BCE", "balanced ce")
    found = record_curves(row, "darknet_tiny", parts, SETTING, COLUMNS, seed=1)
    assert found.epochs == 8
    assert all(len(found.curves[column.name]) == 8 for column in COLUMNS)
    assert found.curves["train F1"][-1] > 0.9  # bright or not
    assert found.curves["train loss"][-1] < 0.3 < found.curves["train loss"][0]
    assert found.valid_loss <= 0.5
    assert found.curves["running F1"] != found.curves["train F1"]  # of the moving network, shifted photos
    assert found.curves["running loss"][-1] < found.curves["running loss"][0]
    brief = {**SETTING, "max_epochs": 2}
    again = record_curves(row, "darknet_tiny", parts, brief, COLUMNS, seed=1)
    assert again.curves == {name: values[:2] for name, values in found.curves.items()}


@pytest.mark.parametrize("batch_size", [86, 40])
def test_running_values_are_of_what_the_network_said_in_the_epoch(photos, monkeypatch, batch_size):
    """All batches of an epoch, each as the network was when it came."""
    parts, seen = prepare_photos("made", None, 0), []

    class Said(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            logits = torch.stack([x.mean((1, 2, 3)), -x.mean((1, 2, 3))], 1) + self.bias
            if self.training:
                seen.append(logits.detach().clone())
            return logits

    monkeypatch.setattr("evalign.papers._curves.build_network", lambda *_: Said())
    orders, real = [], MomentumFit._batches
    monkeypatch.setattr(MomentumFit, "_batches", lambda fit: orders.append([*real(fit)]) or orders[-1])
    setting = {**SETTING, "batch_size": batch_size, "max_epochs": 2}
    found = record_curves(PaperRow("BCE", "balanced ce"), "said", parts, setting, COLUMNS, seed=1)
    loss = build_loss(PaperRow("BCE", "balanced ce"), parts)
    steps = len(seen) // 2
    assert steps == -(-86 // batch_size)
    for epoch in range(2):
        logits, order = torch.cat(seen[epoch * steps :][:steps]), torch.cat(orders[epoch])
        truth = parts.train.y[order]
        assert found.curves["running loss"][epoch] == pytest.approx(float(loss(logits, truth)))
        wanted = fbeta_score(truth, logits.argmax(1), beta=2, zero_division=0)
        assert found.curves["running F2"][epoch] == pytest.approx(wanted)


def test_resnets_are_known(photos):
    from evalign.papers._models import build_network

    parts = prepare_photos("made", None, 0)
    for name, millions in (("resnet18", 11.2), ("resnet34", 21.3)):
        network = build_network(name, parts, {})
        assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)
