"""Gradients of every loss by finite differences, and MetricLoss under PyTorch's transforms."""

import copy
import shutil

import pytest
import torch
import torch.nn.functional as F

from evalign import metrics
from evalign.losses import (
    DiceLoss,
    FocalLoss,
    MAELoss,
    MetricLoss,
    SoftFBetaLoss,
    SurrogateFBetaLoss,
    WMWLoss,
)
from evalign.softsets import LinearStep, SigmoidStep

METRICS = [
    "accuracy", "balanced_accuracy", "precision", "recall", "specificity", "fbeta(beta=2)", "jaccard",
    "f1(average='weighted')", "gmean", "mcc", "cohen_kappa", "informedness",
    "cohen_kappa(weights='quadratic')", "tp / (tp + sqrt(fp * fn))", "recall[1]", "f1[0] - (fp / total)[1]",
]  # fmt: skip
TASKS = ["multiclass", "pair", "soft", "binary", "multilabel", "dense"]


def batch(task, dtype=torch.float64, seed=0, rows=8):
    generator = torch.Generator().manual_seed(seed)
    d = 2 if task == "pair" else 4
    logits = 1.5 * torch.randn(rows, d, generator=generator, dtype=dtype)
    targets = torch.randint(0, d, (rows,), generator=generator)
    targets[:d] = torch.arange(d)
    if task == "soft":
        targets = torch.rand(rows, d, generator=generator, dtype=dtype)
        targets = targets / targets.sum(-1, keepdim=True)
    elif task == "binary":
        logits, targets = logits[:, 0].contiguous(), targets % 2
    elif task == "multilabel":
        targets = F.one_hot(targets, d)
    elif task == "dense":
        logits, targets = logits.view(2, rows // 2, d).movedim(-1, 1).contiguous(), targets.view(2, rows // 2)
    return logits.requires_grad_(), targets


def settings(task):
    return {"soft": "multiclass", "multilabel": "multilabel"}.get(task, "auto")


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("task", TASKS)
def test_gradcheck_of_metric_loss(name, task):
    logits, targets = batch(task)
    assert torch.autograd.gradcheck(lambda z: MetricLoss(name, task=settings(task))(z, targets), logits)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.05},
        {"temperature": 0.4},
        {"step": SigmoidStep()},
        {"step": LinearStep(0.1)},
        {"anchor": 0.3},
    ],
    ids=str,
)
def test_gradcheck_of_options(task, options):
    logits, targets = batch(task)
    loss = MetricLoss("f1", task=settings(task), **options)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), logits)
    weight = torch.rand(targets.shape[0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets, weight), logits)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("f1", "binary"),
        ("f1", "multilabel"),
        *(("auroc", task) for task in ("binary", "multilabel", "multiclass", "pair", "dense")),
        *(("average_precision", task) for task in ("binary", "multilabel", "multiclass", "pair", "dense")),
        ("auroc(average='weighted')", "multiclass"),
        ("average_precision(average='micro')", "multilabel"),
    ],
)
def test_gradcheck_of_many_thresholds(name, task):
    logits, targets = batch(task)
    assert torch.autograd.gradcheck(
        lambda z: MetricLoss(name, thresholds="btg", task=settings(task))(z, targets), logits
    )


def test_gradcheck_of_sample_weights():
    logits, targets = batch("multiclass")
    weight = (torch.rand(8, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z, w: MetricLoss("f1")(z, targets, w), (logits, weight))


@pytest.mark.parametrize("task", ["multiclass", "pair", "binary", "soft"])
def test_second_derivatives(task):
    logits, targets = batch(task)
    loss = MetricLoss("f1", task=settings(task))
    assert torch.autograd.gradgradcheck(lambda z: loss(z, targets), logits)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "loss", [MAELoss, FocalLoss, lambda **k: FocalLoss(0, **k), lambda **k: FocalLoss(0.5, **k),
             SoftFBetaLoss, DiceLoss],
    ids=["mae", "focal", "focal0", "focal0.5", "soft-fbeta", "dice"],
)  # fmt: skip
def test_gradcheck_of_other_losses(loss, task):
    logits, targets = batch(task)
    criterion = loss(task=settings(task))
    assert torch.autograd.gradcheck(lambda z: criterion(z, targets), logits)


@pytest.mark.parametrize("task", ["binary", "pair"])
@pytest.mark.parametrize(
    "loss",
    [
        SurrogateFBetaLoss(1, 0.3),
        SurrogateFBetaLoss(2, 0.1, q=0.5),
        SurrogateFBetaLoss(1, 0.5, q=1),
        WMWLoss(),
    ],
    ids=["q0", "q0.5", "q1", "wmw"],
)
def test_gradcheck_of_binary_losses(loss, task):
    logits, targets = batch(task)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), logits)


@pytest.mark.parametrize("name", ["f1", "mcc"])
@pytest.mark.parametrize("task", TASKS)
def test_autocast_keeps_counts_in_single_precision(name, task):
    logits, targets = batch(task, dtype=torch.float32, rows=64)
    loss = MetricLoss(name, task=settings(task), anchor=0.1)
    exact = loss(logits, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same = loss(logits, targets)
        low = loss(logits.bfloat16(), targets)
    torch.testing.assert_close(same, exact)
    assert same.dtype == low.dtype == torch.float32
    torch.testing.assert_close(low, exact, rtol=2e-2, atol=2e-2)


def test_half_logits_get_a_half_gradient():
    logits, targets = batch("multiclass", dtype=torch.float32, rows=64)
    half = logits.detach().bfloat16().requires_grad_()
    MetricLoss("f1")(half, targets).backward()
    MetricLoss("f1")(logits, targets).backward()
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(half.grad.float(), logits.grad, rtol=5e-2, atol=2e-3)


@pytest.mark.parametrize("task", ["multiclass", "pair", "binary", "multilabel"])
def test_vmap_over_models(task):
    models = [batch(task, seed=seed)[0].detach() for seed in range(3)]
    targets = batch(task)[1]
    loss = MetricLoss("f1", task=settings(task))
    one_by_one = torch.stack([loss(z, targets) for z in models])
    torch.testing.assert_close(torch.func.vmap(lambda z: loss(z, targets))(torch.stack(models)), one_by_one)
    gradients = torch.func.vmap(torch.func.grad(lambda z: loss(z, targets)))(torch.stack(models))
    for z, gradient in zip(models, gradients, strict=True):
        z.requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(loss(z, targets), z)[0], gradient)


def test_vmap_over_models_and_targets():
    pairs = [batch("multiclass", seed=seed) for seed in range(3)]
    logits, targets = (torch.stack([pair[i].detach() for pair in pairs]) for i in (0, 1))
    loss = MetricLoss("f1")
    together = torch.func.vmap(loss)(logits, targets)
    torch.testing.assert_close(
        together, torch.stack([loss(z, y) for z, y in zip(logits, targets, strict=True)])
    )


@pytest.mark.parametrize(
    ("task", "memory"),
    [("multiclass", 0.0), ("binary", 0.9), ("multilabel", 0.9)],
)
def test_compiled_equals_eager(task, memory):
    """The graph is traced whole and run by PyTorch's own backend, so no compiler is needed."""
    torch._dynamo.reset()
    eager, compiled = (MetricLoss("f1", memory=memory, anchor=0.1, task=settings(task)) for _ in range(2))
    function = torch.compile(compiled, backend="aot_eager")
    for seed in range(2):
        logits, targets = batch(task, dtype=torch.float32, seed=seed, rows=32)
        wanted, value = eager(logits, targets), function(logits, targets)
        torch.testing.assert_close(value, wanted)
        gradients = [torch.autograd.grad(v, logits)[0] for v in (value, wanted)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    if memory:
        torch.testing.assert_close(compiled.running_confusion, eager.running_confusion)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::FutureWarning:torch")
def test_inductor_equals_eager():
    torch._dynamo.reset()
    loss = MetricLoss("f1")
    logits, targets = batch("multiclass", dtype=torch.float32, rows=64)
    value = torch.compile(loss)(logits, targets)
    torch.testing.assert_close(value, loss(logits, targets))
    compiled, eager = (torch.autograd.grad(v, logits)[0] for v in (value, loss(logits, targets)))
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-6)


def best_threshold_model(metric):
    """Train a one-parameter decision threshold on scores with a known best threshold for each metric."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(4000, generator=generator) < 0.1).long()
    x = torch.randn(4000, generator=generator) + 1.5 * y
    threshold = torch.tensor(0.75, requires_grad=True)
    optimizer, loss = torch.optim.Adam([threshold], lr=0.02), MetricLoss(metric)
    for step in range(300):
        loss.temperature = max(0.02, 0.2 * 0.99**step)
        optimizer.zero_grad()
        loss(6 * (x - threshold), y).backward()
        optimizer.step()
    return y, (x > threshold.detach()).long(), x


RIVALS = ["f1", "recall", "balanced_accuracy", "fbeta(beta=3)", "fbeta(beta=0.3)"]


def test_training_on_a_metric_wins_on_that_metric_and_approaches_its_optimum():
    trained = {name: best_threshold_model(name) for name in RIVALS}
    for name in RIVALS:
        metric = metrics.as_metric(name)
        scores = {rival: metric.score(y, guess) for rival, (y, guess, _) in trained.items()}
        y, _, x = trained[name]
        predicted = (x > torch.linspace(-3, 4, 141)[:, None]).long()  # by each of 141 thresholds
        counts = F.one_hot(2 * y + predicted, 4).sum(1).view(141, 2, 2)
        best = metric(counts).max().item()
        assert scores[name] >= max(scores.values()) - 0.005, (name, scores)
        assert scores[name] >= best - 0.03, (name, scores[name], best)


@pytest.mark.parametrize("name", ["mcc", "fbeta(beta=[1, 2, 1, 3])"])
def test_a_whole_training_step_is_one_graph(name):
    torch.manual_seed(0)
    model, loss = torch.nn.Linear(5, 4), MetricLoss(name, memory=0.5, anchor=0.1)
    other, plain = copy.deepcopy(model), copy.deepcopy(loss)
    x, y = torch.randn(32, 5), torch.arange(32) % 4

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(x, y):
        return loss(model(x), y)

    for _ in range(2):
        torch.testing.assert_close(step(x, y), plain(other(x), y))
    step(x, y).backward()
    plain(other(x), y).backward()
    torch.testing.assert_close(model.weight.grad, other.weight.grad)
