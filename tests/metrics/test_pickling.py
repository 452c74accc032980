"""Metrics from decorated functions in pickles, copies, checkpoints and other processes."""

import copy
import io
import pickle
import sys
import types

import cloudpickle
import joblib
import pytest
import torch
from torch import nn

from evalign.losses import MetricLoss
from evalign.metrics import f1, metric

MATRIX = torch.tensor([[8.0, 2.0], [4.0, 6.0]])


@metric
def lift(c):
    return c.precision / (c.actual / c.total)


@metric(average="macro", higher_is_better=False)
def missed(c):
    return 1 - c.recall


def spread(c):
    return c.recall.amax(-1) - c.recall.amin(-1)


made_from_spread = metric(spread)


class Holder:
    @metric
    def worst(c):  # noqa: N805
        return c.recall.amin(-1)

    def best(c):  # noqa: N805
        return c.recall.amax(-1)


MADE = [
    lift,
    missed,
    made_from_spread,
    metric(Holder.best),
    Holder.worst,
    1 - lift,
    2 * f1() - missed,
    metric(spread, average=None),
]


def dump_with_joblib(one):
    file = io.BytesIO()
    joblib.dump(one, file)
    file.seek(0)
    return joblib.load(file)


def save_with_torch(one):
    file = io.BytesIO()
    torch.save(one, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {
    **{f"pickle {p}": lambda one, p=p: pickle.loads(pickle.dumps(one, p)) for p in range(2, 6)},
    "joblib": dump_with_joblib,
    "torch.save": save_with_torch,
    "cloudpickle": lambda one: pickle.loads(cloudpickle.dumps(one)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", MADE, ids=repr)
def test_a_copy_is_the_same_metric(made, way):
    again = WAYS[way](made)
    assert (again.name, again.higher_is_better) == (made.name, made.higher_is_better)
    torch.testing.assert_close(again(MATRIX), made(MATRIX))


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_holds_the_loss(way):
    model = nn.Sequential(nn.Linear(3, 2))
    model.criterion = MetricLoss(missed, constraints=[lift >= 1.1])
    model.eval()
    again = WAYS[way](model)
    logits, targets = torch.randn(20, 2), torch.arange(20) % 2
    torch.testing.assert_close(again.criterion(logits, targets), model.criterion(logits, targets))


def test_multilabel_values_do_not_change_the_metric():
    labels = torch.rand(3, 2, 2)
    missed.over_labels(labels)
    assert missed.average == "macro"


def test_a_function_without_a_name_is_refused_as_python_does():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(metric(lambda c: c.recall))


SCRIPT = """
from evalign.metrics import metric

@metric
def lift(c):
    return c.precision / (c.actual / c.total)
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_metric_of_a_script_or_notebook(monkeypatch, way):
    script = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    exec(SCRIPT, vars(script))
    assert float(WAYS[way](script.lift)(MATRIX)) == 1.5
    assert float(WAYS[way](1 - script.lift)(MATRIX)) == -0.5


def test_a_worker_gets_a_copy_of_the_function_of_a_script(monkeypatch):
    script = types.ModuleType("__main__")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__main__", script)
        exec(SCRIPT, vars(script))
        sent = cloudpickle.dumps(script.lift)
    assert not hasattr(sys.modules["__main__"], "lift")  # as in a worker
    assert float(pickle.loads(sent)(MATRIX)) == 1.5


def test_a_metric_of_a_module_in_another_process():
    values = joblib.Parallel(n_jobs=2)(joblib.delayed(missed)(MATRIX) for _ in range(2))
    torch.testing.assert_close(values, [missed(MATRIX)] * 2)
