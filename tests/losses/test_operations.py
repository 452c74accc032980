"""What a training step asks of an accelerator: few operations, and none for which the host waits."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from evalign import MetricLoss, _torch
from evalign.softsets import _fused

#: Operations whose result the host reads, or whose result has a size that the host must know.
WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique_consecutive",
    "_unique2",
    "equal",
    "is_nonzero",
}


class Operations(TorchDispatchMode):
    """The names of all operations; while they are recorded, the compiled kernel is not used."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def record(loss, logits, targets, *weight):
    logits = logits.clone().requires_grad_()
    with Operations() as operations:
        loss(logits, targets, *weight).backward()
    return operations.names


@pytest.fixture
def accelerator(monkeypatch):
    """Treat all tensors as if they were on a device whose values cannot be read at once."""
    for module in (_torch, _fused):
        monkeypatch.setattr(module, "is_readable", lambda values: False)


def test_on_a_cpu_targets_are_read():
    """The other tests can fail: here the host reads the range of the targets."""
    assert "_local_scalar_dense" in record(MetricLoss("f1"), torch.randn(8, 3), torch.arange(8) % 3)


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"memory": 0.9},
        {"anchor": 0.3},
        {"ignore_index": 1},
        {"ignore_index": None},
        {"constraints": ["precision >= 0.5"], "memory": 0.5},
    ],
    ids=lambda settings: "-".join(settings) or "plain",
)
@pytest.mark.parametrize("shape", [(12,), (12, 2), (12, 5), (2, 5, 3, 4)], ids=str)
def test_the_host_never_waits(shape, settings):
    torch.manual_seed(0)
    classes = shape[1] if len(shape) > 1 else 2
    targets = torch.randint(0, classes, (shape[0], *shape[2:]))
    loss = MetricLoss("f1", class_weight=torch.rand(classes), **settings)
    for weight in (), (torch.rand(shape[0]),):
        names = record(loss, torch.randn(shape), targets, *weight)
        assert not WAITING & set(names)


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_the_host_never_waits_for_labels(task):
    logits, targets = torch.randn(9, 3), torch.randint(0, 2, (9, 3))
    for thresholds in (None, "btg"):
        names = record(MetricLoss("f1", task=task, thresholds=thresholds), logits, targets)
        assert not WAITING & set(names)


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize(("classes", "limit"), [(2, 42), (10, 68)])
def test_the_matrix_takes_few_operations(classes, limit):
    """Checks, shares and the soft confusion matrix, forward and backward; without the metric."""

    class Trace(MetricLoss):
        def objective(self, confusion, task):
            return confusion.sum()

    names = record(Trace("f1"), torch.randn(30, classes), torch.arange(30) % classes)
    assert len(names) <= limit


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize(("metric", "classes", "limit"), [("f1", 2, 33), ("f1", 10, 66), ("mcc", 10, 140)])
def test_a_whole_step_takes_few_operations(metric, classes, limit):
    """Half of 66, 132 and 281, from the second step on: the first also copies constants to the device."""
    loss, logits, targets = MetricLoss(metric), torch.randn(30, classes), torch.arange(30) % classes
    record(loss, logits, targets)
    assert len(record(loss, logits, targets)) <= limit


@pytest.mark.parametrize("metric", ["f1", "fbeta(beta=[1, 2, 3])", "cost([[0, 1, 2], [3, 0, 1], [9, 9, 0]])"])
def test_fake_tensors_leave_no_constants_behind(metric):
    """They estimate the memory of a step, which must not spoil the next real one."""
    loss, logits, targets = MetricLoss(metric), torch.randn(9, 3), torch.arange(9) % 3
    with FakeTensorMode() as mode:
        fake = loss(mode.from_tensor(logits), mode.from_tensor(targets))
    with Operations():
        real = loss(logits, targets)
    assert isinstance(fake, FakeTensor)
    torch.testing.assert_close(real, MetricLoss(metric)(logits, targets))
