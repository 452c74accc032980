"""Photos, and networks that are scored during and after every epoch."""

import numpy as np
import pytest
import torch
from sklearn.metrics import fbeta_score
from torch import nn

from evalign.metrics import f1
from evalign.papers.data import prepare_photos
from evalign.papers.figures._lee import COLUMNS, ROWS
from evalign.papers.tables import PaperColumn, PaperRow
from evalign.papers.training._curves import MomentumFit, PhotoNetwork, _score, record_curves
from evalign.papers.training._losses import build_loss
from evalign.papers.training._networks import build_network
from evalign.training import Phase, TrainingData

SETTING = {"learning_rate": 0.01, "batch_size": 16, "max_epochs": 8, "shrink": 2}


def test_photos_are_prepared_as_in_the_paper(photos):
    parts = prepare_photos("toy", None, 0)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [86, 10, 24]
    assert parts.train.x.shape[1:] == (3, 28, 28)
    assert torch.equal(parts.train.x[:, 0], parts.train.x[:, 2])  # grey, three times
    torch.testing.assert_close(parts.train.x.mean(0), torch.zeros(3, 28, 28), atol=1e-6, rtol=0)
    assert parts.test.x.mean(0).abs().max() > 1e-3  # the mean is that of the training part
    assert parts.test.y.tolist() == photos.y[:24].tolist()
    other = prepare_photos("toy", None, 1)
    assert not torch.equal(other.valid.x, parts.valid.x)  # drawn anew with each seed
    few = prepare_photos("toy", 60, 0)
    assert [len(part) for part in (few.train, few.valid, few.test)] == [43, 5, 12]


@pytest.mark.parametrize("side", [28, 32])
def test_training_uses_random_windows_of_the_padded_photo(side):
    photos = torch.rand(40, 3, side, side, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    windows = PhotoNetwork(nn.Identity())(photos)
    assert windows.shape == (40, 3, 32, 32)
    room = side + 8 - 32 + 1
    places = set()
    for photo, window in zip(photos, windows, strict=True):
        wide = torch.zeros(3, side + 8, side + 8)
        wide[:, 4:-4, 4:-4] = photo
        for mirrored in (False, True):
            candidate = wide.flip(-1) if mirrored else wide
            places |= {
                (top, left, mirrored)
                for top in range(room) for left in range(room)
                if torch.equal(candidate[:, top : top + 32, left : left + 32], window)
            }  # fmt: skip
    assert len(places) > 20  # of 50 or 162 for 40 photos
    assert {mirrored for *_, mirrored in places} == {False, True}


def test_evaluation_uses_the_central_window():
    photos = torch.rand(2, 3, 28, 28)
    model = PhotoNetwork(nn.Identity()).eval()
    assert torch.equal(model(photos)[:, :, 2:30, 2:30], photos)
    assert model(photos).sum() == pytest.approx(float(photos.sum()), rel=1e-5)
    assert torch.equal(model(torch.ones(1, 3, 32, 32)), torch.ones(1, 3, 32, 32))
    small = PhotoNetwork(nn.Identity(), shrink=2).eval()(photos)
    assert small.shape == (2, 3, 16, 16)
    torch.testing.assert_close(small[0, 0, 1, 1], photos[0, 0, :2, :2].mean())


def test_momentum_fit_is_sgd_with_momentum():
    x, y = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 2
    data, ours, theirs = TrainingData(x, y), nn.Linear(4, 2), nn.Linear(4, 2)
    theirs.load_state_dict(ours.state_dict())
    fit = MomentumFit(ours, data, data, f1(), batch_size=30, seed=0)
    fit.run([Phase("p", nn.CrossEntropyLoss(), 0.1, 5, 5)])
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)  # full batches: the last weights are the best


def test_columns_equal_scikit_learn():
    truth, logits = torch.randint(0, 2, (200,)), torch.randn(200, 2)
    for column in COLUMNS:
        if column.metric.startswith("fbeta"):
            beta = float(column.name.split(" F")[1])
            wanted = fbeta_score(truth, logits.argmax(1), beta=beta)
            assert _score(column, nn.CrossEntropyLoss(), logits, truth) == pytest.approx(wanted)
    own = _score(PaperColumn("l", "loss", "train epochs"), nn.CrossEntropyLoss(), logits, truth)
    assert own == pytest.approx(float(nn.functional.cross_entropy(logits, truth)))


@pytest.mark.parametrize("name", ["MAE", "BCE", "surrogate F2", "soft F2", "weighted soft F2"])
def test_losses_are_the_papers_formulas(photos, name):
    """Eq. 15, 18 and 20 with the weights n / n_y, and eq. 23 and 24, computed row by row."""
    parts = prepare_photos("toy", None, 0)
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
        false_negatives, false_positives, p = (1 - f[targets]).mean(), f[~targets].mean(), 0.2
        if name.startswith("weighted"):  # the share of positives in the batch, each row counted n / n_y times
            p = 0.2 / share / (0.2 / share + 0.8 / (1 - share))
        rate = p * (4 + 1 - false_negatives - false_positives) + false_positives
        wanted = 1 - 5 * p * (1 - false_negatives) / rate
    assert float(loss(logits, targets.long())) == pytest.approx(wanted, rel=1e-5)


def test_a_run_is_scored_during_and_after_every_epoch(photos):
    parts = prepare_photos("toy", None, 0)
    row = PaperRow("BCE", "balanced ce")
    run = record_curves(row, "darknet_tiny", parts, SETTING, COLUMNS, seed=1)
    assert run.epochs == 8
    assert all(len(run.curves[column.name]) == 8 for column in COLUMNS)
    assert run.curves["train F1"][-1] > 0.9  # bright or not
    assert run.curves["train loss"][-1] < 0.3 < run.curves["train loss"][0]
    assert run.valid_loss <= 0.5
    assert run.curves["running F1"] != run.curves["train F1"]  # of the changing network, on shifted photos
    assert run.curves["running loss"][-1] < run.curves["running loss"][0]
    brief = {**SETTING, "max_epochs": 2}
    again = record_curves(row, "darknet_tiny", parts, brief, COLUMNS, seed=1)
    assert again.curves == {name: values[:2] for name, values in run.curves.items()}


@pytest.mark.parametrize("batch_size", [86, 40])
def test_running_values_are_of_the_outputs_during_the_epoch(photos, monkeypatch, batch_size):
    """Of all batches of an epoch, each with the weights of the network at that step."""
    parts, outputs = prepare_photos("toy", None, 0), []

    class Recorder(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            logits = torch.stack([x.mean((1, 2, 3)), -x.mean((1, 2, 3))], 1) + self.bias
            if self.training:
                outputs.append(logits.detach().clone())
            return logits

    monkeypatch.setattr("evalign.papers.training._curves.build_network", lambda *_: Recorder())
    orders, real = [], MomentumFit._batches
    monkeypatch.setattr(MomentumFit, "_batches", lambda fit: orders.append([*real(fit)]) or orders[-1])
    setting = {**SETTING, "batch_size": batch_size, "max_epochs": 2}
    run = record_curves(PaperRow("BCE", "balanced ce"), "recorder", parts, setting, COLUMNS, seed=1)
    loss = build_loss(PaperRow("BCE", "balanced ce"), parts)
    steps = len(outputs) // 2
    assert steps == -(-86 // batch_size)
    for epoch in range(2):
        logits, order = torch.cat(outputs[epoch * steps :][:steps]), torch.cat(orders[epoch])
        truth = parts.train.y[order]
        assert run.curves["running loss"][epoch] == pytest.approx(float(loss(logits, truth)))
        wanted = fbeta_score(truth, logits.argmax(1), beta=2, zero_division=0)
        assert run.curves["running F2"][epoch] == pytest.approx(wanted)


def test_resnets_are_known(photos):
    parts = prepare_photos("toy", None, 0)
    for name, millions in (("resnet18", 11.2), ("resnet34", 21.3)):
        network = build_network(name, parts, {})
        assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)
