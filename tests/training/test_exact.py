"""ExactStep: the gradient of one big batch, one micro-batch at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from evalign.losses import FocalLoss, MetricLoss
from evalign.training import ExactStep

TASKS = {"multiclass": 5, "pair": 2, "binary": 1, "multilabel": 4}


def named(task):
    """Multilabel targets have the shape of the logits, so the task must be named."""
    return {"task": "multilabel"} if task == "multilabel" else {}


def batch(task, rows=640, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, max(2, TASKS[task]), (rows,), generator=generator)
    if task == "multilabel":
        targets = F.one_hot(targets, 4)
    return x, targets


def network(task, dropout=0.0):
    torch.manual_seed(1)
    layers = [nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, TASKS[task])]
    return nn.Sequential(*layers).double()


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def one_batch(model, loss, *data):
    model.zero_grad()
    value = loss(model(data[0]), *data[1:])
    value.backward()
    return value.detach(), gradients(model)


def assert_same(found, wanted):
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-9, atol=1e-12)
    assert (found[1] - wanted[1]).norm() <= 1e-6 * wanted[1].norm()


def exactly(model, loss, *data, micro_batch=10):
    model.zero_grad()
    value = ExactStep(model, loss, micro_batch=micro_batch).backward(*data)
    return value, gradients(model)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["f1", "mcc", "gmean"])
@pytest.mark.parametrize("anchor", [0.0, 0.3])
def test_sixty_four_micro_batches_equal_one_batch(task, name, anchor):
    data, model, loss = batch(task), network(task), MetricLoss(name, anchor=anchor, **named(task))
    assert_same(exactly(model, loss, *data), one_batch(model, loss, *data))


@pytest.mark.parametrize("micro_batch", [7, 639, 640, 1000])
def test_uneven_micro_batches(micro_batch):
    data, model, loss = batch("multiclass"), network("multiclass"), MetricLoss("f1", anchor=0.1)
    assert_same(exactly(model, loss, *data, micro_batch=micro_batch), one_batch(model, loss, *data))


@pytest.mark.parametrize("task", ["multiclass", "binary"])
def test_weights_thresholds_and_ignored_rows(task):
    x, targets = batch(task)
    targets[5:40] = -100
    weight = torch.rand(640, dtype=torch.float64)
    options = {"class_weight": [1, 2, 3, 4, 5]} if task == "multiclass" else {"thresholds": "btg"}
    model, loss = network(task), MetricLoss("f1", anchor=0.2, **options, **named(task))
    assert_same(exactly(model, loss, x, targets, weight), one_batch(model, loss, x, targets, weight))


def test_gradients_are_added_to_those_already_there():
    data, model, loss = batch("pair"), network("pair"), MetricLoss("f1")
    _, once = exactly(model, loss, *data)
    ExactStep(model, loss, micro_batch=10).backward(*data)
    torch.testing.assert_close(gradients(model), 2 * once)


@pytest.mark.parametrize("kind", ["list", "loader", "shuffled"])
def test_micro_batches_of_the_user(kind):
    x, targets = batch("multiclass")
    model, loss = network("multiclass"), MetricLoss("f1")
    rows = torch.utils.data.TensorDataset(x, targets)
    batches = {
        "list": list(zip(x.split(100), targets.split(100), strict=True)),
        "loader": DataLoader(rows, batch_size=100),
        "shuffled": DataLoader(rows, batch_size=100, shuffle=True),
    }[kind]
    model.zero_grad()
    value = ExactStep(model, loss).backward(batches)
    assert_same((value, gradients(model)), one_batch(model, loss, x, targets))


def test_weights_inside_micro_batches():
    x, targets = batch("pair")
    weight = torch.rand(640, dtype=torch.float64)
    model, loss = network("pair"), MetricLoss("f1")
    model.zero_grad()
    value = ExactStep(model, loss).backward(DataLoader(TensorDataset(x, targets, weight), batch_size=64))
    assert_same((value, gradients(model)), one_batch(model, loss, x, targets, weight))


def test_dropout_drops_the_same_units_in_both_passes():
    """Finite differences of the loss under the same random numbers are the gradient."""
    data, model, loss = batch("pair", rows=60), network("pair", dropout=0.5), MetricLoss("f1")
    step = ExactStep(model, loss, micro_batch=20)
    state = torch.get_rng_state()
    model.zero_grad()
    step.backward(*data)
    weight = model[3].weight
    gradient = weight.grad[1, 3].item()

    def value(shift):
        torch.set_rng_state(state)
        with torch.no_grad():
            weight[1, 3] += shift
            logits = torch.cat([model(part) for part in data[0].split(20)])
            weight[1, 3] -= shift
            return loss(logits, data[1]).item()

    assert gradient == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-4, abs=1e-8)
    torch.set_rng_state(state)
    _ = [model(part) for part in data[0].split(20)]
    after = torch.rand(1)
    torch.set_rng_state(state)
    step.backward(*data)
    assert torch.rand(1) == after, "the random state ends as after one pass"


def test_buffers_are_updated_once():
    data = batch("pair", rows=64)
    torch.manual_seed(0)
    twice, once = (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)).double() for _ in range(2))
    ExactStep(twice, MetricLoss("f1"), micro_batch=16).backward(*data)
    for part in data[0].split(16):
        once(part)
    torch.testing.assert_close(twice[0].running_mean, once[0].running_mean)
    assert twice[0].num_batches_tracked == 4


def test_no_weight_gives_zero_gradients():
    x, targets = batch("pair")
    model = network("pair")
    value, gradient = exactly(model, MetricLoss("f1", anchor=0.1), x, torch.full_like(targets, -100))
    assert value == 1
    assert (gradient == 0).all()


def test_training_with_it_works():
    x, _ = batch("pair")
    targets = (x[:, 0] + x[:, 1] > 1).long()
    model, loss = network("pair"), MetricLoss("f1")
    optimizer, step = torch.optim.Adam(model.parameters(), lr=0.02), ExactStep(model, loss, micro_batch=100)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        values.append(step.backward(x, targets).item())
        optimizer.step()
    assert values[-1] < 0.25 < values[0]


def test_bad_input_is_refused():
    x, targets = batch("pair")
    model, loss = network("pair"), MetricLoss("f1")
    step = ExactStep(model, loss)
    for call, message in (
        (lambda: ExactStep(model, MetricLoss("f1", memory=0.5)), "memory=0"),
        (lambda: ExactStep(model, FocalLoss()), "to be a MetricLoss"),
        (lambda: ExactStep(model, loss, micro_batch=0), "`micro_batch`"),
        (lambda: step.backward(x), "`targets`"),
        (lambda: step.backward(x, targets[:-1]), "`targets`"),
        (lambda: step.backward(x[:0], targets[:0]), "at least one"),
        (lambda: step.backward(zip([x], [targets], strict=True)), "read twice"),
        (lambda: step.backward([(x, targets)], targets), "inside the micro-batches"),
        (lambda: step.backward([x]), r"\(inputs, targets\)"),
        (lambda: step.backward([]), "at least one micro-batch"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_grad_scaler_scales_the_gradients():
    (x, y), model = batch("pair"), network("pair")
    plain = exactly(model, MetricLoss("f1"), x, y)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    model.zero_grad()
    value = ExactStep(model, MetricLoss("f1"), micro_batch=10, scaler=scaler).backward(x, y)
    assert_same((value, gradients(model) / 64), plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.unscale_(optimizer)
    assert_same((value, gradients(model)), plain)
